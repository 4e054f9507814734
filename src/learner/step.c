/* Runs a training step of one rank, together with the other ranks of the learner: forward and
 * backward passes in the order of the schedule, one all-reduce of the loss and the votes to stop,
 * then the update. A loss that is not finite ends the step before the update. */
#include <math.h>

#include "learner/learner_internal.h"
#include "program/program.h"

weft_status weft_sum_over(weft_comm *comm, const char *what, double *numbers, int64_t n)
{
    return weft_comm_run(comm,
                         WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64, .what = what,
                                       .send = numbers, .receive = numbers, .count = n));
}

static double loss_share(weft_rank *r)
{
    weft_value loss = weft_rank_loss(r), local = weft_rewritten_value(r->mine, loss);
    if (!weft_rewritten_counts(r->mine, loss)) return 0;
    return weft_fetch(weft_rewritten_graph(r->mine), r->instance, local, 0);
}

static void add_stats(weft_comm_stats *sum, const weft_comm_stats *since, const weft_rank *r)
{
    weft_comm_stats now = weft_comm_get_stats(r->world);
    sum->bytes += now.bytes - since->bytes;
    sum->seconds += now.seconds - since->seconds;
    sum->waited += now.waited - since->waited;
}

/* Adds to r->used the seconds that the exchange has waited since the last call. */
static void add_waited(weft_rank *r)
{
    if (!r->exchange) return;
    r->used.waited += r->exchange->waited - r->exchange_waited;
    r->used.seconds += r->exchange->waited - r->exchange_waited;
    r->exchange_waited = r->exchange->waited;
}

/* The index of the schedule's last backward pass, which makes the gradients final. */
static int last_backward(const weft_schedule *s)
{
    int last = s->count - 1;
    while (last > 0 && s->actions[last].phase != WEFT_PHASE_BACKWARD) last--;
    return last;
}

/* Whether an update without samples leaves tensor i of the store as it is. */
static bool is_updated(const weft_store *store, int i)
{
    weft_role role = weft_store_role(store, i);
    return weft_store_kind(store, i) == WEFT_VALUE_PARAM || role == WEFT_ROLE_OPTIMIZER ||
           role == WEFT_ROLE_AVERAGE;
}

weft_status weft_rank_keep(weft_store *store, bool parameters, void **kept, bool back)
{
    for (int i = 0; i < weft_store_count(store); i++) {
        void *data;
        size_t bytes;
        weft_dtype dtype;
        if (parameters ? weft_store_kind(store, i) != WEFT_VALUE_PARAM : !is_updated(store, i))
            continue;
        WEFT_TRY(weft_store_map(store, i, &dtype, &data, &bytes));
        weft_status status = back ? WEFT_OK : weft_new_aligned(bytes, &kept[i]);
        if (status == WEFT_OK) memcpy(back ? data : kept[i], back ? kept[i] : data, bytes);
        if (back)
            status = weft_store_unmap(store, i, data);
        else
            weft_store_unmap_read(store, data);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* Runs the update for a batch without samples. That is no step of the optimizer, in which momentum
 * and weight decay would change parameters: they and the optimizer's state are put back. Counters,
 * and transfers that other ranks expect, are those of any step. */
static weft_status update_without_samples(weft_rank *r)
{
    void **kept;
    int count = weft_store_count(r->store);
    WEFT_TRY(WEFT_NEW(&kept, count));
    weft_status status = weft_rank_keep(r->store, false, kept, false);
    if (status == WEFT_OK) status = weft_instance_run(r->instance, WEFT_PHASE_UPDATE);
    if (status == WEFT_OK) status = weft_rank_keep(r->store, false, kept, true);
    for (int i = 0; i < count; i++) free(kept[i]);
    free((void *)kept);
    return status;
}

/* The sequences of an epoch begin anew. */
static weft_status clear_carried(const weft_rank *r)
{
    for (int i = 0; i < weft_store_count(r->store); i++) {
        weft_type type = weft_store_type(r->store, i);
        void *zeros;
        if (weft_store_role(r->store, i) != WEFT_ROLE_CARRIED) continue;
        WEFT_TRY(weft_new_bytes(&zeros, weft_type_bytes(&type), 1));
        weft_status status = weft_store_write(r->store, i, zeros);
        free(zeros);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* Writes the inputs of a micro-batch; that is work of the host, too. */
static weft_status feed(weft_rank *r, const weft_batch *b, int micro)
{
    double began = weft_seconds();
    WEFT_TRY(weft_rank_feed(r, b, micro));
    weft_instance_host_worked(r->instance, weft_seconds() - began);
    return WEFT_OK;
}

weft_status weft_rank_step(weft_rank *r, const weft_batch *b, weft_step_consensus *consensus)
{
    const weft_schedule *s = &r->schedule;
    weft_comm_stats before = weft_comm_get_stats(r->world);
    r->used = (weft_comm_stats){0};
    if (r->exchange) r->exchange_waited = r->exchange->waited;
    if (r->exchange) r->exchange->weight = b->weight;
    if (r->exchange) r->exchange->empty = b->valid == 0;
    WEFT_TRY(weft_instance_trace_step(r->instance, r->position.step + 1));
    if (r->exchange) WEFT_TRY(weft_exchange_before(r->exchange, r->position.step + 1));
    add_stats(&r->used, &before, r);
    before = weft_comm_get_stats(r->world);
    double began = weft_seconds(), waited = r->used.waited;
    int last = last_backward(s);
    double worked = weft_instance_host_seconds(r->instance);
    consensus->loss = 0;
    if (r->run_spec->carries && b->done == b->total) WEFT_TRY(clear_carried(r));
    consensus->leave = r->leaves;
    consensus->dismissed = r->dismissed;
    for (int i = 0; i < s->count; i++) {
        const weft_action *a = &s->actions[i];
        weft_instance_enable_ready_hook(r->instance, i == last);
        WEFT_TRY(weft_instance_micro(r->instance, a->micro));
        if (a->phase == WEFT_PHASE_FORWARD) WEFT_TRY(feed(r, b, a->micro));
        WEFT_TRY(weft_instance_run(r->instance, a->phase));
        if (a->phase == WEFT_PHASE_BACKWARD) consensus->loss += loss_share(r);
    }
    add_stats(&r->used, &before, r);
    r->passes = weft_seconds() - began;
    r->bubble = r->used.waited - waited;
    began = weft_seconds();
    WEFT_TRY(weft_sum_over(r->learner, "the loss", &consensus->loss,
                           sizeof(*consensus) / sizeof(double)));
    if (weft_comm_size(r->learner) > 1) weft_instance_trace_loss(r->instance, began);
    if (!isfinite(consensus->loss)) {
        weft_instance_enable_ready_hook(r->instance, false);
        return weft_rank_explain(r, b, consensus->loss);
    }
    before = weft_comm_get_stats(r->world);
    WEFT_TRY(weft_averages_move(r));
    if (r->runs_ahead) WEFT_TRY(weft_instance_micro(r->instance, 0));
    weft_instance_enable_ready_hook(r->instance, true);
    bool steps = b->valid > 0 || (r->exchange && r->exchange->ops->owns_update);
    WEFT_TRY(steps ? weft_instance_run(r->instance, WEFT_PHASE_UPDATE) : update_without_samples(r));
    weft_instance_enable_ready_hook(r->instance, false);
    if (r->exchange) WEFT_TRY(weft_exchange_update(r->exchange, r->position.step + 1));
    weft_averages_stepped(r);
    add_stats(&r->used, &before, r);
    add_waited(r);
    r->host = weft_instance_host_seconds(r->instance) - worked;
    return WEFT_OK;
}

weft_status weft_rank_queue(weft_rank *r, const weft_batch *b)
{
    weft_comm_stats before = weft_comm_get_stats(r->world), apart;
    double began = weft_seconds(), worked = weft_instance_host_seconds(r->instance);
    WEFT_TRY(weft_instance_trace_step(r->instance, r->position.step + r->queued + 1));
    if (r->run_spec->carries && b->done == b->total) WEFT_TRY(clear_carried(r));
    for (int m = 0; m < r->schedule.count / 2; m++) {
        WEFT_TRY(weft_instance_micro(r->instance, m));
        WEFT_TRY(feed(r, b, m));
    }
    WEFT_TRY(weft_run_ahead_queue(r->instance, &apart));
    weft_step_cost *cost = &r->costs[r->queued++];
    *cost = (weft_step_cost){.passes = weft_seconds() - began - apart.waited,
                             .host = weft_instance_host_seconds(r->instance) - worked};
    add_stats(&cost->used, &before, r);
    cost->used.bytes -= apart.bytes;
    cost->used.seconds -= apart.seconds;
    cost->used.waited -= apart.waited;
    return WEFT_OK;
}

/* The learner's loss of a step that has been queued, as the sum of the same numbers as in
 * weft_rank_step. */
static weft_status queued_loss(weft_rank *r, weft_step_consensus *consensus)
{
    consensus->loss = 0;
    for (int m = 0; m < r->schedule.count / 2; m++) {
        WEFT_TRY(weft_instance_micro(r->instance, m));
        consensus->loss += loss_share(r);
    }
    WEFT_TRY(weft_instance_micro(r->instance, 0));
    consensus->leave = consensus->dismissed = 0;
    return weft_sum_over(r->learner, "the loss", &consensus->loss,
                         sizeof(*consensus) / sizeof(double));
}

weft_status weft_rank_finish(weft_rank *r, weft_step_consensus *consensus)
{
    double began = weft_seconds();
    WEFT_TRY(weft_run_ahead_wait(r->instance));
    r->queued--;
    r->used = r->costs[0].used;
    r->bubble = r->used.waited;
    r->passes = r->costs[0].passes + weft_seconds() - began;
    r->host = r->costs[0].host;
    r->costs[0] = r->costs[1];
    WEFT_TRY(queued_loss(r, consensus));
    if (isfinite(consensus->loss)) return WEFT_OK;
    WEFT_TRY(weft_run_ahead_stop(r->instance));
    r->queued = 0;
    return weft_rank_explain(r, NULL, consensus->loss);
}

weft_status weft_rank_after_step(weft_rank *r, bool last, bool epoch, bool *stop)
{
    weft_comm_stats before = weft_comm_get_stats(r->world);
    weft_device_use use = weft_instance_device_use(r->instance);
    weft_step_result result = {.step = r->position.step,
                               .last = last,
                               .loss = r->loss,
                               .rate = r->rate,
                               .asked = *stop,
                               .device_busy = use.busy,
                               .device_used = use.used,
                               .device_total = use.total};
    if (!r->exchange) return WEFT_OK;
    WEFT_TRY(weft_exchange_after(r->exchange, &result));
    add_stats(&r->used, &before, r);
    add_waited(r);
    r->leaves = r->leaves || result.leave;
    r->dismissed = result.dismissed;
    if (result.until > 0) *stop = result.step >= result.until;
    if (!r->exchange->ops->lockstep) return WEFT_OK;
    double all = *stop;
    *stop = false;
    if (!result.met && !epoch) return WEFT_OK;
    WEFT_TRY(weft_exchange_sum(r->exchange, "whether to stop", &all));
    *stop = all > 0;
    return WEFT_OK;
}

weft_status weft_rank_end(weft_rank *r, bool finished)
{
    if (r->exchange) {
        r->exchange->finished = finished;
        WEFT_TRY(weft_exchange_end(r->exchange));
    }
    r->ended = true;
    return weft_averages_move(r);
}

weft_status weft_rank_settle(weft_rank *r)
{
    if (r->exchange) WEFT_TRY(weft_exchange_wait(r->exchange));
    return weft_averages_move(r);
}

bool weft_rank_saves_all(const weft_rank *r)
{
    return !r->exchange || r->exchange->ops->lockstep || r->ended;
}

double weft_rank_learning_rate(const weft_rank *rank)
{
    const weft_rank *r = weft_noise_last(rank);
    weft_value lr = weft_rewritten_value(r->mine, r->optimizer.learning_rate);
    return weft_fetch(weft_rewritten_graph(r->mine), r->instance, lr, 0);
}
