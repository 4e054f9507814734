/* Runs a function on every rank of an engine. Ranks are threads of this process or, if mpirun has
 * started it, this process is one rank. cmocka's asserts work in one thread only, so ranks count
 * their failed checks (rank_check, rank_ok) instead. */
#ifndef WEFT_TESTS_RANKS_H
#define WEFT_TESTS_RANKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "support.h"

static _Atomic int rank_failures;
/* A check of this thread's rank has failed; it then aborts the communicator, so that no rank
 * waits. */
static _Thread_local bool rank_failed;

#define rank_check(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            atomic_fetch_add(&rank_failures, 1);                                                   \
            rank_failed = true;                                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)
#define rank_ok(call)                                                                              \
    do {                                                                                           \
        if ((call) != WEFT_OK) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, weft_last_message());    \
            atomic_fetch_add(&rank_failures, 1);                                                   \
            rank_failed = true;                                                                    \
            return;                                                                                \
        }                                                                                          \
    } while (0)

typedef struct rank_call {
    weft_comm *comm;
    void (*fn)(weft_comm *comm, void *user);
    void *user;
    pthread_t thread;
} rank_call;

static void *rank_thread(void *user)
{
    rank_call *call = user;
    rank_failed = false;
    call->fn(call->comm, call->user);
    if (rank_failed) weft_comm_abort(call->comm);
    return NULL;
}

/* Runs fn on all ranks; returns the number of failed checks. ranks 0: as many as the engine has. */
static inline int failures_on_ranks(const char *engine, int ranks, void (*fn)(weft_comm *, void *),
                                    void *user)
{
    weft_context *own;
    weft_comm *comms[WEFT_MAX_RANKS];
    static rank_call calls[WEFT_MAX_RANKS];
    int local = 0;
    atomic_store(&rank_failures, 0);
    assert_ok(weft_context_create(&own));
    if (strchr(engine, '/')) assert_ok(weft_plugin_load(own, engine));
    assert_ok(weft_comm_open(own, engine, ranks, comms, &local));
    for (int i = 0; i < local; i++) {
        weft_comm_set_timeout(comms[i], 60);
        calls[i] = (rank_call){.comm = comms[i], .fn = fn, .user = user};
        if (i > 0)
            assert_int_equal(pthread_create(&calls[i].thread, NULL, rank_thread, &calls[i]), 0);
    }
    (void)rank_thread(&calls[0]);
    for (int i = 1; i < local; i++) pthread_join(calls[i].thread, NULL);
    for (int i = 0; i < local; i++) weft_comm_close(&comms[i]);
    weft_context_destroy(&own);
    return atomic_load(&rank_failures);
}

static inline void on_ranks(const char *engine, int ranks, void (*fn)(weft_comm *, void *),
                            void *user)
{
    int failures = failures_on_ranks(engine, ranks, fn, user);
    if (failures) fail_msg("%d checks failed", failures);
}

/* Ends this process of an MPI job in which ranks have failed, with exit code 0. mpirun kills all
 * ranks as soon as one ends without MPI_Finalize. So each rank creates a file in the job's folder
 * (WEFT_MEET, see tests/comm/under-mpi), and waits up to 10 seconds for the others' files before it
 * ends. */
static inline void end_together(const weft_comm *c)
{
    const char *folder = getenv("WEFT_MEET");
    char path[512];
    int there = 0, ranks = weft_comm_size(c);
    fflush(stdout);
    (void)snprintf(path, sizeof(path), "%s/%d", folder ? folder : "/nonexistent",
                   weft_comm_rank(c));
    FILE *mine = fopen(path, "w");
    if (!mine) _exit(1);
    (void)fclose(mine);
    for (int tries = 0; tries < 1000 && there < ranks; tries++) {
        (void)usleep(10000);
        for (there = 0; there < ranks; there++) {
            (void)snprintf(path, sizeof(path), "%s/%d", folder, there);
            if (access(path, F_OK) != 0) break;
        }
    }
    _exit(0);
}

#endif
