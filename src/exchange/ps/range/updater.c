/* Applies the mean of updates to a range: by the optimizer, or by addition. */
#include "base/tree_sum.h"
#include "exchange/ps/ps_exchange.h"

static weft_status optimize(void *user, void *parameters, const void *mean)
{
    (void)parameters; /* the optimizer's own */
    return weft_flat_optimizer_run(((weft_updater *)user)->optimizer, mean);
}

static void set_step(void *user, int64_t step)
{
    weft_flat_optimizer_at(((weft_updater *)user)->optimizer, step);
}

static weft_status add(void *user, void *parameters, const void *mean)
{
    const weft_updater *u = user;
    weft_tree_add(u->dtype, parameters, mean, parameters, u->count);
    return WEFT_OK;
}

weft_status weft_updater_open(weft_updater *u, bool adds, weft_context *context,
                              const weft_store *like, const weft_optimizer_options *optimizer,
                              weft_range_options *range)
{
    *u = (weft_updater){.dtype = range->dtype, .count = range->count};
    range->update = adds ? add : optimize;
    range->user = u;
    if (adds) return WEFT_OK;
    WEFT_TRY(weft_flat_optimizer_open(context, like, optimizer, u->dtype, u->count, &u->optimizer));
    range->at = set_step;
    weft_flat_optimizer_rooms(u->optimizer, &range->parameters, &range->gradient);
    return WEFT_OK;
}

void weft_updater_close(weft_updater *u)
{
    weft_flat_optimizer_close(&u->optimizer);
}
