/* The contract of communicators, over every engine. Without an argument the engines are self, and
 * threads with 1 to 8 ranks; "test_comm mpi" under mpirun tests the engine mpi. */
#include "collectives.h"

static const int64_t sizes[] = {0, 1, 7, 63, 64, 65, 1000, 40000};

static void contract(weft_comm *c, void *user)
{
    (void)user;
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            for (int inplace = 0; inplace < 2 && dtypes[d] != WEFT_U8; inplace++)
                all_reduce(c, dtypes[d], sizes[s], inplace);
            if (dtypes[d] != WEFT_U8) reduce_scatter(c, dtypes[d], sizes[s]);
            all_gather(c, dtypes[d], sizes[s]);
            gather(c, dtypes[d], sizes[s]);
            all_to_all(c, dtypes[d], sizes[s]);
            broadcast(c, dtypes[d], sizes[s]);
            ring(c, dtypes[d], sizes[s]);
            rank_ok(weft_comm_barrier(c));
        }
}

/* More operations are under way at once than the ring of the engine threads has rows, and they are
 * waited for in another order than they were started. */
static void overlapping(weft_comm *c, void *user)
{
    enum { MANY = 100 };
    (void)user;
    weft_operation *o[MANY];
    double *data[MANY];
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    for (int k = 0; k < MANY; k++) {
        data[k] = filled(WEFT_F64, me + k, 200);
        weft_transfer t = {.kind = WEFT_ALL_REDUCE,
                           .dtype = WEFT_F64,
                           .send = data[k],
                           .receive = data[k],
                           .count = k % 3 ? 200 : 5};
        rank_ok(weft_comm_prepare(c, &t, &o[k]));
    }
    for (int k = 0; k < MANY; k++) rank_ok(weft_operation_start(o[k]));
    for (int k = MANY; k-- > 0;) {
        int which = me % 2 ? k : MANY - 1 - k;
        rank_ok(weft_operation_wait(o[which]));
        double sum = 0;
        for (int r = 0; r < n; r++) sum += element(r + which, 4);
        rank_check(data[which][4] == sum);
    }
    for (int k = 0; k < MANY; k++) {
        weft_operation_destroy(&o[k]);
        free(data[k]);
    }
}

/* Splits the communicator into even and odd ranks, with reversed order. */
static void splitting(weft_comm *c, void *user)
{
    (void)user;
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    weft_comm *part, *none;
    rank_ok(weft_comm_split(c, me % 2, -me, &part));
    rank_check(weft_comm_size(part) == (n + 1 - me % 2) / 2);
    rank_check(weft_comm_rank(part) == weft_comm_size(part) - 1 - me / 2);
    int32_t mine = me, sum = 0, want = 0;
    for (int r = me % 2; r < n; r += 2) want += r;
    rank_ok(weft_comm_run(part, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                 .dtype = WEFT_I32,
                                                 .send = &mine,
                                                 .receive = &sum,
                                                 .count = 1}));
    rank_check(sum == want);
    rank_ok(weft_comm_split(part, weft_comm_rank(part) == 0 ? 3 : -1, 0, &none));
    rank_check((none != NULL) == (weft_comm_rank(part) == 0));
    weft_comm_close(&none);
    weft_comm_close(&part);
}

/* An all-reduce in bf16 of small whole numbers, whose sums are exact. */
static void in_short(weft_comm *c, void *user)
{
    (void)user;
    enum { ODD = 1003 };
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    uint16_t mine[ODD], sum[ODD];
    for (int i = 0; i < ODD; i++) weft_number_put(WEFT_BF16, mine, i, me + i % 7);
    rank_ok(weft_comm_run(c, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                              .dtype = WEFT_BF16,
                                              .send = mine,
                                              .receive = sum,
                                              .count = ODD}));
    for (int i = 0; i < ODD; i++)
        rank_check(weft_number_get(WEFT_BF16, sum, i) == n * (n - 1) / 2.0 + n * (i % 7));
}

static void counted(weft_comm *c, void *user)
{
    (void)user;
    int n = weft_comm_size(c);
    int64_t before = weft_comm_get_stats(c).bytes;
    all_reduce(c, WEFT_F32, 1003, true);
    double mine = (double)(weft_comm_get_stats(c).bytes - before), sum = 0;
    rank_ok(weft_comm_run(c, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                              .dtype = WEFT_F64,
                                              .send = &mine,
                                              .receive = &sum,
                                              .count = 1}));
    rank_check(sum == 2.0 * (n - 1) * 1003 * 4);
}

/* A send that has ended is started again at once, while other operations are under way. */
static void again(weft_comm *c, void *user)
{
    (void)user;
    int me = weft_comm_rank(c), n = weft_comm_size(c), left = (me + n - 1) % n;
    double sent[2] = {me, me + 100}, got[2] = {-1, -1};
    weft_operation *out[2], *in[2];
    for (int k = 0; k < 2; k++) {
        weft_transfer t = {.dtype = WEFT_F64, .count = 1, .tag = k};
        t.kind = WEFT_SEND;
        t.send = &sent[k];
        t.peer = (me + 1) % n;
        rank_ok(weft_comm_prepare(c, &t, &out[k]));
        t.kind = WEFT_RECEIVE;
        t.receive = &got[k];
        t.peer = left;
        rank_ok(weft_comm_prepare(c, &t, &in[k]));
    }
    for (int k = 0; k < 2; k++) rank_ok(weft_operation_start(out[k]));
    rank_ok(weft_operation_start(in[0]));
    rank_ok(weft_operation_wait(out[0]));
    rank_ok(weft_operation_start(out[0]));
    rank_ok(weft_operation_wait(in[0]));
    for (int k = 2; k-- > 0;) rank_ok(weft_operation_start(in[k]));
    for (int k = 2; k-- > 0;) rank_ok(weft_operation_wait(in[k]));
    for (int k = 0; k < 2; k++) rank_ok(weft_operation_wait(out[k]));
    rank_check(got[0] == left && got[1] == left + 100);
    for (int k = 0; k < 2; k++) {
        weft_operation_destroy(&out[k]);
        weft_operation_destroy(&in[k]);
    }
}

TEST(contract)
TEST(again)
TEST(overlapping)
TEST(splitting)
TEST(in_short)
TEST(counted)

static void refused(weft_comm *c, void *user)
{
    (void)user;
    weft_operation *o;
    const weft_transfer bad[] = {
        {.kind = WEFT_SEND, .count = -1},  {.kind = WEFT_SEND, .peer = 99},
        {.kind = WEFT_SEND, .tag = 99999}, {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_U8},
        {.kind = WEFT_ALL_GATHER},         {.kind = WEFT_GATHER},
        {.kind = WEFT_GATHER, .peer = -1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        rank_check(weft_comm_prepare(c, &bad[i], &o) == WEFT_ERR_ARGUMENT);
}
TEST(refused)

/* One count for all ranks, in place of an array with a count for each rank. */
static void even_counts(weft_comm *c, void *user)
{
    (void)user;
    enum { EACH = 13 };
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    int32_t *send = calloc((size_t)n * EACH, sizeof(*send)), *got = calloc((size_t)n * EACH, 4);
    static const weft_transfer_kind kinds[] = {WEFT_ALL_GATHER, WEFT_GATHER, WEFT_REDUCE_SCATTER,
                                               WEFT_ALL_TO_ALL};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        bool apart = k > 1; /* each rank receives other numbers */
        for (int i = 0; i < n * EACH; i++) send[i] = me * 1000 + (apart ? i : i % EACH);
        memset(got, 0, (size_t)n * EACH * 4);
        weft_transfer t = {.kind = kinds[k],
                           .dtype = WEFT_I32,
                           .send = send,
                           .receive = got,
                           .count = EACH,
                           .peer = n - 1};
        rank_ok(weft_comm_run(c, &t));
        int ranks = kinds[k] == WEFT_REDUCE_SCATTER ? 1 : n;
        if (kinds[k] == WEFT_GATHER && me != n - 1) ranks = 0;
        for (int i = 0; i < ranks * EACH; i++) {
            int want = i / EACH * 1000 + (apart ? me * EACH : 0) + i % EACH;
            if (kinds[k] == WEFT_REDUCE_SCATTER)
                want = n * (n - 1) / 2 * 1000 + n * (me * EACH + i);
            rank_check(got[i] == want);
        }
    }
    free(send);
    free(got);
}
TEST(even_counts)

/* Numbers of leaves and parts that do not fit the buffer, and missing buffers, are refused. */
static void refused_buffers(weft_comm *c, void *user)
{
    (void)user;
    enum { COUNT = 5, MOST_PARTS = 8 };
    weft_operation *o;
    double send[COUNT * MOST_PARTS] = {0}, receive[COUNT];
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    int64_t counts[8] = {COUNT};
    for (int v = n; v <= 40; v++) {
        int right = weft_tree_parts(v, v * me / n, v * (me + 1) / n);
        for (int parts = 0; parts <= MOST_PARTS; parts++) {
            weft_transfer t = {.kind = parts % 2 ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE,
                               .dtype = WEFT_F64,
                               .send = send,
                               .receive = receive,
                               .count = COUNT,
                               .counts = counts,
                               .leaves = v,
                               .parts = parts};
            weft_status status = weft_comm_prepare(c, &t, &o);
            if ((parts ? parts : 1) == right) {
                rank_ok(status);
                weft_operation_destroy(&o);
                continue;
            }
            rank_check(status == WEFT_ERR_ARGUMENT);
            rank_check(strstr(weft_last_message(), "leaves") != NULL);
        }
    }
    const weft_transfer bad[] = {
        {.kind = WEFT_ALL_REDUCE, .send = send, .receive = receive, .parts = 2, .count = 1},
        {.kind = WEFT_ALL_REDUCE, .receive = receive, .count = 1},
        {.kind = WEFT_ALL_REDUCE, .send = send, .count = 1},
        {.kind = WEFT_SEND, .count = 1},
        {.kind = WEFT_RECEIVE, .count = 1},
        {.kind = WEFT_BROADCAST, .count = 1},
        {.kind = WEFT_ALL_GATHER, .send = send, .counts = counts},
        {.kind = WEFT_GATHER, .send = send, .counts = counts, .peer = me},
        {.kind = WEFT_ALL_TO_ALL, .receive = receive, .counts = counts, .receive_counts = counts},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        rank_check(weft_comm_prepare(c, &bad[i], &o) == WEFT_ERR_ARGUMENT);
}
TEST(refused_buffers)

/* The note names the transfer that was last under way, and whether it has ended. */
static void notes(weft_comm *c, void *user)
{
    (void)user;
    char note[WEFT_NOTE_SIZE] = "";
    int64_t x[2][5] = {{0}};
    weft_operation *o[2];
    static const char *const what[] = {"first", "second"};
    weft_comm_set_note(c, note);
    for (int i = 0; i < 2; i++)
        rank_ok(weft_comm_prepare(c,
                                  &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                   .what = what[i],
                                                   .send = x[i],
                                                   .receive = x[i],
                                                   .count = 5},
                                  &o[i]));
    for (int i = 0; i < 2; i++) {
        rank_ok(weft_operation_start(o[i]));
        rank_check(strstr(note, i ? "in all-reduce of second" : "in all-reduce of first"));
    }
    for (int i = 0; i < 2; i++) rank_ok(weft_operation_wait(o[i]));
    rank_check(strncmp(note, "after all-reduce of ", 20) == 0);
    weft_comm_set_note(c, NULL);
    for (int i = 0; i < 2; i++) weft_operation_destroy(&o[i]);
}
TEST(notes)

static void test_engines(void **state)
{
    (void)state;
    weft_context *context;
    weft_comm *comms[WEFT_MAX_RANKS];
    int local;
    assert_ok(weft_context_create(&context));
    assert_refused(weft_comm_open(context, "treads", 2, comms, &local), WEFT_ERR_ARGUMENT,
                   "did you mean 'threads'");
    assert_refused(weft_comm_open(context, "self", 2, comms, &local), WEFT_ERR_ARGUMENT,
                   "one rank");
    assert_refused(weft_comm_open(context, "threads", 99999, comms, &local), WEFT_ERR_ARGUMENT,
                   "1 to");
    weft_context_destroy(&context);
}

int main(int argc, char **argv)
{
    engine_only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),        cmocka_unit_test(test_again),
        cmocka_unit_test(test_overlapping),     cmocka_unit_test(test_splitting),
        cmocka_unit_test(test_in_short),        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_even_counts),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_buffers), cmocka_unit_test(test_notes),
        cmocka_unit_test(test_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
