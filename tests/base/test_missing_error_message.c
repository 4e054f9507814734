/* Plug-ins whose functions fail without an error message: the library then reports the names of the
 * plug-in and of the function, never the message of an earlier failure. */
#include "context.h"
#include "device/device.h"
#include "exchange/exchange.h"

static weft_status silent_open(weft_context *c, const char *arguments, weft_device **out)
{
    (void)c, (void)arguments, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_plain(weft_device *d, const weft_type *type, const weft_layout **out)
{
    (void)d, (void)type, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_kernel(weft_device *d, const weft_group *group,
                                 const weft_candidate *candidate, const weft_layout *const *in,
                                 weft_kernel **out)
{
    (void)d, (void)group, (void)candidate, (void)in, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_reorder(weft_device *d, const weft_type *type, const weft_layout *from,
                                  const weft_layout *to, weft_kernel **out)
{
    (void)d, (void)type, (void)from, (void)to, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_bind(const weft_kernel *kernel, weft_bound **out)
{
    (void)kernel, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_place(weft_bound *b, const weft_address *in, const weft_address *out,
                                weft_address scratch)
{
    (void)b, (void)in, (void)out, (void)scratch;
    return WEFT_ERR_IO;
}
static weft_status silent_run(weft_bound *b, weft_queue *queue)
{
    (void)b, (void)queue;
    return WEFT_ERR_IO;
}
static weft_status silent_finish(weft_bound *b)
{
    (void)b;
    return WEFT_ERR_IO;
}
static weft_status silent_poll(weft_bound *b, bool *done)
{
    (void)b, (void)done;
    return WEFT_ERR_IO;
}
static weft_status silent_allocate(weft_device *d, size_t bytes, weft_memory **out)
{
    (void)d, (void)bytes, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_queue(weft_device *d, weft_queue **out)
{
    (void)d, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_in(weft_queue *q, weft_address to, const void *from, size_t bytes)
{
    (void)q, (void)to, (void)from, (void)bytes;
    return WEFT_ERR_IO;
}
static weft_status silent_out(weft_queue *q, void *to, weft_address from, size_t bytes)
{
    (void)q, (void)to, (void)from, (void)bytes;
    return WEFT_ERR_IO;
}
static weft_status silent_copy(weft_queue *q, weft_address to, weft_address from, size_t bytes)
{
    (void)q, (void)to, (void)from, (void)bytes;
    return WEFT_ERR_IO;
}
static weft_status silent_event(weft_device *d, weft_queue_event **out)
{
    (void)d, (void)out;
    return WEFT_ERR_IO;
}
static weft_status silent_record(weft_queue *q, weft_queue_event *event)
{
    (void)q, (void)event;
    return WEFT_ERR_IO;
}
static weft_status silent_wait(weft_queue_event *event)
{
    (void)event;
    return WEFT_ERR_IO;
}

static const weft_memory_ops memory_ops = {.allocate = silent_allocate,
                                           .open_queue = silent_queue,
                                           .copy_in = silent_in,
                                           .copy_out = silent_out,
                                           .copy = silent_copy,
                                           .open_event = silent_event,
                                           .record = silent_record,
                                           .wait = silent_wait};
static const weft_device_ops device_ops = {.struct_size = sizeof(weft_device_ops),
                                           .name = "mute",
                                           .memory = &memory_ops,
                                           .open = silent_open,
                                           .plain = silent_plain,
                                           .kernel = silent_kernel,
                                           .reorder = silent_reorder};
static const weft_kernel_ops kernel_ops = {.bind = silent_bind};
static const weft_bound_ops bound_ops = {
    .place = silent_place, .run = silent_run, .finish = silent_finish, .poll = silent_poll};

/* Leaves the message of an earlier failure, which must not be reported. */
static void forget(void)
{
    assert_int_equal(weft_fail(WEFT_ERR_FORMAT, "something else"), WEFT_ERR_FORMAT);
}

#define assert_told(call, kind, function)                                                          \
    do {                                                                                           \
        forget();                                                                                  \
        assert_refused(call, WEFT_ERR_IO, kind " mute: its function '" function "' failed (io)");  \
    } while (0)

static void test_devices(void **state)
{
    (void)state;
    weft_device device = {.ops = &device_ops, .context = context, .threads = 1}, *opened;
    weft_kernel kernel = {.ops = &kernel_ops, .device = &device}, *made;
    weft_bound bound = {.ops = &bound_ops, .kernel = &kernel}, *new;
    weft_memory memory = {.device = &device}, *allocated;
    weft_address at = {&memory, 0};
    weft_queue *queue, *there = (weft_queue *)(void *)&memory; /* never dereferenced */
    weft_queue_event *event, *one = (weft_queue_event *)(void *)&memory;
    const weft_type type = {WEFT_F32, {0}};
    const weft_layout *layout = NULL;
    char bytes[4] = "";
    bool done;
    assert_ok(weft_device_register(context, &device_ops));
    assert_told(weft_device_open(context, "mute", &opened), "device", "open");
    assert_told(weft_device_plain(&device, &type, &layout), "device", "plain");
    assert_told(weft_device_kernel(&device, NULL, NULL, NULL, &made), "device", "kernel");
    assert_told(weft_device_reorder(&device, &type, NULL, NULL, &made), "device", "reorder");
    assert_told(weft_kernel_bind(&kernel, &new), "device", "bind");
    assert_told(weft_bound_place(&bound, NULL, NULL, at), "device", "place");
    assert_told(weft_bound_run(&bound, there), "device", "run");
    assert_told(weft_bound_finish(&bound), "device", "finish");
    assert_told(weft_bound_poll(&bound, &done), "device", "poll");
    assert_told(weft_memory_new(&device, 4, &allocated), "device", "allocate");
    assert_told(weft_queue_open(&device, &queue), "device", "open_queue");
    assert_told(weft_copy_in(there, at, bytes, 4), "device", "copy_in");
    assert_told(weft_copy_out(there, bytes, at, 4), "device", "copy_out");
    assert_told(weft_copy(there, at, at, 4), "device", "copy");
    assert_told(weft_event_open(&device, &event), "device", "open_event");
    assert_told(weft_event_record(&device, there, one), "device", "record");
    assert_told(weft_event_wait(&device, one), "device", "wait");
}

static weft_status mute_open(weft_exchange *e, const char *arguments,
                             const weft_exchange_setup *setup)
{
    (void)e, (void)arguments, (void)setup;
    return WEFT_ERR_IO;
}
static void mute_close(weft_exchange *e)
{
    (void)e;
}
static weft_status mute(weft_exchange *e)
{
    (void)e;
    return WEFT_ERR_IO;
}
static weft_status mute_step(weft_exchange *e, int64_t step)
{
    (void)e, (void)step;
    return WEFT_ERR_IO;
}
static weft_status mute_after(weft_exchange *e, weft_step_result *turn)
{
    (void)e, (void)turn;
    return WEFT_ERR_IO;
}

static const weft_exchange_ops exchange_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .name = "mute",
    .size = sizeof(weft_exchange),
    .owns_update = true,
    .open = mute_open,
    .close = mute_close,
    .step = {.before = mute_step, .update = mute_step, .after = mute_after},
    .life = {.begin = mute, .end = mute},
};

static void test_exchanges(void **state)
{
    (void)state;
    weft_exchange exchange = {.ops = &exchange_ops};
    weft_step_result turn = {.step = 1};
    const weft_entry entry = {.kind = WEFT_KIND_EXCHANGE, .name = "mute", .ops = &exchange_ops};
    assert_ok(weft_context_register(context, &entry, 1));
    assert_told(weft_exchange_check(context, "mute"), "exchange", "open");
    assert_told(weft_exchange_begin(&exchange), "exchange", "begin");
    assert_told(weft_exchange_before(&exchange, 1), "exchange", "before");
    assert_told(weft_exchange_update(&exchange, 1), "exchange", "update");
    assert_told(weft_exchange_after(&exchange, &turn), "exchange", "after");
    assert_told(weft_exchange_end(&exchange), "exchange", "end");
}

/* If the failed function has set a message, it is kept, also if the message was caught in another
 * thread and raised in this one. */
static void test_what_has_been_said(void **state)
{
    (void)state;
    weft_error kept = {.status = WEFT_OK};
    uint64_t before = weft_failures();
    weft_status status = weft_fail(WEFT_ERR_IO, "the disk is full");
    assert_refused(weft_ensure_message(status, before, "device", "a", "b"), WEFT_ERR_IO,
                   "the disk is full");
    weft_error_catch(&kept, WEFT_ERR_IO);
    forget();
    before = weft_failures();
    assert_refused(weft_ensure_message(weft_error_raise(&kept), before, "device", "a", "b"),
                   WEFT_ERR_IO, "the disk is full");
    before = weft_failures();
    assert_ok(weft_ensure_message(WEFT_OK, before, "device", "a", "b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_exchanges),
        cmocka_unit_test(test_what_has_been_said),
    };
    return cmocka_run_group_tests_name("silent", tests, setup, teardown);
}
