/* Ranks that fail at random in the middle of transfers, whatever the other ranks are doing then. No
 * rank touches memory that another one has freed after a failure, every rank ends, and transfers
 * that had ended have the right result. The test is made for the address and thread sanitizers.
 *
 * Under mpirun, "test_abort mpi SEED" does that once, since the job ends with it, and every rank
 * that saw the expected failure prints "as expected". With "killed" as third argument the rank is
 * killed and does not report a failure (tests/comm/abort-mpi). */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "ranks.h"

enum { MOST = 12 };

/* A random generator; ranks with the same seed draw the same numbers. */
typedef struct draw {
    uint64_t state;
} draw;

static uint32_t next(draw *d, uint32_t below)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % below;
}

/* One transfer of a round, with buffers of exactly its size. */
typedef struct work {
    weft_transfer t;
    weft_operation *operation;
    float *send, *receive;
    int64_t counts[8];
} work;

static void fill(work *w, const weft_comm *c, int kind, int64_t count, int tag)
{
    int n = weft_comm_size(c), me = weft_comm_rank(c);
    int64_t in = count, out = count;
    for (int r = 0; r < n; r++) w->counts[r] = count + r;
    int64_t whole = (int64_t)n * count + n * (n - 1) / 2;
    w->t = (weft_transfer){.kind = (weft_transfer_kind)kind,
                           .count = count,
                           .counts = w->counts,
                           .receive_counts = w->counts,
                           .tag = tag,
                           .what = "a draw"};
    switch (w->t.kind) {
    case WEFT_SEND: w->t.peer = (me + 1) % n; break;
    case WEFT_RECEIVE: w->t.peer = (me + n - 1) % n; break;
    case WEFT_BROADCAST: w->t.peer = tag % n; break;
    case WEFT_REDUCE_SCATTER:
        in = whole;
        out = w->counts[me];
        break;
    case WEFT_GATHER:
    case WEFT_ALL_GATHER:
        w->t.peer = tag % n;
        in = w->counts[me];
        out = whole;
        break;
    case WEFT_ALL_TO_ALL:
        for (int r = 0; r < n; r++) w->counts[r] = count;
        in = out = n * count;
        break;
    default: break;
    }
    w->send = malloc((size_t)(in ? in : 1) * sizeof(float));
    w->receive = malloc((size_t)(out ? out : 1) * sizeof(float));
    for (int64_t i = 0; i < in; i++) w->send[i] = 1;
    for (int64_t i = 0; i < out; i++) w->receive[i] = 1;
    w->t.send = w->send;
    w->t.receive = w->receive;
}

/* Whether the result of a transfer is right: all inputs are 1, so a sum is the number of ranks, and
 * every other result is 1. */
static bool right(const work *w, const weft_comm *c)
{
    bool sum = w->t.kind == WEFT_ALL_REDUCE || w->t.kind == WEFT_REDUCE_SCATTER;
    float want = sum ? (float)weft_comm_size(c) : 1;
    int64_t n = w->t.kind == WEFT_REDUCE_SCATTER ? w->counts[weft_comm_rank(c)] : w->t.count;
    for (int64_t i = 0; i < n && w->t.kind != WEFT_BARRIER; i++)
        if (w->receive[i] != want) return false;
    return true;
}

static _Thread_local int me_in_all; /* this rank in the common communicator */

/* Whether an error message names the rank that gave up, and the transfer in which it was waited
 * for. The rank may also have begun another transfer than a peer expected, since it uses the common
 * communicator in rounds in which the others use parts of it. */
static bool tells(const char *message, int who)
{
    char words[40];
    (void)snprintf(words, sizeof(words), "rank %d ", who);
    return strstr(message, words) && strstr(message, " of ");
}

/* Starts 2 to 12 transfers, waits for them and frees them. fail >= 0: the rank starts only so many
 * and then gives up; -1: it does not give up. */
static weft_status round_of(weft_comm *c, draw *d, int fail, bool *wrong)
{
    work all[MOST] = {0};
    int n = 2 + (int)next(d, 5), made = 0, size = weft_comm_size(c);
    weft_status status = WEFT_OK;
    for (int k = 0; k < n; k++) {
        int64_t count = next(d, 3) ? next(d, 4000) : next(d, 60);
        int kind =
            (int)next(d, WEFT_BARRIER + 1); /* a send or a receive makes both, so they match */
        bool pair = kind == WEFT_SEND || kind == WEFT_RECEIVE;
        if (pair && size == 1) continue;
        fill(&all[made++], c, pair ? WEFT_SEND : kind, count, k);
        if (!pair) continue;
        fill(&all[made++], c, WEFT_RECEIVE, count, k);
    }
    for (int k = 0; k < made && status == WEFT_OK; k++) {
        if (k == fail) break;
        status = weft_comm_prepare(c, &all[k].t, &all[k].operation);
        if (status == WEFT_OK) status = weft_operation_start(all[k].operation);
    }
    for (int k = 0; k < made && status == WEFT_OK && fail < 0; k++) {
        status = weft_operation_wait(all[k].operation);
        if (status == WEFT_OK && !right(&all[k], c)) *wrong = true;
    }
    if (fail >= 0) status = weft_fail(WEFT_ERR_INTERRUPTED, "rank %d gives up", me_in_all);
    /* With an even `fail` the rank aborts the job before it frees its buffers, else later. */
    if (status != WEFT_OK && fail % 2 == 0) weft_comm_abort(c);
    for (int k = 0; k < made; k++) {
        weft_operation_destroy(&all[k].operation);
        memset(all[k].send, 0x7f, sizeof(float));
        free(all[k].send);
        free(all[k].receive);
    }
    if (status != WEFT_OK) weft_comm_abort(c);
    return status;
}

typedef struct plan {
    uint64_t seed;
    int rounds;
    bool killed; /* the rank is killed and does not give up by itself */
    /* The rank that gives up begins the transfers that the others begin. Only threads always notice
     * a rank that begins others. */
    bool alike;
} plan;

static void give_up_sometimes(weft_comm *c, void *user)
{
    const plan *p = user;
    draw same = {p->seed}, own = {p->seed * 31 + (uint64_t)weft_comm_rank(c)};
    int who = (int)next(&same, (uint32_t)weft_comm_size(c)), when = (int)next(&same, 12);
    bool wrong = false;
    weft_status status = WEFT_OK;
    weft_comm *part = NULL;
    me_in_all = weft_comm_rank(c);
    for (int round = 0; round < p->rounds && status == WEFT_OK; round++) {
        bool now = round == when && weft_comm_rank(c) == who;
        bool other = now && !p->alike; /* begins a collective in which no other rank takes part */
        if (now && p->killed) raise(SIGKILL);
        for (uint32_t spin = next(&own, 3000); spin > 0; spin--) atomic_load(&rank_failures);
        if (round % 4 == 3 && !now) {
            weft_comm_close(&part);
            status = weft_comm_split(c, weft_comm_rank(c) % 2, 0, &part);
            if (status != WEFT_OK) weft_comm_abort(c);
        }
        /* Over MPI, a split begins with a barrier of Weft and continues inside MPI. A rank that
         * gives up in place of a split begins no transfer, since its barrier would be taken for the
         * split's. */
        int begun = round % 4 == 3 ? 0 : (int)next(&own, MOST);
        if (status == WEFT_OK)
            status =
                round_of(part && round % 2 && !other ? part : c, &same, now ? begun : -1, &wrong);
    }
    char said[400];
    (void)snprintf(said, sizeof(said), "%s", weft_last_message());
    weft_comm_close(&part);
    rank_check(!wrong);
    if (status == WEFT_ERR_PEER && !tells(said, who)) fprintf(stderr, "%s\n", said);
    rank_check(status != WEFT_ERR_PEER || tells(said, who));
    rank_check(p->rounds <= when || status == WEFT_ERR_PEER || status == WEFT_ERR_INTERRUPTED);
}

static void test_random(void **state)
{
    (void)state;
    int jobs = getenv("WEFT_ABORTS") ? atoi(getenv("WEFT_ABORTS")) : 300;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < jobs; i++)
        on_ranks("threads", 2 + i % 4, give_up_sometimes,
                 &(plan){seed + (uint64_t)i, 14, false, i % 2 == 1});
}

static void fail_one(weft_comm *comm, void *user)
{
    (void)user;
    rank_check(weft_comm_rank(comm) != 1); /* a failed check prints a line */
    rank_ok(weft_comm_barrier(comm));
}

/* A rank whose check fails ends its job: the other ranks fail as well, and do not wait for it. */
static void test_peers_of_a_failed_rank_end(void **state)
{
    (void)state;
    double began = (double)time(NULL);
    assert_int_equal(failures_on_ranks("threads", 4, fail_one, NULL), 4);
    assert_true((double)time(NULL) - began < 3);
}

static void end_one_job(weft_comm *c, void *user)
{
    give_up_sometimes(c, user);
    if (atomic_load(&rank_failures)) return;
    printf("rank %d: as expected\n", weft_comm_rank(c));
    end_together(c);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        plan p = {strtoull(argv[2], NULL, 10), 14, argc > 3, true};
        on_ranks(argv[1], 0, end_one_job, &p);
        return 1; /* the rank did not get as far as "as expected" */
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peers_of_a_failed_rank_end),
                                       cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
