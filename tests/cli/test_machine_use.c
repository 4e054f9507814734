/* Tests of the share of a machine that others take, on made-up counts of the kernel. */
#include <math.h>
#include <unistd.h>

#include "cli/machine_use.h"
#include "support.h"

/* Counts of two cores, of which the last number is no part of a sum: guests are in `user`. */
static const char first[] = "cpu  1000 20 300 5000 70 8 9 10 500 0\ncpu0 1 2 3\n";

static machine_use read_use(const char *text, double own)
{
    machine_use use;
    assert_true(machine_use_read(text, own, &use));
    return use;
}

static void test_shares(void **state)
{
    /* Ticks after 10 s of two cores, 2000 of both: with so many of this process, others took this.
     */
    static const struct {
        const char *text;
        double own, others;
    } all[] = {
        {"cpu  1500 20 300 6500 70 8 9 10 500 0\n", 500, 0},       /* one core works, for us */
        {"cpu  3000 20 300 5000 70 8 9 10 500 0\n", 2000, 0},      /* both, for us */
        {"cpu  2900 20 400 5000 70 8 9 10 500 0\n", 1900, 0.05},   /* a twentieth for others */
        {"cpu  2000 520 300 5400 170 8 9 10 500 0\n", 1000, 0.25}, /* a nice one takes a quarter */
        {"cpu  2000 20 300 5400 70 8 9 610 500 0\n", 1000, 0.3},   /* the host takes core time */
        {"cpu  2000 20 300 5000 1070 8 9 10 500 0\n", 1000, 0},    /* disks keep no core busy */
        {"cpu  2000 20 300 6000 70 8 9 10 500 0\n", 1003, 0},      /* counts round */
        {"cpu  1000 20 300 5000 70 8 9 10 500 0\n", 0, 0},         /* no time has passed */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        machine_use before = read_use(first, 7), after = read_use(all[i].text, 7 + all[i].own);
        double share = machine_use_by_others(&before, &after);
        if (fabs(share - all[i].others) > 1e-12)
            fail_msg("row %zu: others took %g, should be %g", i, share, all[i].others);
    }
}

static void test_texts(void **state)
{
    machine_use use;
    (void)state;
    assert_false(machine_use_read("", 1, &use));
    assert_false(machine_use_read("cpu0 1 2 3 4 5 6 7 8\n", 1, &use));
    assert_false(machine_use_read("cpu  1 2 3 4 5 6 7\n", 1, &use));
}

/* The work of this process is its own. */
static void test_now(void **state)
{
    machine_use before = machine_use_now(), after = before;
    (void)state;
    if (before.all == 0) skip();
    for (volatile double x = 0; after.own < before.own + 5; x++)
        if (fmod(x, 1e5) == 0) after = machine_use_now();
    assert_true(after.all > before.all && after.busy >= before.busy);
    double share = machine_use_by_others(&before, &after);
    assert_true(share >= 0 && share <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
