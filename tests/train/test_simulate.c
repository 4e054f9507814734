/* Tests weft simulate: with synchronous policies the results have the bits of a real run, the same
 * seed gives the same run, checkpoints can be resumed by real runs, and unusable options are
 * refused. */
#include "simulations.h"

static const char *const BAD_LINKS = "step: 0.01\nlatency: 0.02\nlatency-jitter: 0.1\nlost: 0.1\n"
                                     "twice: 0.1\nreordered: 0.1\nbandwidth: 1e6\n"
                                     "machines:\n  - speed: 2\n  - count: 2\n    jitter: 0.5\n"
                                     "  - slow: 0.2\n    slowdown: 5\n    latency: 0.1\n";

/* With policies for which real runs give the same bits, the simulated run has the bits of the real
 * one, whatever the links lose and however fast learners are. */
static void test_is_the_real_run(void **state)
{
    (void)state;
    static const struct {
        const char *words, *exchange;
    } ways[] = {
        {EXACT "batch=4 steps=7 optimizer=sgd lr=0.1 momentum=0.9 nesterov=true "
               "ema=0.8:warmup",
         "exchange=server:policy=bsp servers=3"},
        {EXACT "batch=5 steps=9 microbatches=5 clip-norm=0.5 lr-schedule=cosine warmup=3",
         "exchange=server:policy=ssp,bound=0"},
        {EXACT "batch=4 steps=5 optimizer=lamb lr=0.01 "
               "lr-multiplier=fc1/*=0.5,fc2/bias=0",
         "exchange=server:policy=bsp servers=3"},
        {SMALL "batch=4 steps=5 lr=0.01 lr-multiplier=fc*weight=0.5 ema=0.9",
         "exchange=server:policy=bsp servers=2 compress-downlink=onebit:block=16"},
        {SMALL "batch=7 epochs=2 lr=0.01 ema=0.3", "exchange=server:policy=bsp servers=2"},
        {SMALL "batch=4 steps=6", "exchange=server:policy=bsp servers=2 compress=onebit"},
        {SMALL "batch=4 steps=6",
         "exchange=server:policy=bsp compress=none compress-downlink=onebit:block=16"},
        {SMALL "device=distant batch=4 virtual-workers=2 steps=5 ema=0.5", "exchange=server"}};
    char *root = temporary_folder(), words[600], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (int bad = 0; bad < 2; bad++) {
            told t;
            if (paths_alone() && (w + (size_t)bad) % 2) continue;
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
            assert_same(a, b, "learners", 0, ways[w].words);
            assert_same(a, b, "exchange", 0, ways[w].words);
            assert_true(bad ? t.lost > 0 : t.lost == 0);
            assert_int_equal(t.staleness_count, 1);
        }
    remove_folder(root);
}

/* A single learner's updates are never stale: every policy gives the bits of serial training. */
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

/* EASGD with one learner that exchanges only once, at the end: with alpha 1 the centre moves all
 * the way to the learner's parameters. */
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

/* A real run resumes from the checkpoint of a simulated run with all its state: no warning says
 * that some state is missing or begins anew. */
static void test_goes_on(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "exchange=server:policy=async servers=2 optimizer=sgd momentum=0.9",
        "exchange=server:policy=ssp,bound=2 servers=3 compress=onebit",
        "exchange=server:policy=bsp optimizer=adam compress=topk:ratio=0.1",
        "exchange=server:policy=async compress=none compress-downlink=onebit",
        "exchange=easgd compress=threshold:tau=0.001 optimizer=adam",
        "exchange=gossip:topology=ring compress=onebit optimizer=adam",
        "exchange=gossip:mode=average optimizer=sgd momentum=0.9"};
    char *root = temporary_folder(), words[300], name[20];
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        told t;
        log_of_run l;
        (void)snprintf(name, sizeof(name), "on-%zu", w);
        const char *folder = made(root, name);
        (void)snprintf(words, sizeof(words), SMALL "batch=4 ranks=3 %s", ways[w]);
        assert_ok(simulate(words, "steps=4", folder, &t));
        last_note[0] = '\0';
        (void)snprintf(words, sizeof(words), SMALL "batch=4 ranks=3 steps=6 resume=true %s",
                       ways[w]);
        if (train(words, folder, 0, &l) != WEFT_OK)
            fail_msg("%s: %s", ways[w], weft_last_message());
        assert_int_equal(l.steps, 2);
        assert_string_equal(last_note, "");
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

/* Compares two metrics files up to the peak memory of the process, which is not reproducible. */
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

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
        weft_status status;
    } all[] = {
        {"ranks=2", "or --exchange for learners that do not", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=average", "give --cluster a file of weft measure", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=hogwild", "exchange hogwild cannot be simulated", WEFT_ERR_ARGUMENT},
        {"ranks=4 mesh=data=2 exchange=server", "or leave --mesh out", WEFT_ERR_ARGUMENT},
        {"ranks=4 engine=mpi exchange=server", "--engine has no effect here", WEFT_ERR_ARGUMENT},
        {"ranks=2 timeout=5 exchange=server", "--timeout has no effect here", WEFT_ERR_ARGUMENT},
        {"ranks=2 checkpoint=x resume=true exchange=server", "--resume has no effect here",
         WEFT_ERR_ARGUMENT},
        {"ranks=2 device=cpu,reference exchange=server", "give one device", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server:policy=softsync,c=3", "give c=2 or less", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server:policy=async,bound=2", "policy=async has no bound",
         WEFT_ERR_ARGUMENT},
        {"ranks=1 exchange=gossip", "gossip needs at least 2 peers, not 1", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=gossip:mode=average compress=bf16", "nothing to compress",
         WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=gossip servers=2", "has no use for it", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server batch=97", "give --batch 96 or less", WEFT_ERR_ARGUMENT},
        {"ranks=0 exchange=server", "ranks is 0", WEFT_ERR_ARGUMENT},
        {"ranks=2 exchange=server optimizer=sgd lr=1e6 steps=40", ": step ", WEFT_ERR_NUMERIC}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        told t;
        assert_refused(simulate(SMALL "batch=4", all[i].words, NULL, &t), all[i].status,
                       all[i].says);
    }
}

/* Each step multiplies the weights by -1e12: the losses of four steps are finite, the weights after
 * the fourth are not. The message names that step. */
static void test_weights_that_are_no_numbers(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[400];
    told t;
    (void)snprintf(words, sizeof(words),
                   SMALL "model=%s batch=4 ranks=2 steps=4 optimizer=sgd lr=1e6 weight-decay=1e6",
                   cluster_file(root, "flat.yaml", "layers: [{type: dense, units: classes}]\n"));
    assert_refused(simulate(words, "exchange=server:policy=bsp", NULL, &t), WEFT_ERR_NUMERIC,
                   "after step 4 '");
    remove_folder(root);
}

static void test_cluster_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } all[] = {
        {"step: 0.1\nmachine:\n  - count: 2\n",
         "cluster.yaml:2: no key is named 'machine'; did you mean 'machines'?"},
        {"machines:\n  - count: 2\n    sped: 3\n",
         "cluster.yaml:3: no key is named 'sped'; did you mean 'speed'?"},
        {"latency: 0\nmachines: []\n", "cluster.yaml:2: there are no machines"},
        {"machines:\n  - count: 0\n", "cluster.yaml:2: option 'count' is"},
        {"machines:\n  - speed: -1\n", "cluster.yaml:2: option 'speed' is"},
        {"latency: -0.1\n", "cluster.yaml:1: option 'latency' is"},
        {"machines:\n  - lost: 1.5\n", "cluster.yaml:2: option 'lost' is"},
        {"machines:\n  - count: 1000\n  - count: 1000\n",
         "cluster.yaml:1: 2000 machines in all; there can be 1024"},
        {"rate: 1e9\nstep: 0.1\n", "cluster.yaml:2: step is the time of a step"},
        {"machines: [{count: 3}]\n",
         "cluster.yaml:1: there are 3 machines here, of one learner each, and -n"},
        {"machines: 3\n", "cluster.yaml:1: 'machines' must be a sequence of mappings"},
        {"step: soon\n", "cluster.yaml:1: option 'step' is"},
        {"step: [1\n", "cluster.yaml:"},
        {"machines:\n  - 4\n", "cluster.yaml:2: item 1 of 'machines' must be a mapping"},
        {"machines:\n  - count: 1\n  -\n", "cluster.yaml:3: item 2 of 'machines' must be"},
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

static weft_status simulate_stopped(const char *words, bool wanted)
{
    weft_simulate_options o = {.cluster = NULL};
    const weft_option *table = weft_simulate_table(context);
    weft_stop stop = {.wanted = wanted};
    char copy[400], *save = NULL;
    assert_ok(weft_simulate_options_init(context, &o));
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_simulate(context, &o, &stop, NULL, NULL);
    weft_options_free(table, &o);
    return status;
}

/* Links that lose most messages delay a run, but its members are not removed for that. On links
 * that deliver nothing for hours, the run ends with an error that says so, or at once if a stop is
 * requested. */
static void test_poor_links(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[300];
    told t;
    (void)snprintf(
        words, sizeof(words), SMALL "batch=4 steps=30 cluster=%s",
        cluster_file(root, "lost.yaml", "step: 20\nlost: 0.7\nmachines:\n  - count: 3\n"));
    assert_ok(simulate(words, "exchange=server:policy=bsp", NULL, &t));
    assert_int_equal(t.steps, 30);
    assert_true(t.lost > 0);
    (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=30 exchange=server cluster=%s",
                   cluster_file(root, "slow.yaml", "bandwidth: 10\nmachines:\n  - count: 3\n"));
    assert_refused(simulate_stopped(words, false), WEFT_ERR_PEER,
                   "so the links of --cluster deliver too little: 0 of ");
    assert_refused(simulate_stopped(words, true), WEFT_ERR_INTERRUPTED,
                   "stopped before the first step");
    /* Peers wait for nobody, so only what waits to be sent shows that nothing is delivered. */
    for (int e = 0; e < 3; e++) {
        static const char *const exchanges[] = {"server", "easgd:every=2", "gossip"};
        (void)snprintf(
            words, sizeof(words), SMALL "batch=4 steps=30 exchange=%s cluster=%s", exchanges[e],
            cluster_file(root, "none.yaml", "bandwidth: 1e-6\nmachines:\n  - count: 3\n"));
        assert_refused(simulate_stopped(words, false), WEFT_ERR_PEER,
                       "s wait to be sent over a link of 1e-06 bytes/s; no process");
    }
    remove_folder(root);
}

/* If the folder holds a checkpoint, the error advises another folder: --resume cannot be used. */
static void test_full_folder(void **state)
{
    (void)state;
    char *root = temporary_folder();
    told t;
    const char *words = SMALL "batch=4 steps=2 ranks=2 exchange=server";
    assert_ok(simulate(words, "", root, &t));
    assert_refused(simulate(words, "", root, &t), WEFT_ERR_ARGUMENT,
                   "already holds 1 checkpoint; give another folder, since a simulation always");
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_real_run), cmocka_unit_test(test_alone_is_serial),
        cmocka_unit_test(test_centre),          cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_replays),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cluster_files),   cmocka_unit_test(test_poor_links),
        cmocka_unit_test(test_full_folder),     cmocka_unit_test(test_weights_that_are_no_numbers),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
