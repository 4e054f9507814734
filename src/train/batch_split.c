/* Splits a learner's batch into micro-batches, or into the parts of virtual workers, and checks
 * that each rank of the data axis gets a sample of each. */
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
    char near[64] = "is none";
    if (below > 0 && above <= t->samples)
        (void)snprintf(near, sizeof(near), "are %lld and %lld", (long long)below, (long long)above);
    else if (below > 0 || above <= t->samples)
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
