/* Sums the statistics of a run with servers over its learners and servers: staleness of updates,
 * bytes sent, messages dropped. */
#include "exchange/ps/ps_exchange.h"

static void count_staleness(struct weft_ps_exchange_stats *f, const weft_range *range)
{
    size_t size;
    const int64_t *staleness = weft_range_staleness(range, &size);
    for (size_t i = 0; i < size; i++) {
        f->staleness[WEFT_MIN(i, (size_t)WEFT_STALENESS - 1)] += (double)staleness[i];
        f->updates += (double)staleness[i];
    }
}

static void count_messages(struct weft_ps_exchange_stats *f, weft_net_report r)
{
    f->bytes += (double)r.bytes_sent;
    f->dropped += (double)r.dropped;
}

static weft_status sum(const weft_ps_exchange *x, bool learners)
{
    weft_transfer t = {.kind = WEFT_ALL_REDUCE,
                       .dtype = WEFT_F64,
                       .what = "statistics of the servers",
                       .send = &x->figures,
                       .receive = (void *)(uintptr_t)&x->figures,
                       .count = sizeof(x->figures) / sizeof(double),
                       .unlimited = !x->leads};
    return learners ? weft_learner_group_run(x->head.setup.endpoint, &t)
                    : weft_comm_run(x->head.setup.learner, &t);
}

weft_status weft_ps_exchange_count(weft_ps_exchange *x)
{
    if (x->leads) {
        for (int k = 0; k < x->servers; k++) {
            if (!x->own[k].hosted) continue;
            WEFT_TRY(weft_actor_thread_end(x->own[k].hosted));
            for (int r = 0; r < x->range_count; r++) {
                const weft_range *range =
                    weft_server_range_of(weft_actor_thread_actor(x->own[k].hosted), r, true);
                if (range) count_staleness(&x->figures, range);
            }
            count_messages(&x->figures, weft_actor_thread_stats(x->own[k].hosted));
        }
        count_messages(&x->figures, weft_net_stats(x->net));
        if (x->head.setup.cluster)
            memcpy(x->figures.staleness, weft_ps_client_staleness(weft_net_actor(x->net)),
                   sizeof(x->figures.staleness));
        WEFT_TRY(sum(x, true));
    }
    return sum(x, false);
}

bool weft_ps_exchange_stat(weft_exchange *exchange, int i, weft_series *out)
{
    const weft_ps_exchange *x = (const weft_ps_exchange *)exchange;
    const struct weft_ps_exchange_stats *f = &x->figures;
    int most = WEFT_STALENESS;
    while (most > 1 && f->staleness[most - 1] == 0) most--;
    const weft_series all[] = {{"server_updates", &f->updates, 1, false},
                               {"exchange_bytes", &f->bytes, 1, false},
                               {"exchange_messages_dropped", &f->dropped, 1, false},
                               {"staleness", f->staleness, most, true}};
    /* Servers that are processes of their own report their statistics themselves; a learner knows
     * the staleness of its own updates from replies. */
    const weft_series apart[] = {all[1], all[2], all[3]};
    bool alone = x->head.setup.cluster;
    if (i >= (int)(alone ? WEFT_COUNT(apart) : WEFT_COUNT(all))) return false;
    *out = alone ? apart[i] : all[i];
    return true;
}
