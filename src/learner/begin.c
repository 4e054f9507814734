/* The step at which a rank begins: a learner that joins a run goes on at the step of the run, with
 * its position in the data and its schedule of the learning rate. */
#include "learner/learner_internal.h"

/* Gives all ranks of the learner the step at which the learner began in the run. Only one rank
 * knows it, the one that talks to servers or peers; for the others `began` is below 0. */
static weft_status share_clock(weft_rank *r, int64_t *clock)
{
    int64_t began = r->exchange->ops->actors->began(r->exchange);
    double sum = began >= 0 ? (double)began : 0;
    WEFT_TRY(weft_sum_over(r->learner, "the step of the run", &sum, 1));
    *clock = (int64_t)sum;
    return WEFT_OK;
}

/* The position `clock` steps after `from`. An epoch has `samples` samples in `steps` steps, of
 * `all` samples each. The epoch of `from` may have been begun with another number of learners, so
 * its remaining steps follow from its remaining samples. */
static weft_position advance(weft_position from, int64_t clock, int64_t steps, int64_t all,
                             int64_t samples)
{
    int64_t rest = WEFT_MAX((samples - from.samples + all - 1) / all, (int64_t)0);
    weft_position p = {.step = from.step + clock, .epoch = from.epoch};
    if (clock < rest) {
        p.batch = from.batch + clock;
        p.samples = from.samples + clock * all;
        return p;
    }
    p.epoch += 1 + (clock - rest) / steps;
    p.batch = (clock - rest) % steps;
    p.samples = p.batch * all;
    return p;
}

/* The schedule of the learning rate continues at the step of the run, too. */
static weft_status set_counters(const weft_rank *r)
{
    int32_t step = (int32_t)r->position.step;
    for (int i = 0; i < weft_store_count(r->store); i++)
        if (weft_store_role(r->store, i) == WEFT_ROLE_COUNTER)
            WEFT_TRY(weft_store_write(r->store, i, &step));
    return WEFT_OK;
}

/* Logs that the residuals of other learners are lost, if the run begins at the checkpoint. In a run
 * under way the other learners still have theirs. */
static void note_residuals(const weft_rank *r)
{
    const weft_run_spec *k = r->run_spec;
    if (k->resumed && weft_rank_speaks(r) &&
        weft_checkpoint_lacks_learners(k->resumed, r->exchange))
        weft_log(k->context, WEFT_LOG_NOTE,
                 "%s has the residuals of the first learner alone, since learners that are "
                 "processes of their own send none: those of the others begin at zero",
                 k->resumed->path);
}

weft_status weft_rank_begin(weft_rank *r, int64_t steps, int64_t all)
{
    int64_t clock = 0;
    if (!r->exchange) return WEFT_OK;
    WEFT_TRY(weft_exchange_begin(r->exchange));
    bool joins = r->run_spec->cluster && WEFT_EXCHANGE_HAS(r->exchange->ops, began);
    if (joins) WEFT_TRY(share_clock(r, &clock));
    if (clock == 0) note_residuals(r);
    if (!joins) return WEFT_OK;
    r->position = advance(r->run_spec->begun, clock, steps, all,
                          weft_dataset_count(r->run_spec->data, WEFT_TRAIN));
    return set_counters(r);
}
