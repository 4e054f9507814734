/* Counts the bytes that collectives send over a transport that was added: as many as the best
 * algorithms send (weft_comm_stats), and the heads of frames. */
#include "ranks.h"

enum { RANKS = 5, COUNT = 30011, HEADS = 2 * 600 /* of two frames */ };

/* Bytes on the way from rank to rank. */
static struct {
    pthread_mutex_t lock;
    char *data[RANKS * RANKS];
    size_t begin[RANKS * RANKS], end[RANKS * RANKS];
    int64_t sent;
} wire = {.lock = PTHREAD_MUTEX_INITIALIZER};

static weft_status wire_open(int ranks, void **state)
{
    (void)ranks;
    *state = &wire;
    return WEFT_OK;
}

static void wire_close(void *state)
{
    (void)state;
    for (int i = 0; i < RANKS * RANKS; i++) {
        free(wire.data[i]);
        wire.data[i] = NULL;
        wire.begin[i] = wire.end[i] = 0;
    }
}

static weft_status wire_send(void *state, int from, int to, const void *data, size_t bytes,
                             size_t *moved)
{
    int i = from * RANKS + to;
    (void)state;
    pthread_mutex_lock(&wire.lock);
    char *longer = realloc(wire.data[i], wire.end[i] + bytes);
    if (longer) {
        memcpy(longer + wire.end[i], data, bytes);
        wire.data[i] = longer;
        wire.end[i] += bytes;
        wire.sent += (int64_t)bytes;
        *moved = bytes;
    }
    pthread_mutex_unlock(&wire.lock);
    return WEFT_OK;
}

static weft_status wire_receive(void *state, int to, int from, void *data, size_t bytes,
                                size_t *moved)
{
    int i = from * RANKS + to;
    (void)state;
    pthread_mutex_lock(&wire.lock);
    size_t there = wire.end[i] - wire.begin[i];
    *moved = there < bytes ? there : bytes;
    if (*moved > 0) memcpy(data, wire.data[i] + wire.begin[i], *moved);
    wire.begin[i] += *moved;
    pthread_mutex_unlock(&wire.lock);
    return WEFT_OK;
}

static const weft_transport_ops wire_ops = {.struct_size = sizeof(wire_ops),
                                            .open = wire_open,
                                            .close = wire_close,
                                            .send = wire_send,
                                            .receive = wire_receive};

/* Integers below 2^24, whose sums are exact in any order. */
static void collect(weft_comm *comm, void *user)
{
    weft_transfer_kind kind = *(const weft_transfer_kind *)user;
    int n = weft_comm_size(comm), me = weft_comm_rank(comm);
    int64_t mine = kind == WEFT_ALL_GATHER ? COUNT / n : COUNT;
    float *send = calloc(COUNT, sizeof(float)), *receive = calloc(COUNT, sizeof(float));
    int64_t counts[RANKS];
    for (int r = 0; r < n; r++) counts[r] = COUNT / n;
    for (int64_t i = 0; i < mine; i++) send[i] = (float)(i + me);
    rank_ok(weft_comm_run(comm, WEFT_TRANSFER(.kind = kind, .dtype = WEFT_F32, .what = "numbers",
                                              .send = send, .receive = receive, .count = mine,
                                              .counts = kind == WEFT_ALL_REDUCE ? NULL : counts)));
    for (int64_t i = 0; i < COUNT / n * n && kind != WEFT_REDUCE_SCATTER; i++) {
        int64_t sum = n * i + n * (n - 1) / 2, gathered = i % mine + i / mine;
        rank_check(receive[i] == (float)(kind == WEFT_ALL_REDUCE ? sum : gathered));
    }
    free(send);
    free(receive);
}

/* The bytes of all ranks, each of which has calls of one collective. */
static int64_t sent_by(int ranks, weft_transfer_kind kind)
{
    const weft_entry entry = {.kind = WEFT_KIND_ENGINE, .name = "wire", .ops = &wire_ops};
    weft_context *context;
    weft_comm *comms[RANKS];
    rank_call calls[RANKS];
    int local;
    wire.sent = 0;
    atomic_store(&rank_failures, 0);
    assert_ok(weft_context_create(&context));
    assert_ok(weft_context_register(context, &entry, 1));
    assert_ok(weft_comm_open(context, "wire", ranks, comms, &local));
    for (int i = 0; i < ranks; i++) {
        calls[i] = (rank_call){.comm = comms[i], .fn = collect, .user = &kind};
        assert_int_equal(pthread_create(&calls[i].thread, NULL, rank_thread, &calls[i]), 0);
    }
    for (int i = 0; i < ranks; i++) pthread_join(calls[i].thread, NULL);
    for (int i = 0; i < ranks; i++) weft_comm_close(&comms[i]);
    weft_context_destroy(&context);
    assert_int_equal(rank_failures, 0);
    return wire.sent;
}

static void test_bytes(void **state)
{
    (void)state;
    static const weft_transfer_kind kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER,
                                               WEFT_ALL_GATHER};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int n = 1; n <= RANKS; n++) {
            int64_t whole = COUNT * (int64_t)sizeof(float);
            int64_t best = (n - 1) * whole * (kinds[k] == WEFT_ALL_REDUCE ? 2 : 1);
            int64_t sent = sent_by(n, kinds[k]), most = best + (int64_t)n * (n - 1) * HEADS;
            if (sent > most)
                fail_msg("%s of %d ranks sends %lld bytes, should be at most %lld",
                         weft_transfer_name(kinds[k]), n, (long long)sent, (long long)most);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
