/* Laws that estimated steps obey on clusters drawn at random: links carry no more than their
 * bandwidth in a step, the parts of a step are the step, better machines and links make no step
 * slower, and the order of equal machines does not matter. */
#include "estimates.h"

static const char *const exchanges[] = {
    "exchange=average:every=2",           "exchange=server",
    "exchange=server servers=2",          "exchange=server:policy=async",
    "exchange=server:policy=ssp,bound=3", "exchange=gossip",
    "exchange=gossip:mode=average",       "exchange=easgd:every=4"};
enum { GROUPS = 3, PLAYED = 1 }; /* the exchanges from PLAYED on are played */

typedef struct group {
    int count, cores;
    double speed, jitter, bandwidth, latency;
} group;

typedef struct random_cluster {
    group groups[GROUPS];
    int count;
} random_cluster;

static double pick(weft_random *r, const double *of, int count)
{
    return of[(int)(weft_random_unit(r) * count)];
}

static random_cluster draw(weft_random *r)
{
    static const double cores[] = {1, 2, 4}, speeds[] = {0.5, 1, 1, 3}, jitters[] = {0, 0, 0.5},
                        rates[] = {5e6, 1.25e7, 1.25e8}, latencies[] = {0, 1e-4, 2e-3};
    random_cluster c = {.count = 1 + (int)(weft_random_unit(r) * GROUPS)};
    for (int g = 0; g < c.count; g++)
        c.groups[g] = (group){1 + (int)(weft_random_unit(r) * 3),
                              (int)pick(r, cores, 3),
                              pick(r, speeds, 4),
                              pick(r, jitters, 3),
                              pick(r, rates, 3),
                              pick(r, latencies, 3)};
    c.groups[0].count++;
    return c;
}

static int machines_of(const random_cluster *c)
{
    int sum = 0;
    for (int g = 0; g < c->count; g++) sum += c->groups[g].count;
    return sum;
}

/* One line for each group, or for each machine; backwards: the last group first. */
static const char *written(const char *root, const random_cluster *c, bool split, bool backwards)
{
    char keys[2000] = "machines:\n";
    for (int k = 0; k < c->count; k++) {
        const group *g = &c->groups[backwards ? c->count - 1 - k : k];
        for (int i = 0; i < (split ? g->count : 1); i++)
            (void)snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys),
                           "  - {count: %d, cores: %d, speed: %g, jitter: %g, bandwidth: %g, "
                           "latency: %g}\n",
                           split ? 1 : g->count, g->cores, g->speed, g->jitter, g->bandwidth,
                           g->latency);
    }
    return cluster_of(root, keys);
}

static weft_step_estimate on(const random_cluster *c, const char *file, const char *exchange)
{
    char words[200];
    (void)snprintf(words, sizeof(words), SMALL "batch=8 threads=1 ranks=%d steps=64",
                   machines_of(c));
    return estimated(words, exchange, file);
}

static void check(const random_cluster *c, const weft_step_estimate *e)
{
    double fastest = 0, parts = e->computed + e->transferred + e->waited + e->rest;
    for (int g = 0; g < c->count; g++) fastest = fmax(fastest, c->groups[g].bandwidth);
    print_message("    %.4g ms, of it parts %.4f, link %.4f of what it can carry\n",
                  1e3 * e->seconds, parts / e->seconds, e->link_bytes / fastest / e->seconds);
    assert_true(e->link_bytes <= fastest * e->seconds * (1 + 1e-6));
    assert_true(e->link_bytes <= e->wire_bytes * (1 + 1e-9));
    assert_true(e->busiest_link >= 0 && e->busiest_link <= 1 + 1e-9);
    assert_true(e->server_busy >= 0 && e->server_busy <= 1 + 1e-9);
    assert_true(e->low <= e->seconds && e->seconds <= e->high);
    assert_true(e->computed >= 0 && e->transferred >= 0 && e->waited >= 0 && e->rest >= 0);
    assert_true(near(parts, e->seconds, 1e-6));
}

static void test_links_and_parts(void **state)
{
    (void)state;
    enum { CLUSTERS = 12 };
    char *root = temporary_folder();
    weft_random r;
    weft_random_start(&r, 12, 0);
    for (int i = 0; i < CLUSTERS; i++) {
        random_cluster c = draw(&r);
        const char *file = written(root, &c, false, false);
        for (size_t x = 0; x < WEFT_COUNT(exchanges); x++) {
            if (!taken(x + (size_t)i, 1, 3)) continue;
            print_message("cluster %d of %d machines, %s\n", i, machines_of(&c), exchanges[x]);
            weft_step_estimate e = on(&c, file, exchanges[x]);
            check(&c, &e);
        }
    }
    remove_folder(root);
}

/* --- sums of few bytes --- */

/* Ranks on N machines send 2 (N - 1) / N of a vector to sum it by halving, and all of it log2 N
 * times by doubling, as comm/rounds.c chooses for few bytes. */
static void test_bytes_of_sums(void **state)
{
    (void)state;
    static const char *const models[] = {"model=mlp:hidden=200", "model=mlp:hidden=8"};
    char *root = temporary_folder(), words[300], keys[100];
    for (size_t m = 0; m < WEFT_COUNT(models); m++) {
        double whole = 0;
        for (int n = 2, levels = 1; n <= 8; n *= 2, levels++) {
            (void)snprintf(keys, sizeof(keys), "bandwidth: 125e6\nmachines: [{count: %d}]", n);
            (void)snprintf(words, sizeof(words),
                           "data=glyphs:size=9,train=96,test=8 batch=8 threads=1 ranks=%d %s", n,
                           models[m]);
            double sent = estimated(words, "exchange=average", cluster_of(root, keys)).link_bytes;
            if (n == 2) whole = sent;
            print_message("%s on %d machines: %.0f bytes of %.0f\n", models[m], n, sent, whole);
            assert_true(near(sent, whole * (m == 1 ? levels : 2.0 * (n - 1) / n), 1e-9));
        }
    }
    remove_folder(root);
}

/* --- monotonicity and order --- */

/* Clusters of which each is at least as good as the drawn one. */
static random_cluster better(const random_cluster *c, int how)
{
    random_cluster b = *c;
    for (int g = 0; g < b.count; g++) {
        group *at = &b.groups[g];
        at->bandwidth *= how == 0 ? 2 : how == 1 ? 1.1 : 1;
        at->latency *= how == 2 ? 0.5 : 1;
        at->speed *= how == 3 ? 2 : 1;
        at->cores *= how == 4 ? 2 : 1;
    }
    return b;
}
static const char *const betters[] = {"twice the bandwidth", "1.1 of it", "half the latency",
                                      "twice the speed", "twice the cores"};

/* Better links and machines make no step slower; where exchanges are played, but for what the order
 * of messages shifts by chance. */
static void test_better_is_no_slower(void **state)
{
    (void)state;
    enum { CLUSTERS = 3 };
    char *root = temporary_folder();
    weft_random r;
    weft_random_start(&r, 5, 0);
    for (int i = 0; i < CLUSTERS; i++) {
        random_cluster c = draw(&r);
        for (int g = 0; g < c.count; g++) c.groups[g].jitter = 0;
        for (size_t x = 0; x < WEFT_COUNT(exchanges); x++) {
            if (!taken(x + (size_t)i, 1, 4)) continue;
            double before = on(&c, written(root, &c, false, false), exchanges[x]).seconds;
            for (size_t how = 0; how < WEFT_COUNT(betters); how++) {
                random_cluster b = better(&c, (int)how);
                double after = on(&b, written(root, &b, false, false), exchanges[x]).seconds;
                print_message("cluster %d, %s, %s: %.4f times as long\n", i, exchanges[x],
                              betters[how], after / before);
                assert_true(after <= before * (x < PLAYED ? 1 + 1e-9 : 1.05));
            }
        }
    }
    remove_folder(root);
}

/* A run whose learners wait for each other is as fast if equal machines, or groups of them, change
 * places in the file. */
static void test_places_do_not_matter(void **state)
{
    (void)state;
    enum { CLUSTERS = 12 };
    static const char *const alike[] = {"exchange=average:every=2", "exchange=oneshot",
                                        "exchange=average:every=8"};
    char *root = temporary_folder();
    weft_random r;
    weft_random_start(&r, 7, 0);
    for (int i = 0; i < CLUSTERS; i++) {
        random_cluster c = draw(&r);
        for (int g = 0; g < c.count; g++) c.groups[g].jitter = 0;
        for (size_t x = 0; x < WEFT_COUNT(alike); x++) {
            double first = on(&c, written(root, &c, false, false), alike[x]).seconds;
            double split = on(&c, written(root, &c, true, false), alike[x]).seconds;
            double backwards = on(&c, written(root, &c, true, true), alike[x]).seconds;
            print_message("cluster %d, %s: %.6g, %.6g and %.6g ms\n", i, alike[x], 1e3 * first,
                          1e3 * split, 1e3 * backwards);
            assert_true(near(first, split, 1e-9) && near(first, backwards, 1e-6));
        }
    }
    remove_folder(root);
}

/* Steps that links decide take as long on machines of any speed: no order of messages locks that
 * another speed would not have. */
static void test_speed_changes_no_order(void **state)
{
    (void)state;
    static const double speeds[] = {1, 4, 5, 24};
    char *root = temporary_folder(), keys[200];
    for (int machines = 3; machines <= 6; machines += 3) {
        double first = 0;
        for (size_t s = 0; s < WEFT_COUNT(speeds); s++) {
            char words[200];
            (void)snprintf(words, sizeof(words),
                           SMALL "batch=8 threads=1 ranks=%d steps=64 servers=2", machines);
            (void)snprintf(keys, sizeof(keys),
                           "latency: 0.001\nbandwidth: 5e6\nmachines: [{count: %d, cores: 2, "
                           "speed: %g}]",
                           machines, 10 * speeds[s]);
            double takes = estimated(words, "exchange=server", cluster_of(root, keys)).seconds;
            print_message("%d machines of speed %g: %.4g ms\n", machines, 10 * speeds[s],
                          1e3 * takes);
            if (s == 0) first = takes;
            assert_true(near(takes, first, 0.05));
        }
    }
    remove_folder(root);
}

/* --- pauses --- */

/* Runs on machines that stop for half of each period take twice as long, whatever the period, also
 * where links decide. */
static void test_pauses(void **state)
{
    (void)state;
    static const double periods[] = {3e-3, 60, 3600}, bandwidths[] = {1e15, 1e6};
    char *root = temporary_folder(), keys[200];
    for (size_t i = 0; i < WEFT_COUNT(exchanges) * WEFT_COUNT(bandwidths); i++) {
        static const char words[] = SMALL "batch=8 threads=1 ranks=4 steps=64";
        const char *exchange = exchanges[i / WEFT_COUNT(bandwidths)];
        double bandwidth = bandwidths[i % WEFT_COUNT(bandwidths)];
        (void)snprintf(keys, sizeof(keys), "latency: 0\nbandwidth: %g\nmachines: [{count: 4}]",
                       bandwidth);
        double all = estimated(words, exchange, cluster_of(root, keys)).seconds;
        for (size_t p = 0; p < WEFT_COUNT(periods); p++) {
            if (!taken(p + i, 1, 3)) continue;
            (void)snprintf(keys, sizeof(keys),
                           "latency: 0\nbandwidth: %g\nmachines: [{count: 4, awake: 0.5, period: "
                           "%g}]",
                           bandwidth, periods[p]);
            double half = estimated(words, exchange, cluster_of(root, keys)).seconds;
            print_message("%s, %g bytes a second, period %g s: %.4f times as long\n", exchange,
                          bandwidth, periods[p], half / all);
            assert_true(near(half, 2 * all, 0.05));
        }
    }
    remove_folder(root);
}

/* --- lost messages --- */

/* Messages that are lost are sent again after many steps: a line of two equal machines and two
 * lines are the same, and links that lose the same share with another seed take about as long. */
static void test_lost(void **state)
{
    (void)state;
    static const char *const lines[] = {"  - {count: 1}\n  - {count: 2}\n",
                                        "  - {count: 1}\n  - {count: 1}\n  - {count: 1}\n"};
    char *root = temporary_folder(), keys[300], words[200];
    for (size_t x = PLAYED; x < WEFT_COUNT(exchanges); x++) {
        if (!taken(x, 1, 2)) continue;
        double seconds[2][2];
        for (int l = 0; l < 2; l++)
            for (int seed = 0; seed < 2; seed++) {
                (void)snprintf(keys, sizeof(keys),
                               "latency: 0.002\nbandwidth: 5e6\nlost: 0.01\nmachines:\n%s",
                               lines[l]);
                (void)snprintf(words, sizeof(words),
                               SMALL "batch=8 threads=1 ranks=3 steps=64 seed=%d", seed + 1);
                seconds[l][seed] = estimated(words, exchanges[x], cluster_of(root, keys)).seconds;
            }
        print_message("%s: %.4g and %.4g ms, %.4g with another seed\n", exchanges[x],
                      1e3 * seconds[0][0], 1e3 * seconds[1][0], 1e3 * seconds[0][1]);
        assert_true(near(seconds[0][0], seconds[1][0], 1e-9));
        assert_true(near(seconds[0][0], seconds[0][1], 0.25));
    }
    remove_folder(root);
}

/* --- memory --- */

/* Servers that are on a machine each have a part of the parameters there: the fullest machine has
 * the less, the more there are, and with few servers it has what a learner and one of them take. */
static void test_memory_of_servers(void **state)
{
    (void)state;
    static const char *const engines[] = {"threads", "processes"};
    char *root = temporary_folder(), words[300], model[200];
    (void)snprintf(model, sizeof(model), "%s",
                   cluster_file(root, "model.yaml",
                                "layers: [{type: flatten}, {type: dense, units: 20000}, "
                                "{type: dense, units: outputs}]\n"));
    for (size_t e = 0; e < WEFT_COUNT(engines); e++) {
        double memory[5] = {0}, together[5] = {0};
        for (int s = 1; s <= 4; s *= 2) {
            (void)snprintf(words, sizeof(words),
                           "data=glyphs:size=8,train=48,test=12 model=%s batch=4 threads=1 ranks=4 "
                           "steps=8 engine=%s servers=%d",
                           model, engines[e], s);
            const char *file =
                cluster_of(root, "bandwidth: 125e6\nmachines: [{count: 4, memory: 1e9}]");
            memory[s] = estimated(words, "exchange=server", file).memory;
            file = cluster_of(root, "machines: [{count: 1, cores: 4, memory: 1e9}]");
            together[s] = estimated(words, "exchange=server", file).memory;
            print_message("%s, %d servers: %.1f MB, on one machine %.1f\n", engines[e], s,
                          memory[s] / 1e6, together[s] / 1e6);
        }
        /* The first machine has half of the ranges less with twice the servers; at the end of a run
         * up to two of its ranges are under way besides. */
        double half = memory[1] - memory[2], quarter = memory[2] - memory[4];
        assert_true(half > 5e6 && quarter > 0.9 * half / 2 && quarter < 1.1 * half);
        assert_true(together[4] > together[1] * 0.9);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_and_parts),
        cmocka_unit_test(test_bytes_of_sums),
        cmocka_unit_test(test_better_is_no_slower),
        cmocka_unit_test(test_places_do_not_matter),
        cmocka_unit_test(test_speed_changes_no_order),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_memory_of_servers),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
