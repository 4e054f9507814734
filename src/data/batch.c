/* Makes batches. The contents of a batch are a function of the seed, the epoch and the number of
 * earlier samples of the epoch, so a checkpoint needs no other state of the data. */
#include <float.h>
#include <stdatomic.h>

#include "data/augment/augment.h"
#include "data/loader.h"

static size_t row_bytes(const weft_column *c)
{
    return weft_type_bytes(&(weft_type){c->dtype, c->shape});
}

int weft_batch_find(const weft_batch *batch, weft_port_role role, const char *name)
{
    int found = -1, count = 0;
    for (int c = 0; c < batch->columns; c++) {
        if (batch->column[c].role != role) continue;
        if (strcmp(batch->column[c].name, name) == 0) return c;
        found = c;
        count++;
    }
    return count == 1 ? found : -1;
}

const void *weft_batch_rows(const weft_batch *batch, int column, int64_t row)
{
    return (const char *)batch->data[column] + (size_t)row * row_bytes(&batch->column[column]);
}

/* The number of the sample at place i of an epoch of `count` samples. Streams: row b of the batches
 * has the samples of part b of the data one after another; the first parts have one more where they
 * cannot be equal, so that the last batch has rows of these alone. */
static int64_t sample_at(const weft_loader_options *o, uint64_t key, int64_t count, int64_t i)
{
    if (o->shuffle) return weft_permute(key, count, i);
    if (!o->streams) return i;
    int64_t row = i % o->batch, each = count / o->batch, more = count % o->batch;
    return row * each + WEFT_MIN(row, more) + i / o->batch;
}

/* Whether classes have weights in batches of a split. */
static bool weighs_classes(const weft_dataset *data, weft_split split)
{
    return data->class_weight && split == WEFT_TRAIN;
}

/* The weight of a label in a batch: that of its class, if classes have weights, times its own; 0 if
 * it is ignored. */
static double weight_of(const weft_dataset *data, weft_split split, int64_t which, int64_t j,
                        const int32_t *label)
{
    double weight = weft_dataset_weight(data, split, which, j);
    if (label && label[j] < 0) return 0;
    return label && weighs_classes(data, split) ? weight * data->class_weight[label[j]] : weight;
}

/* The sum of the weights of a sample, which depend on its labels. key: of its random changes, which
 * may move classes out of the picture. label: room for its labels. */
static double weighed_sum(const weft_dataset *data, weft_split split, int64_t which,
                          const weft_sample_key *key, int32_t *label)
{
    double sum = 0;
    if (weft_dataset_read_column(data, split, which, key, data->source->inputs, label) >= 0)
        return 0; /* the sample is refused */
    for (int64_t j = 0; j < weft_source_labels(data->source); j++)
        sum += weight_of(data, split, which, j, label);
    return sum;
}

/* The sum of the weights of the targets of the `valid` samples of this learner's batch. Rows that
 * this rank does not read count as well, so all ranks of the learner compute the same sum. */
static double sum_of_weights(const weft_dataset *data, const weft_loader_options *o, int64_t epoch,
                             int64_t start, int64_t valid, int32_t *label)
{
    uint64_t order = weft_mix(o->seed, (uint64_t)epoch);
    int64_t count = weft_dataset_count(data, o->split);
    double sum = 0;
    if (!weft_dataset_weighted(data) && !label)
        return (double)(valid * weft_source_labels(data->source));
    for (int64_t i = start; i < start + valid; i++) {
        int64_t which = sample_at(o, order, count, i);
        const weft_sample_key key = {
            .seed = o->seed, .epoch = epoch, .split = o->split, .sample = which};
        sum += label ? weighed_sum(data, o->split, which, o->shuffle ? &key : NULL, label)
                     : weft_source_weight_sum(data->source, o->split, which);
    }
    return sum;
}

/* Replaces options that are unset by their defaults. */
static weft_loader_options complete(const weft_loader_options *given)
{
    weft_loader_options o = *given;
    if (o.slots == 0) o.slots = o.batch;
    if (o.parts == 0) o.parts = 1;
    if (o.micro == 0) {
        o.micro = o.rows = o.slots;
        o.first = 0;
    }
    return o;
}

/* The making of a batch, whose rows several threads read. */
typedef struct making {
    const weft_dataset *data;
    const weft_loader_options *o;
    weft_batch *batch;
    uint64_t order; /* key of the permutation of the epoch */
    int64_t start, count;
    atomic_llong wrong; /* the last sample of which an element is not usable; -1: none */
} making;

/* Mixes a sample with another one of the batch of all parts. at: its place in the epoch. */
static void mix_row(making *m, const weft_sample_key *key, int64_t at, int64_t row)
{
    weft_batch *batch = m->batch;
    const weft_shape *shape = &batch->column[0].shape;
    int labels = batch->weights + 1, shares = labels + 1;
    int64_t begin = batch->done - batch->total;
    int64_t place = begin + weft_permute(weft_mix(m->order, 1), batch->total, at - begin);
    weft_sample_key other = *key;
    float *x = malloc((size_t)weft_shape_elements(shape) * sizeof(*x));
    other.sample = sample_at(m->o, m->order, m->count, place);
    bool read =
        x && weft_dataset_read_column(m->data, m->o->split, other.sample, &other, 0, x) < 0 &&
        weft_dataset_read_column(m->data, m->o->split, other.sample, &other, batch->weights - 1,
                                 (void *)(uintptr_t)weft_batch_rows(batch, labels, row)) < 0;
    if (!x) atomic_store(&((weft_dataset *)(uintptr_t)m->data)->starved, true);
    if (!read) atomic_store(&m->wrong, other.sample);
    double own = read ? weft_augment_mix(m->data->augment, key, shape,
                                         (float *)(uintptr_t)weft_batch_rows(batch, 0, row), x)
                      : 1;
    double weight =
        weft_number_get(batch->column[batch->weights].dtype, batch->data[batch->weights], row);
    weft_number_put(batch->column[shares].dtype, batch->data[shares], row, weight * (1 - own));
    free(x);
}

/* at: the place of the sample in the epoch. */
static void make_row(making *m, int64_t at, int64_t row)
{
    weft_batch *batch = m->batch;
    int64_t which = sample_at(m->o, m->order, m->count, at);
    const weft_sample_key key = {
        .seed = batch->seed, .epoch = batch->epoch, .split = m->o->split, .sample = which};
    int last = batch->weights;
    const weft_column *weights = &batch->column[last];
    int64_t each = weft_shape_elements(&weights->shape);
    for (int c = 0; c < last; c++)
        if (weft_dataset_read_column(m->data, m->o->split, which, batch->drawn ? &key : NULL, c,
                                     (void *)(uintptr_t)weft_batch_rows(batch, c, row)) >= 0)
            atomic_store(&m->wrong, which);
    int32_t *label = batch->label ? (void *)(uintptr_t)weft_batch_rows(batch, last - 1, row) : NULL;
    for (int64_t j = 0; j < each; j++) {
        double weight = weight_of(m->data, m->o->split, which, j, label);
        if (!(weight >= 0 && weight <= DBL_MAX)) atomic_store(&m->wrong, which);
        weft_number_put(weights->dtype, batch->data[last], row * each + j,
                        batch->weight > 0 ? weight / batch->weight : 0);
        if (label && label[j] < 0) label[j] = 0; /* it has weight 0, and indexes an array */
    }
    if (batch->columns > last + 1) mix_row(m, &key, at, row);
}

static void clear_row(int64_t row, weft_batch *batch)
{
    for (int c = 0; c < batch->columns; c++)
        memset((void *)(uintptr_t)weft_batch_rows(batch, c, row), 0, row_bytes(&batch->column[c]));
}

static void make_rows(void *user, int64_t begin, int64_t end)
{
    making *m = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % m->o->micro, at = m->start + i;
        if (row < m->o->first || row >= m->o->first + m->o->rows) continue;
        if (i >= m->batch->valid)
            clear_row(i, m->batch);
        else
            make_row(m, at, i);
    }
}

void weft_batch_make(const weft_dataset *data, const weft_loader_options *options, int64_t epoch,
                     int64_t begin, weft_batch *batch)
{
    const weft_loader_options o = complete(options);
    uint64_t key = weft_mix(o.seed, (uint64_t)epoch);
    int64_t count = weft_dataset_count(data, o.split), all = o.batch * o.parts;
    int64_t total = WEFT_MIN(all, count - begin);
    /* At the end of an epoch fewer than `all` samples remain; the parts share them evenly. */
    int64_t start = begin + weft_part_start(total, o.part, o.parts);
    batch->epoch = epoch;
    batch->done = begin + total;
    batch->size = o.slots;
    batch->drawn = o.shuffle;
    batch->seed = o.seed;
    batch->total = total;
    batch->before = start - begin;
    batch->valid = begin + weft_part_start(total, o.part + 1, o.parts) - start;
    batch->last = batch->done == count;
    batch->weight = sum_of_weights(data, &o, epoch, start, batch->valid, batch->label);
    making m = {
        .data = data, .o = &o, .batch = batch, .order = key, .start = start, .count = count};
    atomic_init(&m.wrong, -1);
    int threads = data->augment ? weft_context_threads(data->context) : 1;
    weft_parallel(WEFT_MAX(threads, data->source->threads), o.slots, 1, make_rows, &m);
    batch->wrong = atomic_load(&m.wrong);
}

/* A batch has the columns of the data set, and the weights. */
static void list_columns(const weft_dataset *data, const weft_loader_options *o, weft_batch *out)
{
    *out = (weft_batch){.columns = 0};
    while (weft_dataset_column(data, out->columns, &out->column[out->columns])) out->columns++;
    weft_column weights = {"weights", WEFT_PORT_WEIGHTS, o->real, {.rank = 0}};
    if (weft_dataset_stats(data)->positions > 0)
        weights.shape = weft_shape_of(1, (int64_t[]){weft_dataset_stats(data)->positions});
    out->weights = out->columns;
    out->column[out->columns++] = weights;
    if (o->shuffle && o->split == WEFT_TRAIN && weft_dataset_mixes(data)) {
        out->column[out->columns++] =
            (weft_column){"mixed_labels", WEFT_PORT_TARGET, WEFT_I32, {.rank = 0}};
        out->column[out->columns++] =
            (weft_column){"mixed_weights", WEFT_PORT_WEIGHTS, o->real, {.rank = 0}};
    }
}

static size_t column_bytes(const weft_batch *batch, int c, const weft_loader_options *o)
{
    return (size_t)o->slots * row_bytes(&batch->column[c]);
}

size_t weft_batch_bytes(const weft_dataset *data, const weft_loader_options *options)
{
    const weft_loader_options o = complete(options);
    weft_batch batch;
    size_t bytes = 0;
    list_columns(data, &o, &batch);
    for (int c = 0; c < batch.columns; c++) bytes += column_bytes(&batch, c, &o);
    return bytes;
}

weft_status weft_batch_open(const weft_dataset *data, const weft_loader_options *options,
                            weft_batch *out)
{
    const weft_loader_options o = complete(options);
    weft_status status = WEFT_OK;
    list_columns(data, &o, out);
    for (int c = 0; c < out->columns && status == WEFT_OK; c++)
        status = weft_new_aligned(column_bytes(out, c, &o), &out->data[c]);
    bool ignores = data->source->ignores && !data->source->unlabelled;
    if (status == WEFT_OK && (ignores || weighs_classes(data, o.split)))
        status = WEFT_NEW(&out->label, weft_source_labels(data->source));
    if (status != WEFT_OK) weft_batch_close(out);
    return status;
}

weft_status weft_batch_check(const weft_batch *batch, const weft_dataset *data, weft_split split)
{
    if (batch->wrong < 0) return WEFT_OK;
    const weft_sample_key key = {
        .seed = batch->seed, .epoch = batch->epoch, .split = split, .sample = batch->wrong};
    WEFT_TRY(weft_source_status(data->source));
    WEFT_TRY(weft_dataset_starved(data));
    WEFT_TRY(weft_dataset_check(data, split, batch->wrong, batch->wrong + 1,
                                batch->drawn ? &key : NULL));
    return weft_fail(WEFT_ERR_FORMAT,
                     "the %s part, sample %lld: an element was not usable and is now, so the file "
                     "has changed while it was read; leave it as it is during a run",
                     weft_split_name(split), (long long)batch->wrong);
}

void weft_batch_close(weft_batch *batch)
{
    for (int c = 0; c < WEFT_BATCH_COLUMNS; c++) free(batch->data[c]);
    free(batch->label);
    *batch = (weft_batch){.columns = 0};
}
