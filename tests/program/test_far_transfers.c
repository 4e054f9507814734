/* Transfers in memory of devices (program/far.h), over the device distant, which executes nothing
 * before the host waits for it: each wait of one queue for another is left out in turn, and the
 * results are then wrong; operations that end early end the others, and nothing reads memory that
 * was freed. One thread drives all ranks. */
#include "support.h"

#include "program/instance.h"
#include "program/far.h"

enum { MOST = 3, COUNT = 23, ROOM = MOST * COUNT };

typedef struct party {
    weft_context *context;
    weft_comm *comm;
    weft_store *store;
    weft_program program;
    weft_instance x;
    weft_device *device;
    weft_memory *send, *receive;
    weft_queue_event *ended;
    far_buffers *far;
    weft_operation *op;
    float data[ROOM], out[ROOM], nothing[ROOM];
} party;

typedef struct scene {
    weft_transfer_kind kind;
    const char *device;
    int ranks;
    int first;    /* the rank for which the host waits first */
    bool settles; /* the host waits for transfers alone before it waits for what follows them */
    int left_out; /* which wait, or mark of operands; -1: none */
    int waits;    /* so far */
} scene;

static scene *now;

/* Whether the next wait is left out. */
static bool leaves_out(void)
{
    return now->waits++ == now->left_out;
}

static const weft_far_ops *real;

/* A rank need not wait for its own work of a transfer, which is in one queue, except for its
 * operands. */
static weft_status follow(weft_far *far, const weft_far *other, weft_far_mark mark)
{
    bool own = far == other && mark != WEFT_FAR_READY;
    return own || !leaves_out() ? real->follow(far, other, mark) : WEFT_OK;
}

static const weft_far_ops *hooked(const weft_far_ops *ops)
{
    static weft_far_ops copy;
    real = ops;
    copy = *ops;
    copy.follow = follow;
    return &copy;
}

static weft_transfer transfer_of(const scene *s, int rank, int64_t *counts)
{
    weft_transfer t = {
        .kind = s->kind, .dtype = WEFT_F32, .what = "the test's values", .count = COUNT};
    t.send = t.receive = &now; /* not accessed */
    for (int r = 0; r < s->ranks; r++) counts[r] = COUNT / 2 + r;
    if (s->kind == WEFT_REDUCE_SCATTER || s->kind == WEFT_ALL_GATHER) t.counts = counts;
    if (s->kind == WEFT_ALL_TO_ALL) t.count = COUNT / 4;
    if (s->kind == WEFT_SEND) { /* from each even rank to the next one */
        t.peer = rank ^ 1;
        t.kind = rank % 2 ? WEFT_RECEIVE : WEFT_SEND;
    }
    return t;
}

static void open_party(const scene *s, party *x, int rank)
{
    int64_t counts[MOST];
    assert_ok(weft_context_create(&x->context));
    assert_ok(weft_store_create(x->context, s->device, 1, &x->store));
    x->device = x->store->schema->devices[0];
    x->program.schema = x->store->schema;
    x->x.program = &x->program;
    assert_ok(weft_queue_open(x->device, &x->x.queue));
    assert_ok(weft_event_open(x->device, &x->ended));
    assert_ok(weft_memory_new(x->device, sizeof(x->data), &x->send));
    assert_ok(weft_memory_new(x->device, sizeof(x->data), &x->receive));
    for (int i = 0; i < ROOM; i++) {
        x->data[i] = (float)(1 + i * 3 + rank * 1000);
        x->nothing[i] = -1;
    }
    weft_transfer t = transfer_of(s, rank, counts);
    assert_ok(weft_far_open(&x->x, &t, s->ranks, rank, (weft_address){x->send, 0},
                            (weft_address){x->receive, 0}, NULL, &x->far));
    weft_far_head(x->far)->ops = hooked(weft_far_head(x->far)->ops);
    assert_ok(weft_comm_prepare_far(x->comm, &t, weft_far_head(x->far), &x->op));
}

static void close_party(party *x)
{
    weft_operation_destroy(&x->op);
    weft_far_close(&x->far);
    assert_ok(weft_event_record(x->device, x->x.queue, x->ended));
    assert_ok(weft_event_wait(x->device, x->ended));
    weft_memory_free(&x->send);
    weft_memory_free(&x->receive);
    weft_event_close(x->device, &x->ended);
    weft_queue_close(x->device, &x->x.queue);
    weft_queue_close(x->device, &x->x.transfers);
    weft_store_destroy(&x->store);
    weft_context_destroy(&x->context);
}

/* Queues the making of the operands, and starts. */
static void start(party *x)
{
    assert_ok(
        weft_copy_in(x->x.queue, (weft_address){x->receive, 0}, x->nothing, sizeof(x->nothing)));
    assert_ok(weft_copy_in(x->x.queue, (weft_address){x->send, 0}, x->data, sizeof(x->data)));
    if (!leaves_out()) assert_ok(weft_far_ready(x->far));
    assert_ok(weft_operation_start(x->op));
}

/* Queues the reading of the results, and other uses of the memory. */
static void end(party *x)
{
    if (!leaves_out()) assert_ok(weft_far_end(x->far));
    assert_ok(weft_copy_out(x->x.queue, x->out, (weft_address){x->receive, 0}, sizeof(x->out)));
    assert_ok(weft_copy_in(x->x.queue, (weft_address){x->send, 0}, x->nothing, sizeof(x->nothing)));
    assert_ok(
        weft_copy_in(x->x.queue, (weft_address){x->receive, 0}, x->nothing, sizeof(x->nothing)));
    assert_ok(weft_event_record(x->device, x->x.queue, x->ended));
}

/* Compares with the transfer of host memory. */
static bool right(const scene *s, party *all, weft_comm *const *comms)
{
    static float out[MOST][ROOM];
    weft_operation *op[MOST];
    bool same = true, done = false;
    for (int r = 0; r < s->ranks; r++) {
        int64_t counts[MOST];
        weft_transfer t = transfer_of(s, r, counts);
        memcpy(out[r], all[r].nothing, sizeof(out[r]));
        t.send = all[r].data;
        t.receive = out[r];
        assert_ok(weft_comm_prepare(comms[r], &t, &op[r]));
        assert_ok(weft_operation_start(op[r]));
    }
    while (!done) {
        done = true;
        for (int r = 0; r < s->ranks; r++) {
            bool one = true;
            assert_ok(weft_operation_test(op[r], &one));
            done = done && one;
        }
    }
    for (int r = 0; r < s->ranks; r++) {
        for (int i = 0; i < ROOM; i++) same = same && out[r][i] == all[r].out[i];
        weft_operation_destroy(&op[r]);
    }
    return same;
}

/* Runs a transfer; whether its results are right. */
static bool run(scene *s)
{
    static party all[MOST];
    weft_comm *comms[MOST];
    weft_context *context;
    int local;
    memset(all, 0, sizeof(all));
    now = s;
    s->waits = 0;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_comm_open(context, "threads", s->ranks, comms, &local));
    for (int r = 0; r < s->ranks; r++) {
        all[r].comm = comms[r];
        open_party(s, &all[r], r);
    }
    for (int r = 0; r < s->ranks; r++) start(&all[r]);
    for (int done = 0; done < s->ranks;) {
        done = 0;
        for (int r = 0; r < s->ranks; r++) {
            bool one = true;
            assert_ok(weft_operation_test(all[r].op, &one));
            done += one;
        }
    }
    for (int r = 0; r < s->ranks; r++) end(&all[r]);
    for (int i = 0; i < 2 * s->ranks; i++) {
        int r = (s->first + i) % s->ranks;
        if (i >= s->ranks)
            assert_ok(weft_event_wait(all[r].device, all[r].ended));
        else if (s->settles)
            real->settle(weft_far_head(all[r].far));
    }
    bool as_meant = right(s, all, comms);
    for (int r = 0; r < s->ranks; r++) close_party(&all[r]);
    for (int r = 0; r < s->ranks; r++) weft_comm_close(&comms[r]);
    weft_context_destroy(&context);
    return as_meant;
}

static const weft_transfer_kind kinds[] = {WEFT_ALL_REDUCE, WEFT_REDUCE_SCATTER, WEFT_ALL_GATHER,
                                           WEFT_ALL_TO_ALL, WEFT_SEND};

static bool right_in_all_orders(scene *s)
{
    for (int order = 0; order < 2 * s->ranks; order++) {
        s->first = order / 2;
        s->settles = order % 2;
        if (!run(s)) return false;
    }
    return true;
}

static void test_each_wait(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int ranks = 2; ranks <= (kinds[k] == WEFT_SEND ? 2 : MOST); ranks++) {
            scene s = {.kind = kinds[k], .device = "distant", .ranks = ranks, .left_out = -1};
            assert_true(right_in_all_orders(&s));
            const int waits = s.waits;
            assert_true(waits > 2 * ranks);
            for (s.left_out = 0; s.left_out < waits; s.left_out++) {
                if (right_in_all_orders(&s))
                    fail_msg("%s of %d ranks: wait %d is not needed", weft_transfer_name(kinds[k]),
                             ranks, s.left_out);
            }
        }
}

/* A rank gives up after a number of rounds in which each rank was asked, and frees its memory at
 * once: what the devices of others have queued with it has been done then. The others end with its
 * message, or had ended. */
static bool give_up(scene *s, int who, int rounds)
{
    static party all[MOST];
    weft_comm *comms[MOST];
    weft_context *context;
    int local, ended = 0;
    memset(all, 0, sizeof(all));
    now = s;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_comm_open(context, "threads", s->ranks, comms, &local));
    for (int r = 0; r < s->ranks; r++) {
        all[r].comm = comms[r];
        open_party(s, &all[r], r);
    }
    for (int r = 0; r < s->ranks; r++) start(&all[r]);
    for (int i = 0; i < rounds; i++) {
        bool done;
        assert_ok(weft_operation_test(all[(who + i) % s->ranks].op, &done));
        ended += done;
    }
    assert_int_equal(weft_fail(WEFT_ERR_ARGUMENT, "rank %d gives up", who), WEFT_ERR_ARGUMENT);
    weft_comm_abort(comms[who]);
    close_party(&all[who]);
    for (int r = 0; r < s->ranks; r++) {
        if (r == who) continue;
        weft_status status = weft_operation_wait(all[r].op);
        if (status != WEFT_OK) assert_refused(status, WEFT_ERR_PEER, "gives up");
        close_party(&all[r]);
    }
    for (int r = 0; r < s->ranks; r++) weft_comm_close(&comms[r]);
    weft_context_destroy(&context);
    return ended < s->ranks;
}

static void test_ranks_that_give_up(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        scene s = {.kind = kinds[k], .device = "distant", .left_out = -1};
        s.ranks = kinds[k] == WEFT_SEND ? 2 : MOST;
        for (int who = 0; who < s.ranks; who++)
            for (int rounds = 0; give_up(&s, who, rounds); rounds++) assert_true(rounds < 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_wait),
        cmocka_unit_test(test_ranks_that_give_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
