/* Tests runs with parameter servers from options to checkpoint: settings that are equivalent to
 * synchronous data parallelism must give its bits. */
#include "exchange_runs.h"

/* Policies that wait for all learners (bsp, ssp with bound 0) give the bits of data parallelism
 * with the batches of all learners as one, for every number of servers. */
static void test_synchronous(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=server", "exchange=server:policy=bsp servers=3",
                                       "exchange=server:policy=ssp,bound=0 servers=2",
                                       "exchange=server:policy=bsp,scale=inverse servers=5",
                                       "exchange=server:policy=bsp,scale=exp compress=none"};
    static const char *const optimizers[] = {
        "optimizer=sgd lr=0.5", "optimizer=sgd lr=0.1 momentum=0.9 nesterov=true weight-decay=0.01",
        "optimizer=adam lr=0.01 lr-schedule=cosine warmup=3"};
    char *root = temporary_folder(), words[900], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
            if (w % 3 != o && getenv("WEFT_FAST")) continue;
            (void)snprintf(words, sizeof(words), EXACT "steps=7 %s", optimizers[o]);
            (void)snprintf(name, sizeof(name), "together-%zu-%zu", w, o);
            const char *a = made(root, name);
            run(words, "ranks=4 batch=16", a, 0);
            (void)snprintf(words, sizeof(words), EXACT "batch=4 steps=7 ranks=4 %s", optimizers[o]);
            (void)snprintf(name, sizeof(name), "servers-%zu-%zu", w, o);
            const char *b = made(root, name);
            run(words, ways[w], b, 0);
            assert_same(a, b, "parameters", 0, ways[w]);
        }
    remove_folder(root);
}

/* A large share of a server is cut into several ranges: again the bits of data parallelism. */
static void test_pieces(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=server", "exchange=server servers=2 replicas=1"};
    char *root = temporary_folder(), words[900], name[40], path[256];
    (void)snprintf(path, sizeof(path), "%s/wide.yaml", root);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "layers:\n  - {type: flatten}\n  - {type: dense, units: 1500}\n  - {type: relu}\n"
               "  - {type: dense, units: 1500}\n  - {type: relu}\n"
               "  - {type: dense, units: outputs}\n");
    assert_int_equal(fclose(f), 0);
    (void)snprintf(words, sizeof(words), EXACT "model=%s steps=2 optimizer=sgd lr=0.1", path);
    run(words, "ranks=2 batch=8", made(root, "together"), 0);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        (void)snprintf(words, sizeof(words),
                       EXACT "model=%s steps=2 optimizer=sgd lr=0.1 ranks=2 batch=4", path);
        (void)snprintf(name, sizeof(name), "pieces-%zu", w);
        const char *b = made(root, name);
        run(words, ways[w], b, 0);
        assert_same(made(root, "together"), b, "parameters", 0, ways[w]);
    }
    remove_folder(root);
}

/* Writes a table of 53 samples with different weights, so that learners' batches differ, too. */
static const char *weighted_table(const char *root)
{
    const char *path = made(root, "table.csv");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("a,b,c,w,t\n", f);
    for (int i = 0; i < 53; i++)
        fprintf(f, "%d.5,%d,%d,%d.25,%d\n", i % 7, i % 5 - 2, i % 11, i % 4, i * i % 13);
    fclose(f);
    return path;
}

/* At the end of an epoch, learners have different numbers of samples, one of them none; with
 * weights, their sums differ in each step. The servers' mean must still be that of the whole
 * batch. */
static void test_uneven(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=server:policy=bsp",
                                       "exchange=server:policy=ssp,bound=0 servers=3 replicas=1"};
    static const char base[] = "model=mlp seed=4 threads=1 dtype=f64 device=reference epochs=3 "
                               "optimizer=sgd lr=0.05 momentum=0.5 data=csv:%s,%s";
    static const char *const data[] = {"target=t,test=0.1", "target=t,weight=w,test=0.1"};
    char *root = temporary_folder(), words[900], more[200], name[40];
    char table[300];
    (void)snprintf(table, sizeof(table), "%s", weighted_table(root));
    for (int learners = 2; learners <= 4; learners++)
        for (size_t w = 0; w < 2 * sizeof(ways) / sizeof(ways[0]); w++) {
            char spec[600];
            (void)snprintf(spec, sizeof(spec), base, table, data[w % 2]);
            (void)snprintf(words, sizeof(words), "%s ranks=%d batch=%d", spec, learners,
                           learners * 5);
            (void)snprintf(name, sizeof(name), "together-%d-%zu", learners, w);
            const char *a = made(root, name);
            run(words, "", a, 0);
            (void)snprintf(more, sizeof(more), "ranks=%d batch=5 %s", learners, ways[w / 2]);
            (void)snprintf(name, sizeof(name), "apart-%d-%zu", learners, w);
            const char *b = made(root, name);
            run(spec, more, b, 0);
            assert_same(a, b, "parameters", 1e-12, more);
        }
    remove_folder(root);
}

/* Learners that are meshes. With a synchronous policy they give the parameters of data parallelism.
 * With an asynchronous one, ranks that hold the same parameters must keep them equal, although the
 * servers may apply updates in different orders. */
static void test_meshes(void **state)
{
    (void)state;
    static const char *const meshes[] = {"data=2", "tensor=2", "pipeline=2 microbatches=2",
                                         "data=2,tensor=2"};
    static const int ranks[] = {4, 4, 4, 8};
    char *root = temporary_folder(), words[300], name[40];
    const char *a = made(root, "together");
    run(EXACT "optimizer=adam lr=0.01 steps=7", "ranks=2 batch=8", a, 0);
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        (void)snprintf(words, sizeof(words), "mesh=%s ranks=%d batch=4", meshes[m], ranks[m]);
        (void)snprintf(name, sizeof(name), "bsp-%zu", m);
        const char *b = made(root, name);
        run(EXACT "optimizer=adam lr=0.01 steps=7 exchange=server:policy=bsp servers=2", words, b,
            0);
        assert_same(a, b, "parameters", 1e-12, meshes[m]);
        (void)snprintf(name, sizeof(name), "async-%zu", m);
        run(SMALL "steps=20 exchange=server:policy=async servers=3 compress=threshold:tau=0.001",
            words, made(root, name), 0);
    }
    remove_folder(root);
}

/* A run that is resumed with another number of servers ends with the bits of an undisturbed run. */
static void test_stop_and_resume(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"optimizer=sgd lr=0.1 momentum=0.9",
                                             "optimizer=adamw lr=0.01 warmup=3"};
    char words[900];
    for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
        (void)snprintf(words, sizeof(words), EXACT "exchange=server:policy=bsp batch=5 ranks=3 %s",
                       optimizers[o]);
        assert_resumed(words, "servers=3 steps=9", "servers=2 steps=4", 0,
                       "servers=5 steps=9 resume=true", "parameters state exchange");
    }
}

/* A run that resumes with fewer learners than softsync's updates per version (c) lowers c; a new
 * run with so few learners is refused. */
static void test_fewer_than_a_version_asks_for(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[400];
    log_of_run l;
    const char *a = made(root, "a"), *b = made(root, "b");
    const char *all = EXACT "exchange=server:policy=softsync,c=4 batch=5 servers=2";
    run(all, "ranks=5 steps=3", a, 0);
    last_note[0] = '\0';
    run(all, "ranks=2 steps=20 resume=true", a, 0);
    assert_string_equal(last_note, "the policy has c=4 updates per version, but the resumed run "
                                   "has 2 learners: c=2 from now on");
    (void)snprintf(words, sizeof(words), "%s ranks=2 steps=3", all);
    assert_refused(train(words, b, 0, &l), WEFT_ERR_ARGUMENT, "give c=2 or less");
    remove_folder(root);
}

/* A warning tells, once, that dgc's momentum comes on top of the optimizer's momentum. */
static void test_momentum_twice(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        bool told;
    } ways[] = {
        {"exchange=server:policy=async compress=dgc optimizer=adam", true},
        {"exchange=gossip compress=dgc optimizer=sgd momentum=0.9", true},
        {"exchange=server:policy=async compress=dgc optimizer=sgd", false},
        {"exchange=server:policy=async compress=dgc:momentum=0 optimizer=adam", false},
        {"exchange=server:policy=async compress=topk optimizer=adam", false},
    };
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        weft_context *shared = context;
        assert_ok(weft_context_create(&context)); /* logs each note once */
        assert_ok(exchanges_register(context));
        weft_context_set_log(context, take_log, NULL);
        last_note[0] = '\0';
        run(EXACT "batch=5 ranks=2 steps=1", ways[w].words, NULL, 0);
        bool told = strstr(last_note, "on top of that of --optimizer") != NULL;
        if (told != ways[w].told) fail_msg("%s: %s", ways[w].words, last_note);
        weft_context_destroy(&context);
        context = shared;
    }
}

/* Stopping and resuming gives the same bits also with codecs that keep residuals, and with
 * parameters in padded layouts. */
static void test_resume_what_was_left_out(void **state)
{
    (void)state;
    static const char *const codecs[] = {"compress=onebit compress-downlink=none",
                                         "compress=none compress-downlink=onebit:block=32",
                                         "compress=topk:ratio=0.05 compress-downlink=bf16"};
    char words[900];
    for (size_t c = 0; c < sizeof(codecs) / sizeof(codecs[0]); c++) {
        (void)snprintf(words, sizeof(words),
                       SMALL "exchange=server:policy=bsp batch=5 ranks=3 servers=2 %s", codecs[c]);
        assert_resumed(words, "steps=9", "steps=4", 0, "steps=9 resume=true", "parameters");
    }
}

/* Runs with asynchronous policies, which have no fixed result, end without an error. */
static void test_asynchronous(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "exchange=server:policy=async servers=2",
        "exchange=server:policy=async,scale=inverse compress=topk:ratio=0.1",
        "exchange=server:policy=softsync,c=2 servers=3 compress=threshold:tau=0.001",
        "exchange=server:policy=ssp,bound=2 compress=bf16",
        "exchange=server:policy=ssp,bound=1 mesh=data=2 servers=2"};
    char *root = temporary_folder(), name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        (void)snprintf(name, sizeof(name), "%zu", w);
        run(SMALL "device=cpu batch=4 steps=20 ranks=4 optimizer=adam lr=0.01", ways[w],
            made(root, name), 0);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synchronous),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_uneven),
        cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_momentum_twice),
        cmocka_unit_test(test_fewer_than_a_version_asks_for),
        cmocka_unit_test(test_stop_and_resume),
        cmocka_unit_test(test_resume_what_was_left_out),
        cmocka_unit_test(test_asynchronous),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
