/* The history of the status page: samples of the statistics of the batch queues, which themselves
 * have only totals. The loop takes a sample every two seconds, and the page when it is rendered. */
#include <stdio.h>

#include "serve/front/page.h"

enum { MOST_VERSIONS = 256 };

struct weft_history {
    pthread_mutex_t lock;
    double began;
    weft_version_history **versions;
    size_t capacity;
    int count;
};

weft_status weft_history_create(weft_history **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->began = weft_seconds();
    return WEFT_OK;
}

void weft_history_free(weft_history **history)
{
    if (!history || !*history) return;
    for (int i = 0; i < (*history)->count; i++) {
        free((*history)->versions[i]->samples);
        free((*history)->versions[i]);
    }
    free((*history)->versions);
    pthread_mutex_destroy(&(*history)->lock);
    free(*history);
    *history = NULL;
}

double weft_history_lock(weft_history *history)
{
    pthread_mutex_lock(&history->lock);
    return history->began;
}

void weft_history_unlock(weft_history *history)
{
    pthread_mutex_unlock(&history->lock);
}

static weft_version_history *find(const weft_history *h, const char *name, int64_t version)
{
    for (int i = 0; i < h->count; i++)
        if (h->versions[i]->version == version && strcmp(h->versions[i]->name, name) == 0)
            return h->versions[i];
    return NULL;
}

static double last_time(const weft_version_history *p)
{
    return p->count ? weft_version_history_sample(p, p->count - 1)->at : 0;
}

/* Adds the history of a version. The history whose last sample is the oldest one is replaced if
 * that is older than the charts, as after a version has ended, or if there are MOST_VERSIONS. */
static weft_status make(weft_history *h, double now, weft_version_history **out)
{
    weft_version_history *oldest = NULL;
    for (int i = 0; i < h->count; i++)
        if (!oldest || last_time(h->versions[i]) < last_time(oldest)) oldest = h->versions[i];
    bool replace = oldest && now - last_time(oldest) > WEFT_HISTORY_SECONDS;
    if (!replace && h->count < MOST_VERSIONS) {
        WEFT_TRY(WEFT_GROW(&h->versions, &h->capacity, h->count));
        WEFT_TRY(WEFT_NEW(&h->versions[h->count], 1));
        *out = h->versions[h->count++];
        return WEFT_OK;
    }
    *out = oldest;
    *oldest = (weft_version_history){.samples = oldest->samples, .capacity = oldest->capacity};
    return WEFT_OK;
}

const weft_history_sample *weft_version_history_sample(const weft_version_history *history, int i)
{
    return &history->samples[(history->first + i) % WEFT_HISTORY_SAMPLES];
}

weft_status weft_history_add(weft_history *h, const char *name, int64_t version, double now,
                             const weft_batch_queue_stats *stats,
                             const weft_version_history **history)
{
    /* With this interval the ring of samples just covers the time that the charts show. */
    const double apart = 0.9 * WEFT_HISTORY_SECONDS / WEFT_HISTORY_SAMPLES;
    weft_version_history *p = find(h, name, version);
    if (!p) {
        WEFT_TRY(make(h, now, &p));
        (void)snprintf(p->name, sizeof(p->name), "%s", name);
        p->version = version;
    }
    *history = p;
    /* A version whose counts have fallen was loaded anew under the same number; its samples are
     * dropped. */
    if (p->count > 0 &&
        weft_version_history_sample(p, p->count - 1)->stats.batches > stats->batches)
        p->count = 0;
    if (p->count > 0 && now - weft_version_history_sample(p, p->count - 1)->at < apart)
        return WEFT_OK;
    if (p->count == WEFT_HISTORY_SAMPLES) {
        p->first = (p->first + 1) % WEFT_HISTORY_SAMPLES;
    } else {
        WEFT_TRY(WEFT_GROW(&p->samples, &p->capacity, p->count));
        p->count++;
    }
    p->samples[(p->first + p->count - 1) % WEFT_HISTORY_SAMPLES] =
        (weft_history_sample){.at = now, .stats = *stats};
    return WEFT_OK;
}

void weft_history_sample_all(weft_history *h, weft_service *service, double now)
{
    weft_service_item item;
    weft_status status = WEFT_OK; /* without memory for a sample, the page shows less */
    weft_history_lock(h);
    for (int i = 0; status == WEFT_OK && weft_service_entry(service, i, &item); i++) {
        const weft_version_history *samples;
        weft_batch_queue_stats stats;
        weft_servable *servable = weft_service_hold_entry(service, i);
        if (!servable) continue;
        weft_servable_info about;
        weft_servable_describe(servable, &about);
        weft_batch_queue_describe(weft_servable_queue(servable), &stats);
        status = weft_history_add(h, about.name, about.version, now, &stats, &samples);
        weft_servable_release(&servable);
    }
    weft_history_unlock(h);
}

void weft_history_difference(const weft_batch_queue_stats *before,
                             const weft_batch_queue_stats *after, weft_batch_queue_stats *out)
{
    *out = (weft_batch_queue_stats){.requests = after->requests - before->requests,
                                    .rows = after->rows - before->rows,
                                    .failed = after->failed - before->failed,
                                    .expired = after->expired - before->expired,
                                    .refused = after->refused - before->refused,
                                    .cancelled = after->cancelled - before->cancelled,
                                    .batches = after->batches - before->batches,
                                    .queue_seconds = after->queue_seconds - before->queue_seconds,
                                    .compute_seconds =
                                        after->compute_seconds - before->compute_seconds};
    for (int i = 0; i < WEFT_LATENCY_CELLS; i++)
        out->latency[i] = after->latency[i] - before->latency[i];
    for (int i = 0; i < WEFT_BATCH_CELLS; i++) out->batch[i] = after->batch[i] - before->batch[i];
}
