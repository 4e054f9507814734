/* Compares simulated runs with formulas: staleness, speed, utilization, and times of steps. */
#include "base/registry.h"
#include "exchange/simulated.h"
#include "simulations.h"

/* Learning-rate schedules count the learners' steps, not the updates of the servers. The rate falls
 * to almost zero after five steps, so 25 steps must give the parameters of 10. (With five the last
 * versions of softsync would be of fewer gradients, since learners leave.) */
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
            (void)snprintf(more, sizeof(more), "%s steps=%d", ways[w], longer ? 25 : 10);
            assert_ok(simulate(words, more, folder[longer], &t));
        }
        assert_same(folder[0], folder[1], "parameters", 1e-9, ways[w]);
    }
    remove_folder(root);
}

/* Learners of equal speed take turns: after the first round, each update meets those of all
 * others. */
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

/* n-softsync makes each version of c = L / n updates; the mean staleness is about n. */
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
                         "step: 1\nbandwidth: 0\nlatency: 0\nmachines: [{count: 30, jitter: 1}]\n");
        (void)snprintf(words, sizeof(words), SMALL "batch=1 steps=60 cluster=%s", cluster);
        (void)snprintf(exchange, sizeof(exchange), "exchange=server:policy=softsync,c=%d",
                       all[i].c);
        assert_ok(simulate(words, exchange, NULL, &t));
        print_message("softsync of %d in 30: staleness %.3f\n", all[i].c, t.mean_staleness);
        assert_true(fabs(t.mean_staleness - all[i].mean) <= 0.1 * all[i].mean);
    }
    remove_folder(root);
}

/* One of four learners is ten times slower. Policies that wait for all learners fall to its speed;
 * the others keep almost (3 + 0.1) / 4 of the full speed. */
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
        "step: 0.1\nbandwidth: 0\nlatency: 0\nmachines: [{count: 4}]\n",
        "step: 0.1\nbandwidth: 0\nlatency: 0\nmachines: [{count: 3}, {speed: 0.1}]\n"};
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

/* Under bsp all learners wait for the slowest, so the computed share of each is known when the
 * first learner ends: all its own steps, and of each other learner all steps but the rest of the
 * last one. */
static void test_busy(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[400];
    const char *file =
        cluster_file(root, "cluster.yaml",
                     "step: 1000\nbandwidth: 0\nlatency: 1e-9\nmachines: [{speed: 1}, "
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

/* A clipped gradient is pushed at the end of the step, when its norm is known. So under bsp the run
 * takes exactly the steps of the slowest learner, whatever the update costs. */
static void test_clipped(void **state)
{
    (void)state;
    static const char *const clips[] = {"0", "1000000", "0.001"};
    char *root = temporary_folder(), words[400];
    const char *file = cluster_file(
        root, "cluster.yaml",
        "step: 1000\nbandwidth: 0\nlatency: 1e-9\nmachines: [{speed: 1}, {speed: 0.1}]\n");
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

/* One of three peers is suspended most of the time. The other two take their steps as if it were
 * not there: updates that wait for it are summed, so they neither stop the peers nor have to be
 * sent one by one. */
static void test_stopped(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=gossip",
                                       "exchange=gossip:topology=ring compress=bf16",
                                       "exchange=gossip:mode=average"};
    char *root = temporary_folder(), words[400];
    const char *file = cluster_file(root, "cluster.yaml",
                                    "step: 1\nbandwidth: 0\nlatency: 1e-9\nmachines: [{count: 2}, "
                                    "{awake: 0.00005, period: 10000}]\n");
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        told t;
        (void)snprintf(words, sizeof(words), SMALL "batch=2 steps=400 cluster=%s", file);
        assert_ok(simulate(words, ways[w], NULL, &t));
        /* The suspended peer adds almost no samples: its first step ends when it wakes, if ever. */
        print_message("%s: %.3f samples/s\n", ways[w], t.rate);
        assert_true(t.rate > 4 * 0.999 && t.rate < 4 * 1.01);
    }
    remove_folder(root);
}

/* Steps go on only while their machine is awake, for the first seconds of each period, and slow
 * ones take so many times as long: both count once. */
static void test_pauses(void **state)
{
    (void)state;
    static const struct {
        double step, awake, period;
        int slowdown;
    } all[] = {
        {0.3, 0.4, 1, 1}, {5, 0.7, 1, 1}, {5, 0.7, 1, 3}, {0.01, 0.25, 10, 1}, {0.1, 0.1, 7, 10}};
    enum { STEPS = 9 };
    char *root = temporary_folder(), words[400], text[300];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        told t;
        double awake = all[i].awake * all[i].period, needs = STEPS * all[i].step * all[i].slowdown;
        double periods = floor(needs / awake);
        double wanted = periods * all[i].period + needs - periods * awake;
        (void)snprintf(text, sizeof(text),
                       "step: %g\nbandwidth: 0\nlatency: 0\nmachines: [{count: 2, slow: 1, "
                       "slowdown: %d, awake: %g, period: %g}]\n",
                       all[i].step, all[i].slowdown, all[i].awake, all[i].period);
        (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=%d cluster=%s", STEPS,
                       cluster_file(root, "cluster.yaml", text));
        assert_ok(simulate(words, "exchange=gossip", NULL, &t));
        if (fabs(t.last - wanted) > 1e-6 * wanted)
            fail_msg("%s: %d steps take %.9g s, not %.9g", text, STEPS, t.last, wanted);
    }
    remove_folder(root);
}

/* Without `step`, a step takes the time of its operations. The micro-batches of a step share one
 * update, so Adam takes more operations than plain SGD by the same number, however many they are.
 */
static void test_operations(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd", "adam"};
    char *root = temporary_folder(), words[400];
    const char *file = cluster_file(root, "cluster.yaml", "rate: 1e6\nbandwidth: 0\nlatency: 0\n");
    double more = 0;
    for (int micro = 1; micro <= 8; micro *= 2) {
        double taken[2];
        for (int i = 0; i < 2; i++) {
            told t;
            (void)snprintf(words, sizeof(words),
                           SMALL "batch=8 microbatches=%d steps=20 optimizer=%s cluster=%s", micro,
                           optimizers[i], file);
            assert_ok(simulate(words, "exchange=easgd:every=1000 ranks=1", NULL, &t));
            taken[i] = (t.seconds - t.first) / 19 * 1e6;
        }
        print_message("%d micro-batches: %.0f operations, with Adam %.0f\n", micro, taken[0],
                      taken[1]);
        if (micro == 1) more = taken[1] - taken[0];
        assert_true(more > 1e5 && fabs(taken[1] - taken[0] - more) < 1e-3 * more);
    }
    remove_folder(root);
}

/* A learner of elastic averaging waits for the centre every `every` steps, and computes while its
 * push, which is as long, is under way. */
static void test_elastic_period(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[400];
    told t[2];
    const char *file =
        cluster_file(root, "cluster.yaml", "step: 0.1\nbandwidth: 1e6\nlatency: 0\n");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=%d ranks=1 cluster=%s",
                       20 + 10 * i, file);
        assert_ok(simulate(words, "exchange=easgd:every=10", NULL, &t[i]));
    }
    double period = t[1].seconds - t[0].seconds, bytes = t[1].bytes - t[0].bytes;
    print_message("a period of %.4f s, with %.0f bytes\n", period, bytes);
    assert_true(bytes / 2 > 0.2 * 1e6 && bytes / 2 < 0.9 * 1e6);
    assert_true(fabs(period - (1 + bytes / 2 / 1e6)) < 0.01);
    remove_folder(root);
}

/* A link is as bad as the worse of its two ends. The end at a server has the keys above the
 * learners, and a link between peers does not. */
static void test_ends_of_links(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        double server, peers; /* seconds of a step */
    } all[] = {{"latency: 2\nmachines: [{count: 2, latency: 0}]", 1 + 4, 1},
               {"latency: 0\nmachines: [{count: 2, latency: 2}]", 1 + 4, 1},
               {"latency: 0\nmachines: [{count: 2}]", 1, 1}};
    char *root = temporary_folder(), words[400], text[200];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (int peers = 0; peers < 2; peers++) {
            told t;
            (void)snprintf(text, sizeof(text), "step: 1\nbandwidth: 0\n%s\n", all[i].keys);
            (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=9 cluster=%s",
                           cluster_file(root, "cluster.yaml", text));
            assert_ok(simulate(words, peers ? "exchange=gossip" : "exchange=server:policy=bsp",
                               NULL, &t));
            double step = (t.last - t.first) / 8, wanted = peers ? all[i].peers : all[i].server;
            if (fabs(step - wanted) > 0.01)
                fail_msg("%s: a step takes %g s, not %g", text, step, wanted);
        }
    remove_folder(root);
}

/* A version of softsync takes the gradients of all learners that are left if these are fewer than
 * c. All samples are alike, and the learning rate is small, so each gradient moves the parameters
 * by its weight: the first learner's six count 1/2 each, and the second's, which come when the
 * first has left, 1 each. Together they are nine serial steps. */
static void test_left_learner_counts_no_more(void **state)
{
    (void)state;
    char *root = temporary_folder(), text[200] = "x,w,t\n", table[4300], words[9000], way[4400];
    told t;
    for (int i = 0; i < 12; i++) (void)strcat(text, "3,1,2\n");
    write_file(root, "alike.csv", text, strlen(text), table, sizeof(table));
    (void)snprintf(words, sizeof(words),
                   "model=mlp seed=4 threads=1 dtype=f64 device=reference batch=1 normalize=none "
                   "optimizer=sgd lr=1e-6 data=csv:%s,target=t,weight=w,test=0.5",
                   table);
    (void)snprintf(way, sizeof(way), "steps=6 exchange=server:policy=softsync,c=2 cluster=%s",
                   cluster_file(root, "slow.yaml",
                                "step: 1\nlatency: 0\nbandwidth: 0\n"
                                "machines:\n  - speed: 1\n  - speed: 0.1\n"));
    const char *a = made(root, "serial");
    run(words, "steps=9", a, 0);
    const char *b = made(root, "softsync");
    assert_ok(simulate(words, way, b, &t));
    assert_same(a, b, "parameters", 1e-7, way);
    remove_folder(root);
}

static bool any(const weft_entry *entry, const void *what)
{
    return entry && !what;
}

/* Bytes cross links no faster than these carry them, at every step and at the end: each node sends
 * one message at a time, so all nodes together send at most as many times the bandwidth, whatever
 * the exchange, the cluster and the faults. Peers wait for nobody, so their run ends only when
 * their messages have arrived. */
static void test_bytes_take_their_time(void **state)
{
    (void)state;
    static const char *const with[] = {"", ":mode=average", ":topology=ring", ":policy=async",
                                       ":every=3"};
    char *root = temporary_folder(), words[400], text[300], exchange[80], *names, *save = NULL;
    weft_random random;
    weft_random_start(&random, 14, 0);
    assert_ok(weft_registry_names(context, WEFT_KIND_EXCHANGE, any, NULL, &names));
    int runs = 0, bounded = 0;
    for (char *n = strtok_r(names, ", ", &save); n; n = strtok_r(NULL, ", ", &save))
        for (size_t w = 0; w < WEFT_COUNT(with); w++) {
            told t;
            int learners = 2 + (int)(weft_random_u32(&random) % 4), servers = 1;
            double bandwidth = 1e4 * pow(1000, weft_random_unit(&random));
            (void)snprintf(exchange, sizeof(exchange), "exchange=%s%s", n, with[w]);
            if (weft_sim_exchange_check(context, exchange + strlen("exchange=")) != WEFT_OK)
                continue;
            bool bad = weft_random_unit(&random) < 0.5;
            (void)snprintf(text, sizeof(text),
                           "step: %g\nlatency: %g\nbandwidth: %.17g\nlost: %g\ntwice: %g\n"
                           "reordered: %g\nmachines: [{count: %d, jitter: %g}, {speed: 0.3}]\n",
                           0.001 + 0.1 * weft_random_unit(&random),
                           0.01 * weft_random_unit(&random), bandwidth, bad ? 0.1 : 0,
                           bad ? 0.2 : 0, bad ? 0.2 : 0, learners - 1, weft_random_unit(&random));
            (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=20 cluster=%s",
                           cluster_file(root, "cluster.yaml", text));
            weft_status status = simulate(words, exchange, NULL, &t);
            if (status == WEFT_ERR_ARGUMENT) continue; /* no such option of this exchange */
            assert_ok(status);
            double most = bandwidth * (learners + servers + 1);
            if (!(t.bytes_per_second <= most))
                fail_msg("%s: %g bytes a second over %g of all links\n%s", exchange,
                         t.bytes_per_second, most, text);
            runs++;
            bounded += t.bytes_per_second > most / 10;
        }
    print_message("%d runs, %d of them with busy links\n", runs, bounded);
    assert_true(runs >= 6 && bounded >= 3);
    free(names);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync),
        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_clipped),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_elastic_period),
        cmocka_unit_test(test_ends_of_links),
        cmocka_unit_test(test_left_learner_counts_no_more),
        cmocka_unit_test(test_bytes_take_their_time),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
