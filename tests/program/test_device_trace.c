/* Traces of devices with memory of their own: with a clock the device times its work and the host
 * waits no more often than without a trace; without a clock the host waits for each instruction. */
#include "device/device.h"
#include "program_fixture.h"

static int count(const char *text, const char *words)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) n++;
    return n;
}

/* A step of lenet, traced. */
static char *traced_step(weft_context *context, const char *device)
{
    lowered l;
    weft_store *store;
    weft_instance *x;
    char *text;
    assert_ok(weft_store_create(context, device, 8, &store));
    lower(&l, context, store, "lenet", TRAINING, 4);
    assert_ok(weft_instance_create(l.program, store, NULL, &x));
    assert_ok(weft_instance_trace(x, 1000));
    assert_ok(weft_instance_trace_step(x, 1));
    train(&l, x, 4, 0, 1);
    assert_ok(weft_instance_trace_events(x, 0, -1, &text));
    weft_instance_destroy(&x);
    drop(&l);
    weft_store_destroy(&store);
    return text;
}

static void test_clock(void **state)
{
    (void)state;
    weft_context *context;
    open_context(&context);
    char *text = traced_step(context, "distant");
    assert_int_equal(count(text, "\"args\":{\"name\":\"device\"}"), 1);
    assert_true(count(text, "\"cat\":\"queue\"") > 20);
    assert_true(count(text, "\"name\":\"wait for the device\"") < 5);
    assert_null(strstr(text, "\"ts\":-")); /* also the device's times are the host's */
    weft_free(text);
    weft_context_destroy(&context);
}

static void test_no_clock(void **state)
{
    (void)state;
    weft_context *context;
    weft_memory_ops memory = *weft_device_distant.memory;
    weft_device_ops ops = weft_device_distant;
    const weft_entry entry = {
        .kind = WEFT_KIND_DEVICE, .name = "timeless", .summary = "no clock", .ops = &ops};
    open_context(&context);
    memory.elapsed = NULL;
    ops.name = "timeless";
    ops.memory = &memory;
    assert_refused(weft_context_register(context, &entry, 1), WEFT_ERR_ARGUMENT, "both or none");
    memory.open_timer = NULL;
    assert_ok(weft_context_register(context, &entry, 1));
    char *text = traced_step(context, "timeless");
    assert_int_equal(count(text, "\"args\":{\"name\":\"device\"}"), 0);
    assert_int_equal(count(text, "\"cat\":\"queue\""), 0);
    assert_true(count(text, "\"cat\":\"kernel\"") > 20);
    assert_true(count(text, "\"cat\":\"copy\"") >= 4);
    weft_free(text);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clock),
                                       cmocka_unit_test(test_no_clock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
