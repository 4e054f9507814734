/* Compares estimated steps with simulated runs, for every exchange on clusters of several kinds,
 * and with formulas of learners whose steps take longer at random. */
#include "base/registry.h"
#include "estimates.h"

/* --- learners that meet rarely --- */

/* Machines whose steps take longer at random; some are slower. */
typedef struct machines {
    int learners, mesh, slower;
    double speed, jitter, slow, slowdown;
} machines;

static double draw_step(const machines *m, int learner, weft_random *random)
{
    double most = 0;
    for (int r = 0; r < m->mesh; r++) {
        double longer = weft_random_unit(random), lot = weft_random_unit(random);
        most = fmax(most, (1 + m->jitter * longer) * (lot < m->slow ? m->slowdown : 1));
    }
    return learner < m->learners - m->slower ? most : most / m->speed;
}

/* The mean, over periods, of how many times as long a step takes as on a machine that does not
 * vary, where learners wait for the last one at the end of a period. */
static double monte_carlo(const machines *m, int period)
{
    weft_random random;
    double sum = 0;
    int periods = 200 + 20000 / period;
    weft_random_start(&random, 77, (uint64_t)period);
    for (int i = 0; i < periods; i++) {
        double last = 0;
        for (int l = 0; l < m->learners; l++) {
            double clock = 0;
            for (int k = 0; k < period; k++) clock += draw_step(m, l, &random);
            last = fmax(last, clock);
        }
        sum += last / period / periods;
    }
    return sum;
}

static const char *write_machines(const char *root, const machines *m, bool varies)
{
    char keys[600];
    int ranks = m->learners * m->mesh, slower = m->slower * m->mesh;
    machines at = varies ? *m : (machines){.slowdown = 1, .speed = m->speed};
    (void)snprintf(keys, sizeof(keys),
                   "latency: 0\nbandwidth: 1e15\nmachines:\n"
                   "  - {count: %d, jitter: %g, slow: %g, slowdown: %g}\n",
                   ranks - slower, at.jitter, at.slow, at.slowdown);
    if (slower > 0)
        (void)snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys),
                       "  - {count: %d, jitter: %g, slow: %g, slowdown: %g, speed: %g}\n", slower,
                       at.jitter, at.slow, at.slowdown, at.speed);
    return cluster_of(root, keys);
}

/* Learners that meet every k steps take the time of the last of so many sums of k steps, in the
 * estimate and in the simulation; every step, that of the slowest step. */
static void test_rare_meetings(void **state)
{
    (void)state;
    static const machines all[] = {{4, 1, 0, 1, 1, 0, 1},
                                   {9, 1, 0, 1, 0.2, 0.03, 5},
                                   {3, 2, 0, 1, 0.8, 0.1, 3},
                                   {5, 1, 2, 0.8, 0.9, 0, 1}};
    static const int periods[] = {1, 2, 7, 64};
    char *root = temporary_folder(), words[400], more[100];
    for (size_t m = 0; m < WEFT_COUNT(all); m++)
        for (size_t p = 0; p <= WEFT_COUNT(periods); p++) {
            if (!taken(m + p, 1, 2)) continue;
            int period = p < WEFT_COUNT(periods) ? periods[p] : 128;
            (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=128 ranks=%d mesh=data=%d",
                           all[m].learners * all[m].mesh, all[m].mesh);
            if (p < WEFT_COUNT(periods))
                (void)snprintf(more, sizeof(more), "exchange=average:every=%d", period);
            else
                (void)snprintf(more, sizeof(more), "exchange=oneshot");
            const char *still = write_machines(root, &all[m], false);
            double alone = estimated(words, "exchange=oneshot", still).seconds;
            double meeting = estimated(words, more, still).seconds - alone;
            double slowest = all[m].slower > 0 ? 1 / all[m].speed : 1;
            const char *file = write_machines(root, &all[m], true);
            weft_step_estimate e = estimated(words, more, file);
            double wanted = monte_carlo(&all[m], period) / slowest * alone + meeting;
            print_message("cluster %zu, %s: %.4f times as long, Monte Carlo %.4f\n", m, more,
                          e.seconds / alone, wanted / alone);
            assert_true(near(e.seconds, wanted, 0.03));
            assert_true(e.low < e.seconds && e.seconds < e.high);
            assert_true(near(e.computed + e.transferred + e.waited + e.rest, e.seconds, 0.01));
            if (period == 7 || (m + p) % 2) continue;
            told t;
            (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), " cluster=%s",
                           file);
            assert_ok(simulate(words, more, NULL, &t));
            assert_true(near(t.seconds / 128, e.seconds, 0.02));
        }
    remove_folder(root);
}

/* --- rounds of collectives --- */

/* By hand, for a sum over the learners, each on a machine of its own. */
static double rounds_by_hand(int ranks, double bytes)
{
    double doublings = ceil(log2(ranks));
    bool even = exp2(doublings) == ranks;
    if (ranks <= 16 && !even && bytes / ranks >= 65536) return 2; /* each part is summed directly */
    return bytes > 16384 ? 2 * doublings : doublings;
}

/* Where links are fast, each round of a sum takes their latency. */
static void test_rounds(void **state)
{
    (void)state;
    static const int all[] = {2, 3, 4, 5, 8, 13, 32, 100, 1024};
    static const int units[] = {10, 1400, 20000}; /* of one layer, between 64 inputs and 10 */
    char *root = temporary_folder(), words[600], keys[200], model[200];
    for (size_t u = 0; u < WEFT_COUNT(units); u++) {
        double bytes = 4.0 * (65 * units[u] + 10 * (units[u] + 1));
        (void)snprintf(keys, sizeof(keys),
                       "layers: [{type: flatten}, {type: dense, units: %d}, "
                       "{type: dense, units: outputs}]\n",
                       units[u]);
        (void)snprintf(model, sizeof(model), "%s", cluster_file(root, "model.yaml", keys));
        for (size_t n = 0; n < WEFT_COUNT(all); n++) {
            if (!taken(u + n, 1, 3)) continue;
            weft_step_estimate e[2];
            for (int far = 0; far < 2; far++) {
                (void)snprintf(keys, sizeof(keys),
                               "latency: %d\nbandwidth: 1e15\nmachines: [{count: %d}]", far,
                               all[n]);
                (void)snprintf(words, sizeof(words),
                               "data=glyphs:size=8,train=2048,test=20 model=%s batch=1 threads=1 "
                               "ranks=%d steps=4",
                               model, all[n]);
                e[far] = estimated(words, "exchange=average", cluster_of(root, keys));
            }
            print_message("%d machines, %.0f bytes: %.6f rounds\n", all[n], bytes,
                          e[1].seconds - e[0].seconds);
            assert_true(near(e[1].seconds - e[0].seconds, rounds_by_hand(all[n], bytes), 1e-6));
        }
    }
    remove_folder(root);
}

/* --- every exchange, estimated and simulated --- */

static const char *const clusters[] = {
    "latency: 1e-4\nbandwidth: 2e7\nmachines: [{count: 4}]",
    "latency: 0\nbandwidth: 1e15\nmachines: [{count: 4}]",
    "latency: 0.002\nbandwidth: 5e7\nmachines: [{count: 2, cores: 2}, {count: 2, speed: 0.5}]",
    "latency: 1e-4\nbandwidth: 1e8\nmachines: [{count: 4, jitter: 0.5, slow: 0.02, slowdown: 4}]",
    "latency: 1e-4\nbandwidth: 1e8\nmachines: [{count: 4, awake: 0.7, period: 1e-3}]",
    "latency: 1e-4\nbandwidth: 1e8\nmachines: [{count: 2, cores: 2}]",
    "machines: [{count: 1, cores: 4}]"};

/* Options of exchanges; those that one does not have are left out. */
static const char *const options[] = {"",
                                      ":policy=async",
                                      ":policy=ssp,bound=3 servers=3",
                                      ":policy=softsync,c=2 compress=bf16",
                                      ":policy=async,push=4,fetch=4",
                                      ":every=8",
                                      ":mode=average",
                                      ":topology=ring compress=onebit"};

static bool any(const weft_entry *entry, const void *what)
{
    return entry && !what;
}

/* The seconds of a step of a simulated run until its last step; false: it is refused. at_end:
 * learners meet at the end of the run alone, which is none of the steady state, and cancels in runs
 * of two lengths. */
static bool simulated(const char *exchange, bool at_end, const char *file, double *seconds)
{
    enum { STEPS = 96 };
    char words[600];
    told t[2];
    int runs = at_end ? 2 : 1;
    for (int i = 0; i < runs; i++) {
        (void)snprintf(words, sizeof(words), SMALL "batch=8 ranks=4 steps=%d cluster=%s",
                       (i + 1) * STEPS, file);
        if (simulate(words, exchange, NULL, &t[i]) != WEFT_OK) return false;
    }
    *seconds = runs == 1 ? t[0].last / STEPS : (t[1].last - t[0].last) / STEPS;
    return true;
}

/* Compares a step; false: the exchange can not be estimated, or not be simulated. TOLERANCE: of the
 * beginning and the end of a run of a hundred steps, and of chance. */
static bool compare(const char *exchange, bool at_end, const char *cluster, const char *file)
{
    static const double TOLERANCE = 0.1;
    weft_step_estimate e;
    double seconds;
    if (estimate(SMALL "batch=8 ranks=4 steps=96", exchange, file, &e) != WEFT_OK) return false;
    if (!simulated(exchange, at_end, file, &seconds)) return false;
    print_message("%s: %.4g ms, simulated %.4g\n", exchange, 1e3 * e.seconds, 1e3 * seconds);
    if (!near(e.seconds, seconds, TOLERANCE))
        fail_msg("%s: a step is estimated to take %g s, and takes %g in the simulation\n%s",
                 exchange, e.seconds, seconds, cluster);
    return true;
}

/* An estimate and a simulation have actors in the same places, and the same links, steps and work
 * of handlers. */
static void test_all_exchanges(void **state)
{
    (void)state;
    char *root = temporary_folder(), exchange[100], *names, *save = NULL;
    size_t compared = 0, turn = 0;
    assert_ok(weft_registry_names(context, WEFT_KIND_EXCHANGE, any, NULL, &names));
    for (char *n = strtok_r(names, ", ", &save); n; n = strtok_r(NULL, ", ", &save))
        for (size_t o = 0; o < WEFT_COUNT(options); o++) {
            weft_meetings m;
            (void)snprintf(exchange, sizeof(exchange), "%s%s", n, options[o]);
            exchange[strcspn(exchange, " ")] = '\0';
            if (weft_exchange_meetings(context, exchange, &m) != WEFT_OK) continue;
            (void)snprintf(exchange, sizeof(exchange), "exchange=%s%s", n, options[o]);
            turn++;
            for (size_t c = 0; c < WEFT_COUNT(clusters); c++)
                if (taken(turn + c, 3, 9))
                    compared += compare(exchange, m.period == 0, clusters[c],
                                        cluster_of(root, clusters[c]));
        }
    print_message("%zu compared\n", compared);
    assert_true(compared >= (in_full() ? 80 : paths_alone() ? 8 : 25));
    free(names);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rare_meetings),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_all_exchanges),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
