/* Runs one batch of requests, whose numbers the front has converted to floats or doubles:
 * normalizes them with the statistics of training, runs the batch program of the smallest size that
 * holds the rows, and converts predicted numbers back to the units of the targets. */
#include "data/data.h"
#include "serve/request_rows.h"
#include "serve/servable.h"

/* --- inputs --- */

/* Writes a row of a table. Its columns differ in unit and may be far from zero, so each number is
 * normalized in double precision. Tables and pictures get the same bits here as in training. */
static void put_table(const weft_data_stats *stats, const weft_inference_request *q, int64_t first,
                      int64_t size, float *restrict to)
{
    const float *restrict single = q->x_double ? NULL : q->x + first;
    const double *restrict wide = q->x_double ? q->x_double + first : NULL;
    const double *restrict mean = stats->mean, *restrict deviation = stats->deviation;
    const double same_mean = mean[0], same_deviation = deviation[0];
    bool as_it_is = q->raw || (stats->features == 1 && same_mean == 0 && same_deviation == 1);
    /* One loop for each case, so that compilers vectorize it. */
    if (as_it_is && single)
        memcpy(to, single, (size_t)size * sizeof(*to));
    else if (as_it_is)
        for (int64_t j = 0; j < size; j++) to[j] = (float)wide[j];
    else if (stats->features == 1 && single)
        for (int64_t j = 0; j < size; j++)
            to[j] = weft_normalise_wide((double)single[j], same_mean, same_deviation);
    else if (stats->features == 1)
        for (int64_t j = 0; j < size; j++)
            to[j] = weft_normalise_wide(wide[j], same_mean, same_deviation);
    else if (single)
        for (int64_t j = 0; j < size; j++)
            to[j] = weft_normalise_wide((double)single[j], mean[j], deviation[j]);
    else
        for (int64_t j = 0; j < size; j++)
            to[j] = weft_normalise_wide(wide[j], mean[j], deviation[j]);
}

static void put_picture(const weft_data_stats *stats, const weft_inference_request *q,
                        int64_t first, int64_t size, float *to)
{
    const int64_t each = size / stats->features;
    if (q->x_double)
        for (int64_t j = 0; j < size; j++) to[j] = (float)q->x_double[first + j];
    else
        memcpy(to, q->x + first, (size_t)size * sizeof(*to));
    for (int64_t f = 0; f < stats->features && !q->raw; f++) {
        float shift = (float)stats->mean[f], factor = (float)(1 / stats->deviation[f]);
        for (int64_t j = f * each; j < (f + 1) * each; j++)
            to[j] = weft_normalise_single(to[j], shift, factor);
    }
}

static void put_tokens(const weft_inference_request *q, int64_t first, int64_t count, int32_t *to)
{
    for (int64_t j = 0; j < count; j++)
        to[j] = q->x_double ? (int32_t)q->x_double[first + j] : (int32_t)q->x[first + j];
}

/* Writes row `at` of an input of real numbers, in the model's number type. */
static void put_reals(const weft_servable *s, const weft_inference_request *q, int64_t first,
                      int64_t size, void *input, int64_t at)
{
    bool wide = weft_servable_real(s) == WEFT_F64;
    /* A row for a model in double precision is first written as floats into the second half of its
     * own memory, and then widened in place. */
    float *to = (float *)input + (wide ? 2 * at + 1 : at) * size;
    if (weft_servable_is_table(s))
        put_table(&s->checkpoint.stats, q, first, size, to);
    else
        put_picture(&s->checkpoint.stats, q, first, size, to);
    for (int64_t j = 0; wide && j < size; j++)
        weft_number_put(WEFT_F64, input, at * size + j, (double)to[j]);
}

/* Clears what is behind the length of a row, as the data of training do. */
static void clear_behind(const weft_servable *s, const weft_inference_request *q, int k,
                         int64_t row, void *input, int64_t at)
{
    const weft_input *in = &s->checkpoint.stats.input[k];
    int64_t size = weft_shape_elements(&in->shape);
    int64_t counted = weft_request_counted(s->checkpoint.stats.input, k, q, row);
    size_t each = weft_dtype_size(weft_servable_real(s));
    memset((char *)input + (size_t)(at * size + counted) * each, 0,
           (size_t)(size - counted) * each);
}

/* Writes the rows of all requests one after the other into input `which` of the program. before:
 * the elements of a row of the inputs before it. */
static void put_rows(const weft_servable *s, void *const *requests, int count, int which,
                     int64_t before, void *input)
{
    const weft_input *in = &s->checkpoint.stats.input[which];
    int64_t size = weft_shape_elements(&in->shape), at = 0;
    for (int k = 0; k < count; k++) {
        const weft_inference_request *q = requests[k];
        int64_t first = q->rows * before;
        if (in->values > 0) put_tokens(q, first, q->rows * size, (int32_t *)input + at * size);
        for (int64_t row = 0; in->values == 0 && row < q->rows; row++) {
            put_reals(s, q, first + row * size, size, input, at + row);
            if (in->lengths) clear_behind(s, q, which, row, input, at + row);
        }
        at += q->rows;
    }
}

static void put_inputs(const weft_servable *s, void *const *requests, int count,
                       const weft_batch_program *v, const weft_instance *instance,
                       const weft_full_batch *whole)
{
    const weft_data_stats *stats = &s->checkpoint.stats;
    int64_t before = 0;
    for (int k = 0; k < stats->inputs; k++) {
        void *input = whole ? whole->x[k] : weft_instance_input(instance, v->x[k]);
        put_rows(s, requests, count, k, before, input);
        before += weft_shape_elements(&stats->input[k].shape);
    }
}

/* --- outputs --- */

/* Converts `count` numbers of type `real` to double, starting with element `at` of `from`. */
static void convert_to_double(weft_dtype real, const void *from, int64_t at, int64_t count,
                              double *to)
{
    const float *single = from;
    if (real == WEFT_F64)
        memcpy(to, (const double *)from + at, (size_t)count * sizeof(*to));
    else
        for (int64_t j = 0; j < count; j++) to[j] = (double)single[at + j];
}

static void to_own_units(const weft_data_stats *stats, double *numbers, int64_t rows)
{
    for (int64_t row = 0; row < rows; row++, numbers += stats->targets)
        for (int j = 0; j < stats->targets; j++)
            numbers[j] = numbers[j] * stats->target_deviation[j] + stats->target_mean[j];
}

static void take_rows(const weft_servable *s, void *const *requests, int count, weft_dtype real,
                      const void *output, const void *logits)
{
    for (int64_t k = 0, at = 0; k < count; k++) {
        const weft_inference_request *q = requests[k];
        int64_t numbers = q->rows * s->outputs;
        convert_to_double(real, output, at, numbers, q->prediction);
        if (q->logits) convert_to_double(real, logits, at, numbers, q->logits);
        if (!q->raw) to_own_units(&s->checkpoint.stats, q->prediction, q->rows);
        at += numbers;
    }
}

/* Copies the rows of output k to the requests that want it. */
static void take_output(const weft_servable *s, void *const *requests, int count, int k,
                        const char *from)
{
    size_t row = weft_servable_output_bytes(s, k);
    for (int i = 0; i < count; i++) {
        const weft_inference_request *q = requests[i];
        if (q->output[k]) memcpy(q->output[k], from, (size_t)q->rows * row);
        from += (size_t)q->rows * row;
    }
}

weft_status weft_servable_run(void *user, int executor, void *const *requests, int count,
                              int64_t rows)
{
    weft_servable *s = user;
    int i = 0;
    while (s->sizes[i].rows < rows) i++;
    const weft_batch_program *v = &s->sizes[i];
    const weft_full_batch *whole = s->full_batches ? &s->full_batches[executor] : NULL;
    /* With one rank the batch is in the inputs and outputs of its instance. */
    const weft_instance *instance = v->instances[executor * s->weights.ranks];
    double times[4] = {weft_seconds()};
    put_inputs(s, requests, count, v, instance, whole);
    /* The rows that pad the batch to its size keep the values of an earlier batch. No output row
     * depends on another row's input, so they do no harm. */
    times[1] = weft_seconds();
    WEFT_TRY(weft_batch_program_run(s, v, executor));
    times[2] = weft_seconds();
    const void *output = whole ? whole->prediction : weft_instance_output(instance, v->prediction);
    const void *logits = output;
    if (v->logits != WEFT_NO_VALUE)
        logits = whole ? whole->logits : weft_instance_output(instance, v->logits);
    take_rows(s, requests, count, whole ? WEFT_F64 : weft_servable_real(s), output, logits);
    for (int k = 1; k < s->output_count; k++)
        take_output(s, requests, count, k,
                    whole ? whole->output[k] : weft_instance_output(instance, v->output[k]));
    times[3] = weft_seconds();
    weft_compute_stats_add(s->compute_stats, rows, count, times);
    return WEFT_OK;
}
