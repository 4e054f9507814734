/* An exchange as a plug-in: SlowMo (Wang et al. 2020), also known as block momentum (Chen and Huo
 * 2016). Every `every` steps learners average their parameters w and take an outer step: d = before
 * - w, u = beta u + d, w = before - u. With beta=0 it is --exchange average, to the bit:
 *
 *   weft train --plugin ./libslowmo.so -n 4 --exchange slowmo:every=8,beta=0.5 */
#include <string.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

typedef struct slowmo {
    weft_exchange head;
    double every, beta;
    void *before, *u; /* like all parameters of this rank; in checkpoints */
} slowmo;

static weft_status slowmo_open(weft_exchange *exchange, const char *arguments,
                               const weft_exchange_setup *setup)
{
    slowmo *s = (slowmo *)exchange;
    const weft_spec_key keys[] = {
        {.name = "every", .number = &s->every, .low = 1, .high = 1e9, .integer = true},
        {.name = "beta", .number = &s->beta, .high = 0.999999},
        {.name = NULL}};
    s->every = 1;
    WEFT_TRY(weft->parse("exchange slowmo", arguments, keys));
    if (!setup) return WEFT_OK; /* the arguments are checked, no more */
    WEFT_TRY(weft->keep_state(exchange, "before", "the last mean of slowmo", &s->before));
    return weft->keep_state(exchange, "u", "the momentum of slowmo", &s->u);
}

/* Takes the outer step; first: only remembers where it begins. */
static weft_status move(slowmo *s, bool first)
{
    weft_store *store = s->head.setup.store;
    weft_dtype dtype;
    void *w;
    size_t bytes;
    WEFT_TRY(weft->store_map(store, WEFT_ALL_PARAMETERS, &dtype, &w, &bytes));
    int64_t count = (int64_t)(bytes / weft->type_bytes(&(weft_type){.dtype = dtype}));
    for (int64_t i = 0; i < count && !first; i++) {
        double mean = weft->get_number(dtype, w, i), u = weft->get_number(dtype, s->u, i);
        double d = weft->get_number(dtype, s->before, i) - mean;
        weft->put_number(dtype, s->u, i, s->beta * u + d);
        weft->put_number(dtype, w, i, mean - s->beta * u);
    }
    memcpy(s->before, w, bytes);
    return weft->store_unmap(store, WEFT_ALL_PARAMETERS, w);
}

static weft_status slowmo_begin(weft_exchange *exchange)
{
    if (exchange->restored) return WEFT_OK; /* a checkpoint had the state */
    WEFT_TRY(weft->equalize_learners(exchange, false));
    return move((slowmo *)exchange, true);
}

static weft_status slowmo_after(weft_exchange *exchange, weft_step_result *result)
{
    result->met = result->last || result->step % (int64_t)((slowmo *)exchange)->every == 0;
    if (!result->met) return WEFT_OK;
    WEFT_TRY(weft->average_learners(exchange, false));
    return move((slowmo *)exchange, false);
}

static const weft_exchange_ops ops = {.struct_size = sizeof(ops),
                                      .size = sizeof(slowmo),
                                      .lockstep = true,
                                      .open = slowmo_open,
                                      .step = {.after = slowmo_after},
                                      .life = {.begin = slowmo_begin}};
static const weft_entry entries[] = {
    {.kind = WEFT_KIND_EXCHANGE, .name = "slowmo", .summary = "block momentum", .ops = &ops},
    {.name = NULL}};
WEFT_PLUGIN(weft, entries);
