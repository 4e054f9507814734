/* A model as a plug-in: towers of dense layers of different depths beside each other, which read
 * the same samples and whose outputs are joined:
 *
 *   weft train --plugin ./libtowers.so --model towers:count=3,width=48 */
#include <stddef.h>
#include <stdio.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

/* A dense layer of so many units, or "outputs", with a relu behind it unless it is the last one. */
static weft_value dense(weft_model_builder *net, weft_value x, const char *name, const char *units)
{
    const char *keys[] = {"units", units, NULL};
    return weft->model_layer(net, "dense", name, &x, 1, keys);
}

static weft_value towers_build(weft_model_builder *net, const char *arguments, weft_value x)
{
    enum { MOST = 8 };
    double count = 2, width = 32;
    char name[32], units[32];
    weft_value top[MOST];
    const weft_spec_key keys[] = {
        {.name = "count", .number = &count, .low = 1, .high = MOST, .integer = true},
        {.name = "width", .number = &width, .low = 1, .high = 4096, .integer = true},
        {.name = NULL}};
    weft_status status = weft->parse("model towers", arguments, keys);
    if (status != WEFT_OK) return weft->fail_graph(weft->model_graph(net), status);
    (void)snprintf(units, sizeof(units), "%d", (int)width);
    for (int t = 0; t < (int)count; t++) {
        top[t] = x;
        for (int floor = 0; floor <= t; floor++) {
            (void)snprintf(name, sizeof(name), "tower%d/dense%d", t, floor);
            top[t] = dense(net, top[t], name, units);
            (void)snprintf(name, sizeof(name), "tower%d/relu%d", t, floor);
            top[t] = weft->model_layer(net, "relu", name, &top[t], 1, NULL);
        }
    }
    weft_value joined = weft->model_layer(net, "concat", "joined", top, (int)count, NULL);
    weft->model_output(net, "joined",
                       joined); /* beside the prediction, for weft predict and serve */
    return dense(net, joined, "logits", "outputs");
}

static const weft_model_ops towers = {.struct_size = sizeof(weft_model_ops), .build = towers_build};

static const weft_entry entries[] = {{.kind = WEFT_KIND_MODEL,
                                      .name = "towers",
                                      .form = "towers[:count=2,width=32]",
                                      .summary = "dense layers of different depths, joined",
                                      .ops = &towers},
                                     {.name = NULL}};

WEFT_PLUGIN(weft, entries);
