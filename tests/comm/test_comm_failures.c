/* Ranks that make transfers which do not match, or that fail: all other ranks fail soon with an
 * error that says why, and none hangs. The engines are self and threads. Under mpirun,
 * "test_comm_failures mpi NAME" runs one case, since the job ends with it, and each rank that saw
 * the expected error prints "as expected". */
#include <time.h>

#include "ranks.h"

enum { RANKS = 3 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_for(double seconds)
{
    for (double end = now() + seconds; now() < end;)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool says(const char *words)
{
    if (strstr(weft_last_message(), words)) return true;
    fprintf(stderr, "'%s' does not hold '%s'\n", weft_last_message(), words);
    return false;
}

static weft_status sum(weft_comm *c, const char *what, weft_dtype dtype, int64_t count)
{
    int64_t x[300] = {0};
    return weft_comm_run(c, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                             .dtype = dtype,
                                             .what = what,
                                             .send = x,
                                             .receive = x,
                                             .count = count});
}

/* Rank 2 does not take part in a sum: the other ranks time out and name it. */
static void missing(weft_comm *c)
{
    weft_comm_set_timeout(c, 0.3);
    if (weft_comm_rank(c) == 2) {
        sleep_for(2);
        return;
    }
    rank_check(sum(c, "fc1/weight", WEFT_F32, 300) == WEFT_ERR_PEER);
    /* A rank whose job was ended by another rank repeats that rank's message. */
    rank_check(says("fc1/weight") && says("missing: 2"));
    rank_check(says(strstr(weft_last_message(), "collective")
                        ? "(collective 0): ranks that are in it: "
                        : "; ranks that wait: "));
}

/* With checks on, a difference between the transfers of two ranks is found before any data are
 * sent, and the error names both. */
static void differs(weft_comm *c, weft_status status)
{
    if (status != WEFT_OK) weft_comm_abort(c);
    rank_check(status == WEFT_ERR_PEER);
    rank_check(says("does not match: rank "));
}

static void other_count(weft_comm *c)
{
    weft_comm_set_check(c, true);
    differs(c, sum(c, "a", WEFT_F32, weft_comm_rank(c) == 1 ? 299 : 300));
}

static void other_dtype(weft_comm *c)
{
    weft_comm_set_check(c, true);
    rank_ok(sum(c, "what is alike", WEFT_F32, 300));
    differs(c, sum(c, "a", weft_comm_rank(c) == 1 ? WEFT_I32 : WEFT_F32, 300));
}

static void other_kind(weft_comm *c)
{
    weft_comm_set_check(c, true);
    differs(c, weft_comm_rank(c) == 1 ? weft_comm_barrier(c) : sum(c, "a", WEFT_F32, 0));
}

/* Sums over different numbers of leaves; the error describes both transfers in full. */
static void other_leaves(weft_comm *c)
{
    float x[4] = {0};
    weft_comm_set_check(c, true);
    differs(c, weft_comm_run(c, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                 .dtype = WEFT_F32,
                                                 .what = "a",
                                                 .send = x,
                                                 .receive = x,
                                                 .count = 4,
                                                 .leaves = weft_comm_rank(c) == 1 ? 6 : 3}));
    rank_check(says("(4 f32, 6 leaves)") && says("(4 f32, 3 leaves)"));
}

static void other_root(weft_comm *c)
{
    float x[5] = {0};
    weft_comm_set_check(c, true);
    differs(c, weft_comm_run(c, &(weft_transfer){.kind = WEFT_BROADCAST,
                                                 .receive = x,
                                                 .count = 5,
                                                 .peer = weft_comm_rank(c) == 1}));
}

static void other_collector(weft_comm *c)
{
    float x[4] = {0}, y[12] = {0};
    const int64_t counts[RANKS] = {4, 4, 4};
    weft_comm_set_check(c, true);
    differs(c, weft_comm_run(c, &(weft_transfer){.kind = WEFT_GATHER,
                                                 .what = "a",
                                                 .send = x,
                                                 .receive = y,
                                                 .counts = counts,
                                                 .peer = weft_comm_rank(c) == 1}));
    rank_check(says("4 + 4 + 4 to rank 0)") && says("4 + 4 + 4 to rank 1)"));
}

static void other_parts(weft_comm *c)
{
    float x[4] = {0}, y[12] = {0};
    int64_t counts[RANKS] = {4, 4, 4};
    weft_comm_set_check(c, true);
    if (weft_comm_rank(c) == 1) counts[2] = 3;
    differs(c, weft_comm_run(
                   c, &(weft_transfer){
                          .kind = WEFT_ALL_GATHER, .send = x, .receive = y, .counts = counts}));
}

/* Rank 0 sends `sent` elements to itself or to rank 1, which expects `expected`. */
static void lengths(weft_comm *c, int64_t sent, int64_t expected)
{
    float x[64] = {0}, y[64] = {0};
    int to = weft_comm_size(c) > 1, me = weft_comm_rank(c);
    weft_operation *send = NULL, *receive = NULL;
    weft_transfer out = {.kind = WEFT_SEND, .send = x, .count = sent, .peer = to};
    weft_transfer in = {.kind = WEFT_RECEIVE, .what = "y", .receive = y, .count = expected};
    weft_comm_set_timeout(c, 5);
    if (me == 0) rank_ok(weft_comm_prepare(c, &out, &send));
    if (me == to) rank_ok(weft_comm_prepare(c, &in, &receive));
    if (send) rank_ok(weft_operation_start(send));
    if (receive) {
        weft_status status = weft_operation_start(receive);
        if (status == WEFT_OK) status = weft_operation_wait(receive);
        rank_check(status == WEFT_ERR_PEER);
        rank_check(says("rank 0 sent ") && says(" expects") && says(" of y"));
        weft_comm_abort(c);
    }
    if (me != to) sleep_for(0.5);
    weft_operation_destroy(&receive);
    weft_operation_destroy(&send);
}

static void shorter(weft_comm *c)
{
    lengths(c, 5, 7);
}

static void empty(weft_comm *c)
{
    lengths(c, 0, 7);
}

static void longer(weft_comm *c)
{
    lengths(c, 7, 5);
}

/* One rank ends the job with a reason. The other ranks fail at once with that reason, wherever they
 * wait. */
static void abort_is_seen(weft_comm *c)
{
    weft_comm *part;
    weft_operation *o;
    float x[300] = {0};
    int me = weft_comm_rank(c);
    rank_ok(weft_comm_split(c, me > 0, 0, &part));
    if (me == 0) {
        sleep_for(0.2);
        /* Any failure of this rank sets the reason. */
        rank_check(weft_comm_prepare(c, &(weft_transfer){.kind = WEFT_SEND, .count = -77}, &o) ==
                   WEFT_ERR_ARGUMENT);
        weft_comm_abort(c);
        weft_comm_close(&part);
        return;
    }
    double began = now();
    weft_status status = WEFT_OK;
    /* Rank 1 waits for rank 0, rank 2 for rank 1 in another communicator. */
    if (me == 1)
        status = sum(c, "fc1/weight", WEFT_F32, 300);
    else
        status = weft_comm_run(
            part, &(weft_transfer){
                      .kind = WEFT_RECEIVE, .what = "x", .receive = x, .count = 300, .peer = 0});
    rank_check(status == WEFT_ERR_PEER);
    rank_check(says("the job was ended") && says("-77 elements"));
    rank_check(now() - began < 1.2);
    /* Transfers that begin later fail as well. */
    rank_check(weft_comm_barrier(part) == WEFT_ERR_PEER && says("-77 elements"));
    weft_comm_close(&part);
}

/* A rank that destroys a started operation ends the job: the others could only wait for it. */
static void left_behind(weft_comm *c)
{
    float x[300] = {0};
    weft_operation *o;
    double began = now();
    if (weft_comm_rank(c) == 1) {
        rank_ok(weft_comm_prepare(
            c,
            &(weft_transfer){
                .kind = WEFT_ALL_REDUCE, .what = "fc2", .send = x, .receive = x, .count = 300},
            &o));
        /* The sum does not match a barrier that another rank has begun, and this rank may notice
         * that first. */
        weft_status status = weft_operation_start(o);
        rank_check(status == WEFT_OK || status == WEFT_ERR_PEER);
        weft_operation_destroy(&o);
        return;
    }
    if (weft_comm_rank(c) == 2) sleep_for(0.2);
    rank_check(weft_comm_barrier(c) == WEFT_ERR_PEER);
    rank_check(now() - began < 1.2);
}

static const struct trouble {
    const char *name;
    void (*fn)(weft_comm *c);
    bool alone; /* also runs with the single rank of self */
} troubles[] = {
    {"missing", missing, false},   {"count", other_count, false},
    {"dtype", other_dtype, false}, {"kind", other_kind, false},
    {"root", other_root, false},   {"leaves", other_leaves, false},
    {"parts", other_parts, false}, {"collector", other_collector, false},
    {"shorter", shorter, true},    {"empty", empty, true},
    {"longer", longer, true},      {"abort", abort_is_seen, false},
    {"left", left_behind, false},
};

static const char *engine_only;

static void run(weft_comm *c, void *user)
{
    const struct trouble *t = user;
    t->fn(c);
    if (!engine_only || atomic_load(&rank_failures)) return;
    printf("rank %d: %s as expected\n", weft_comm_rank(c), t->name);
    end_together(c);
}

static void test_troubles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        struct trouble t = troubles[i];
        print_message("%s\n", t.name);
        if (t.alone) on_ranks("self", 1, run, &t);
        on_ranks("threads", RANKS, run, &t);
        on_ranks(PLUGINS "/libsockets.so", RANKS, run, &t);
    }
}

int main(int argc, char **argv)
{
    engine_only = argc > 2 ? argv[1] : NULL;
    for (size_t i = 0; engine_only && i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        struct trouble t = troubles[i];
        if (strcmp(t.name, argv[2]) == 0) on_ranks(engine_only, 0, run, &t);
    }
    if (engine_only) return 1; /* the rank did not get as far as "as expected" */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_troubles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
