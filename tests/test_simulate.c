/* Simulated runs: where nobody is ahead of anybody they have the bits of real ones, the same seed
 * says the same things, and a slow learner slows those that wait for it. */
#include <math.h>

#include "exchange_runs.h"

typedef struct told {
    int steps, evaluations;
    double loss, accuracy, first, seconds, rate, utilisation, bytes, letters, lost, mean_staleness;
    double staleness[2000];
    int staleness_count;
} told;

static void take_series(told *t, const weft_series *s)
{
    const struct {
        const char *name;
        double *to;
    } all[] = {{"exchange_bytes", &t->bytes},
               {"exchange_letters", &t->letters},
               {"exchange_letters_lost", &t->lost},
               {"utilisation", &t->utilisation}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(s->name, all[i].name) == 0) *all[i].to = s->numbers[0];
    if (strcmp(s->name, "staleness") != 0) return;
    double updates = 0;
    for (int i = 0; i < s->count; i++) {
        t->staleness[i] = s->numbers[i];
        t->mean_staleness += i * s->numbers[i];
        updates += s->numbers[i];
    }
    t->staleness_count = s->count;
    t->mean_staleness /= updates;
}

static void take_event(void *user, const weft_event *e)
{
    told *t = user;
    t->steps += e->kind == WEFT_EVENT_STEP;
    if (e->kind == WEFT_EVENT_STEP) t->loss = e->loss;
    if (e->kind == WEFT_EVENT_STEP && t->steps == 1) t->first = e->seconds;
    if (e->kind == WEFT_EVENT_EVAL) {
        t->evaluations++;
        t->accuracy = e->report->accuracy;
    }
    if (e->kind != WEFT_EVENT_SUMMARY) return;
    t->seconds = e->seconds;
    t->rate = e->samples_per_second;
    for (int i = 0; i < e->series_count; i++) take_series(t, &e->series[i]);
}

/* Options as "name=value" words. */
static weft_status simulate(const char *words, const char *more, const char *folder, told *t)
{
    weft_simulate_options o = {.cluster = NULL};
    const weft_option *table = weft_simulate_table(context);
    char copy[9600], *save = NULL;
    memset(t, 0, sizeof(*t));
    assert_ok(weft_simulate_options_init(context, &o));
    if (folder) assert_ok(weft_options_set(table, &o, "checkpoint", folder));
    assert_true(snprintf(copy, sizeof(copy), "%s %s", words, more) < (int)sizeof(copy));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_simulate(context, &o, take_event, t);
    weft_options_free(table, &o);
    return status;
}

static const char *cluster_file(const char *root, const char *name, const char *text)
{
    const char *path = made(root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static const char *const BAD_LINKS = "step: 0.01\nlatency: 0.02\nlatency-jitter: 0.1\nlost: 0.1\n"
                                     "twice: 0.1\nreordered: 0.1\nbandwidth: 1e6\n"
                                     "learners:\n  - speed: 2\n  - count: 2\n    jitter: 0.5\n"
                                     "  - slow: 0.2\n    slowdown: 5\n    latency: 0.1\n";

/* What is the same to the bit in a real run is so here, whatever links and learners do. */
static void test_is_the_real_run(void **state)
{
    (void)state;
    static const struct {
        const char *words, *exchange;
    } ways[] = {{EXACT "batch=4 steps=7 optimizer=sgd lr=0.1 momentum=0.9 nesterov=true",
                 "exchange=server:policy=bsp servers=3"},
                {EXACT "batch=5 steps=9 microbatches=5 clip-norm=0.5 lr-schedule=cosine warmup=3",
                 "exchange=server:policy=ssp,bound=0"},
                {SMALL "batch=7 epochs=2 lr=0.01", "exchange=server:policy=bsp servers=2"},
                {SMALL "batch=4 steps=6", "exchange=server:policy=bsp servers=2 compress=onebit"},
                {SMALL "batch=4 steps=6",
                 "exchange=server:policy=bsp compress=none compress-back=onebit:block=16"},
                {SMALL "device=distant batch=4 virtual-workers=2 steps=5", "exchange=server"}};
    char *root = temporary_folder(), words[600], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (int bad = 0; bad < 2; bad++) {
            told t;
            (void)snprintf(words, sizeof(words), "%s ranks=4", ways[w].words);
            (void)snprintf(name, sizeof(name), "real-%zu-%d", w, bad);
            const char *a = made(root, name);
            run(words, ways[w].exchange, a, 0);
            (void)snprintf(name, sizeof(name), "simulated-%zu-%d", w, bad);
            const char *b = made(root, name);
            if (bad)
                (void)snprintf(words, sizeof(words), "%s cluster=%s", ways[w].words,
                               cluster_file(root, "bad.yaml", BAD_LINKS));
            assert_ok(simulate(words, ways[w].exchange, b, &t));
            assert_same(a, b, "parameters", 0, ways[w].words);
            assert_same(a, b, "state", 0, ways[w].words);
            assert_true(bad ? t.lost > 0 : t.lost == 0);
            assert_int_equal(t.staleness_count, 1);
        }
    remove_folder(root);
}

/* Alone nobody is stale: the same as without servers. */
static void test_alone_is_serial(void **state)
{
    (void)state;
    static const char *const policies[] = {"exchange=server:policy=async servers=3",
                                           "exchange=server:policy=ssp,bound=4",
                                           "exchange=server:policy=async,scale=exp"};
    char *root = temporary_folder(), name[40];
    const char *a = made(root, "serial");
    run(EXACT "batch=5 epochs=1 optimizer=adamw lr=0.01", "", a, 0);
    for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
        told t;
        (void)snprintf(name, sizeof(name), "alone-%zu", p);
        const char *b = made(root, name);
        assert_ok(simulate(EXACT "batch=5 epochs=1 optimizer=adamw lr=0.01", policies[p], b, &t));
        assert_same(a, b, "parameters", 0, policies[p]);
    }
    remove_folder(root);
}

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

/* One learner and a centre that meet once, at the end: with alpha 1 the centre goes all the way to
 * where the learner alone has come to. */
static void test_centre(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=easgd:every=100,alpha=1 servers=2",
                                       "exchange=easgd:every=11,beta=1 servers=3"};
    static const char words[] = EXACT "batch=5 steps=11 momentum=0.5 optimizer=sgd lr=0.1";
    char *root = temporary_folder(), name[40];
    const char *a = made(root, "alone");
    run(words, "", a, 0);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        told t;
        (void)snprintf(name, sizeof(name), "centre-%zu", w);
        const char *b = made(root, name);
        assert_ok(simulate(words, ways[w], b, &t));
        assert_same(a, b, "parameters", 1e-14, ways[w]);
        assert_int_equal(t.staleness_count, 1);
    }
    remove_folder(root);
}

static char *contents(const char *path, size_t *size)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, 1 << 20);
    *size = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    return text;
}

/* All but what the machine says of itself. */
static void assert_same_lines(const char *a, const char *b, bool same)
{
    size_t size[2];
    char *text[2] = {contents(a, &size[0]), contents(b, &size[1])};
    for (int i = 0; i < 2; i++) {
        char *memory = strstr(text[i], ",\"peak_rss_bytes\"");
        assert_non_null(memory);
        *memory = 0;
    }
    assert_int_equal(strcmp(text[0], text[1]) == 0, same);
    free(text[0]);
    free(text[1]);
}

static void test_replays(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "exchange=server:policy=async servers=2 compress=topk:ratio=0.1",
        "exchange=gossip:topology=ring compress=threshold:tau=0.001",
        "exchange=gossip:mode=average"};
    const char *metrics[3];
    char *root = temporary_folder(), words[9000], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        const char *cluster = cluster_file(root, "bad.yaml", BAD_LINKS);
        for (int i = 0; i < 3; i++) {
            told t;
            (void)snprintf(name, sizeof(name), "%zu-%d.jsonl", w, i);
            metrics[i] = made(root, name);
            (void)snprintf(words, sizeof(words), SMALL "batch=4 epochs=3 cluster=%s metrics=%s %s",
                           cluster, metrics[i], i == 2 ? "seed=5" : "");
            assert_ok(simulate(words, ways[w], NULL, &t));
            assert_int_equal(t.steps, 18);
            assert_int_equal(t.evaluations, 3);
        }
        assert_same_lines(metrics[0], metrics[1], true);
        assert_same_lines(metrics[0], metrics[2], false);
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

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
        weft_status status;
    } all[] = {
        {"ranks=2", "add --exchange", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=average",
         "cannot be simulated, since it is not made of actors; give --exchange server, easgd or "
         "gossip",
         WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=hogwild", "exchange hogwild cannot be simulated", WEFT_ERR_ARGUMENT},
        {"ranks=4 mesh=data=2 exchange=server", "--mesh says nothing here", WEFT_ERR_ARGUMENT},
        {"ranks=4 engine=mpi exchange=server", "--engine says nothing here", WEFT_ERR_ARGUMENT},
        {"ranks=2 timeout=5 exchange=server", "--timeout says nothing here", WEFT_ERR_ARGUMENT},
        {"ranks=2 checkpoint=x resume=true exchange=server", "--resume says nothing here",
         WEFT_ERR_ARGUMENT},
        {"ranks=2 device=cpu,reference exchange=server", "give one device", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server:policy=softsync,c=3", "give c=2 or less", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server:policy=async,bound=2", "policy=async has no bound",
         WEFT_ERR_ARGUMENT},
        {"ranks=1 exchange=gossip", "nobody to talk to", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=gossip:mode=average compress=bf16", "nothing to compress",
         WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=gossip servers=2", "has no use for it", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server batch=97", "give --batch 96 or less", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server optimizer=sgd lr=1e6 steps=40", ": step ", WEFT_ERR_NUMERIC}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        told t;
        assert_refused(simulate(SMALL "batch=4", all[i].words, NULL, &t), all[i].status,
                       all[i].says);
    }
}

static void test_cluster_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } all[] = {
        {"step: 0.1\nlearner:\n  - count: 2\n",
         "cluster.yaml:2: no key is named 'learner'; did you mean 'learners'?"},
        {"learners:\n  - count: 2\n    sped: 3\n",
         "cluster.yaml:3: no key is named 'sped'; did you mean 'speed'?"},
        {"latency: 0\nlearners: []\n", "cluster.yaml:2: there are no learners"},
        {"learners:\n  - count: 0\n", "cluster.yaml:2: option 'count' is"},
        {"learners:\n  - speed: -1\n", "cluster.yaml:2: option 'speed' is"},
        {"latency: -0.1\n", "cluster.yaml:1: option 'latency' is"},
        {"learners:\n  - lost: 1.5\n", "cluster.yaml:2: option 'lost' is"},
        {"learners:\n  - count: 1000\n  - count: 1000\n",
         "cluster.yaml:1: 2000 learners in all; there can be 1024"},
        {"rate: 1e9\nstep: 0.1\n", "cluster.yaml:2: step says"},
        {"learners: [{count: 3}]\n", "cluster.yaml:1: there are 3 learners here, -n"},
        {"learners: 3\n", "cluster.yaml:1: 'learners' must be a sequence of mappings"},
        {"step: soon\n", "cluster.yaml:1: option 'step' is"},
        {"step: [1\n", "cluster.yaml:"},
        {"learners:\n  - 4\n", "cluster.yaml:2: item 1 of 'learners' must be a mapping"},
        {"learners:\n  - count: 1\n  -\n", "cluster.yaml:3: item 2 of 'learners' must be"},
    };
    char *root = temporary_folder(), words[400];
    told t;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        (void)snprintf(words, sizeof(words), SMALL "ranks=2 exchange=server cluster=%s",
                       cluster_file(root, "cluster.yaml", all[i].text));
        weft_status status = simulate(words, "", NULL, &t);
        if (status != WEFT_ERR_ARGUMENT || !strstr(weft_last_message(), all[i].says))
            fail_msg("%s\nis told: %s\nnot: %s", all[i].text, weft_last_message(), all[i].says);
    }
    assert_refused(simulate(SMALL "exchange=server cluster=/nowhere.yaml", "", NULL, &t),
                   WEFT_ERR_ARGUMENT, "/nowhere.yaml");
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_real_run), cmocka_unit_test(test_alone_is_serial),
        cmocka_unit_test(test_schedule),        cmocka_unit_test(test_centre),
        cmocka_unit_test(test_replays),         cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync),        cmocka_unit_test(test_straggler),
        cmocka_unit_test(test_clipped),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cluster_files),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
