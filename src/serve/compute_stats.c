/* Statistics of computed batches: counts, and the seconds spent on inputs, computation and outputs,
 * in total and for each number of rows. */
#include <time.h>

#include "serve/servable.h"

struct weft_compute_stats {
    pthread_mutex_t lock;
    weft_compute_times total; /* over requests; each is charged the whole time of its batch */
    double last;
    int64_t limit;
    weft_compute_times *sizes; /* [limit + 1]: over batches, by the rows of a batch */
};

weft_status weft_compute_stats_create(int64_t limit, weft_compute_stats **out)
{
    weft_compute_stats *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_status status = WEFT_NEW(&s->sizes, limit + 1);
    if (status != WEFT_OK) {
        free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->limit = limit;
    *out = s;
    return WEFT_OK;
}

void weft_compute_stats_free(weft_compute_stats **stats)
{
    if (!stats || !*stats) return;
    pthread_mutex_destroy(&(*stats)->lock);
    free((*stats)->sizes);
    free(*stats);
    *stats = NULL;
}

static void add(weft_compute_times *t, int64_t rows, int count, const double *at)
{
    t->rows += rows;
    t->count += count;
    t->input += count * (at[1] - at[0]);
    t->infer += count * (at[2] - at[1]);
    t->output += count * (at[3] - at[2]);
}

void weft_compute_stats_add(weft_compute_stats *s, int64_t rows, int requests, const double *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&s->lock);
    add(&s->total, rows, requests, at);
    if (rows >= 1 && rows <= s->limit) add(&s->sizes[rows], rows, 1, at);
    s->last = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    pthread_mutex_unlock(&s->lock);
}

bool weft_compute_stats_size(weft_compute_stats *s, int i, weft_compute_times *out)
{
    pthread_mutex_lock(&s->lock);
    int64_t rows = 0;
    for (int seen = -1; rows <= s->limit && seen < i;)
        if (++rows <= s->limit) seen += s->sizes[rows].count > 0;
    bool there = rows <= s->limit;
    if (there) {
        *out = s->sizes[rows];
        out->rows = rows;
    }
    pthread_mutex_unlock(&s->lock);
    return there;
}

void weft_compute_stats_total(weft_compute_stats *s, weft_compute_times *out, double *last)
{
    pthread_mutex_lock(&s->lock);
    *out = s->total;
    *last = s->last;
    pthread_mutex_unlock(&s->lock);
}

weft_compute_stats *weft_servable_compute_stats(const weft_servable *servable)
{
    return servable->compute_stats;
}
