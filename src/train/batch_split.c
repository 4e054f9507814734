/* Splits a learner's batch into micro-batches, or into the parts of virtual workers, checks that
 * each rank of the data axis gets a sample of each, and finds the smallest that the run takes. */
#include <stdio.h>

#include "train/trainer.h"

/* Sets *out to the number of ranks that share a batch: the size of the data axis. */
static weft_status data_axis(const weft_trainer *t, int64_t *out)
{
    const weft_parallel_choice *o = &t->options.parallel;
    *out = o->place ? 1 : t->mesh;
    return o->mesh ? weft_mesh_axis(o->mesh, "data", out) : WEFT_OK;
}

/* ARGUMENT: a micro-batch has fewer samples than the data axis has ranks. */
static weft_status check_shares(const weft_trainer *t)
{
    int64_t batch = t->options.length.batch, parts = t->run_spec.microbatches, data, most;
    const char *axis = t->options.parallel.mesh ? " of the data axis" : "";
    char fewer[64] = "";
    WEFT_TRY(data_axis(t, &data));
    if (t->micro >= data) return WEFT_OK;
    if (parts == 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "batch is %lld, which cannot be shared out to %lld ranks%s; give --batch "
                         "%lld or more, or at most %lld rank%s%s",
                         (long long)batch, (long long)data, axis, (long long)data, (long long)batch,
                         weft_plural(batch), axis);
    for (most = parts; most > 0 && (batch % most || batch / most < data);) most--;
    if (most > 0) (void)snprintf(fewer, sizeof(fewer), ", --microbatches %lld", (long long)most);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "batch %lld in %lld micro-batches is %lld sample%s each, which cannot be "
                     "shared out to %lld ranks%s; give --batch %lld%s, or at most %lld rank%s%s",
                     (long long)batch, (long long)parts, (long long)t->micro, weft_plural(t->micro),
                     (long long)data, axis, (long long)(parts * data), fewer, (long long)t->micro,
                     weft_plural(t->micro), axis);
}

/* Each of V virtual workers has a fixed part of the batch; a rank of the data axis computes the
 * parts of its workers in sequence, as micro-batches. */
static weft_status share_out_workers(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    int64_t data;
    WEFT_TRY(data_axis(t, &data));
    if (o->length.microbatches > 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "virtual-workers and microbatches contradict each other: the workers of a "
                         "rank are its micro-batches");
    if (o->parallel.shares)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "virtual-workers and shares contradict each other: each worker has an "
                         "equal part of the batch; leave one of them out");
    if (o->length.virtual_workers > o->length.batch)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%lld virtual workers share a batch of %lld samples; give at most %lld "
                         "virtual workers",
                         (long long)o->length.virtual_workers, (long long)o->length.batch,
                         (long long)o->length.batch);
    if (o->length.virtual_workers % data)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%lld virtual workers cannot be shared out to %lld ranks of the data axis; "
            "it must divide them",
            (long long)o->length.virtual_workers, (long long)data);
    t->run_spec.worker =
        (o->length.batch + o->length.virtual_workers - 1) / o->length.virtual_workers;
    t->run_spec.slots = t->run_spec.worker * o->length.virtual_workers;
    t->run_spec.microbatches = o->length.virtual_workers / data;
    t->micro = t->run_spec.worker * data;
    return WEFT_OK;
}

static weft_status uneven_batch(const weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    int64_t below = o->length.batch / o->length.microbatches * o->length.microbatches,
            above = below + o->length.microbatches;
    char near[64];
    if (below == 0 && above > t->samples)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "batch %lld cannot be cut into %lld equal micro-batches, nor can any batch "
            "of the %lld training samples; give --microbatches %lld or a divisor of it",
            (long long)o->length.batch, (long long)o->length.microbatches, (long long)t->samples,
            (long long)o->length.batch);
    if (below > 0 && above <= t->samples)
        (void)snprintf(near, sizeof(near), "are %lld and %lld", (long long)below, (long long)above);
    else
        (void)snprintf(near, sizeof(near), "is %lld", (long long)(below > 0 ? below : above));
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "batch %lld cannot be cut into %lld equal micro-batches; the nearest that can "
                     "%s",
                     (long long)o->length.batch, (long long)o->length.microbatches, near);
}

weft_status weft_trainer_share_out(weft_trainer *t)
{
    const weft_length_choice *o = &t->options.length;
    if (o->batch % o->microbatches) return uneven_batch(t);
    t->run_spec.microbatches = o->microbatches;
    t->run_spec.slots = o->batch;
    t->micro = t->run_spec.slots / t->run_spec.microbatches;
    if (o->virtual_workers > 0) WEFT_TRY(share_out_workers(t));
    return check_shares(t);
}

/* --- the fewest samples of a micro-batch --- */

/* The number of samples of a micro-batch, or of a virtual worker. */
static int64_t group_size(const weft_trainer *t)
{
    return t->run_spec.worker > 0 ? t->run_spec.worker : t->micro;
}

/* The fewest samples, above 0, of a group of so many where `filled` samples are in turn put into
 * groups; 0: there are none. */
static int64_t least_of(int64_t filled, int64_t group)
{
    int64_t rest = filled % group;
    return rest > 0 ? rest : WEFT_MIN(filled, group);
}

/* The fewest of any learner, where the learners share out a batch of `total` samples. */
static int64_t least_of_learners(const weft_trainer *t, int64_t total, int64_t group)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < t->learners; i++) {
        int64_t mine =
            weft_part_start(total, i + 1, t->learners) - weft_part_start(total, i, t->learners);
        if (mine > 0) least = WEFT_MIN(least, least_of(mine, group));
    }
    return least;
}

/* The batches that the run takes: whether some are full, and the samples of the last batch of an
 * epoch with the smallest group; 0: all are full, or none has a smaller group than `most`. A
 * resumed run may begin in an epoch at a place that is no multiple of its batch. */
static int64_t last_batch(const weft_trainer *t, int64_t most, bool *full)
{
    int64_t all = t->options.length.batch * t->learners, group = group_size(t), least = 0;
    const weft_position *done = &t->resumed.position;
    int64_t rest = t->samples - done->samples, steps = t->total_steps - done->step;
    const int64_t ends[] = {rest, t->samples};
    *full = false;
    for (int i = 0; i < 2 && steps > 0; i++) {
        int64_t total = ends[i] % all, groups = total ? least_of_learners(t, total, group) : most;
        *full = *full || ends[i] >= all;
        steps -= (ends[i] + all - 1) / all;
        if (steps < 0 || groups >= most) continue;
        least = total;
        most = groups;
    }
    return least;
}

/* The fewest samples of any group of a run from its begin, with another batch; 0: it cannot be
 * shared out. */
static int64_t least_with(const weft_trainer *t, int64_t batch)
{
    const weft_length_choice *o = &t->options.length;
    int64_t workers = o->virtual_workers, all = batch * t->learners;
    if (batch > t->samples || (workers == 0 && batch % o->microbatches)) return 0;
    int64_t group = workers > 0 ? (batch + workers - 1) / workers : batch / o->microbatches,
            total = t->samples % all,
            least = t->samples >= all ? least_of(batch, group) : INT64_MAX;
    return total > 0 ? WEFT_MIN(least, least_of_learners(t, total, group)) : least;
}

/* The nearest batch of which no group has a single sample; 0: there is none nearby. */
static int64_t better_batch(const weft_trainer *t)
{
    int64_t batch = t->options.length.batch;
    for (int64_t away = 1; away <= batch; away++)
        for (int side = -1; side <= 1; side += 2)
            if (batch + side * away > 1 && least_with(t, batch + side * away) > 1)
                return batch + side * away;
    return 0;
}

static void set_least(weft_trainer *t, int64_t samples, const char *remedy)
{
    t->run_spec.least_samples = samples;
    (void)snprintf(t->run_spec.least_remedy, sizeof(t->run_spec.least_remedy), "%s", remedy);
}

void weft_trainer_find_least(weft_trainer *t)
{
    const weft_length_choice *o = &t->options.length;
    int64_t group = group_size(t), least = least_of(o->batch, group);
    char text[256];
    if (o->virtual_workers > 0)
        (void)snprintf(text, sizeof(text),
                       "the last of %lld virtual workers gets %lld of a batch of %lld; give a "
                       "larger --batch, or fewer --virtual-workers",
                       (long long)((o->batch + group - 1) / group), (long long)least,
                       (long long)o->batch);
    else
        (void)snprintf(text, sizeof(text), "give a larger --batch%s",
                       o->microbatches > 1 ? ", or fewer --microbatches" : "");
    bool full;
    int64_t total = last_batch(t, INT64_MAX, &full);
    if (full && total > 0) total = last_batch(t, least, &full);
    set_least(t, least, text);
    if (total == 0) return;
    char near[48] = "";
    int64_t better = better_batch(t);
    if (better > 0) (void)snprintf(near, sizeof(near), ", such as %lld", (long long)better);
    (void)snprintf(
        text, sizeof(text),
        "the last batch of an epoch is short (%lld samples to train on, %lld in it%s%s); "
        "give another --batch%s",
        (long long)t->samples, (long long)total, t->learners > 1 ? " for all learners" : "",
        o->virtual_workers > 0 ? ", shared out to virtual workers"
        : o->microbatches > 1  ? ", in micro-batches"
                               : "",
        near);
    set_least(t, least_of_learners(t, total, group), text);
}
