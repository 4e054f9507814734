/* Overlaps pulls with the next forward pass. The client pulls all ranges at the end of a step. The
 * next forward pass begins at once, reads the parameters one after the other, and waits at each one
 * that has not arrived, so most of the transfer is hidden behind computation. */
#include "exchange/ps/ps_exchange.h"

weft_status weft_ps_exchange_open_late(weft_ps_exchange *x)
{
    const weft_program *program = weft_instance_program(x->head.setup.instance);
    weft_reading r;
    int count = 0;
    bool can;
    WEFT_TRY(weft_shared_params_follow(x->shared, program, &can));
    while (weft_program_reading(program, count, &r)) count++;
    return can ? WEFT_NEW(&x->late, count + 1) : WEFT_OK;
}

void weft_ps_exchange_skip_overlap(weft_ps_exchange *x)
{
    x->awaits = false;
    weft_instance_enable_needed_hook(x->head.setup.instance, false);
}

static weft_status bring_all(weft_ps_exchange *x)
{
    weft_ps_exchange_skip_overlap(x);
    if (x->leads) WEFT_TRY(weft_ps_exchange_wait(x));
    return weft_shared_params_write(x->shared);
}

weft_status weft_ps_exchange_begin_pull_overlap(weft_ps_exchange *x)
{
    const weft_program *program = weft_instance_program(x->head.setup.instance);
    weft_reading r;
    if (!x->late) return bring_all(x);
    for (int i = 0; weft_program_reading(program, i, &r); i++) x->late[i] = true;
    x->awaits = true;
    weft_instance_enable_needed_hook(x->head.setup.instance, true);
    return weft_shared_params_begin(x->shared);
}

weft_status weft_ps_exchange_needed(weft_exchange *exchange, const weft_reading *p)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    if (!x->late[p->index]) return WEFT_OK;
    x->late[p->index] = false;
    for (int k = 0; k < x->range_count && x->leads; k++) {
        const weft_server_range *r = &x->ranges[k];
        if (r->begin < p->begin + p->count && p->begin < r->begin + r->count)
            WEFT_TRY(weft_ps_exchange_wait_for(x, k));
    }
    return weft_shared_params_broadcast_one(x->shared, p->entry);
}

weft_status weft_ps_exchange_wait_all_pulls(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    return x->awaits ? bring_all(x) : WEFT_OK;
}
