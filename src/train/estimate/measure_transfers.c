/* Measures transfers between ranks: how long a collective takes that all ranks enter at once. */
#include <pthread.h>
#include <stdio.h>

#include "base/sort.h"
#include "train/estimate/measure.h"
#include "train/estimate/tracks.h"

static const int64_t sizes[] = {8, 1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 21};
static const struct {
    weft_transfer_kind kind;
    weft_dtype dtype; /* sums of bf16 round each number */
} kinds[] = {{WEFT_ALL_REDUCE, WEFT_F32},     {WEFT_ALL_REDUCE, WEFT_BF16},
             {WEFT_REDUCE_SCATTER, WEFT_F32}, {WEFT_REDUCE_SCATTER, WEFT_BF16},
             {WEFT_ALL_GATHER, WEFT_F32},     {WEFT_ALL_TO_ALL, WEFT_F32},
             {WEFT_RECEIVE, WEFT_F32}};
enum { SAMPLES = 7, REPEATS = 20, SHORT = 1 << 14, MOST = 1 << 21 };
enum { ALL = 1 << 24 }; /* elements of all ranks together: more than caches hold */

typedef struct party {
    weft_comm *comm;
    float *send, *receive;
    int64_t room; /* elements of each */
    weft_measure_end *end;
    double seconds[WEFT_COUNT(kinds)][WEFT_COUNT(sizes)];
    weft_status status;
    weft_error error;
    pthread_t thread;
} party;

/* The transfer of row k of `kinds` in which this rank handles `count` elements. A message goes from
 * each even rank to the next one. */
static weft_transfer transfer_of(const party *p, size_t k, int64_t count)
{
    weft_transfer_kind kind = kinds[k].kind;
    int n = weft_comm_size(p->comm), me = weft_comm_rank(p->comm);
    weft_transfer x = {.kind = kind,
                       .dtype = kinds[k].dtype,
                       .what = "a measured transfer",
                       .send = p->send,
                       .receive = p->receive,
                       .count = count};
    if (kind != WEFT_ALL_REDUCE && kind != WEFT_RECEIVE) x.count = WEFT_MAX(count / n, (int64_t)1);
    if (kind == WEFT_RECEIVE && me % 2 == 0) x.kind = WEFT_SEND;
    x.peer = kind == WEFT_RECEIVE ? me ^ 1 : 0;
    return x;
}

/* Large transfers find their data where a step leaves them: written by their rank, and in no cache
 * any more, since each sample has memory of its own, and the others were passed over before. */
static weft_status time_cold(party *p, size_t k, int64_t count, double *samples, int *taken)
{
    weft_transfer x = transfer_of(p, k, count);
    bool takes_part = kinds[k].kind != WEFT_RECEIVE || x.peer < weft_comm_size(p->comm);
    *taken = (int)WEFT_MIN(p->room / count, (int64_t)SAMPLES);
    memset(p->send, 0, (size_t)p->room * sizeof(float));
    memset(p->receive, 0, (size_t)p->room * sizeof(float));
    for (int s = 0; s < *taken; s++) {
        x.send = p->send + s * count; /* of f32, in which bf16 has room, too */
        x.receive = p->receive + s * count;
        WEFT_TRY(weft_comm_barrier(p->comm));
        double begin = weft_seconds();
        if (takes_part) WEFT_TRY(weft_comm_run(p->comm, &x));
        samples[s] = weft_seconds() - begin;
    }
    return WEFT_OK;
}

/* Short transfers take less than ranks leave a barrier apart, so several follow each other. */
static weft_status time_repeated(const party *p, size_t k, int64_t count, double *samples)
{
    weft_transfer x = transfer_of(p, k, count);
    bool takes_part = kinds[k].kind != WEFT_RECEIVE || x.peer < weft_comm_size(p->comm);
    for (int s = 0; s < SAMPLES; s++) {
        WEFT_TRY(weft_comm_barrier(p->comm));
        double begin = weft_seconds();
        for (int i = 0; i < REPEATS && takes_part; i++) WEFT_TRY(weft_comm_run(p->comm, &x));
        samples[s] = (weft_seconds() - begin) / REPEATS;
    }
    return WEFT_OK;
}

static weft_status time_transfer(party *p, size_t k, int64_t count, double *out)
{
    double samples[SAMPLES];
    int taken = SAMPLES;
    WEFT_TRY(count < SHORT ? time_repeated(p, k, count, samples)
                           : time_cold(p, k, count, samples, &taken));
    weft_sort_doubles(samples, (size_t)taken);
    *out = samples[taken / 2];
    return WEFT_OK;
}

static weft_status measure_all(party *p)
{
    p->room = WEFT_MAX((int64_t)ALL / weft_comm_size(p->comm), (int64_t)MOST);
    WEFT_TRY(weft_new_aligned((size_t)p->room * sizeof(float), &p->send));
    WEFT_TRY(weft_new_aligned((size_t)p->room * sizeof(float), &p->receive));
    memset(p->send, 0, (size_t)p->room * sizeof(float));
    memset(p->receive, 0, (size_t)p->room * sizeof(float));
    for (size_t k = 0; k < WEFT_COUNT(kinds); k++)
        for (size_t s = 0; s < WEFT_COUNT(sizes); s++) {
            WEFT_TRY(weft_measure_go_on(p->end));
            WEFT_TRY(time_transfer(p, k, sizes[s], &p->seconds[k][s]));
        }
    return WEFT_OK;
}

static void *run_party(void *user)
{
    party *p = user;
    p->status = measure_all(p);
    if (p->status == WEFT_OK) return NULL;
    weft_error_catch(&p->error, p->status);
    weft_comm_abort(p->comm);
    return NULL;
}

static weft_status run_parties(party *all, int ranks)
{
    int started = 0;
    weft_status status = WEFT_OK;
    for (; started < ranks && status == WEFT_OK; started++)
        status = weft_thread_start(&all[started].thread, run_party, &all[started]);
    if (status != WEFT_OK) weft_comm_abort(all[0].comm);
    if (status != WEFT_OK) started--;
    for (int r = 0; r < started; r++) pthread_join(all[r].thread, NULL);
    /* The error of a rank comes before those of the ranks that it has left waiting. */
    for (int r = 0; r < started; r++)
        if (all[r].status != WEFT_OK && (status == WEFT_OK || status == WEFT_ERR_PEER))
            status = weft_error_raise(&all[r].error);
    return status;
}

/* The bytes that a rank sends, as programs count them. */
static double sent_bytes(size_t k, int64_t count, int ranks)
{
    double bytes = (double)count * (double)weft_dtype_size(kinds[k].dtype), others = ranks - 1;
    switch (kinds[k].kind) {
    case WEFT_ALL_REDUCE: return 2 * bytes * others / ranks;
    case WEFT_ALL_GATHER: return bytes * others / ranks;
    case WEFT_RECEIVE: return bytes;
    default: return bytes * others / ranks;
    }
}

static weft_status add_all(const party *p, const char *engine, weft_times *times)
{
    int ranks = weft_comm_size(p->comm);
    char kind[WEFT_TRANSFER_KIND];
    for (size_t k = 0; k < WEFT_COUNT(kinds); k++)
        for (size_t s = 0; s < WEFT_COUNT(sizes); s++) {
            weft_transfer_timed(kinds[k].kind, kinds[k].dtype, engine, kind);
            const weft_timed what = {.kind = kind,
                                     .group = "",
                                     .threads = 1,
                                     .ranks = ranks,
                                     .bytes = sent_bytes(k, sizes[s], ranks)};
            WEFT_TRY(weft_times_add(times, &what, WEFT_MAX(p->seconds[k][s], 1e-9)));
        }
    return WEFT_OK;
}

static weft_status measure(party *all, int local, const char *engine, weft_times *times,
                           bool *first)
{
    *first = weft_comm_rank(all[0].comm) == 0;
    if (weft_comm_size(all[0].comm) < 2) return WEFT_OK;
    WEFT_TRY(run_parties(all, local));
    return add_all(&all[local - 1], engine, times);
}

weft_status weft_measure_transfers(weft_context *context, const char *engine, int ranks,
                                   weft_measure_end *end, weft_times *times, bool *first)
{
    weft_comm **comms = NULL;
    party *all = NULL;
    int local = 0;
    *first = false;
    WEFT_TRY(WEFT_NEW(&comms, WEFT_MAX_RANKS));
    weft_status status = weft_comm_open(context, engine, ranks, comms, &local);
    if (status == WEFT_OK) status = WEFT_NEW(&all, local);
    for (int r = 0; r < local && status == WEFT_OK; r++)
        all[r] = (party){.comm = comms[r], .end = end};
    if (status == WEFT_OK) status = measure(all, local, engine, times, first);
    for (int r = 0; r < local; r++) {
        weft_comm_close(&comms[r]);
        if (all) free(all[r].send);
        if (all) free(all[r].receive);
    }
    free((void *)comms);
    free(all);
    return status;
}
