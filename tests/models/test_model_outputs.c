/* Tests models of several outputs: their names, shapes and values, what is refused, outputs that a
 * model of a program names, and that further outputs change neither the weights nor the figures of
 * a training. */
#include <math.h>

#include "context.h"

enum { BATCH = 3, WIDE = 5, CLASSES = 3, INNER = 7, SIDE = 2 };

static weft_model_options options(bool training)
{
    weft_model_options o;
    weft_model_options_init(&o);
    weft_model_options_set_sample(&o, weft_shape_of(1, (int64_t[]){WIDE}));
    o.batch = BATCH;
    o.classes = CLASSES;
    o.training = training;
    return o;
}

#define LAYERS                                                                                     \
    "layers:\n"                                                                                    \
    "  - {type: dense, name: inner, units: 7}\n"                                                   \
    "  - {type: dropout, rate: 0.5, name: drop}\n"                                                 \
    "  - {type: dense, name: head, units: outputs}\n"                                              \
    "  - {type: dense, name: side, from: drop, units: 2}\n"

static weft_status build(const char *keys, bool training, weft_graph **g, weft_model_values *v)
{
    char text[1024];
    weft_model_options o = options(training);
    int size = snprintf(text, sizeof(text), "%s\n" LAYERS, keys);
    assert_ok(weft_graph_create(context, WEFT_F64, g));
    return weft_model_build_text(*g, &o, "it", text, (size_t)size, v);
}

/* --- names and shapes --- */

static void test_outputs(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        int count;
        const char *name[3];
        int64_t size[3];
    } cases[] = {
        {"outputs: head, inner, side", 3, {"head", "inner", "side"}, {CLASSES, INNER, SIDE}},
        {"outputs: side, head\nloss_from: head", 2, {"head", "side"}, {CLASSES, SIDE}},
        {"outputs: head", 1, {"head"}, {CLASSES}},
        {"outputs: \"head , drop\"", 2, {"head", "drop"}, {CLASSES, INNER}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int training = 0; training < 2; training++) {
            weft_graph *g;
            weft_model_values v;
            weft_model_output o;
            weft_value value;
            int k = 0;
            assert_ok(build(cases[i].keys, training, &g, &v));
            for (; weft_model_output_at(g, &v, k, &o, &value); k++) {
                weft_type type = weft_graph_value_type(g, value);
                assert_true(k < cases[i].count);
                assert_string_equal(o.name, cases[i].name[k]);
                assert_int_equal(o.shape.rank, 1);
                assert_int_equal(o.shape.dim[0], cases[i].size[k]);
                assert_true(o.dtype == WEFT_F64 && type.shape.dim[0] == BATCH);
                assert_true(type.shape.rank == 2 && type.shape.dim[1] == o.shape.dim[0]);
                if (k == 0) assert_int_equal(value, PORT(v, PREDICTION));
            }
            assert_int_equal(k, cases[i].count);
            assert_false(weft_model_output_at(g, &v, -1, &o, NULL));
            weft_graph_destroy(&g);
        }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"outputs: heat, inner", "it:1: no layer is named 'heat'; did you mean 'head'?"},
        {"outputs: x, head", "no layer is named 'x'"},
        {"outputs: head, head", "it names 'head' twice"},
        {"outputs: head, inner, side, inner", "'inner': the model has one of that name already"},
        {"outputs: inner, head\nloss_from: head\nname: a", NULL},
        {"outputs: inner, head", "output 'inner', which the loss reads, gives [3, 7], must give"},
        {"outputs: inner, head\nloss_from: side", "it:2: loss_from is 'side', must be one of the"},
        {"loss_from: head", "it:1: loss_from is 'head', and the model names no outputs"},
        {"outputs: head,,inner", "has an empty piece"},
        {"output: head", "did you mean 'outputs'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        weft_graph *g;
        weft_model_values v;
        weft_status status = build(cases[i][0], false, &g, &v);
        if (!cases[i][1])
            assert_ok(status);
        else if (status == WEFT_OK || !strstr(weft_last_message(), cases[i][1]))
            fail_msg("%s: '%s' does not hold '%s'", cases[i][0], weft_last_message(), cases[i][1]);
        weft_graph_destroy(&g);
    }
}

/* --- values --- */

/* y = x w + b, of the parameters of a dense layer. */
static void dense(const weft_store *store, const char *layer, const double *x, int in, int out,
                  double *y)
{
    char name[64];
    double *w = malloc(sizeof(*w) * (size_t)(in * out)), b[16];
    assert_non_null(w);
    (void)snprintf(name, sizeof(name), "%s/weight", layer);
    assert_ok(weft_store_read(store, weft_store_find(store, name), w));
    (void)snprintf(name, sizeof(name), "%s/bias", layer);
    assert_ok(weft_store_read(store, weft_store_find(store, name), b));
    weft_type type = weft_store_type(store, weft_store_find(store, name));
    assert_int_equal(weft_shape_elements(&type.shape), out);
    for (int row = 0; row < BATCH; row++)
        for (int j = 0; j < out; j++) {
            double sum = b[j];
            for (int k = 0; k < in; k++) sum += w[k * out + j] * x[row * in + k];
            y[row * out + j] = sum;
        }
    free(w);
}

static void check(const weft_instance *p, weft_value value, const double *right, int count)
{
    const double *got = weft_instance_output(p, value);
    assert_non_null(got);
    for (int i = 0; i < count; i++) assert_true(fabs(got[i] - right[i]) < 1e-12);
}

/* All outputs of one run: one that another layer reads, one that is the same value since dropout
 * does nothing here, and one that no layer reads. */
static void test_values(void **state)
{
    (void)state;
    double inner[BATCH * INNER], side[BATCH * SIDE];
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        weft_graph *g;
        weft_model_values v;
        weft_model_output o;
        weft_store *store;
        weft_instance *p;
        weft_value fetch[4];
        assert_ok(build("outputs: head, inner, drop, side", false, &g, &v));
        for (int k = 0; k < 4; k++) assert_true(weft_model_output_at(g, &v, k, &o, &fetch[k]));
        assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 5, &store));
        assert_ok(weft_instance_build(store, g, fetch, 4, &p));
        double *x = weft_instance_input(p, PORT(v, FEATURES));
        for (int i = 0; i < BATCH * WIDE; i++) x[i] = (i * 7 % 11) / 5.0 - 1;
        assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
        dense(store, "inner", x, WIDE, INNER, inner);
        dense(store, "side", inner, INNER, SIDE, side);
        check(p, fetch[1], inner, BATCH * INNER);
        check(p, fetch[2], inner, BATCH * INNER);
        check(p, fetch[3], side, BATCH * SIDE);
        weft_instance_destroy(&p);
        weft_store_destroy(&store);
        weft_graph_destroy(&g);
    }
}

/* --- models of a program --- */

static weft_value build_own(weft_model_builder *net, const char *arguments, weft_value x)
{
    const weft_services *weft = weft_services_get();
    const char *units[] = {"units", "outputs", NULL};
    weft_value y = weft->model_layer(net, "dense", "head", &x, 1, units), loose;
    weft_graph *g = weft->model_graph(net);
    weft_attr ones[] = {WEFT_ATTR_REAL("value", 1), {"shape", 2, {BATCH + 1, 2}, 0}};
    int count = arguments[0] - '0';
    for (int i = 0; i < count; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s%d", arguments + 1, i % 10);
        weft->model_output(net, name, y);
    }
    loose = weft->add_node(g, "constant", "loose", NULL, 0, ones, 2);
    if (count == 0) weft->model_output(net, arguments + 1, loose);
    return y;
}

static void test_own_model(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"own:7a", NULL},
        {"own:8a", "a model has at most 8 outputs"},
        {"own:1", NULL},
        {"own:1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a name has 1 to 31 bytes"},
        {"own:0loose", "output 'loose' is [4, 2], must be [3, ...]"},
        {"own:0", "a name has 1 to 31 bytes"},
        {"own:1prediction", NULL},
    };
    weft_context *c;
    static const weft_model_ops own = {sizeof(own), build_own};
    const weft_entry entry = {
        .kind = WEFT_KIND_MODEL, .name = "own", .form = "own[:...]", .summary = "own", .ops = &own};
    assert_ok(weft_context_create(&c));
    assert_ok(weft_context_register(c, &entry, 1));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        weft_graph *g;
        weft_model_values v;
        weft_model_options o = options(false);
        o.model = cases[i][0];
        assert_ok(weft_graph_create(c, WEFT_F32, &g));
        if (cases[i][1])
            assert_refused(weft_model_build(g, &o, &v), WEFT_ERR_ARGUMENT, cases[i][1]);
        else
            assert_ok(weft_model_build(g, &o, &v));
        weft_graph_destroy(&g);
    }
    weft_context_destroy(&c);
}

/* --- training --- */

static void on_prediction(void *user, const weft_prediction *p)
{
    int *rows = user;
    assert_true(p->outputs == 0 || p->outputs == 2);
    for (int k = 0; k < p->outputs; k++) {
        assert_true(p->output[k].dtype == WEFT_F32 && p->output[k].shape.rank == 1);
        for (int64_t i = 0; i < p->output[k].shape.dim[0]; i++)
            assert_true(isfinite(((const float *)p->value[k])[i]));
    }
    *rows += p->outputs;
}

/* Trains, and returns the bytes of the exported weights, and the figures of the test part. */
static char *train(const char *folder, const char *keys, const char *mesh, long *size,
                   weft_report *report, int *outputs)
{
    char path[700], text[1024], model[600], checkpoint[600], name[16];
    weft_train_options o = {0};
    weft_eval_options e = {0};
    weft_trainer *t;
    (void)snprintf(name, sizeof(name), "m%d.yaml", (int)strlen(keys));
    int length = snprintf(text, sizeof(text), "%s\n" LAYERS, keys);
    write_file(folder, name, text, (size_t)length, model, sizeof(model));
    (void)snprintf(checkpoint, sizeof(checkpoint), "%s/c%d", folder, (int)strlen(keys));
    assert_ok(weft_train_options_init(context, &o));
    const weft_option *table = weft_train_table(context);
    const char *const set[][2] = {{"model", model},
                                  {"data", "glyphs:size=9,train=60,test=21"},
                                  {"batch", "15"},
                                  {"steps", "7"},
                                  {"checkpoint", checkpoint},
                                  {"mesh", mesh},
                                  {"ranks", strstr(mesh, "2") ? "2" : "1"}};
    for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++)
        assert_ok(weft_options_set(table, &o, set[i][0], set[i][1]));
    assert_ok(weft_trainer_create(context, &o, &t));
    assert_ok(weft_trainer_run(t, NULL, NULL));
    weft_trainer_destroy(&t);
    weft_options_free(table, &o);
    (void)snprintf(path, sizeof(path), "%s/latest", checkpoint);
    assert_ok(weft_options_init(weft_eval_table(), &e));
    assert_ok(weft_options_set(weft_eval_table(), &e, "checkpoint", path));
    assert_ok(weft_evaluate(context, &e, report));
    *outputs = 0;
    assert_ok(weft_predict(context, &e, on_prediction, outputs));
    weft_options_free(weft_eval_table(), &e);
    (void)snprintf(model, sizeof(model), "%s/w.safetensors", folder);
    assert_ok(weft_checkpoint_export(context, path, model));
    FILE *f = fopen(model, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)*size, f), (size_t)*size);
    (void)fclose(f);
    return bytes;
}

static void test_training(void **state)
{
    (void)state;
    static const char *const meshes[] = {"data=1", "data=2", "tensor=2"};
    for (size_t m = 0; m < sizeof(meshes) / sizeof(*meshes); m++) {
        char *folder = temporary_folder();
        long size[2];
        int rows[2];
        weft_report r[2];
        char *one = train(folder, "outputs: head", meshes[m], &size[0], &r[0], &rows[0]);
        char *more =
            train(folder, "outputs: head, inner, side", meshes[m], &size[1], &r[1], &rows[1]);
        assert_int_equal(size[0], size[1]);
        assert_memory_equal(one, more, (size_t)size[0]);
        assert_true(r[0].loss == r[1].loss && r[0].accuracy == r[1].accuracy);
        assert_int_equal(rows[0], 0);
        assert_int_equal(rows[1], 2 * 21);
        for (int i = 0; i < 2; i++) weft_report_free(&r[i]);
        free(one);
        free(more);
        remove_folder(folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_values),   cmocka_unit_test(test_own_model),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
