/* Runs every collective of a communicator and compares each rank's result with the expected
 * numbers, for the tests of communicators. The numbers depend on the rank that contributes them. */
#ifndef WEFT_TESTS_COLLECTIVES_H
#define WEFT_TESTS_COLLECTIVES_H

#include "ranks.h"

/* The engine of the command line, as in "test_NAME mpi" under mpirun; NULL: self and threads. */
static const char *engine_only;
/* How these functions run a transfer. */
static weft_status (*run_transfer)(weft_comm *c, const weft_transfer *t) = weft_comm_run;

/* Element i of a rank's contribution: a small integer, so sums are exact in every type, and every
 * order of addition must give the same sum. */
static double element(int rank, int64_t i)
{
    return (double)((rank * 31 + i * 7) % 97 - 40);
}

static void put(void *data, weft_dtype dtype, int64_t i, double value)
{
    if (dtype == WEFT_F32) ((float *)data)[i] = (float)value;
    if (dtype == WEFT_F64) ((double *)data)[i] = value;
    if (dtype == WEFT_I32) ((int32_t *)data)[i] = (int32_t)value;
    if (dtype == WEFT_I64) ((int64_t *)data)[i] = (int64_t)value;
    if (dtype == WEFT_U8) ((uint8_t *)data)[i] = (uint8_t)(int32_t)value;
}

static bool holds(const void *data, weft_dtype dtype, int64_t i, double value)
{
    if (dtype == WEFT_F32) return ((const float *)data)[i] == (float)value;
    if (dtype == WEFT_F64) return ((const double *)data)[i] == value;
    if (dtype == WEFT_I32) return ((const int32_t *)data)[i] == (int32_t)value;
    if (dtype == WEFT_I64) return ((const int64_t *)data)[i] == (int64_t)value;
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

/* Number of elements that a rank contributes: ranks differ, and rank 1 has none. */
static int64_t count_of(int rank, int64_t base)
{
    return base == 0 ? 0 : rank == 1 ? 0 : base + rank * 3;
}

static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_I32, WEFT_I64, WEFT_U8};

static void all_reduce(weft_comm *c, weft_dtype dtype, int64_t count, bool inplace)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    void *send = filled(dtype, me, count);
    void *receive = inplace ? send : calloc((size_t)count + 1, weft_dtype_size(dtype));
    weft_transfer t = {
        .kind = WEFT_ALL_REDUCE, .dtype = dtype, .send = send, .receive = receive, .count = count};
    rank_ok(run_transfer(c, &t));
    for (int64_t i = 0; i < count; i++) rank_check(holds(receive, dtype, i, total(n, i)));
    for (int64_t i = 0; i < count && !inplace; i++)
        rank_check(holds(send, dtype, i, element(me, i)));
    if (!inplace) free(receive);
    free(send);
}

static void reduce_scatter(weft_comm *c, weft_dtype dtype, int64_t base)
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
                       .counts = counts};
    rank_ok(run_transfer(c, &t));
    for (int64_t i = 0; i < counts[me]; i++)
        rank_check(holds(receive, dtype, i, total(n, before + i)));
    /* Reduce-scatter in place: this rank receives over its own part of its contribution. */
    t.receive = (char *)send + (size_t)before * weft_dtype_size(dtype);
    rank_ok(run_transfer(c, &t));
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
    rank_ok(run_transfer(c, &t));
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < counts[r]; i++, at++)
            rank_check(holds(receive, dtype, at, element(r, i)));
    /* All-gather in place: this rank sends from its own part of the result. */
    size_t before = 0, size = weft_dtype_size(dtype);
    for (int r = 0; r < me; r++) before += (size_t)counts[r] * size;
    memset(receive, 0, (size_t)whole * size);
    memcpy((char *)receive + before, send, (size_t)counts[me] * size);
    t.send = (char *)receive + before;
    rank_ok(run_transfer(c, &t));
    at = 0;
    for (int r = 0; r < n; r++)
        for (int64_t i = 0; i < counts[r]; i++, at++)
            rank_check(holds(receive, dtype, at, element(r, i)));
    free(send);
    free(receive);
}

/* Gathers to every rank in turn, also in place. Only the root receives; the other ranks have no
 * receive buffer, and each sends its own contribution once. */
static void gather(weft_comm *c, weft_dtype dtype, int64_t base)
{
    int me = weft_comm_rank(c), n = weft_comm_size(c);
    int64_t counts[8], whole = 0, before = 0;
    size_t size = weft_dtype_size(dtype);
    for (int r = 0; r < n; r++) {
        if (r == me) before = whole;
        whole += counts[r] = count_of(r, base);
    }
    void *send = filled(dtype, me, counts[me]);
    for (int root = 0; root < n; root++)
        for (int inplace = 0; inplace < 2; inplace++) {
            char *receive = calloc((size_t)whole + 1, 8);
            char *own = receive + (size_t)before * size;
            if (inplace) memcpy(own, send, (size_t)counts[me] * size);
            weft_transfer t = {.kind = WEFT_GATHER,
                               .dtype = dtype,
                               .send = inplace ? own : send,
                               .receive = me == root ? receive : NULL,
                               .counts = counts,
                               .peer = root};
            int64_t sent = weft_comm_get_stats(c).bytes;
            rank_ok(run_transfer(c, &t));
            sent = weft_comm_get_stats(c).bytes - sent;
            rank_check(sent == (me == root ? 0 : counts[me] * (int64_t)size));
            for (int64_t r = 0, at = 0; r < n && me == root; r++)
                for (int64_t i = 0; i < counts[r]; i++, at++)
                    rank_check(holds(receive, dtype, at, element((int)r, i)));
            free(receive);
        }
    free(send);
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
    rank_ok(run_transfer(c, &t));
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
        rank_ok(run_transfer(c, &t));
        for (int64_t i = 0; i < count; i++) rank_check(holds(data, dtype, i, element(root, i)));
        free(data);
    }
}

/* Every rank sends two messages to its right neighbour. The receive of the later message starts
 * first, so messages are matched by tag. */
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

typedef void (*rank_fn)(weft_comm *, void *);

static void everywhere(rank_fn fn, void *user)
{
    if (engine_only) {
        on_ranks(engine_only, 0, fn, user);
        return;
    }
    on_ranks("self", 1, fn, user);
    for (int n = 1; n <= 8; n++) on_ranks("threads", n, fn, user);
    for (int n = 1; n <= 5; n += 2) on_ranks(PLUGINS "/libsockets.so", n, fn, user);
}

#define TEST(name)                                                                                 \
    static void test_##name(void **state)                                                          \
    {                                                                                              \
        (void)state;                                                                               \
        everywhere(name, NULL);                                                                    \
    }

#endif
