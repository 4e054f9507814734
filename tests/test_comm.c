/* The contract of communicators, over every engine: with no argument self and threads with 1 to 8
 * ranks, as "test_comm mpi" under mpirun the engine mpi. */
#include "comm/comm.h"
#include "ranks.h"

static const char *engine_only;

/* Small integers: sums are exact in every type, so every order of addition must give them. */
static double element(int rank, int64_t i)
{
    return (double)((rank * 31 + i * 7) % 97 - 40);
}

static void put(void *data, weft_dtype dtype, int64_t i, double value)
{
    if (dtype == WEFT_F32) ((float *)data)[i] = (float)value;
    if (dtype == WEFT_F64) ((double *)data)[i] = value;
    if (dtype == WEFT_I32) ((int32_t *)data)[i] = (int32_t)value;
    if (dtype == WEFT_U8) ((uint8_t *)data)[i] = (uint8_t)(int32_t)value;
}

static bool holds(const void *data, weft_dtype dtype, int64_t i, double value)
{
    if (dtype == WEFT_F32) return ((const float *)data)[i] == (float)value;
    if (dtype == WEFT_F64) return ((const double *)data)[i] == value;
    if (dtype == WEFT_I32) return ((const int32_t *)data)[i] == (int32_t)value;
    return ((const uint8_t *)data)[i] == (uint8_t)(int32_t)value;
}

static void *filled(weft_dtype dtype, int rank, int64_t count)
{
    void *data = calloc((size_t)count + 1, weft_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++) put(data, dtype, i, element(rank, i));
    return data;
}

static double total(int ranks, int64_t i)
{
    double sum = 0;
    for (int r = 0; r < ranks; r++) sum += element(r, i);
    return sum;
}

/* Uneven counts with a zero among them. */
static int64_t count_of(int rank, int64_t base)
{
    return base == 0 ? 0 : rank == 1 ? 0 : base + rank * 3;
}

static const int64_t sizes[] = {0, 1, 7, 63, 64, 65, 1000, 40000};
static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_I32, WEFT_U8};

static void all_reduce(weft_comm *c, weft_dtype dtype, int64_t count, bool reproducible,
                       bool inplace)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    void *send = filled(dtype, me, count);
    void *receive = inplace ? send : calloc((size_t)count + 1, weft_dtype_size(dtype));
    weft_transfer t = {.kind = WEFT_ALL_REDUCE,
                       .dtype = dtype,
                       .send = send,
                       .receive = receive,
                       .count = count,
                       .reproducible = reproducible};
    rank_ok(weft_comm_run(c, &t));
    for (int64_t i = 0; i < count; i++) rank_check(holds(receive, dtype, i, total(n, i)));
    for (int64_t i = 0; i < count && !inplace; i++)
        rank_check(holds(send, dtype, i, element(me, i)));
    if (!inplace) free(receive);
    free(send);
}

static void reduce_scatter(weft_comm *c, weft_dtype dtype, int64_t base, bool reproducible)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    int64_t counts[8], whole = 0, before = 0;
    for (int r = 0; r < n; r++) {
        counts[r] = count_of(r, base);
        whole += counts[r];
        if (r < me) before += counts[r];
    }
    void *send = filled(dtype, me, whole), *receive = calloc((size_t)counts[me] + 1, 8);
    weft_transfer t = {.kind = WEFT_REDUCE_SCATTER,
                       .dtype = dtype,
                       .send = send,
                       .receive = receive,
                       .counts = counts,
                       .reproducible = reproducible};
    rank_ok(weft_comm_run(c, &t));
    for (int64_t i = 0; i < counts[me]; i++)
        rank_check(holds(receive, dtype, i, total(n, before + i)));
    /* The same over this rank's part of what it gives. */
    t.receive = (char *)send + (size_t)before * weft_dtype_size(dtype);
    rank_ok(weft_comm_run(c, &t));
    for (int64_t i = 0; i < counts[me]; i++)
        rank_check(holds(t.receive, dtype, i, total(n, before + i)));
    free(send);
    free(receive);
}

static void all_gather(weft_comm *c, weft_dtype dtype, int64_t base)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    int64_t counts[8], whole = 0, at = 0;
    for (int r = 0; r < n; r++) whole += counts[r] = count_of(r, base);
    void *send = filled(dtype, me, counts[me]), *receive = calloc((size_t)whole + 1, 8);
    weft_transfer t = {.kind = WEFT_ALL_GATHER,
                       .dtype = dtype,
                       .send = send,
                       .receive = receive,
                       .counts = counts};
    rank_ok(weft_comm_run(c, &t));
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < counts[r]; i++, at++)
            rank_check(holds(receive, dtype, at, element(r, i)));
    /* The same from where it lies in the result. */
    size_t before = 0, size = weft_dtype_size(dtype);
    for (int r = 0; r < me; r++) before += (size_t)counts[r] * size;
    memset(receive, 0, (size_t)whole * size);
    memcpy((char *)receive + before, send, (size_t)counts[me] * size);
    t.send = (char *)receive + before;
    rank_ok(weft_comm_run(c, &t));
    at = 0;
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < counts[r]; i++, at++)
            rank_check(holds(receive, dtype, at, element(r, i)));
    free(send);
    free(receive);
}

static void all_to_all(weft_comm *c, weft_dtype dtype, int64_t base)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    int64_t counts[8], receive_counts[8], sent = 0, received = 0, at = 0;
    for (int r = 0; r < n; r++) {
        sent += counts[r] = count_of((me + 2 * r) % 5, base);
        received += receive_counts[r] = count_of((r + 2 * me) % 5, base);
    }
    void *send = filled(dtype, me, sent), *receive = calloc((size_t)received + 1, 8);
    weft_transfer t = {.kind = WEFT_ALL_TO_ALL,
                       .dtype = dtype,
                       .send = send,
                       .receive = receive,
                       .counts = counts,
                       .receive_counts = receive_counts};
    rank_ok(weft_comm_run(c, &t));
    for (int r = 0; r < n; r++) {
        int64_t start = 0;
        for (int q = 0; q < me; q++) start += count_of((r + 2 * q) % 5, base);
        for (int64_t i = 0; i < receive_counts[r]; i++, at++)
            rank_check(holds(receive, dtype, at, element(r, start + i)));
    }
    free(send);
    free(receive);
}

static void broadcast(weft_comm *c, weft_dtype dtype, int64_t count)
{
    for (int root = 0; root < weft_comm_size(c); root++) {
        void *data = filled(dtype, weft_comm_rank(c), count);
        weft_transfer t = {
            .kind = WEFT_BROADCAST, .dtype = dtype, .receive = data, .count = count, .peer = root};
        rank_ok(weft_comm_run(c, &t));
        for (int64_t i = 0; i < count; i++) rank_check(holds(data, dtype, i, element(root, i)));
        free(data);
    }
}

/* Everybody sends two messages to its right neighbour, and receives them by tag, the later first.
 */
static void ring(weft_comm *c, weft_dtype dtype, int64_t count)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c), left = (me + n - 1) % n;
    void *send[2], *receive[2];
    weft_operation *o[4];
    for (int k = 0; k < 2; k++) {
        send[k] = filled(dtype, me + k, count);
        receive[k] = calloc((size_t)count + 1, 8);
        weft_transfer out = {.kind = WEFT_SEND,
                             .dtype = dtype,
                             .send = send[k],
                             .count = count,
                             .peer = (me + 1) % n,
                             .tag = k};
        weft_transfer in = {.kind = WEFT_RECEIVE,
                            .dtype = dtype,
                            .receive = receive[k],
                            .count = count,
                            .peer = left,
                            .tag = k};
        rank_ok(weft_comm_prepare(c, &out, &o[k]));
        rank_ok(weft_comm_prepare(c, &in, &o[2 + k]));
    }
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < 2; k++) rank_ok(weft_operation_start(o[k]));
        for (int k = 2; k-- > 0;) rank_ok(weft_operation_start(o[2 + k]));
        for (int k = 4; k-- > 0;) rank_ok(weft_operation_wait(o[k]));
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0; i < count; i++)
                rank_check(holds(receive[k], dtype, i, element(left + k, i)));
    }
    for (int k = 0; k < 4; k++) weft_operation_destroy(&o[k]);
    for (int k = 0; k < 2; k++) {
        free(send[k]);
        free(receive[k]);
    }
}

static void contract(weft_comm *c, void *user)
{
    (void)user;
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            for (int how = 0; how < 4 && dtypes[d] != WEFT_U8; how++)
                all_reduce(c, dtypes[d], sizes[s], how & 1, how & 2);
            for (int how = 0; how < 2 && dtypes[d] != WEFT_U8; how++)
                reduce_scatter(c, dtypes[d], sizes[s], how);
            all_gather(c, dtypes[d], sizes[s]);
            all_to_all(c, dtypes[d], sizes[s]);
            broadcast(c, dtypes[d], sizes[s]);
            ring(c, dtypes[d], sizes[s]);
            rank_ok(weft_comm_barrier(c));
        }
}

static void large(weft_comm *c, void *user)
{
    (void)user;
    const int64_t count = 16 << 20; /* 64 MiB of floats */
    all_reduce(c, WEFT_F32, count, false, true);
    all_reduce(c, WEFT_F32, count, true, false);
    ring(c, WEFT_F32, count);
}

/* Many operations under way at once, ended in another order than begun, more than the ring holds.
 */
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

/* Odd and even ranks, in reversed order. */
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

static void counted(weft_comm *c, void *user)
{
    (void)user;
    int n = weft_comm_size(c);
    int64_t before = weft_comm_get_stats(c).bytes;
    all_reduce(c, WEFT_F32, 1003, false, true);
    double mine = (double)(weft_comm_get_stats(c).bytes - before), sum = 0;
    rank_ok(weft_comm_run(c, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                              .dtype = WEFT_F64,
                                              .send = &mine,
                                              .receive = &sum,
                                              .count = 1}));
    rank_check(sum == 2.0 * (n - 1) * 1003 * 4);
}

typedef void (*rank_fn)(weft_comm *, void *);

static void everywhere(rank_fn fn, void *user)
{
    if (engine_only) {
        on_ranks(engine_only, 0, fn, user);
        return;
    }
    on_ranks("self", 1, fn, user);
    for (int n = 1; n <= 8; n++) on_ranks("threads", n, fn, user);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        everywhere(name, NULL);                                                                    \
    }
TEST(contract)
TEST(overlapping)
TEST(splitting)
TEST(counted)

/* Everything in pieces of a few bytes, which stand for those of 2^30 that MPI can count: also
 * lengths that are a whole number of pieces. */
static void pieces(weft_comm *c, void *user)
{
    (void)user;
    static const int64_t counts[] = {0, 1, 7, 8, 9, 64, 333};
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof(counts) / sizeof(counts[0]); s++) {
            all_gather(c, dtypes[d], counts[s]);
            all_to_all(c, dtypes[d], counts[s]);
            broadcast(c, dtypes[d], counts[s]);
            ring(c, dtypes[d], counts[s]);
            if (dtypes[d] != WEFT_U8) all_reduce(c, dtypes[d], 20 * counts[s], false, s % 2);
            if (dtypes[d] != WEFT_U8) reduce_scatter(c, dtypes[d], 20 * counts[s], false);
        }
}

static void test_pieces(void **state)
{
    (void)state;
    for (int64_t bytes = 32; bytes <= 256; bytes *= 8) {
        weft_mpi_set_piece(bytes);
        everywhere(pieces, NULL);
    }
    weft_mpi_set_piece(1 << 30);
}

/* More than MPI counts, in earnest; takes 5 GB. */
static void huge(weft_comm *c, void *user)
{
    (void)user;
    const int64_t count = ((int64_t)1 << 31) + 13;
    uint8_t *data = malloc((size_t)count);
    int me = weft_comm_rank(c), last = weft_comm_size(c) - 1;
    rank_check(data != NULL);
    weft_transfer t = {.kind = me == 0 ? WEFT_SEND : WEFT_RECEIVE,
                       .dtype = WEFT_U8,
                       .send = data,
                       .receive = data,
                       .count = count,
                       .peer = me == 0 ? last : 0};
    for (int round = 0; round < 2; round++) { /* a message, then a broadcast back */
        int from = round ? last : 0;
        for (int64_t i = 0; i < count; i++)
            data[i] = me == from ? (uint8_t)((uint64_t)i * 2654435761u >> 13) : 0;
        if (round || (me != 0 && me != last)) t.kind = WEFT_BROADCAST;
        if (round) t.peer = last;
        if (round || me == 0 || me == last) rank_ok(weft_comm_run(c, &t));
        for (int64_t i = 0; i < count && (round || me == last); i++)
            rank_check(data[i] == (uint8_t)((uint64_t)i * 2654435761u >> 13));
    }
    free(data);
}

static void test_huge(void **state)
{
    (void)state;
    if (engine_only && getenv("WEFT_HUGE"))
        on_ranks(engine_only, 0, huge, NULL);
    else if (engine_only)
        print_message("SKIPPED: 2 GiB in one message, over MPI with WEFT_HUGE=1 only\n");
}

static void test_large(void **state)
{
    (void)state;
    if (engine_only)
        on_ranks(engine_only, 0, large, NULL);
    else
        on_ranks("threads", 3, large, NULL);
}

static void refused(weft_comm *c, void *user)
{
    (void)user;
    weft_operation *o;
    const weft_transfer bad[] = {
        {.kind = WEFT_SEND, .count = -1},  {.kind = WEFT_SEND, .peer = 99},
        {.kind = WEFT_SEND, .tag = 99999}, {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_U8},
        {.kind = WEFT_ALL_GATHER},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        rank_check(weft_comm_prepare(c, &bad[i], &o) == WEFT_ERR_ARGUMENT);
}
TEST(refused)

/* Leaves that the buffer does not hold, and buffers that are not there. */
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
        {.kind = WEFT_ALL_TO_ALL, .receive = receive, .counts = counts, .receive_counts = counts},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        rank_check(weft_comm_prepare(c, &bad[i], &o) == WEFT_ERR_ARGUMENT);
}
TEST(refused_buffers)

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
        cmocka_unit_test(test_contract),
        cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_splitting),
        cmocka_unit_test(test_counted),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_buffers),
        cmocka_unit_test(test_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
