/* Generation: a model that computes one position after the other gives the probabilities of the
 * model that computes all positions at once, and tokens are drawn by them. */
#include <math.h>

#include "base/base.h"
#include "context.h"

enum { CONTEXT = 9, CLASSES = 40, SAMPLES = 12 };

static const char gated[] = "layers:\n"
                            "  - {type: embedding, name: tokens, units: 8}\n"
                            "  - {type: rms_norm, name: norm}\n"
                            "  - {type: attention, name: look, heads: 4, key_heads: 2, causal: "
                            "true, rotary: 50}\n"
                            "  - {type: add, name: sum, from: \"tokens, look\"}\n"
                            "  - {type: gru, name: memory, units: 7, layers: 2}\n"
                            "  - {type: linear, units: outputs}\n";
/* On a tensor axis the logits are sums of all ranks, which nothing in the graph adds up. */
static const char summed[] = "layers:\n"
                             "  - {type: embedding, name: tokens, units: 8}\n"
                             "  - {type: linear, units: 8}\n"
                             "  - {type: linear, units: outputs, bias: false}\n";
static const char *const refused[][2] = {
    {"layers:\n  - {type: embedding, units: 8}\n  - {type: attention, name: look, heads: 2}\n"
     "  - {type: linear, units: outputs}\n",
     "node 'look/attend' (attention) reads later positions"},
    {"layers:\n  - {type: embedding, units: 8}\n  - {type: lstm, name: both, units: 4, "
     "bidirectional: true}\n  - {type: linear, units: outputs}\n",
     "node 'both/steps_reverse' (lstm) runs backwards, from later positions"}};

typedef struct predicted {
    int32_t label[SAMPLES][CONTEXT];
    float share[SAMPLES][CONTEXT][CLASSES];
    int classes;
} predicted;

static void on_prediction(void *user, const weft_prediction *p)
{
    predicted *all = user;
    if (p->sample >= SAMPLES) return;
    assert_true(p->classes <= CLASSES);
    all->classes = p->classes;
    all->label[p->sample][p->position] = p->label;
    memcpy(all->share[p->sample][p->position], p->probabilities,
           (size_t)p->classes * sizeof(float));
}

static void train(const char *model, const char *text, const char *dtype, const char *folder)
{
    weft_trainer *trainer;
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    assert_ok(weft_train_options_init(context, &o));
    const char *const set[][2] = {{"model", model},       {"data", text},         {"dtype", dtype},
                                  {"steps", "12"},        {"checkpoint", folder}, {"batch", "8"},
                                  {"lr", "0.02"},         {"threads", "1"},       {"epochs", "9"},
                                  {"device", "reference"}};
    for (size_t i = 0; i < WEFT_COUNT(set); i++)
        assert_ok(weft_options_set(table, &o, set[i][0], set[i][1]));
    assert_ok(weft_trainer_create(context, &o, &trainer));
    assert_ok(weft_trainer_run(trainer, NULL, NULL));
    weft_trainer_destroy(&trainer);
    weft_options_free(table, &o);
}

static void predict(const char *folder, const char *device, predicted *out)
{
    weft_eval_options o = {0};
    assert_ok(weft_options_init(weft_predict_table(), &o));
    assert_ok(weft_options_set(weft_predict_table(), &o, "checkpoint", folder));
    assert_ok(weft_options_set(weft_predict_table(), &o, "device", device));
    assert_ok(weft_predict(context, &o, on_prediction, out));
    weft_options_free(weft_predict_table(), &o);
}

/* Writes a text, and a specification of it as data whose samples follow each other. */
static void make_text(const char *root, char *spec, size_t room)
{
    static const char *const words[] = {"a weft ", "holds ", "the warp, ", "thread ", "by "};
    char text[2400], path[512];
    size_t size = 0;
    for (unsigned i = 7; size < sizeof(text) - 16; i = i * 1103515245U + 12345U) {
        const char *word = words[i / 65536 % WEFT_COUNT(words)];
        memcpy(text + size, word, strlen(word));
        size += strlen(word);
    }
    write_file(root, "text.txt", text, size, path, sizeof(path));
    (void)snprintf(spec, room, "text:%s,unit=char,context=%d,stride=%d", path, CONTEXT, CONTEXT);
}

static void compare_shares(const double *logits, const float *want, int classes, double close)
{
    double sum = 0, most = -INFINITY;
    for (int c = 0; c < classes; c++) most = fmax(most, logits[c]);
    for (int c = 0; c < classes; c++) sum += exp(logits[c] - most);
    for (int c = 0; c < classes; c++)
        if (fabs(exp(logits[c] - most) / sum - (double)want[c]) > close)
            fail_msg("token %d has the probability %g, should have %g", c,
                     exp(logits[c] - most) / sum, (double)want[c]);
}

/* Each sample but the first begins with the last label of the one before. */
static void compare_samples(weft_generator *g, const predicted *p, double close)
{
    for (int s = 1; s < SAMPLES; s++) {
        weft_generator_reset(g);
        assert_null(weft_generator_logits(g));
        for (int t = 0; t < CONTEXT; t++) {
            int32_t token = t > 0 ? p->label[s][t - 1] : p->label[s - 1][CONTEXT - 1];
            assert_ok(weft_generator_feed(g, token));
            compare_shares(weft_generator_logits(g), p->share[s][t], p->classes, close);
        }
    }
}

static void test_steps_equal_the_whole(void **state)
{
    (void)state;
    static const char *const models[] = {"gpt:layers=2,heads=2,width=8,tied",
                                         "char-lstm:layers=2,units=6", gated, summed};
    static const char *const dtypes[] = {"f64", "f32"}, *const devices[] = {"reference", "cpu"};
    static const char *const meshes[] = {NULL,
                                         "tensor=2",
                                         "pipeline=2",
                                         "domain=2",
                                         "data=3",
                                         "tensor=3,pipeline=2",
                                         "data=2,tensor=2",
                                         "data=2,domain=2,tensor=2"};
    char *root = temporary_folder(), spec[700], yaml[512], folder[512];
    static predicted p;
    weft_generator *g;
    make_text(root, spec, sizeof(spec));
    for (size_t m = 0; m < WEFT_COUNT(models); m++)
        for (int d = 0; d < 2; d++) {
            bool file = strchr(models[m], '\n') != NULL;
            if (file)
                write_file(root, "net.yaml", models[m], strlen(models[m]), yaml, sizeof(yaml));
            (void)snprintf(folder, sizeof(folder), "%s/run-%zu-%d", root, m, d);
            train(file ? yaml : models[m], spec, dtypes[d], folder);
            predict(folder, devices[d], &p);
            for (size_t k = 0; k < WEFT_COUNT(meshes); k++) {
                assert_ok(weft_generator_open(context, folder, devices[d], meshes[k], 1, &g));
                assert_int_equal(weft_generator_tokens(g), p.classes);
                compare_samples(g, &p, d ? 2e-6 : 1e-7);
                weft_generator_close(&g);
            }
        }
    remove_folder(root);
}

static void test_wrong_meshes(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"batch=2", "no mesh axis is named 'batch'"},
                                           {"tensor=65", "has 65 ranks, must be from 1 to 64"},
                                           {"pipeline=40", "a pipeline of 40 stages"}};
    char *root = temporary_folder(), spec[700], folder[512];
    weft_generator *g;
    make_text(root, spec, sizeof(spec));
    (void)snprintf(folder, sizeof(folder), "%s/run", root);
    train("gpt:layers=1,heads=2,width=8", spec, "f32", folder);
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++)
        assert_refused(weft_generator_open(context, folder, "cpu", wrong[i][0], 1, &g),
                       WEFT_ERR_ARGUMENT, wrong[i][1]);
    remove_folder(root);
}

/* A model whose positions are used up goes on from the later half of them. */
static void test_positions_used_up(void **state)
{
    (void)state;
    char *root = temporary_folder(), spec[700], folder[512];
    weft_generator *long_one, *fresh;
    make_text(root, spec, sizeof(spec));
    (void)snprintf(folder, sizeof(folder), "%s/run", root);
    train("gpt:layers=1,heads=2,width=8", spec, "f64", folder);
    assert_ok(weft_generator_open(context, folder, "reference", NULL, 1, &long_one));
    assert_ok(weft_generator_open(context, folder, "reference", NULL, 1, &fresh));
    int n = weft_generator_tokens(long_one);
    for (int i = 0; i <= CONTEXT; i++) assert_ok(weft_generator_feed(long_one, i * 5 % n));
    for (int i = CONTEXT - CONTEXT / 2; i <= CONTEXT; i++)
        assert_ok(weft_generator_feed(fresh, i * 5 % n));
    assert_memory_equal(weft_generator_logits(long_one), weft_generator_logits(fresh),
                        (size_t)n * sizeof(double));
    /* The tokens that are not needed change no bit of what follows, however many there are. */
    for (int count = 1; count < 5 * CONTEXT; count++) {
        int64_t needed = weft_generator_needed(fresh, count);
        assert_in_range(needed, WEFT_MIN(count, CONTEXT - CONTEXT / 2), WEFT_MIN(count, CONTEXT));
        weft_generator_reset(long_one);
        weft_generator_reset(fresh);
        for (int i = 0; i < count; i++) {
            assert_ok(weft_generator_feed(long_one, (i * 5 + count) % n));
            if (i >= count - needed) assert_ok(weft_generator_feed(fresh, (i * 5 + count) % n));
        }
        assert_memory_equal(weft_generator_logits(long_one), weft_generator_logits(fresh),
                            (size_t)n * sizeof(double));
    }
    weft_generator_close(&long_one);
    weft_generator_close(&fresh);
    remove_folder(root);
}

static int32_t drawn(weft_generator *g, weft_sampling how)
{
    int32_t token;
    assert_ok(weft_generator_draw(g, &how, &token));
    return token;
}

static int most_likely(const double *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* The share of each token among many draws is its probability, within five deviations. */
static void check_shares(weft_generator *g, weft_sampling how, int kept)
{
    enum { DRAWS = 20000 };
    const double *logits = weft_generator_logits(g);
    int n = weft_generator_tokens(g), count[CLASSES] = {0}, seen = 0;
    double sum = 0, share[CLASSES];
    for (int i = 0; i < DRAWS; i++) count[drawn(g, how)]++;
    for (int i = 0; i < n; i++) seen += count[i] > 0;
    assert_true(seen <= kept);
    for (int i = 0; i < n; i++) sum += count[i] ? exp(logits[i] / how.temperature) : 0;
    for (int i = 0; i < n; i++) {
        share[i] = count[i] ? exp(logits[i] / how.temperature) / sum : 0;
        double deviation = sqrt(share[i] * (1 - share[i]) * DRAWS);
        if (fabs(count[i] - share[i] * DRAWS) > 5 * deviation + 1)
            fail_msg("token %d came %d times of %d, its share is %g", i, count[i], DRAWS, share[i]);
    }
}

static void test_draws(void **state)
{
    (void)state;
    char *root = temporary_folder(), spec[700], folder[512];
    weft_generator *g;
    int32_t token, first[20];
    make_text(root, spec, sizeof(spec));
    (void)snprintf(folder, sizeof(folder), "%s/run", root);
    train("char-lstm:units=5", spec, "f32", folder);
    assert_ok(weft_generator_open(context, folder, "cpu", NULL, 1, &g));
    weft_sampling all = {.temperature = 1, .top_p = 1, .seed = 4};
    assert_int_equal(weft_generator_draw(g, &all, &token), WEFT_ERR_ARGUMENT);
    assert_ok(weft_generator_feed(g, 3));
    int n = weft_generator_tokens(g), best = most_likely(weft_generator_logits(g), n);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(drawn(g, (weft_sampling){.top_p = 1}), best);
        assert_int_equal(drawn(g, (weft_sampling){.temperature = 9, .top_k = 1, .top_p = 1}), best);
        assert_int_equal(drawn(g, (weft_sampling){.temperature = 9, .top_p = 1e-9}), best);
    }
    for (int again = 0; again < 2; again++) {
        (void)drawn(g, (weft_sampling){.temperature = 1, .top_p = 1, .seed = 5}); /* another seed */
        for (int i = 0; i < 20; i++) {
            token = drawn(g, all);
            assert_true(!again || token == first[i]);
            first[i] = token;
        }
    }
    check_shares(g, all, n);
    check_shares(g, (weft_sampling){.temperature = 0.5, .top_k = 3, .top_p = 1}, 3);
    weft_generator_close(&g);
    remove_folder(root);
}

static void test_refusals(void **state)
{
    (void)state;
    char *root = temporary_folder(), spec[700], folder[512], yaml[512], name[32];
    weft_generator *g = NULL;
    int32_t token;
    make_text(root, spec, sizeof(spec));
    for (size_t i = 0; i < WEFT_COUNT(refused); i++) {
        (void)snprintf(name, sizeof(name), "%zu.yaml", i);
        write_file(root, name, refused[i][0], strlen(refused[i][0]), yaml, sizeof(yaml));
        (void)snprintf(folder, sizeof(folder), "%s/refused-%zu", root, i);
        train(yaml, spec, "f32", folder);
        assert_refused(weft_generator_open(context, folder, "cpu", NULL, 1, &g),
                       WEFT_ERR_UNSUPPORTED, refused[i][1]);
        assert_null(g);
    }
    (void)snprintf(folder, sizeof(folder), "%s/images", root);
    train("mlp", "glyphs:size=8,train=64,test=8", "f32", folder);
    assert_refused(weft_generator_open(context, folder, "cpu", NULL, 1, &g), WEFT_ERR_UNSUPPORTED,
                   "does not predict the next token");
    (void)snprintf(folder, sizeof(folder), "%s/run", root);
    train("char-lstm:units=3", spec, "f32", folder);
    assert_ok(weft_generator_open(context, folder, "cpu", NULL, 1, &g));
    assert_refused(weft_generator_feed(g, -1), WEFT_ERR_ARGUMENT, "token -1");
    assert_refused(weft_generator_feed(g, weft_generator_tokens(g)), WEFT_ERR_ARGUMENT, "must be");
    assert_ok(weft_generator_feed(g, 0));
    const weft_sampling wrong[] = {{.temperature = -1, .top_p = 1},
                                   {.temperature = (double)NAN, .top_p = 1},
                                   {.temperature = 1, .top_p = 0},
                                   {.temperature = 1, .top_p = 1.5},
                                   {.temperature = 1, .top_p = 1, .top_k = -1}};
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++)
        assert_int_equal(weft_generator_draw(g, &wrong[i], &token), WEFT_ERR_ARGUMENT);
    weft_generator_close(&g);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_equal_the_whole),
        cmocka_unit_test(test_wrong_meshes),
        cmocka_unit_test(test_positions_used_up),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("generate", tests, setup, teardown);
}
