/* Measures the all-reduce of 1 KiB to 64 MiB (or of FIRST to LAST bytes) between ranks. "weft_comm
 * [RANKS [FIRST LAST]]" runs it on threads. Under mpirun, "weft_comm mpi [FIRST LAST]" compares the
 * engine mpi with MPI itself: with MPI_Allreduce, and with MPI_Iallreduce and MPI_Test, since a
 * rank that must notice that another one has aborted cannot block in MPI until the end. All take
 * turns. A ratio is the median over the rounds of the ratio in each round, so that other work of
 * the machine disturbs both sides alike. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/weft.h"
#ifdef WEFT_MPI
#include <mpi.h>
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct rank {
    weft_comm *comm;
    bool mpi;
    int64_t first, last; /* bytes */
    pthread_t thread;
} rank;

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_message());
    exit(1);
}

#ifdef WEFT_MPI
static void by_mpi(float *data, int64_t count, bool blocking)
{
    MPI_Request request;
    int done = blocking;
    if (blocking)
        MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Iallreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       &request);
    while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}
#endif

enum { OURS, BLOCKING, TESTED, KINDS };

enum { ROUNDS = 60 };

static double median_of(const double *times, const double *against)
{
    double all[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) all[i] = against ? times[i] / against[i] : times[i];
    qsort(all, ROUNDS, sizeof(double), ascending);
    return all[ROUNDS / 2];
}

/* Fills times[kind][round] with the seconds of one all-reduce by each kind: this library's and
 * those of MPI, which are nearly 0 without MPI. */
static void measure(const rank *r, int64_t count, double times[KINDS][ROUNDS])
{
    float *data = aligned_alloc(64, (size_t)(count * 4 + 63) / 64 * 64);
    weft_operation *o;
    for (int64_t i = 0; i < count; i++) data[i] = 1;
    check(weft_comm_prepare(
        r->comm,
        WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .send = data, .receive = data, .count = count), &o));
    int inner = count < 4096 ? 50 : 1;
    for (int i = 0; i < ROUNDS; i++)
        for (int turn = 0; turn < KINDS; turn++) {
            int k = (i + turn) % KINDS;         /* the kinds take turns in going first */
            memset(data, 0, (size_t)count * 4); /* in the cache, as a gradient just written */
            check(weft_comm_barrier(r->comm));
            double start = now();
            for (int j = 0; j < inner; j++) {
                if (k == OURS) {
                    check(weft_operation_start(o));
                    check(weft_operation_wait(o));
                }
#ifdef WEFT_MPI
                if (k != OURS && r->mpi) by_mpi(data, count, k == BLOCKING);
#endif
            }
            times[k][i] = (now() - start) / inner;
        }
    weft_operation_destroy(&o);
    free(data);
}

static void *run(void *user)
{
    const rank *r = user;
    for (int64_t bytes = r->first; bytes <= r->last; bytes *= 2) {
        double t[KINDS][ROUNDS];
        measure(r, bytes / 4, t);
        if (weft_comm_rank(r->comm) != 0) continue;
        printf("%9lld bytes  %10.1f us", (long long)bytes, median_of(t[OURS], NULL) * 1e6);
        if (r->mpi)
            printf("  MPI itself %10.1f us  ratio %.2f  tested %10.1f us  ratio %.2f",
                   median_of(t[BLOCKING], NULL) * 1e6, median_of(t[OURS], t[BLOCKING]),
                   median_of(t[TESTED], NULL) * 1e6, median_of(t[OURS], t[TESTED]));
        printf("\n");
        fflush(stdout);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bool mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
    int ranks = argc > 1 && !mpi ? atoi(argv[1]) : 2, local;
    int64_t first = argc > 3 ? atoll(argv[2]) : 1024, last = argc > 3 ? atoll(argv[3]) : 64 << 20;
    weft_context *context;
    static weft_comm *comms[WEFT_MAX_RANKS];
    static rank all[WEFT_MAX_RANKS];
    check(weft_context_create(&context));
    check(weft_comm_open(context, mpi ? "mpi" : "threads", mpi ? 0 : ranks, comms, &local));
    for (int i = 0; i < local; i++) {
        all[i] = (rank){.comm = comms[i], .mpi = mpi, .first = first, .last = last};
        if (i > 0) pthread_create(&all[i].thread, NULL, run, &all[i]);
    }
    run(&all[0]);
    for (int i = 1; i < local; i++) pthread_join(all[i].thread, NULL);
    for (int i = 0; i < local; i++) weft_comm_close(&comms[i]);
    weft_context_destroy(&context);
    return 0;
}
