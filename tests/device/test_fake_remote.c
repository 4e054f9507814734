/* The device distant (fake_remote): the host cannot touch its memory, and its commands have no
 * effect before the host waits for them. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/fake_remote/distant.h"
#include "support.h"

enum { COUNT = 1000 };

typedef struct far {
    weft_context *context;
    weft_device *device;
    weft_queue *queue;
    weft_queue_event *event;
    weft_memory *memory;
} far;

static void far_open(far *f)
{
    assert_ok(weft_context_create(&f->context));
    assert_ok(weft_device_open(f->context, "distant", &f->device));
    assert_ok(weft_queue_open(f->device, &f->queue));
    assert_ok(weft_event_open(f->device, &f->event));
    assert_ok(weft_memory_new(f->device, COUNT, &f->memory));
}

static void far_close(far *f)
{
    weft_queue_close(f->device, &f->queue);
    weft_event_close(f->device, &f->event);
    weft_memory_free(&f->memory);
    weft_device_close(&f->device);
    weft_context_destroy(&f->context);
}

static void look(far *f)
{
    volatile const char *at = weft_host((weft_address){f->memory, COUNT - 1});
    _exit(*at == 0 ? 0 : 1);
}

static void write_there(far *f)
{
    *(volatile char *)weft_host((weft_address){f->memory, 7}) = 1;
    _exit(0);
}

/* A process that uses an address of this device as a pointer dies by SIGSEGV. */
static void test_the_host_cannot_touch_it(void **state)
{
    (void)state;
    static void (*const ways[])(far *) = {look, write_there};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        far f;
        int status;
        far_open(&f);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            ways[i](&f);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        far_close(&f);
    }
}

/* New memory holds no numbers, see weft_memory_ops. */
static void test_new_memory(void **state)
{
    (void)state;
    far f;
    float out[COUNT / sizeof(float)] = {0};
    far_open(&f);
    for (int zeroed = 0; zeroed < 2; zeroed++) {
        if (zeroed)
            assert_ok(weft_memory_zero(f.device, f.queue, (weft_address){f.memory, 0}, COUNT));
        assert_ok(weft_copy_out(f.queue, out, (weft_address){f.memory, 0}, COUNT));
        assert_ok(weft_event_record(f.device, f.queue, f.event));
        assert_ok(weft_event_wait(f.device, f.event));
        for (size_t i = 0; i < COUNT / sizeof(float); i++)
            assert_true(zeroed ? out[i] == 0 : out[i] != out[i]);
    }
    far_close(&f);
}

/* A copy to the host has no effect before the host waits for an event behind it, and the wait runs
 * only the commands before the event. */
static void test_nothing_happens_by_itself(void **state)
{
    (void)state;
    far f;
    char in[COUNT], first[COUNT] = {0}, second[COUNT] = {0}, none[COUNT] = {0};
    memset(in, 5, sizeof(in));
    far_open(&f);
    assert_ok(weft_event_wait(f.device, f.event)); /* the event was never recorded */
    assert_ok(weft_copy_in(f.queue, (weft_address){f.memory, 0}, in, COUNT));
    assert_ok(weft_copy(f.queue, (weft_address){f.memory, 11}, (weft_address){f.memory, 0}, 100));
    assert_ok(weft_copy_out(f.queue, first, (weft_address){f.memory, 0}, COUNT));
    assert_ok(weft_event_record(f.device, f.queue, f.event));
    assert_ok(weft_copy_out(f.queue, second, (weft_address){f.memory, 0}, COUNT));
    usleep(20000);
    assert_memory_equal(first, none, COUNT);
    assert_ok(weft_event_wait(f.device, f.event));
    assert_memory_equal(first, in, COUNT);
    usleep(20000);
    assert_memory_equal(second, none, COUNT);
    far_close(&f); /* commands that are left in the queue run before the memory is freed */
    assert_memory_equal(second, in, COUNT);
}

static weft_status fail_to_run(weft_bound *bound, weft_queue *queue)
{
    (void)bound;
    (void)queue;
    return weft_fail(WEFT_ERR_NUMERIC, "no such number");
}

/* A failed command is reported once, to the next wait, and the commands behind it are skipped. */
static void test_failures_are_told(void **state)
{
    (void)state;
    far f;
    char out[COUNT] = {0}, none[COUNT] = {0}, in[COUNT];
    const weft_bound_ops ops = {.run = fail_to_run};
    weft_bound bound = {.ops = &ops};
    memset(in, 3, sizeof(in));
    far_open(&f);
    assert_ok(weft_copy_in(f.queue, (weft_address){f.memory, 0}, in, COUNT));
    assert_ok(distant_ask(f.queue, (distant_command){.bound = &bound}));
    assert_ok(weft_copy_out(f.queue, out, (weft_address){f.memory, 0}, COUNT));
    assert_ok(weft_event_record(f.device, f.queue, f.event));
    assert_refused(weft_event_wait(f.device, f.event), WEFT_ERR_NUMERIC, "no such number");
    assert_memory_equal(out, none, COUNT);
    assert_ok(weft_copy_out(f.queue, out, (weft_address){f.memory, 0}, COUNT));
    assert_ok(weft_event_record(f.device, f.queue, f.event));
    assert_ok(weft_event_wait(f.device, f.event));
    assert_memory_equal(out, in, COUNT);
    far_close(&f);
}

/* More commands than the list of a queue has room for, from two queues in turn. */
static void test_long_queues(void **state)
{
    (void)state;
    far f;
    weft_queue *other;
    char in[2][5000], out = 0;
    far_open(&f);
    assert_ok(weft_queue_open(f.device, &other));
    for (int i = 0; i < 5000; i++)
        for (int k = 0; k < 2; k++) {
            in[k][i] = (char)(i + k);
            assert_ok(weft_copy_in(k ? other : f.queue, (weft_address){f.memory, (size_t)k},
                                   &in[k][i], 1));
        }
    assert_ok(weft_copy_out(other, &out, (weft_address){f.memory, 1}, 1));
    assert_ok(weft_event_record(f.device, other, f.event));
    assert_ok(weft_event_wait(f.device, f.event));
    assert_int_equal(out, (char)5000);
    weft_queue_close(f.device, &other);
    far_close(&f);
}

/* A queue that waits for an event of another queue executes that queue first, also after the event
 * was recorded again or the other queue was closed; a failure passes on. */
static void test_a_queue_waits_for_another(void **state)
{
    (void)state;
    far f;
    weft_queue *first, *second;
    char in[2] = {5, 6}, out = 0;
    const weft_bound_ops ops = {.run = fail_to_run};
    weft_bound bound = {.ops = &ops};
    far_open(&f);
    assert_ok(weft_queue_open(f.device, &first));
    assert_ok(weft_queue_open(f.device, &second));
    assert_ok(weft_queue_wait(f.device, f.queue, f.event)); /* never recorded */
    assert_ok(weft_copy_in(first, (weft_address){f.memory, 9}, &in[0], 1));
    assert_ok(weft_event_record(f.device, first, f.event));
    assert_ok(weft_queue_wait(f.device, second, f.event));
    assert_ok(weft_copy_in(first, (weft_address){f.memory, 9}, &in[1], 1));
    assert_ok(weft_copy(second, (weft_address){f.memory, 8}, (weft_address){f.memory, 9}, 1));
    assert_ok(weft_event_record(f.device, second, f.event));
    assert_ok(weft_queue_wait(f.device, f.queue, f.event));
    assert_ok(weft_copy_out(f.queue, &out, (weft_address){f.memory, 8}, 1));
    assert_ok(weft_event_record(f.device, f.queue, f.event));
    bool done = false;
    while (!done) assert_ok(weft_event_test(f.device, f.event, &done));
    assert_int_equal(out, 5); /* not 6: the later command of the first queue was not waited for */
    assert_ok(weft_queue_wait(f.device, f.queue, f.event)); /* of the queue itself */

    assert_ok(distant_ask(first, (distant_command){.bound = &bound}));
    assert_ok(weft_event_record(f.device, first, f.event));
    assert_ok(weft_queue_wait(f.device, second, f.event));
    assert_ok(weft_event_record(f.device, second, f.event));
    assert_refused(weft_event_wait(f.device, f.event), WEFT_ERR_NUMERIC, "no such number");
    assert_ok(weft_event_record(f.device, first, f.event));
    assert_ok(weft_queue_wait(f.device, second, f.event));
    weft_queue_close(f.device, &first);
    weft_queue_close(f.device, &second);
    far_close(&f);
}

static void test_options(void **state)
{
    (void)state;
    weft_context *context;
    weft_device *device;
    assert_ok(weft_context_create(&context));
    assert_refused(weft_device_open(context, "distant:lack=relu", &device), WEFT_ERR_ARGUMENT,
                   "there are of=DEVICE, lacks=");
    assert_refused(weft_device_open(context, "distant:lacks=relu+rellu", &device),
                   WEFT_ERR_ARGUMENT, "'rellu', which is no operator");
    assert_refused(weft_device_open(context, "cpu:threads=2", &device), WEFT_ERR_ARGUMENT,
                   "none of its options");
    assert_refused(weft_device_open(context, "distant:of=distant", &device), WEFT_ERR_ARGUMENT,
                   "has memory of its own; give one in host memory");
    assert_refused(weft_device_open(context, "distant:memory=0", &device), WEFT_ERR_ARGUMENT,
                   "must be a whole number of bytes from 1");
    static const char *const good[] = {"distant:lacks=relu+add", "distant:of=cpu:memory=640",
                                       "distant:memory=7:of=reference"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_ok(weft_device_open(context, good[i], &device));
        weft_device_close(&device);
    }
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_host_cannot_touch_it),
        cmocka_unit_test(test_new_memory),
        cmocka_unit_test(test_nothing_happens_by_itself),
        cmocka_unit_test(test_failures_are_told),
        cmocka_unit_test(test_long_queues),
        cmocka_unit_test(test_a_queue_waits_for_another),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests_name("distant", tests, NULL, NULL);
}
