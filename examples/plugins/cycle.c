/* A codec as a plug-in: each message has every `parts`-th number of the update, the next ones each
 * time, and all the others later:
 *
 *   weft train --plugin ./libcycle.so -n 2 --exchange server --compress cycle:parts=4 */
#include <stdlib.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

typedef struct cycle {
    int64_t parts;
} cycle;

static weft_status cycle_open(const char *arguments, int64_t count, void **state)
{
    double parts = 10;
    cycle *c;
    const weft_spec_key keys[] = {
        {.name = "parts", .number = &parts, .low = 1, .high = 1e6, .integer = true},
        {.name = NULL}};
    (void)count;
    weft_status status = weft->parse("codec cycle", arguments, keys);
    if (status == WEFT_OK) status = weft->allocate(sizeof(*c), &c);
    if (status != WEFT_OK) return status;
    c->parts = (int64_t)parts;
    *state = c;
    return WEFT_OK;
}

static weft_status cycle_choose(void *state, const weft_codec_choice *choice)
{
    int64_t parts = ((const cycle *)state)->parts, chosen = 0;
    for (int64_t i = choice->message % parts; i < choice->count; i += parts)
        choice->at[chosen++] = (uint32_t)i;
    *choice->chosen = chosen;
    return WEFT_OK;
}

static const weft_codec_rule rule = {
    .struct_size = sizeof(rule), .open = cycle_open, .close = free, .choose = cycle_choose};

static const weft_entry entries[] = {
    {.kind = WEFT_KIND_CODEC,
     .name = "cycle",
     .form = "cycle:[warmup=N,][parts=10]",
     .summary = "every parts-th number, beginning with the next one each time",
     .ops = &rule},
    {.name = NULL}};

WEFT_PLUGIN(weft, entries);
