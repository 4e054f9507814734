/* Gives a schedule of the learning rate by measurements its losses: at the end of each epoch that
 * of the validation data, else of the test data, or without both the mean training loss of the
 * epoch, as the mean over all learners. The measurements are a state of the graph, so a checkpoint
 * has them, also those of a part of an epoch. */
#include "optim/optim.h"
#include "train/trainer.h"

/* The measurements of this rank, in memory of their own. */
typedef struct measured {
    const weft_rate_ops *schedule;
    int entry; /* in the store; -1: this rank has no learning rate, or one that is not measured */
    double *state, *sums;
} measured;

static weft_status open_measured(const weft_rank *r, measured *m)
{
    const weft_optimizer_options *o = &r->run_spec->optimizer;
    weft_value value = r->optimizer.measured;
    *m = (measured){.schedule = weft_rate_schedule_at(r->run_spec->context, (int)o->schedule),
                    .entry = -1};
    if (value == WEFT_NO_VALUE) return WEFT_OK;
    m->entry = weft_store_find(r->store, weft_graph_value_name(r->graph, value));
    WEFT_TRY(WEFT_NEW(&m->state, m->schedule->measures + WEFT_MEASURED));
    m->sums = m->state + m->schedule->measures;
    return m->entry < 0 ? WEFT_OK : weft_store_read(r->store, m->entry, m->state);
}

static weft_status close_measured(const weft_rank *r, measured *m, weft_status status)
{
    if (status == WEFT_OK && m->entry >= 0) status = weft_store_write(r->store, m->entry, m->state);
    free(m->state);
    return status;
}

weft_status weft_run_note_loss(weft_run *run, double loss, double weight)
{
    const weft_rank *r = &run->rank;
    measured m;
    if (r->optimizer.measured == WEFT_NO_VALUE ||
        weft_dataset_count(run->job->data, run->job->watched) > 0)
        return WEFT_OK;
    weft_status status = open_measured(r, &m);
    if (status == WEFT_OK) {
        m.sums[WEFT_MEASURED_LOSS] += loss * weight;
        m.sums[WEFT_MEASURED_WEIGHT] += weight;
    }
    return close_measured(r, &m, status);
}

static weft_status measure(weft_run *run, measured *m)
{
    const weft_rank *r = &run->rank;
    weft_learning_rate rate = weft_schedule_rate(r->run_spec->context, &r->run_spec->optimizer);
    double sums[WEFT_MEASURED] = {run->watched_loss, 1};
    if (weft_dataset_count(run->job->data, run->job->watched) == 0)
        memcpy(sums, m->sums, sizeof(sums));
    for (int i = 0; i < WEFT_MEASURED && r->exchange; i++)
        WEFT_TRY(weft_exchange_sum(r->exchange, "the loss of an epoch", &sums[i]));
    m->sums[WEFT_MEASURED_LOSS] = m->sums[WEFT_MEASURED_WEIGHT] = 0;
    bool warm = weft_learning_rate_step(&rate, r->position.step) >= (double)rate.of.warmup;
    if (warm && sums[WEFT_MEASURED_WEIGHT] > 0)
        m->schedule->measure(&rate.of, sums[WEFT_MEASURED_LOSS] / sums[WEFT_MEASURED_WEIGHT],
                             m->state);
    return WEFT_OK;
}

weft_status weft_run_measure(weft_run *run)
{
    measured m;
    if (run->rank.optimizer.measured == WEFT_NO_VALUE) return WEFT_OK;
    weft_status status = open_measured(&run->rank, &m);
    if (status == WEFT_OK) status = measure(run, &m);
    return close_measured(&run->rank, &m, status);
}
