/* Runs through the trainer that must give the same bits, or a step whose norm follows from the
 * options alone. Their models differ in the last layer, the widths and the number of parameters, so
 * that gradient buckets end at every place. */
#include <math.h>

#include "context.h"

enum { MOST_BYTES = 1 << 22, MOST_TENSORS = 64 };

/* Trains with options that are given as "name=value" words. */
static weft_status train(const char *words, const char *folder)
{
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    weft_trainer *trainer;
    char copy[6000], *save = NULL;
    assert_ok(weft_train_options_init(context, &o));
    (void)snprintf(copy, sizeof(copy), "%s", words);
    assert_ok(weft_options_set(table, &o, "checkpoint", folder));
    assert_ok(weft_options_set(table, &o, "timeout", "20"));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_trainer_create(context, &o, &trainer);
    if (status == WEFT_OK) status = weft_trainer_run(trainer, NULL, NULL);
    weft_trainer_destroy(&trainer);
    weft_options_free(table, &o);
    return status;
}

/* The bytes of a safetensors file, and the offset at which its numbers begin. */
typedef struct weights {
    char *file;
    size_t size, data;
} weights;

static weights read_weights(const char *path)
{
    weights w = {.file = malloc(MOST_BYTES)};
    uint64_t header;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    w.size = fread(w.file, 1, MOST_BYTES, f);
    fclose(f);
    memcpy(&header, w.file, sizeof(header));
    w.data = sizeof(header) + (size_t)header;
    assert_true(w.size < MOST_BYTES && w.data <= w.size);
    return w;
}

/* Reads the file "parameters" or "state" of the checkpoint of a step. */
static weights at_step(const char *folder, int step, const char *part)
{
    char path[4300];
    (void)snprintf(path, sizeof(path), "%s/step-%d/%s.safetensors", folder, step, part);
    return read_weights(path);
}

/* Runs with the common options and one way each must all leave the same checkpoint files. */
static void same_files(const char *common, int steps, const char *const *ways)
{
    char *root = temporary_folder(), words[6000], folder[4200];
    static const char *const parts[] = {"parameters", "state"};
    weights first[2] = {{0}};
    for (int i = 0; ways[i]; i++) {
        (void)snprintf(folder, sizeof(folder), "%s/%d", root, i);
        (void)snprintf(words, sizeof(words), "%s steps=%d threads=1 %s", common, steps, ways[i]);
        weft_status status = train(words, folder);
        if (status != WEFT_OK) fail_msg("%s: %s", words, weft_last_message());
        for (int p = 0; p < 2; p++) {
            weights w = at_step(folder, steps, parts[p]);
            if (i == 0) {
                first[p] = w;
                continue;
            }
            bool same = w.size == first[p].size && memcmp(w.file, first[p].file, w.size) == 0;
            free(w.file);
            if (!same)
                fail_msg("%s: %s differ between '%s' and '%s'", common, parts[p], ways[0], ways[i]);
        }
    }
    for (int p = 0; p < 2; p++) free(first[p].file);
    remove_folder(root);
}

#define WAYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Numbers of virtual workers for which the ranks hold different numbers of subtrees of the tree
 * sum, such as 10 workers on two ranks. */
static void test_uneven_subtrees(void **state)
{
    (void)state;
    same_files("model=lenet data=glyphs:size=16,train=60,test=5 batch=30 virtual-workers=10", 2,
               WAYS("ranks=1", "ranks=2", "ranks=5", "ranks=2 zero=1", "ranks=5 zero=3"));
    same_files("model=mlp data=glyphs:size=9,train=60,test=5 batch=30 virtual-workers=15", 2,
               WAYS("ranks=1", "ranks=3 zero=2", "ranks=5", "ranks=5 zero=1", "ranks=5 zero=3"));
}

static char *net_file(const char *root, const char *text, char *path, size_t size)
{
    write_file(root, "net.yaml", text, strlen(text), path, size);
    return path;
}

/* SGD with rate 1 moves parameters by the clipped gradient: a step has the clip norm. */
static void test_clipped_step(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=1", "ranks=2", "ranks=2 zero=1", "ranks=2 zero=2",
                                       "ranks=2 zero=3"};
    static const int workers[] = {0, 4, 6, 12};
    char *root = temporary_folder(), path[4200], folder[4200], words[6000];
    net_file(root, "layers:\n  - {type: dense, units: classes}\n", path, sizeof(path));
    for (size_t v = 0; v < 4; v++)
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            (void)snprintf(folder, sizeof(folder), "%s/%zu-%zu", root, v, i);
            (void)snprintf(words, sizeof(words),
                           "model=%s data=glyphs:size=9,train=60,test=5 batch=30 optimizer=sgd "
                           "lr=1 clip-norm=0.01 steps=2 checkpoint-every=1 virtual-workers=%d %s",
                           path, workers[v], ways[i]);
            assert_ok(train(words, folder));
            weights a = at_step(folder, 1, "parameters"), b = at_step(folder, 2, "parameters");
            double sum = 0;
            for (size_t at = a.data; at + sizeof(float) <= a.size; at += sizeof(float)) {
                float x, y;
                memcpy(&x, a.file + at, sizeof(x));
                memcpy(&y, b.file + at, sizeof(y));
                sum += ((double)x - (double)y) * ((double)x - (double)y);
            }
            free(a.file);
            free(b.file);
            if (fabs(sqrt(sum) - 0.01) > 1e-6)
                fail_msg("%d workers, %s: a step of norm %.9g", workers[v], ways[i], sqrt(sum));
        }
    remove_folder(root);
}

/* Seven to ten convolutions and a dense layer have 15 to 21 parameters, so a bucket of sixteen
 * gradients ends between any two of them. */
static void test_any_number_of_layers(void **state)
{
    (void)state;
    char *root = temporary_folder(), path[4200], text[1024], words[5000];
    for (int layers = 7; layers <= 10; layers++) {
        int at = snprintf(text, sizeof(text), "layers:\n");
        for (int i = 0; i < layers; i++)
            at += snprintf(text + at, sizeof(text) - (size_t)at,
                           "  - {type: conv, filters: 11, kernel: 3, padding: 1}\n");
        (void)snprintf(text + at, sizeof(text) - (size_t)at,
                       "  - {type: dense, units: classes, bias: false}\n");
        net_file(root, text, path, sizeof(path));
        (void)snprintf(words, sizeof(words),
                       "model=%s data=glyphs:size=8,train=60,test=5 batch=12 virtual-workers=4",
                       path);
        same_files(words, 3, WAYS("ranks=1", "ranks=2", "ranks=4", "ranks=4 zero=2"));
    }
    remove_folder(root);
}

/* The bits of the gradient norm do not depend on how gradients are split and ordered. */
static void test_clipped_alike(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp", "lenet"};
    char words[300];
    for (int m = 0; m < 2; m++) {
        (void)snprintf(words, sizeof(words),
                       "model=%s data=glyphs:size=16,train=60,test=5 batch=30 clip-norm=0.1",
                       models[m]);
        same_files(words, 4, WAYS("ranks=3", "ranks=3 zero=1", "ranks=3 zero=2", "ranks=3 zero=3"));
        (void)snprintf(words, sizeof(words),
                       "model=%s data=glyphs:size=16,train=60,test=5 batch=30 clip-norm=0.1 "
                       "virtual-workers=12",
                       models[m]);
        same_files(
            words, 4,
            WAYS("ranks=1", "ranks=4", "ranks=4 zero=1", "ranks=3 zero=2", "ranks=2 zero=3"));
    }
}

/* Runs with common options must leave the same checkpoint files on any number of ranks, and when
 * they end after half of the steps and go on with other ranks. */
static void same_resumed(const char *common, int steps)
{
    same_files(common, steps, WAYS("ranks=1", "ranks=2", "ranks=4", "ranks=4 zero=3"));
    char *root = temporary_folder(), words[6000], folder[2][4200];
    static const char *const parts[] = {"parameters", "state"};
    for (int i = 0; i < 2; i++) (void)snprintf(folder[i], sizeof(folder[i]), "%s/%d", root, i);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(words, sizeof(words), "%s threads=1 steps=%d ranks=%d%s", common,
                       i == 1 ? steps / 2 : steps, i == 2 ? 4 : 2, i == 2 ? " resume=true" : "");
        if (train(words, folder[i > 0]) != WEFT_OK) fail_msg("%s: %s", words, weft_last_message());
    }
    for (int p = 0; p < 2; p++) {
        weights a = at_step(folder[0], steps, parts[p]), b = at_step(folder[1], steps, parts[p]);
        if (a.size != b.size || memcmp(a.file, b.file, a.size) != 0)
            fail_msg("%s: %s differ after a resume", common, parts[p]);
        free(a.file);
        free(b.file);
    }
    remove_folder(root);
}

/* A run gives the same bits with what it does beside its steps, such as evaluating samples that are
 * held out, whose losses the schedule follows. */
static void test_fitted_alike(void **state)
{
    (void)state;
    same_resumed("model=lenet data=glyphs:size=16,train=75,test=5 batch=12 virtual-workers=4 "
                 "validation=0.2 lr-schedule=plateau:patience=0 lr=0.02 evaluate-every=7 "
                 "keep-best=accuracy patience=30",
                 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uneven_subtrees),      cmocka_unit_test(test_clipped_step),
        cmocka_unit_test(test_any_number_of_layers), cmocka_unit_test(test_clipped_alike),
        cmocka_unit_test(test_fitted_alike),
    };
    return cmocka_run_group_tests_name("bits", tests, setup, teardown);
}
