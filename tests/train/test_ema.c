/* Averages of the weights (--ema): the state is the average that the checkpoints of all steps give,
 * also where servers update the weights; evaluations and exports have the averages, with every
 * exchange; and ranks, ZeRO, servers in lock step and resumed runs change no bit. */
#include <math.h>

#include "exchange_runs.h"
#include "weft/train.h"

enum { STEPS = 6 };

/* The decay of the update behind n others, as the guide has it. */
static double decay_at(double decay, bool rises, int n)
{
    double d = rises ? n / (n + 9.0) : n;
    return d < decay ? d : decay;
}

static const void *numbers(const tensors *t, const char *prefix, const char *name)
{
    char full[300];
    (void)snprintf(full, sizeof(full), "%s%s", prefix, name);
    const weft_tensor *found = weft_safetensors_find(&t->all, full);
    if (!found) fail_msg("there is no '%s'", full);
    assert_string_equal(found->dtype, "F64");
    return found->data;
}

/* Number k of a tensor, which lies at any address. */
static double number_at(const void *numbers, int64_t k)
{
    double number;
    memcpy(&number, (const char *)numbers + (size_t)k * sizeof(number), sizeof(number));
    return number;
}

/* Recomputes the averages from the weights after each step, and compares those of the last. */
static void assert_averages(const char *folder, double decay, bool rises)
{
    tensors last, now, state;
    assert_true(open_tensors(folder, "parameters", &last));
    assert_true(open_tensors(folder, "state", &state));
    for (size_t i = 0; i < last.all.count; i++) {
        const weft_tensor *t = &last.all.tensors[i];
        int64_t count = weft_shape_elements(&t->shape);
        double *mean = calloc((size_t)count, sizeof(*mean));
        for (int s = 0; s < STEPS; s++) {
            char name[20];
            double keep = decay_at(decay, rises, s);
            (void)snprintf(name, sizeof(name), "step-%d", s + 1);
            go_back_to(folder, s + 1, s + 1);
            assert_true(open_tensors(folder, "parameters", &now));
            const void *w = numbers(&now, "", t->name);
            for (int64_t k = 0; k < count; k++)
                mean[k] = keep * mean[k] + (1 - keep) * number_at(w, k);
            close_tensors(&now);
        }
        const void *have = numbers(&state, "average/", t->name);
        for (int64_t k = 0; k < count; k++)
            if (!(fabs(number_at(have, k) - mean[k]) <= 1e-14))
                fail_msg("ema %g: average/%s[%d] is %.17g, not %.17g", decay, t->name, (int)k,
                         number_at(have, k), mean[k]);
        free(mean);
    }
    close_tensors(&last);
    close_tensors(&state);
}

static double test_loss(const char *checkpoint)
{
    weft_eval_options o = {0};
    weft_report report;
    assert_ok(weft_options_init(weft_eval_table(), &o));
    assert_ok(weft_options_set(weft_eval_table(), &o, "checkpoint", checkpoint));
    assert_ok(weft_options_set(weft_eval_table(), &o, "device", "reference"));
    assert_ok(weft_evaluate(context, &o, &report));
    double loss = report.loss;
    weft_report_free(&report);
    weft_options_free(weft_eval_table(), &o);
    return loss;
}

/* The export of a model has the averages. */
static void assert_exported(const char *folder)
{
    tensors state;
    weft_bytes bytes;
    weft_safetensors all;
    const char *file = made(folder, "model.safetensors");
    assert_ok(weft_checkpoint_export(context, folder, file));
    assert_ok(weft_file_map(file, &bytes));
    assert_ok(weft_safetensors_parse(file, bytes.data, bytes.size, &all));
    assert_true(open_tensors(folder, "state", &state));
    for (size_t i = 0; i < all.count; i++)
        assert_memory_equal(all.tensors[i].data, numbers(&state, "average/", all.tensors[i].name),
                            all.tensors[i].bytes);
    close_tensors(&state);
    weft_safetensors_free(&all);
    weft_file_unmap(&bytes);
}

static void test_recomputed(void **unused)
{
    static const struct {
        const char *text;
        double decay;
        bool rises;
    } cases[] = {{"0", 0, false},
                 {"0.3", 0.3, false},
                 {"0.9", 0.9, false},
                 {"0.4:warmup", 0.4, true},
                 {"0.99:warmup", 0.99, true}};
    static const char *const ways[] = {EXACT "batch=16 steps=6",
                                       EXACT "batch=8 steps=6 ranks=2 exchange=server servers=2"};
    char *root = temporary_folder(), words[300], name[40];
    log_of_run plain, l;
    (void)unused;
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        (void)snprintf(name, sizeof(name), "%zu", w);
        assert_ok(train(ways[w], made(root, name), 0, &plain));
        for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
            (void)snprintf(words, sizeof(words), "%s checkpoint-every=1 keep=9 ema=%s", ways[w],
                           cases[i].text);
            (void)snprintf(name, sizeof(name), "%zu-%s", w, cases[i].text);
            const char *folder = made(root, name);
            assert_ok(train(words, folder, 0, &l));
            (void)snprintf(name, sizeof(name), "%zu", w);
            assert_same(made(root, name), folder, "parameters", 0, "an average changes no weight");
            assert_true((l.test_loss == plain.test_loss) == (cases[i].decay == 0));
            assert_true(test_loss(folder) == l.test_loss);
            assert_exported(folder);
            assert_averages(folder, cases[i].decay, cases[i].rises);
        }
    }
    remove_folder(root);
}

/* Learners whose servers make them step together have the averages of one learner, to the bit,
 * whatever their meshes are. */
static void test_servers(void **unused)
{
    static const char *const ways[] = {
        "ranks=4 batch=16", "ranks=4 batch=4 exchange=server:policy=bsp servers=3",
        "ranks=4 batch=4 exchange=server:policy=ssp,bound=0 evaluate-every=2",
        "ranks=4 mesh=data=2 batch=8 exchange=server servers=2 checkpoint-every=3"};
    char *root = temporary_folder(), words[300], name[20];
    tensors one, other;
    (void)unused;
    for (size_t i = 0; i < WEFT_COUNT(ways); i++) {
        log_of_run l;
        (void)snprintf(name, sizeof(name), "%zu", i);
        (void)snprintf(words, sizeof(words), SMALL "epochs=2 ema=0.8:warmup optimizer=adam %s",
                       ways[i]);
        assert_ok(train(words, made(root, name), 0, &l));
        assert_true(open_tensors(made(root, "0"), "state", &one));
        assert_true(open_tensors(made(root, name), "state", &other));
        for (size_t k = 0; k < one.all.count; k++) {
            const weft_tensor *t = &one.all.tensors[k], *same;
            if (strncmp(t->name, "average/", strlen("average/")) != 0) continue;
            same = weft_safetensors_find(&other.all, t->name);
            assert_non_null(same);
            if (memcmp(t->data, same->data, t->bytes) != 0)
                fail_msg("%s: other bits in %s", ways[i], t->name);
        }
        close_tensors(&one);
        close_tensors(&other);
    }
    remove_folder(root);
}

/* With every exchange the run evaluates what it saves, and that is not the weights themselves. */
static void test_exchanges(void **unused)
{
    char *root = temporary_folder(), words[300];
    const weft_entry *e;
    (void)unused;
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_EXCHANGE, i)); i++)
        for (int averages = 0; averages < 2 && e->summary; averages++) { /* not those of tests */
            log_of_run l;
            (void)snprintf(words, sizeof(words),
                           SMALL "batch=8 epochs=2 ranks=2 %s exchange=%s checkpoint-every=3",
                           averages ? "ema=0.9" : "", e->name);
            assert_ok(train(words, made(root, e->name), 0, &l));
            /* Another learner may still update shared parameters while one evaluates them. */
            bool shared = strcmp(e->name, "hogwild") == 0 && !averages;
            /* Kernels of two devices round differently. */
            if (!shared && fabs(test_loss(made(root, e->name)) - l.test_loss) > 1e-6)
                fail_msg("%s: the run evaluates other weights than it saves: %.17g, %.17g", words,
                         test_loss(made(root, e->name)), l.test_loss);
            tensors state;
            assert_true(open_tensors(made(root, e->name), "state", &state));
            const weft_tensor *steps = weft_safetensors_find(&state.all, "average/steps");
            assert_true(!steps == !averages);
            if (averages) assert_true(*(const int32_t *)(const void *)steps->data == 12);
            close_tensors(&state);
            remove_folder(strdup(made(root, e->name)));
        }
    remove_folder(root);
}

/* One rank, two and four, and the shards of ZeRO have the same averages and evaluations. */
static void test_ranks(void **unused)
{
    static const char *const ways[] = {"ranks=1",        "ranks=2",        "ranks=4",
                                       "ranks=2 zero=1", "ranks=2 zero=2", "ranks=4 zero=3"};
    char *root = temporary_folder(), words[300], name[20];
    double loss = 0;
    (void)unused;
    for (size_t i = 0; i < WEFT_COUNT(ways); i++) {
        log_of_run l;
        (void)snprintf(name, sizeof(name), "%zu", i);
        (void)snprintf(words, sizeof(words),
                       SMALL "batch=16 epochs=1 virtual-workers=4 ema=0.8 optimizer=sgd "
                             "momentum=0.9 lr=0.1 lr-multiplier=*bias=0 %s",
                       ways[i]);
        assert_ok(train(words, made(root, name), 0, &l));
        if (i == 0) loss = l.test_loss;
        if (l.test_loss != loss) fail_msg("%s: another loss of the test", ways[i]);
        assert_same(made(root, "0"), made(root, name), "state", 0, ways[i]);
    }
    remove_folder(root);
}

/* Axes that cut layers or weights, and exchanges whose learners step together. */
static void test_meshes(void **unused)
{
    static const char *const ways[] = {"",
                                       "ranks=2 mesh=pipeline=2 microbatches=2",
                                       "ranks=2 mesh=tensor=2",
                                       "ranks=2 exchange=average batch=8",
                                       "ranks=4 mesh=tensor=2 exchange=server batch=8",
                                       "ranks=4 mesh=pipeline=2 microbatches=2 exchange=server "
                                       "servers=2 batch=8",
                                       "ranks=4 mesh=pipeline=2 microbatches=2 exchange=average "
                                       "batch=8",
                                       "recompute=true device=reference"};
    char *root = temporary_folder(), words[300];
    double loss = 0;
    (void)unused;
    for (size_t i = 0; i < WEFT_COUNT(ways); i++) {
        log_of_run l;
        char name[20];
        (void)snprintf(name, sizeof(name), "%zu", i);
        (void)snprintf(words, sizeof(words),
                       SMALL "batch=16 epochs=1 dtype=f64 optimizer=sgd lr=0.1 ema=0.7 %s",
                       ways[i]);
        assert_ok(train(words, made(root, name), 0, &l));
        if (i == 0) loss = l.test_loss;
        if (!(fabs(l.test_loss - loss) < 1e-9))
            fail_msg("%s: the test loss is %.12g, not %.12g", ways[i], l.test_loss, loss);
    }
    remove_folder(root);
}

static void test_resumed(void **unused)
{
    (void)unused;
    assert_resumed(SMALL "batch=16 ema=0.9:warmup", "steps=9", "steps=9 checkpoint-every=4 keep=9",
                   4, "steps=9 resume=true", "parameters state");
    assert_resumed(SMALL "batch=16 ema=0.9 ranks=2 zero=1", "steps=9",
                   "steps=9 checkpoint-every=4 keep=9", 4, "steps=9 resume=true",
                   "parameters state");
    assert_resumed(SMALL "batch=8 ema=0.9:warmup ranks=2 exchange=server servers=2", "steps=9",
                   "steps=9 checkpoint-every=4 keep=9", 4, "steps=9 resume=true",
                   "parameters state");
}

/* A run may begin with averages later, at its weights, and drops them by request alone. */
static void test_begins_later(void **unused)
{
    char *root = temporary_folder();
    const char *a = made(root, "a"), *first = EXACT "batch=16 steps=3",
               *more = EXACT "batch=16 steps=3 resume=true ema=0.9";
    tensors w, state;
    log_of_run l;
    (void)unused;
    run(first, "", a, 0);
    double before = test_loss(a);
    run(more, "steps=4", a, 0);
    assert_true(test_loss(a) != before);
    assert_true(open_tensors(a, "parameters", &w) && open_tensors(a, "state", &state));
    for (size_t i = 0; i < w.all.count; i++)
        assert_memory_equal(w.all.tensors[i].data,
                            numbers(&state, "average/", w.all.tensors[i].name),
                            w.all.tensors[i].bytes);
    close_tensors(&w);
    close_tensors(&state);
    assert_refused(train(EXACT "batch=16 steps=5 resume=true", a, 0, &l), WEFT_ERR_ARGUMENT,
                   "--ema 0.9");
    run(EXACT "batch=16 steps=5 resume=true drop-state=true", "", a, 0);
    assert_true(open_tensors(a, "state", &state));
    assert_null(weft_safetensors_find(&state.all, "average/steps"));
    close_tensors(&state);
    remove_folder(root);
}

static void test_refused(void **unused)
{
    static const char *const bad[][2] = {{"ema=1", "ema is '1'"},
                                         {"ema=-0.1", "ema is '-0.1'"},
                                         {"ema=nan", "ema is 'nan'"},
                                         {"ema=0.9:cold", "0.999:warmup"}};
    char words[300];
    log_of_run l;
    (void)unused;
    for (size_t i = 0; i < WEFT_COUNT(bad); i++) {
        (void)snprintf(words, sizeof(words), SMALL "batch=16 epochs=1 %s", bad[i][0]);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_ARGUMENT, bad[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recomputed),   cmocka_unit_test(test_servers),
        cmocka_unit_test(test_exchanges),    cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_meshes),       cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_begins_later), cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("averages of the weights", tests, begin, end);
}
