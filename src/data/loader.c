/* The loader: a thread that makes the next batches ahead (prefetch) into a ring of slots. */
#include <pthread.h>

#include "data/loader.h"

enum { SLOTS = 3 }; /* one in use, one ready, one being made */

struct weft_loader {
    const weft_dataset *dataset;
    weft_loader_options options;
    int64_t count; /* number of samples */
    weft_batch slots[SLOTS];
    int64_t ready, taken; /* number of batches made, and returned, so far */
    bool ended, stopped, holding;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void *load_batches(void *user)
{
    weft_loader *l = user;
    int64_t epoch = l->options.epoch, begin = l->options.done;
    int64_t all = l->options.batch * WEFT_MAX(l->options.parts, 1);
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
        weft_batch_make(l->dataset, &l->options, epoch, begin, slot);
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
    for (int i = 0; i < SLOTS; i++) weft_batch_close(&l->slots[i]);
    free(l);
}

size_t weft_loader_bytes(const weft_dataset *dataset, const weft_loader_options *options)
{
    return SLOTS * weft_batch_bytes(dataset, options);
}

weft_status weft_loader_start(const weft_dataset *dataset, const weft_loader_options *options,
                              weft_loader **out)
{
    weft_loader *l;
    WEFT_TRY(WEFT_NEW(&l, 1));
    l->dataset = dataset;
    l->options = *options;
    l->count = weft_dataset_count(dataset, options->split);
    weft_status status = WEFT_OK;
    for (int i = 0; i < SLOTS && status == WEFT_OK; i++)
        status = weft_batch_open(dataset, options, &l->slots[i]);
    if (status == WEFT_OK) {
        pthread_mutex_init(&l->lock, NULL);
        pthread_cond_init(&l->changed, NULL);
        status = weft_thread_start(&l->thread, load_batches, l);
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
    l->holding = false; /* the thread may overwrite the batch that was returned last */
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
