/* Batches, made ahead by a thread of their own. What stands in a batch is a function of the seed,
 * the epoch and how many samples of it came before, so a loader has no other state that would have
 * to be saved. */
#include <pthread.h>

#include "data/data.h"

enum { SLOTS = 3 }; /* one in use, one ready, one being made */

struct weft_loader {
    const weft_dataset *dataset;
    weft_loader_options options;
    int64_t count; /* samples */
    weft_batch slots[SLOTS];
    int64_t ready, taken; /* batches made and handed out so far */
    bool ended, stopped, holding;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

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

/* The weights are the last column. */
static void put_weight(weft_batch *batch, int64_t i, double weight)
{
    const weft_column *c = &batch->column[batch->columns - 1];
    void *all = batch->data[batch->columns - 1];
    if (c->dtype == WEFT_F64)
        ((double *)all)[i] = weight;
    else
        ((float *)all)[i] = (float)weight;
}

/* Of all samples of the batch, whichever rows are asked for: every rank comes to the same sum. */
static double sum_of_weights(const weft_loader *l, uint64_t key, int64_t start, int64_t valid)
{
    double sum = 0;
    if (!weft_dataset_weighted(l->dataset)) return (double)valid;
    for (int64_t i = start; i < start + valid; i++) {
        int64_t which = l->options.shuffle ? weft_permute(key, l->count, i) : i;
        sum += weft_dataset_weight(l->dataset, l->options.split, which);
    }
    return sum;
}

static void make_batch(const weft_loader *l, int64_t epoch, int64_t begin, weft_batch *batch)
{
    uint64_t key = weft_mix(l->options.seed, (uint64_t)epoch);
    int64_t size = l->options.slots, all = l->options.batch * l->options.parts;
    int64_t total = WEFT_MIN(all, l->count - begin);
    /* What is left at the end of an epoch is shared out evenly. */
    int64_t start = begin + weft_part_start(total, l->options.part, l->options.parts);
    batch->epoch = epoch;
    batch->done = begin + total;
    batch->size = size;
    batch->total = total;
    batch->valid = begin + weft_part_start(total, l->options.part + 1, l->options.parts) - start;
    batch->last = batch->done == l->count;
    batch->weight = sum_of_weights(l, key, start, batch->valid);
    for (int64_t i = 0; i < size; i++) {
        int64_t row = i % l->options.micro;
        if (row < l->options.first || row >= l->options.first + l->options.rows) continue;
        if (i >= batch->valid) {
            for (int c = 0; c < batch->columns - 1; c++)
                memset((void *)(uintptr_t)weft_batch_rows(batch, c, i), 0,
                       row_bytes(&batch->column[c]));
            put_weight(batch, i, 0);
            continue;
        }
        int64_t which = l->options.shuffle ? weft_permute(key, l->count, start + i) : start + i;
        for (int c = 0; c < batch->columns - 1; c++)
            weft_dataset_read(l->dataset, l->options.split, which, c,
                              (void *)(uintptr_t)weft_batch_rows(batch, c, i));
        double weight = weft_dataset_weight(l->dataset, l->options.split, which);
        put_weight(batch, i, batch->weight > 0 ? weight / batch->weight : 0);
    }
}

static void *work(void *user)
{
    weft_loader *l = user;
    int64_t epoch = l->options.epoch, begin = l->options.done;
    int64_t all = l->options.batch * l->options.parts;
    for (;;) {
        if (begin >= l->count) {
            epoch++;
            begin = 0;
        }
        pthread_mutex_lock(&l->lock);
        while (!l->stopped && l->ready - l->taken + l->holding >= SLOTS)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->stopped || epoch >= l->options.epochs) break;
        weft_batch *slot = &l->slots[l->ready % SLOTS];
        pthread_mutex_unlock(&l->lock);
        make_batch(l, epoch, begin, slot);
        begin += all;
        pthread_mutex_lock(&l->lock);
        l->ready++;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
    l->ended = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void loader_free(weft_loader *l)
{
    for (int i = 0; i < SLOTS; i++)
        for (int c = 0; c < WEFT_BATCH_COLUMNS; c++) free(l->slots[i].data[c]);
    free(l);
}

/* The columns of the data set, and the weights. */
static weft_status make_slot(const weft_loader *l, weft_batch *batch)
{
    while (weft_dataset_column(l->dataset, batch->columns, &batch->column[batch->columns]))
        batch->columns++;
    batch->column[batch->columns++] =
        (weft_column){"weights", WEFT_PORT_WEIGHTS, l->options.real, {.rank = 0}};
    for (int c = 0; c < batch->columns; c++)
        WEFT_TRY(weft_new_aligned((size_t)l->options.slots * row_bytes(&batch->column[c]),
                                  &batch->data[c]));
    return WEFT_OK;
}

weft_status weft_loader_start(const weft_dataset *dataset, const weft_loader_options *options,
                              weft_loader **out)
{
    weft_loader *l;
    WEFT_TRY(WEFT_NEW(&l, 1));
    l->dataset = dataset;
    l->options = *options;
    l->count = weft_dataset_count(dataset, options->split);
    if (l->options.slots == 0) l->options.slots = options->batch;
    if (l->options.parts == 0) l->options.parts = 1;
    if (l->options.micro == 0) {
        l->options.micro = l->options.rows = l->options.slots;
        l->options.first = 0;
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < SLOTS && status == WEFT_OK; i++) status = make_slot(l, &l->slots[i]);
    if (status == WEFT_OK) {
        pthread_mutex_init(&l->lock, NULL);
        pthread_cond_init(&l->changed, NULL);
        status = weft_thread_start(&l->thread, work, l);
        if (status == WEFT_OK) {
            *out = l;
            return WEFT_OK;
        }
        pthread_mutex_destroy(&l->lock);
        pthread_cond_destroy(&l->changed);
    }
    loader_free(l);
    return status;
}

const weft_batch *weft_loader_next(weft_loader *l)
{
    const weft_batch *batch = NULL;
    pthread_mutex_lock(&l->lock);
    l->holding = false; /* the batch handed out last may be made anew */
    pthread_cond_signal(&l->changed);
    while (l->ready == l->taken && !l->ended) pthread_cond_wait(&l->changed, &l->lock);
    if (l->ready > l->taken) {
        batch = &l->slots[l->taken++ % SLOTS];
        l->holding = true;
    }
    pthread_mutex_unlock(&l->lock);
    return batch;
}

void weft_loader_stop(weft_loader **loader)
{
    if (!loader || !*loader) return;
    weft_loader *l = *loader;
    pthread_mutex_lock(&l->lock);
    l->stopped = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    loader_free(l);
    *loader = NULL;
}
