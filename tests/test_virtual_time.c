/* How long things take in virtual time, and what that makes of learners: closed formulas. */
#include "simulations.h"

/* Rates are scheduled by the steps of learners, however many updates these are: after the first
 * five, the rate is as good as nothing, and so is whatever follows. */
static void test_schedule(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "exchange=server:policy=async servers=2", "exchange=server:policy=async,push=5,fetch=5",
        "exchange=server:policy=softsync,c=3", "exchange=server:policy=ssp,bound=1 compress=bf16"};
    static const char words[] = EXACT "ranks=3 batch=4 optimizer=sgd lr=0.1 lr-schedule=step "
                                      "decay-every=5 gamma=1e-12";
    char *root = temporary_folder(), more[200], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        const char *folder[2];
        for (int longer = 0; longer < 2; longer++) {
            told t;
            (void)snprintf(name, sizeof(name), "schedule-%zu-%d", w, longer);
            folder[longer] = made(root, name);
            (void)snprintf(more, sizeof(more), "%s steps=%d", ways[w], longer ? 25 : 5);
            assert_ok(simulate(words, more, folder[longer], &t));
        }
        assert_same(folder[0], folder[1], "parameters", 1e-9, ways[w]);
    }
    remove_folder(root);
}

/* Equal learners take turns: each meets the updates of all others, once all have begun. */
static void test_round_robin(void **state)
{
    (void)state;
    for (int learners = 2; learners <= 5; learners++) {
        char words[200];
        told t;
        (void)snprintf(words, sizeof(words), SMALL "batch=2 steps=30 ranks=%d", learners);
        assert_ok(simulate(words, "exchange=server:policy=async", NULL, &t));
        assert_int_equal(t.staleness_count, learners);
        for (int s = 0; s < learners - 1; s++) assert_true(t.staleness[s] == 1);
        assert_true(t.staleness[learners - 1] == 30 * learners - (learners - 1));
    }
}

/* n-softsync: a version of c = L / n updates, and staleness about n. */
static void test_softsync(void **state)
{
    (void)state;
    static const struct {
        int c;
        double mean;
    } all[] = {{6, 5}, {10, 3}, {15, 2}};
    char *root = temporary_folder();
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char words[400], exchange[80];
        told t;
        const char *cluster =
            cluster_file(root, "jitter.yaml",
                         "step: 1\nbandwidth: 0\nlatency: 0\nlearners: [{count: 30, jitter: 1}]\n");
        (void)snprintf(words, sizeof(words), SMALL "batch=1 steps=60 cluster=%s", cluster);
        (void)snprintf(exchange, sizeof(exchange), "exchange=server:policy=softsync,c=%d",
                       all[i].c);
        assert_ok(simulate(words, exchange, NULL, &t));
        print_message("softsync of %d in 30: staleness %.3f\n", all[i].c, t.mean_staleness);
        assert_true(fabs(t.mean_staleness - all[i].mean) <= 0.1 * all[i].mean);
    }
    remove_folder(root);
}

/* With one of four ten times as slow, those who wait for all fall to its speed, the others keep
 * most of theirs: (3 + 0.1) / 4 would be all of it. */
static void test_straggler(void **state)
{
    (void)state;
    static const struct {
        const char *exchange;
        double low, high;
    } all[] = {{"exchange=server:policy=bsp", 0.05, 0.15},
               {"exchange=server:policy=ssp,bound=0", 0.05, 0.15},
               {"exchange=server:policy=ssp,bound=100", 0.7, 0.8},
               {"exchange=server:policy=async", 0.7, 0.8},
               {"exchange=server:policy=softsync,c=2", 0.7, 0.8},
               {"exchange=gossip", 0.7, 0.8},
               {"exchange=gossip:mode=average", 0.7, 0.8}};
    char *root = temporary_folder();
    const char *const files[] = {
        "step: 0.1\nbandwidth: 0\nlatency: 0\nlearners: [{count: 4}]\n",
        "step: 0.1\nbandwidth: 0\nlatency: 0\nlearners: [{count: 3}, {speed: 0.1}]\n"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        told t[2];
        for (int slow = 0; slow < 2; slow++) {
            char words[400];
            (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=50 cluster=%s",
                           cluster_file(root, "cluster.yaml", files[slow]));
            assert_ok(simulate(words, all[i].exchange, NULL, &t[slow]));
        }
        double kept = t[1].rate / t[0].rate;
        print_message("%s: %.2f of %.1f samples/s\n", all[i].exchange, kept, t[0].rate);
        assert_true(kept >= all[i].low && kept <= all[i].high);
        assert_true(fabs(t[1].utilisation - (kept < 0.5 ? 0.325 : 1)) < 0.03);
    }
    remove_folder(root);
}

/* Where all wait for the slowest, what each has computed when the first is through is known: its
 * own steps, and of the others' all but what they still had to do of the last. */
static void test_busy(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[400];
    const char *file =
        cluster_file(root, "cluster.yaml",
                     "step: 1000\nbandwidth: 0\nlatency: 1e-9\nlearners: [{speed: 1}, "
                     "{speed: 0.2}, {speed: 0.1}]\n");
    for (int steps = 2; steps <= 20; steps += 6) {
        told t;
        double before = steps - 1, end = 10000 * before + 1000;
        double busy = 1000 * steps + (5000 * before + 1000) + (10000 * before + 1000);
        double done = steps + (before + 0.2) + (before + 0.1);
        (void)snprintf(words, sizeof(words),
                       EXACT "batch=4 steps=%d optimizer=sgd servers=1 cluster=%s", steps, file);
        assert_ok(simulate(words, "exchange=server:policy=bsp", NULL, &t));
        assert_true(fabs(t.utilisation - busy / end / 3) < 1e-6);
        assert_true(fabs(t.rate - 4 * done / end) < 1e-5 * t.rate);
    }
    remove_folder(root);
}

/* A gradient that is clipped leaves when it has been: at the end of the step, whatever the update
 * costs, so those who wait for all go by the slowest one's steps. */
static void test_clipped(void **state)
{
    (void)state;
    static const char *const clips[] = {"0", "1000000", "0.001"};
    char *root = temporary_folder(), words[400];
    const char *file = cluster_file(
        root, "cluster.yaml",
        "step: 1000\nbandwidth: 0\nlatency: 1e-9\nlearners: [{speed: 1}, {speed: 0.1}]\n");
    for (int batch = 2; batch <= 16; batch *= 2)
        for (size_t i = 0; i < sizeof(clips) / sizeof(clips[0]); i++)
            for (int micro = 1; micro <= 2; micro++) {
                told t;
                (void)snprintf(words, sizeof(words),
                               EXACT "batch=%d microbatches=%d steps=3 optimizer=sgd clip-norm=%s "
                                     "cluster=%s",
                               batch, micro, clips[i], file);
                assert_ok(simulate(words, "exchange=server:policy=bsp", NULL, &t));
                assert_true(fabs(t.first - 10000) < 1e-3 && fabs(t.seconds - 30000) < 1e-3);
            }
    remove_folder(root);
}

/* One of three is stopped most of the time: until the others end they take their steps as if it
 * were not there, and what waits for it is added up, or they would stop, or all of it be sent. */
static void test_stopped(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=gossip",
                                       "exchange=gossip:topology=ring compress=bf16",
                                       "exchange=gossip:mode=average"};
    char *root = temporary_folder(), words[400];
    const char *file = cluster_file(root, "cluster.yaml",
                                    "step: 1\nbandwidth: 0\nlatency: 1e-9\nlearners: [{count: 2}, "
                                    "{awake: 0.01, period: 10000}]\n");
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        told t;
        (void)snprintf(words, sizeof(words), SMALL "batch=2 steps=400 cluster=%s", file);
        assert_ok(simulate(words, ways[w], NULL, &t));
        /* Its first step is over when it wakes, if it does at all. */
        print_message("%s: %.3f samples/s\n", ways[w], t.rate);
        assert_true(t.rate > 4 * 0.999 && t.rate < 4 * 1.01);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule), cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync), cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_busy),     cmocka_unit_test(test_clipped),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
