/* Measures kernels: each is bound to memory of its own with random numbers, run a few times until
 * caches and clocks have settled, and then timed. */
#include "base/sort.h"
#include "program/tuning.h"

/* A sample is as many runs as take so long, since a clock and a queue cost microseconds; the median
 * of so many samples is taken; and no candidate takes longer in all, but for the first runs. */
static const double sample_seconds = 5e-4, most_seconds = 0.25;
static const double hopeless = 4; /* times as long as another candidate */
enum { SAMPLES = 7, MOST_RUNS = 1000, BLOCK = 1 << 16 };

bool tuning_is_measurable(const weft_group *group)
{
    for (int i = 0; i < group->in_count; i++)
        if (!weft_dtype_is_float(weft_value_type(group->graph, group->in[i])->dtype)) return false;
    return true;
}

/* A kernel that is measured, with its memory. */
typedef struct trial {
    weft_device *device;
    const weft_kernel *kernel;
    weft_queue *queue;
    weft_queue_event *event;
    weft_bound *bound;
    weft_memory *in[WEFT_GROUP_VALUES], *out[WEFT_GROUP_VALUES], *scratch;
} trial;

/* Numbers from 0.5 to 1 in each type, so that no sum overflows and no logarithm is of 0. */
static void fill_block(weft_dtype dtype, void *block)
{
    weft_random random;
    weft_random_start(&random, 1, 1);
    int64_t count = BLOCK / (int64_t)weft_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++)
        weft_number_put(dtype, block, i, 0.5 + weft_random_unit(&random) / 2);
}

static weft_status fill(const trial *t, weft_dtype dtype, weft_memory *memory, size_t bytes)
{
    char *block;
    weft_status status = WEFT_OK;
    WEFT_TRY(WEFT_NEW(&block, BLOCK));
    fill_block(dtype, block);
    for (size_t at = 0; at < bytes && status == WEFT_OK; at += BLOCK)
        status = weft_copy_in(t->queue, (weft_address){memory, at}, block,
                              WEFT_MIN(bytes - at, (size_t)BLOCK));
    if (status == WEFT_OK) status = weft_event_record(t->device, t->queue, t->event);
    if (status == WEFT_OK) status = weft_event_wait(t->device, t->event);
    free(block);
    return status;
}

static weft_status open_trial(trial *t, const weft_group *group)
{
    weft_address in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES];
    const weft_kernel *k = t->kernel;
    WEFT_TRY(weft_queue_open(t->device, &t->queue));
    WEFT_TRY(weft_event_open(t->device, &t->event));
    for (int i = 0; i < group->in_count; i++) {
        WEFT_TRY(weft_memory_new(t->device, k->in[i]->bytes, &t->in[i]));
        WEFT_TRY(
            fill(t, weft_value_type(group->graph, group->in[i])->dtype, t->in[i], k->in[i]->bytes));
        in[i] = (weft_address){t->in[i], 0};
    }
    for (int i = 0; i < group->out_count; i++) {
        WEFT_TRY(weft_memory_new(t->device, k->out[i]->bytes, &t->out[i]));
        out[i] = (weft_address){t->out[i], 0};
    }
    WEFT_TRY(weft_memory_new(t->device, k->scratch, &t->scratch));
    WEFT_TRY(weft_kernel_bind(k, &t->bound));
    return weft_bound_place(t->bound, in, out, (weft_address){t->scratch, 0});
}

static void close_trial(trial *t)
{
    if (t->bound) t->bound->ops->destroy(t->bound);
    for (int i = 0; i < WEFT_GROUP_VALUES; i++) {
        weft_memory_free(&t->in[i]);
        weft_memory_free(&t->out[i]);
    }
    weft_memory_free(&t->scratch);
    weft_event_close(t->device, &t->event);
    weft_queue_close(t->device, &t->queue);
}

/* Sets *out to the seconds of so many runs. */
static weft_status time_runs(const trial *t, int runs, double *out)
{
    double begin = weft_seconds();
    weft_status status = WEFT_OK;
    for (int i = 0; i < runs && status == WEFT_OK; i++) status = weft_bound_run(t->bound, t->queue);
    /* Also after a failure: no command that uses the memory may stay in the queue. */
    weft_error error = {.status = WEFT_OK};
    if (status != WEFT_OK) weft_error_catch(&error, status);
    weft_status ended = weft_event_record(t->device, t->queue, t->event);
    if (ended == WEFT_OK) ended = weft_event_wait(t->device, t->event);
    *out = weft_seconds() - begin;
    return status != WEFT_OK ? weft_error_raise(&error) : ended;
}

/* best: seconds of another candidate. One that takes several times as long is not run again. */
static weft_status take_samples(const trial *t, double best, double *out)
{
    double once = 0, all = 0, sample[SAMPLES];
    int count = 0;
    for (int i = 0; i < 3 && (i < 2 || once < hopeless * best); i++)
        WEFT_TRY(time_runs(t, 1, &once));
    *out = WEFT_MAX(once, 1e-9);
    if (once >= hopeless * best) return WEFT_OK;
    int runs = (int)WEFT_MIN(sample_seconds / WEFT_MAX(once, 1e-9), (double)MOST_RUNS);
    runs = WEFT_MAX(runs, 1);
    while (count < SAMPLES && all < most_seconds) {
        WEFT_TRY(time_runs(t, runs, &sample[count]));
        all += sample[count++];
    }
    weft_sort_doubles(sample, (size_t)count);
    *out = WEFT_MAX(sample[count / 2] / runs, 1e-9);
    return WEFT_OK;
}

weft_status tuning_measure(weft_device *device, const weft_group *group, const weft_kernel *kernel,
                           double best, double *seconds)
{
    trial t = {.device = device, .kernel = kernel};
    weft_status status = open_trial(&t, group);
    if (status == WEFT_OK) status = take_samples(&t, best, seconds);
    close_trial(&t);
    return status;
}
