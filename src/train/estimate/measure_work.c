/* Measures what handlers of exchanges work at: passes over memory, and codecs, by all cores at
 * once, as in a run whose ranks compute beside them. */
#include <pthread.h>

#include "base/sort.h"
#include "base/registry.h"
#include "compress/compress.h"
#include "train/estimate/measure.h"
#include "train/estimate/tracks.h"

static const int64_t sizes[] = {1 << 14, 1 << 17, 1 << 20}; /* elements, of a range at most */
enum { SAMPLES = 5, MOST = 1 << 20 };
/* Elements that all threads together pass over, and those of one at least: more than caches hold.
 */
enum { ALL = 1 << 25, LEAST = 1 << 22 };

/* The work that one thread measures. */
typedef struct worker {
    weft_context *context;
    char *names; /* of codecs, with commas between them */
    float *from, *to;
    int64_t room; /* elements of each */
    uint8_t *message;
    weft_measure_end *end;
    weft_times *times; /* of the first thread; NULL: others only keep the memory busy */
    int threads;
    weft_error error;
    pthread_t thread;
} worker;

/* A number as of the change of a step: small, of either sign. */
static void fill(float *to, int64_t count)
{
    weft_random random;
    weft_random_start(&random, 1, 4);
    for (int64_t i = 0; i < count; i++) to[i] = (float)weft_random_between(&random, -1e-3, 1e-3);
}

static weft_status note(const worker *w, const char *kind, int64_t count, double *samples)
{
    /* The thread reads so much, and writes as much: see weft_actor_work in the exchanges. */
    double bytes = 2.0 * sizeof(float) * (double)count;
    const weft_timed what = {
        .kind = kind, .group = "", .threads = 1, .ranks = w->threads, .bytes = bytes};
    weft_sort_doubles(samples, SAMPLES);
    return w->times ? weft_times_add(w->times, &what, WEFT_MAX(samples[SAMPLES / 2], 1e-9))
                    : WEFT_OK;
}

/* Each sample has memory of its own, which no cache holds: a pass over a range comes when all the
 * others have been passed over. */
static weft_status time_pass(const worker *w, int64_t count)
{
    double samples[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        int64_t at = (w->room - count) / SAMPLES * s;
        double begin = weft_seconds();
        memcpy(w->to + at, w->from + at, (size_t)count * sizeof(float));
        samples[s] = weft_seconds() - begin;
    }
    return note(w, "pass", count, samples);
}

static weft_status time_codec(const worker *w, weft_codec *codec)
{
    double encodes[SAMPLES], decodes[SAMPLES];
    char kind[WEFT_TRANSFER_KIND];
    size_t bytes;
    weft_encoded message;
    for (int s = 0; s < SAMPLES; s++) {
        double begin = weft_seconds();
        WEFT_TRY(weft_codec_encode(codec, w->from, w->message, &bytes));
        encodes[s] = weft_seconds() - begin;
        begin = weft_seconds();
        WEFT_TRY(
            weft_encoded_open(w->message, bytes, codec->ops, WEFT_F32, codec->count, &message));
        weft_encoded_add(&message, codec->count, 1, w->to);
        decodes[s] = weft_seconds() - begin;
    }
    weft_codec_timed(true, codec->ops->name, kind);
    WEFT_TRY(note(w, kind, codec->count, encodes));
    weft_codec_timed(false, codec->ops->name, kind);
    return note(w, kind, codec->count, decodes);
}

/* Codecs that need arguments are left out; their time is that of passes. */
static weft_status time_codecs(const worker *w)
{
    char *names, *save = NULL;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_strdup(w->names, &names));
    for (char *n = strtok_r(names, ", ", &save); n && status == WEFT_OK;
         n = strtok_r(NULL, ", ", &save))
        for (size_t s = 0; s < WEFT_COUNT(sizes) && status == WEFT_OK; s++) {
            weft_codec *codec;
            status = weft_measure_go_on(w->end);
            if (status != WEFT_OK) break;
            if (weft_codec_open(w->context, n, WEFT_F32, sizes[s], &codec) != WEFT_OK) continue;
            status = time_codec(w, codec);
            weft_codec_close(&codec);
        }
    free(names);
    return status;
}

static weft_status measure(worker *w)
{
    w->room = WEFT_MAX((int64_t)ALL / w->threads, (int64_t)LEAST);
    size_t bytes = (size_t)w->room * sizeof(float);
    WEFT_TRY(weft_new_aligned(bytes, &w->from));
    WEFT_TRY(weft_new_aligned(bytes, &w->to));
    WEFT_TRY(weft_new_aligned(weft_encoded_bound(WEFT_F32, MOST), &w->message));
    fill(w->from, w->room);
    memset(w->to, 0, bytes);
    for (size_t s = WEFT_COUNT(sizes); s-- > 0;) {
        WEFT_TRY(weft_measure_go_on(w->end));
        WEFT_TRY(time_pass(w, sizes[s]));
    }
    return time_codecs(w);
}

static void *run(void *user)
{
    worker *w = user;
    weft_error_catch(&w->error, measure(w));
    free(w->from);
    free(w->to);
    free(w->message);
    return NULL;
}

static bool any(const weft_entry *entry, const void *what)
{
    return entry && !what;
}

weft_status weft_measure_work(weft_context *context, int threads, weft_measure_end *end,
                              weft_times *times)
{
    worker *all;
    char *names = NULL;
    int started = 0;
    WEFT_TRY(WEFT_NEW(&all, threads));
    weft_status status = weft_registry_names(context, WEFT_KIND_CODEC, any, NULL, &names);
    for (; started < threads && status == WEFT_OK; started++) {
        all[started] = (worker){.context = context,
                                .names = names,
                                .end = end,
                                .times = started == 0 ? times : NULL,
                                .threads = threads};
        status = weft_thread_start(&all[started].thread, run, &all[started]);
        if (status != WEFT_OK) break;
    }
    for (int i = 0; i < started; i++) pthread_join(all[i].thread, NULL);
    for (int i = 0; i < started && status == WEFT_OK; i++) status = weft_error_raise(&all[i].error);
    free(names);
    free(all);
    return status;
}
