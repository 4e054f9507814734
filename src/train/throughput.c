/* Measures how many samples a second the learners of a run process. Learners in lock step take the
 * same steps. Others differ in speed, so each adds its samples to a counter that the learners of
 * its job share, and the learner that reports reads there what all of them have processed. */
#include <math.h>

#include "train/trainer.h"

/* Seconds of steps over which the rate in heartbeats is a mean; older steps count exponentially
 * less. */
static const double WINDOW = 5;

/* An elastic learner that its user has started reports itself alone, since others join and
 * leave. */
static bool is_alone(const weft_run *run)
{
    return run->job->linked && !run->job->link.job;
}

static bool is_in_lock_step(const weft_run *run)
{
    const weft_rank *r = &run->rank;
    return !r->exchange || r->exchange->ops->lockstep;
}

/* The ranks of the job for each rank that shares the counter of this process: 1 on one machine.
 * Learners on other machines count as fast as those on this one until their samples are summed at
 * the end, and so do those of MPI processes without a supervisor. */
static double ranks_for_each_seen(const weft_run *run)
{
    const weft_trainer *t = run->job;
    int seen = t->line.page ? weft_comm_local_size(run->rank.world) : t->local;
    return (double)t->size / seen;
}

static double samples_so_far(const weft_run *run)
{
    return ranks_for_each_seen(run) * (double)weft_status_page_samples(&run->job->line);
}

void weft_throughput_begin(weft_run *run)
{
    run->counted = samples_so_far(run);
    run->last_step = weft_seconds();
}

/* Samples and seconds of steps are summed separately: a mean of the rates of steps would give short
 * steps too much weight. */
void weft_throughput_step(weft_run *run, const weft_batch *b, weft_event *e)
{
    weft_rank *r = &run->rank;
    double now = weft_seconds(), fixed = run->job->clock.seconds;
    double seconds = fixed > 0 ? fixed : now - run->last_step, keep = exp(-seconds / WINDOW);
    if (weft_comm_rank(r->learner) == 0) weft_status_page_count(&run->job->line, b->valid);
    double counted = samples_so_far(run), samples = counted - run->counted;
    if (is_alone(run))
        samples = (double)b->valid;
    else if (is_in_lock_step(run))
        samples = (double)b->total;
    run->recent_samples = keep * run->recent_samples + (double)b->valid;
    run->recent_seconds = keep * run->recent_seconds + seconds;
    r->rate = run->recent_samples / run->recent_seconds;
    run->own += (double)b->valid;
    run->worked += samples;
    run->working += seconds;
    run->counted = counted;
    run->last_step = now;
    e->samples_per_second = samples / seconds;
    e->step_seconds = seconds;
}

weft_status weft_throughput_end(weft_run *run)
{
    bool all = is_alone(run) || is_in_lock_step(run) || ranks_for_each_seen(run) == 1;
    double samples = run->own;
    if (all) return WEFT_OK;
    WEFT_TRY(weft_exchange_sum(run->rank.exchange, "samples of the learners", &samples));
    run->worked = samples;
    return WEFT_OK;
}
