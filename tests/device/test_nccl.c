/* Collectives of the device cuda by NCCL, over the doubles in fake_cuda/: every kind, type and
 * division into parts leaves what the engine threads does, where sums are of whole numbers, which
 * no order of additions changes; an operation that other ranks do not join can be given up; and the
 * options of NCCL's communicators are those of its header. Each rank is a thread with a card. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/nccl_api.h"
#include "device/device.h"
#include "support.h"

enum { MOST = 4, COUNT = 53, ROOM = MOST * COUNT * 8 };

static pthread_barrier_t barrier;
static char id[WEFT_COLLECTIVE_ID];

typedef struct party {
    int rank, ranks;
    weft_comm *comm; /* of threads, which says what is right */
    weft_context *context;
    weft_device *device;
    weft_queue *queue;
    weft_queue_event *event;
    weft_memory *send, *receive;
    weft_collective *of;
    char data[ROOM], out[ROOM], right[ROOM];
} party;

static party parties[MOST];

static void wait_until_done(party *x)
{
    bool done = false;
    while (!done) assert_ok(x->device->ops->collectives->poll(x->of, &done));
}

static void open_party(party *x)
{
    char name[64], text[64];
    (void)snprintf(name, sizeof(name), "cuda:%d:libraries=nccl", x->rank);
    assert_ok(weft_context_create(&x->context));
    assert_ok(weft_device_open(x->context, name, &x->device));
    const weft_collective_ops *ops = x->device->ops->collectives;
    assert_string_equal(ops->library(x->device), "nccl 2.27.3");
    assert_ok(ops->identify(x->device, text, sizeof(text)));
    assert_int_equal(strlen(text), 32);
    assert_int_equal(text[1], '1' + x->rank);
    assert_ok(weft_queue_open(x->device, &x->queue));
    assert_ok(weft_event_open(x->device, &x->event));
    assert_ok(weft_memory_new(x->device, ROOM, &x->send));
    assert_ok(weft_memory_new(x->device, ROOM, &x->receive));
    if (x->rank == 0) assert_ok(ops->invite(x->device, id));
    (void)pthread_barrier_wait(&barrier);
    assert_ok(ops->open(x->device, id, x->ranks, x->rank, &x->of));
    wait_until_done(x);
}

static void close_party(party *x)
{
    if (x->of) x->device->ops->collectives->close(x->of);
    x->of = NULL;
    weft_memory_free(&x->send);
    weft_memory_free(&x->receive);
    weft_event_close(x->device, &x->event);
    weft_queue_close(x->device, &x->queue);
    weft_device_close(&x->device);
    weft_context_destroy(&x->context);
}

/* Parts that are equal; that differ by one element; and of which some have none. */
static int64_t part(int how, int from, int to, int ranks)
{
    if (how == 0) return COUNT / ranks;
    if (how == 1) return weft_part_start(COUNT, to + 1, ranks) - weft_part_start(COUNT, to, ranks);
    return (from + to) % 2 ? 7 : 0;
}

/* The counts of a transfer; in sums and all-gathers each rank has the same. */
static void fill_counts(const party *x, weft_transfer_kind kind, int how, int64_t *counts)
{
    bool own = kind == WEFT_ALL_TO_ALL;
    for (int r = 0; r < x->ranks; r++) {
        counts[r] = part(how, own ? x->rank : 1, r, x->ranks);
        counts[x->ranks + r] = own ? part(how, r, x->rank, x->ranks) : counts[r];
    }
}

static void run_both(party *x, weft_transfer t, const int64_t *counts)
{
    const weft_collective_ops *ops = x->device->ops->collectives;
    t.what = "the test's values";
    t.send = x->data;
    t.receive = x->right;
    memset(x->right, 0, ROOM);
    assert_ok(weft_comm_run(x->comm, &t));
    memset(x->out, 0, ROOM);
    assert_ok(weft_copy_in(x->queue, (weft_address){x->send, 0}, x->data, ROOM));
    assert_ok(weft_copy_in(x->queue, (weft_address){x->receive, 0}, x->out, ROOM));
    assert_ok(ops->queue(x->of, &t, counts, (weft_address){x->send, 0},
                         (weft_address){x->receive, 0}, x->queue));
    wait_until_done(x);
    assert_ok(weft_copy_out(x->queue, x->out, (weft_address){x->receive, 0}, ROOM));
    assert_ok(weft_event_record(x->device, x->queue, x->event));
    assert_ok(weft_event_wait(x->device, x->event));
    if (memcmp(x->out, x->right, ROOM) != 0)
        fail_msg("%s of %s among %d ranks", weft_transfer_name(t.kind), weft_dtype_name(t.dtype),
                 x->ranks);
}

static void run_type(party *x, weft_dtype dtype)
{
    static const weft_transfer_kind kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER,
                                               WEFT_ALL_GATHER, WEFT_ALL_TO_ALL};
    for (int i = 0; i < ROOM / (int)weft_dtype_size(dtype); i++)
        weft_number_put(dtype, x->data, i, (double)((i * 7 + x->rank * 3) % 29));
    for (size_t k = 0; k < WEFT_COUNT(kinds); k++)
        for (int how = 0; how < 3; how++) {
            int64_t counts[2 * MOST];
            bool sums = kinds[k] == WEFT_ALL_REDUCE || kinds[k] == WEFT_REDUCE_SCATTER;
            if (sums && (dtype == WEFT_BOOL || dtype == WEFT_U8)) continue;
            fill_counts(x, kinds[k], how, counts);
            run_both(x,
                     (weft_transfer){.kind = kinds[k],
                                     .dtype = dtype,
                                     .count = COUNT,
                                     .counts = kinds[k] == WEFT_ALL_REDUCE ? NULL : counts,
                                     .receive_counts =
                                         kinds[k] == WEFT_ALL_TO_ALL ? counts + x->ranks : NULL},
                     counts);
        }
}

static void *run_all(void *user)
{
    party *x = user;
    open_party(x);
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) run_type(x, (weft_dtype)d);
    close_party(x);
    return NULL;
}

/* Rank 0 leaves; the others give up what they have queued. */
static void *leave(void *user)
{
    party *x = user;
    open_party(x);
    const weft_collective_ops *ops = x->device->ops->collectives;
    weft_transfer t = {.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .count = COUNT};
    int64_t counts[2 * MOST] = {0};
    bool done = true;
    if (x->rank > 0) {
        assert_ok(ops->queue(x->of, &t, counts, (weft_address){x->send, 0},
                             (weft_address){x->receive, 0}, x->queue));
        wait_until_done(x);
        assert_ok(weft_event_record(x->device, x->queue, x->event));
        for (int i = 0; i < 5; i++) {
            assert_ok(weft_event_test(x->device, x->event, &done));
            assert_false(done);
        }
    }
    ops->give_up(x->of);
    assert_ok(weft_event_wait(x->device, x->event));
    assert_refused(ops->poll(x->of, &done), WEFT_ERR_PEER, "has given up");
    close_party(x);
    return NULL;
}

static void run_team(void *(*run)(void *), int ranks)
{
    weft_context *context;
    weft_comm *comms[MOST];
    pthread_t threads[MOST];
    int local;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_comm_open(context, "threads", ranks, comms, &local));
    assert_int_equal(pthread_barrier_init(&barrier, NULL, (unsigned)ranks), 0);
    for (int r = 0; r < ranks; r++) {
        parties[r] = (party){.rank = r, .ranks = ranks, .comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run, &parties[r]), 0);
    }
    for (int r = 0; r < ranks; r++) (void)pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++) weft_comm_close(&comms[r]);
    (void)pthread_barrier_destroy(&barrier);
    weft_context_destroy(&context);
}

static bool is_here(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool here = library && dlsym(library, "fake_cuda");
    if (!here) print_message("SKIPPED: the double of libcuda.so.1 is not here\n");
    return here;
}

static void test_collectives(void **state)
{
    (void)state;
    if (!is_here()) skip();
    for (int ranks = 2; ranks <= MOST; ranks++) run_team(run_all, ranks);
}

static void test_leaving(void **state)
{
    (void)state;
    if (!is_here()) skip();
    for (int ranks = 2; ranks <= MOST; ranks++) run_team(leave, ranks);
}

/* NCCL is opened by name alone, and a device without it has no library. */
static void test_names(void **state)
{
    static const char *const names[] = {"cuda", "cuda:libraries=none", "cuda:libraries=cudnn"};
    (void)state;
    if (!is_here()) skip();
    for (size_t i = 0; i < WEFT_COUNT(names); i++) {
        weft_context *context;
        weft_device *device;
        assert_ok(weft_context_create(&context));
        assert_ok(weft_device_open(context, names[i], &device));
        assert_null(device->ops->collectives->library(device));
        assert_null(strstr(device->ops->about(device), "nccl"));
        weft_device_close(&device);
        weft_context_destroy(&context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_collectives),
                                       cmocka_unit_test(test_leaving)};
    assert_int_equal(setenv("FAKE_CUDA_CARDS", "4", 1), 0);
    return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
