/* Tests that signal handlers, which run on the stacks of computing threads at any moment of a step,
 * do not change the bits of a run. */
#include <signal.h>
#include <sys/time.h>

#include "trainer_runs.h"

static volatile sig_atomic_t arrived;

/* Overwrites 4 KiB of the interrupted thread's stack, more than the signal frame, to find code that
 * keeps data beyond the end of its stack. */
static void on_alarm(int number)
{
    volatile char room[4096];
    for (size_t i = 0; i < sizeof(room); i++) room[i] = (char)0xff;
    arrived += room[17] != 0 && number == SIGALRM;
}

static void signals_every(long microseconds)
{
    struct itimerval timer = {.it_interval.tv_usec = microseconds,
                              .it_value.tv_usec = microseconds};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void keeps_its_bits(const char *words)
{
    log_of_run quiet, busy;
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, before;
    assert_ok(train(words, NULL, 0, &quiet));
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (int i = 0; i < 3; i++) {
        arrived = 0;
        signals_every(200);
        weft_status status = train(words, NULL, 0, &busy);
        signals_every(0);
        assert_ok(status);
        assert_true(arrived > 0);
        assert_int_equal(busy.steps, quiet.steps);
        assert_memory_equal(busy.loss, quiet.loss, (size_t)quiet.steps * sizeof(quiet.loss[0]));
        assert_true(busy.test_loss == quiet.test_loss);
    }
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

static void test_dense(void **state)
{
    (void)state;
    keeps_its_bits("model=mlp data=glyphs:size=16,train=60,test=20 batch=20 threads=1 epochs=100");
}

static void test_convolutions(void **state)
{
    (void)state;
    keeps_its_bits("model=lenet data=glyphs:size=28,train=60,test=20 batch=20 threads=1 epochs=5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_convolutions),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
