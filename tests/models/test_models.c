/* Tests that every built-in model gives the same loss and gradients on every device, and that
 * models in YAML are built or refused with the right message. */
#include <math.h>

#include "context.h"

static weft_model_options options(const char *model, int64_t side)
{
    weft_model_options o;
    weft_model_options_init(&o);
    o.model = model;
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, side, side}));
    o.batch = 2;
    o.classes = 10;
    o.training = true;
    return o;
}

/* The loss of the first step, and the sum of the squares of all its gradients. */
static void first_step(const char *model, const char *device, int64_t side, double *loss,
                       double *norm)
{
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_model_values v;
    weft_value fetch[256];
    int count = 0;
    weft_model_options o = options(model, side);
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_model_build(g, &o, &v));
    assert_ok(weft_graph_differentiate(g, PORT(v, LOSS)));
    fetch[count++] = PORT(v, LOSS);
    for (weft_value i = 0; i < weft_graph_value_count(g); i++)
        if (weft_graph_value_kind(g, i) == WEFT_VALUE_PARAM) {
            assert_true(weft_graph_gradient(g, i) != WEFT_NO_VALUE && count < 256);
            fetch[count++] = weft_graph_gradient(g, i);
        }
    assert_ok(weft_store_create(context, device, 5, &store));
    assert_ok(weft_instance_build(store, g, fetch, count, &p));
    float *x = weft_instance_input(p, PORT(v, FEATURES)),
          *w = weft_instance_input(p, PORT(v, WEIGHTS));
    for (int64_t i = 0; i < 2 * side * side; i++) x[i] = (float)(i * 37 % 101) / 101;
    w[0] = w[1] = 0.5f;
    ((int32_t *)weft_instance_input(p, PORT(v, TARGET)))[1] = 4;
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    *loss = (double)*(const float *)weft_instance_output(p, PORT(v, LOSS));
    *norm = 0;
    for (int i = 1; i < count; i++) {
        weft_type type = weft_graph_value_type(g, fetch[i]);
        const float *data = weft_instance_output(p, fetch[i]);
        for (int64_t j = 0; j < weft_shape_elements(&type.shape); j++)
            *norm += (double)data[j] * (double)data[j];
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
}

static void test_devices_agree_on_models(void **state)
{
    (void)state;
    for (int m = 0; built_in(WEFT_KIND_MODEL, m); m++) {
        double loss, norm, want_loss, want_norm;
        const char *name = built_in(WEFT_KIND_MODEL, m), *model = small_model(name);
        if (!takes_images(context, model)) continue;
        /* vgg11 gets small images, since the kernels of the reference device are slow, and models
         * with much batch normalisation large ones, since that of few numbers magnifies rounding.
         */
        bool deep = model != name && strcmp(name, "vgg") != 0;
        int64_t side = deep ? 70 : strcmp(name, "vgg11") == 0 ? 16 : 28;
        first_step(model, "reference", side, &want_loss, &want_norm);
        assert_true(isfinite(want_loss) && want_norm > 0);
        for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
            if (paths_alone() && (d + m) % 3) continue;
            first_step(model, built_in(WEFT_KIND_DEVICE, d), side, &loss, &norm);
            if (fabs(loss - want_loss) > 1e-4 * want_loss ||
                fabs(norm - want_norm) > (deep ? 2e-2 : 1e-3) * want_norm)
                fail_msg("%s on %s: loss %g, gradients %g; reference %g, %g", model,
                         built_in(WEFT_KIND_DEVICE, d), loss, norm, want_loss, want_norm);
        }
    }
}

/* side 0: samples are sequences, not images. */
static weft_status build(const char *yaml, int64_t side)
{
    weft_graph *g;
    weft_model_values v;
    weft_model_options o = options("net.yaml", side);
    if (side == 0) weft_model_options_set_sample(&o, weft_shape_of(2, (int64_t[]){5, 4}));
    if (strstr(yaml, "lengths: n")) /* of which layers read their number of positions */
        o.input[o.inputs++] = (weft_input){.name = "n", .dtype = WEFT_I32, .values = 6};
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_status status = weft_model_build_text(g, &o, "net.yaml", yaml, strlen(yaml), &v);
    if (status == WEFT_OK) status = weft_graph_differentiate(g, PORT(v, LOSS));
    weft_graph_destroy(&g);
    return status;
}

static const struct {
    const char *yaml, *words;
    weft_status status;
} bad_models[] = {
    {"layers:\n  - {type: dense, units: 7}\n", "must give [batch, 10]", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: gru, name: r, units: 7}\n",
     "net.yaml:2: layer 'r' (gru) needs samples [positions, width], such as those of an embedding; "
     "here they have 3 dimensions",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - type: convv\n    filters: 3\n",
     "net.yaml:2: no layer type is named 'convv'; did you mean 'conv'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: activation}\n",
     "net.yaml:2: no layer type is named 'activation'; each activation is a layer type of its own: "
     "relu, gelu, silu, sigmoid, tanh, softmax, relu6, hardsigmoid, hardswish, leaky_relu, elu",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: atention}\n",
     "net.yaml:2: no layer type is named 'atention'; did you mean 'attention'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: dilation}\n",
     "net.yaml:2: no layer type is named 'dilation'; known are conv", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: dense, units: 3, activation: relu}\n",
     "lengths; an activation is a layer of its own, as in {type: relu}", WEFT_ERR_FORMAT},
    {"layers:\n  - type: conv\n    filter: 3\n",
     "net.yaml:3: no key is named 'filter'; did you mean 'filters'", WEFT_ERR_FORMAT},
    {"layers:\n  - type: conv\n", "net.yaml:2: a conv layer needs 'filters'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - type: relu\n  - type: conv\n    filters: 0\n", "net.yaml:4: option 'filters'",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - type: relu\n    from: x, y\n",
     "net.yaml:3: no layer before this one is named 'y'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: r}\n  - {type: relu, name: r}\n",
     "net.yaml:3: two layers are named 'r', this one and that of line 2", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu}\n  - type: relu\n    name: a\n  - type: relu\n  - type: relu\n"
     "    name: a\n",
     "net.yaml:7: two layers are named 'a', this one and that of line 4", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: conv, filters: 4}\n  - {type: conv, filters: 3, groups: 2}\n",
     "net.yaml:3: layer 'conv2' has 2 groups and 3 filters: filters must be a multiple of groups, "
     "as the 4 channels that it reads are; give filters: 2 or 4",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: conv, filters: 4}\n  - {type: conv, filters: 3, groups: 4}\n",
     "give filters: 4", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: conv, filters: 9}\n  - {type: conv, filters: 6, groups: 6}\n",
     "net.yaml:3: layer 'conv2' has 6 groups and reads 9 channels: the channels that it reads must "
     "be a multiple of its groups, as its filters must; give groups: 3",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: conv, filters: 4, kernel: 99}\n", "net.yaml:2: node 'conv1'",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: dense, units: 4}\n  - {type: conv, filters: 4}\n",
     "net.yaml:3: layer 'conv2' (conv) needs samples [channels, ...]", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: adaptive_avgpool, size: [3, 4, 5]}\n", "net.yaml:2: layer 'adaptive_avg",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: upsample, scale: 3, size: 4}\n",
     "net.yaml:2: layer 'upsample1' (upsample) has a scale and a size; give one of them",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: upsample, align_corners: true}\n",
     "align_corners belongs to mode: bilinear", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu}\n  - {type: relu, block: 3, repeat: 2}\n",
     "net.yaml:3: block is 3, and only 2 layers end here that are in no other block",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, repeat: 2}\n  - {type: relu, block: 2, repeat: 2}\n",
     "net.yaml:3: block is 2, and only 1 layer ends here", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, block: 1}\n  - {type: relu, block: 2}\n",
     "net.yaml:3: block is the number of layers that 'repeat' copies", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, repeat: 30000}\n", "net.yaml:2: with this block the model has more",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: r_2}\n  - {type: relu, name: r, repeat: 2}\n",
     "net.yaml:3: two layers are named 'r_2'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - type: relu\n    kernel: 3\n",
     "net.yaml:3: a relu layer has no key 'kernel'; its keys are type, name, from",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - type: maxpool\n    kernel: 3\n    bias: true\n",
     "net.yaml:4: a maxpool layer has no key 'bias'; its keys are type, name, from, kernel, "
     "stride, padding",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu}\ncolour: red\n", "net.yaml:3: no key is named 'colour'",
     WEFT_ERR_FORMAT},
    {"layers:\n  - {type: relu}\n---\nlayers:\n  - {type: relu}\n",
     "net.yaml:3: a second document begins", WEFT_ERR_FORMAT},
    {"layers:\n  - {type: relu}\n...\n---\n[\n", "net.yaml:4: a second document begins",
     WEFT_ERR_FORMAT},
    {"layers:\n  - {type: relu}\nname: a\nlayers:\n  - {type: tanh}\n",
     "net.yaml:4: the key 'layers' is given twice", WEFT_ERR_FORMAT},
    {"layers:\n  - {type: relu}\n  - type: conv\n    filters: 3\n    filters: 4\n",
     "net.yaml:5: the key 'filters' is given twice", WEFT_ERR_FORMAT},
    {"layers:\n  - {type: relu, from: 'x x'}\n",
     "net.yaml:2: no layer before this one is named 'x x'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: add, from: 'x,,x'}\n", "net.yaml:2: from: 'x,,x' has an empty piece",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: add, from: 'x,x,'}\n", "has an empty piece", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: ''}\n", "net.yaml:2: option 'name' is empty",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: x}\n", "net.yaml:2: a layer is named 'x'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: 'a b'}\n", "net.yaml:2: a layer is named 'a b'",
     WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: 'a*'}\n", "a layer is named 'a*'", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: \"a\\e[31mb\"}\n",
     "option 'name' is 'a\\x1b[31mb', must be UTF-8", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: relu, name: "
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n",
     "a name has 1 to 64 bytes", WEFT_ERR_ARGUMENT},
    {"layers: 3\n", "net.yaml:1: 'layers' must be a sequence", WEFT_ERR_FORMAT},
    {"name: x\n", "has no layers", WEFT_ERR_FORMAT},
    {"", "has no layers", WEFT_ERR_FORMAT},
    {"layers:\n  - {type: add}\n", "net.yaml:2: an add layer reads two", WEFT_ERR_ARGUMENT},
    {"layers:\n  - {type: dense, units: many}\n", "net.yaml:2: units is 'many'", WEFT_ERR_ARGUMENT},
    {"layers:\n - {type: relu\n", "net.yaml:3: is not YAML", WEFT_ERR_FORMAT},
};

static void test_yaml_models(void **state)
{
    (void)state;
    assert_ok(build("layers:\n  - {type: dense, units: 7}\n  - {type: relu}\n  - {type: dense, "
                    "units: classes}\n",
                    5));
    assert_ok(build(
        "name: branches\nlayers:\n"
        "  - {type: conv, name: stem, filters: 8, kernel: 3, padding: 1, init: he}\n"
        "  - {type: batch_norm}\n  - {type: gelu, name: g}\n"
        "  - {type: conv, name: a, from: g, filters: 8, kernel: 1}\n"
        "  - {type: conv, name: b, from: g, filters: 8, kernel: 3, padding: 1, groups: 4, bias: "
        "false}\n"
        "  - {type: add, name: sum, from: 'a, b'}\n"
        "  - {type: concat, from: 'g, sum'}\n  - {type: avgpool}\n  - {type: dropout, rate: 0.1}\n"
        "  - {type: global_avgpool}\n  - {type: layer_norm}\n  - {type: dense, units: classes}\n",
        9));
    for (size_t i = 0; i < sizeof(bad_models) / sizeof(bad_models[0]); i++)
        assert_refused(build(bad_models[i].yaml, 9), bad_models[i].status, bad_models[i].words);
}

/* A layer without a name is named by its type and number. If the file gives that name to another
 * layer, before or after, '_' is appended. */
static void test_automatic_names_step_aside(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *names[3];
    } files[] = {
        {"layers:\n  - {type: dense, units: 3}\n  - {type: dense, name: a, units: 3}\n"
         "  - {type: dense, units: classes}\n",
         {"dense1/weight", "a/weight", "dense3/weight"}},
        {"layers:\n  - {type: dense, name: dense2, units: 3}\n  - {type: dense, units: 4}\n"
         "  - {type: dense, from: dense2, units: classes}\n",
         {"dense2/weight", "dense2_/weight", "dense3/weight"}},
        {"layers:\n  - {type: dense, units: 3}\n  - {type: dense, name: dense1_, units: 3}\n"
         "  - {type: dense, name: dense1, units: classes}\n",
         {"dense1__/weight", "dense1_/weight", "dense1/weight"}},
    };
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        weft_graph *g;
        weft_model_values v;
        weft_model_options o = options("net.yaml", 9);
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        assert_ok(
            weft_model_build_text(g, &o, "net.yaml", files[f].yaml, strlen(files[f].yaml), &v));
        for (int i = 0; i < 3; i++) {
            weft_value leaf = weft_graph_find(g, files[f].names[i]);
            if (leaf == WEFT_NO_VALUE) fail_msg("nothing is named %s", files[f].names[i]);
        }
        weft_graph_destroy(&g);
    }
}

/* A key of layers and a value that every type with this key accepts. */
typedef struct key_value {
    const char *key, *value;
} key_value;

static bool is_one_of(const char *name, const char *a, const char *b)
{
    return strcmp(name, a) == 0 || strcmp(name, b) == 0;
}

/* The required key of a type of layer, if it is not `given` anyway. */
static const char *required(const char *type, const char *given)
{
    static const char *const all[][3] = {
        {"conv", "filters", ", filters: 2"},     {"dense", "units", ", units: 3"},
        {"linear", "units", ", units: 3"},       {"lstm", "units", ", units: 3"},
        {"gru", "units", ", units: 3"},          {"attention", "heads", ", heads: 2"},
        {"cast", "dtype", ", dtype: f32"},       {"conv_transpose", "filters", ", filters: 2"},
        {"group_norm", "groups", ", groups: 1"}, {"adaptive_avgpool", "size", ", size: 2"}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i][0], type) == 0 && strcmp(all[i][1], given) != 0) return all[i][2];
    return "";
}

/* Builds a model with a layer of this type that has this key, and returns whether the type lists
 * the key; else building must fail. */
static bool check_key(const char *type, const key_value *k)
{
    char yaml[400], words[100], padded[220], wanted[64], shared[100] = "";
    bool sequence = is_one_of(type, "lstm", "gru") || is_one_of(type, "attention", "positions") ||
                    is_one_of(type, "sequence_mean", "");
    const char *needs = required(type, k->key);
    (void)snprintf(padded, sizeof(padded), " %s,", weft_layer_keys(context, type));
    (void)snprintf(wanted, sizeof(wanted), " %s,", k->key);
    bool has = strstr(padded, wanted) != NULL;
    if (has && strcmp(k->key, "share") == 0)
        (void)snprintf(shared, sizeof(shared), "  - {type: %s, name: own, from: x%s}\n", type,
                       needs);
    (void)snprintf(words, sizeof(words), "net.yaml:3: a %s layer has no key '%s'", type, k->key);
    (void)snprintf(yaml, sizeof(yaml),
                   "layers:\n%s  - {type: %s, from: '%s'%s,\n     %s: %s}\n"
                   "  - {type: dense, units: classes}\n",
                   shared, type, is_one_of(type, "add", "mul") ? "x, x" : "x", needs, k->key,
                   k->value);
    if (has)
        assert_ok(build(yaml, sequence ? 0 : 9));
    else
        assert_refused(build(yaml, sequence ? 0 : 9), WEFT_ERR_ARGUMENT, words);
    return has;
}

/* Every layer type accepts the keys that weft_layer_keys lists for it, and refuses all others. */
static void test_keys_of_layers(void **state)
{
    (void)state;
    static const key_value values[] = {{"filters", "4"},     {"kernel", "1"},
                                       {"stride", "1"},      {"padding", "0"},
                                       {"groups", "1"},      {"dilation", "1"},
                                       {"bias", "false"},    {"init", "he"},
                                       {"units", "7"},       {"rate", "0.3"},
                                       {"axis", "1"},        {"layers", "2"},
                                       {"last", "true"},     {"bidirectional", "true"},
                                       {"share", "own"},     {"heads", "4"},
                                       {"key_heads", "1"},   {"causal", "true"},
                                       {"rotary", "100"},    {"lengths", "n"},
                                       {"deviation", "0.5"}, {"dtype", "real"},
                                       {"slope", "0.2"},     {"alpha", "0.5"},
                                       {"scale", "2"},       {"size", "2"},
                                       {"mode", "nearest"},  {"align_corners", "false"},
                                       {"ceil", "true"},     {"epsilon", "0.01"}};
    const int count = sizeof(values) / sizeof(values[0]);
    bool met[sizeof(values) / sizeof(values[0])] = {false};
    const char *type;
    for (int i = 0; (type = built_in(WEFT_KIND_LAYER, i)); i++) {
        char own[200], *save = NULL;
        int owned = 0, taken = 0;
        if (strcmp(type, "embedding") == 0) continue; /* reads tokens */
        (void)snprintf(own, sizeof(own), "%s", weft_layer_keys(context, type));
        for (char *key = strtok_r(own, ", ", &save); key; key = strtok_r(NULL, ", ", &save)) {
            int k = 0;
            while (k < count && strcmp(values[k].key, key) != 0) k++;
            if (k == count) fail_msg("no value for key '%s'", key);
            met[k] = true;
            owned++;
        }
        for (int k = 0; k < count; k++) taken += check_key(type, &values[k]);
        assert_int_equal(taken, owned);
    }
    for (int k = 0; k < count; k++) assert_true(met[k]);
}

/* A layer whose output no layer reads is reported in one warning, which is not repeated when the
 * model is built again. A layer that a concat reads is not reported. */
static void test_layers_nobody_reads(void **state)
{
    (void)state;
    said s = {0};
    weft_context_set_log(context, hear, &s);
    const char *side = "layers:\n  - {type: dense, name: a, units: 7}\n  - {type: relu, name: b}\n"
                       "  - {type: dense, name: side, units: 3}\n"
                       "  - {type: dense, from: b, units: classes}\n";
    assert_ok(build(side, 5));
    assert_int_equal(s.lines, 1);
    assert_non_null(strstr(s.last, "net.yaml:4: no layer reads 'side'"));
    assert_ok(build(side, 5));
    assert_int_equal(s.lines, 1);
    assert_ok(build("layers:\n  - {type: dense, name: a, units: 7}\n  - {type: relu, name: b}\n"
                    "  - {type: concat, from: 'a, b, a'}\n  - {type: dense, units: classes}\n",
                    5));
    assert_int_equal(s.lines, 1);
    weft_context_set_log(context, NULL, NULL);
}

/* Layers of unlike shapes under add and mul, in both orders, with a batch as long as a sample. */
static const char pairs[] = "layers:\n"
                            "  - {type: linear, name: all, units: 4}\n"
                            "  - {type: tanh, name: bent}\n"
                            "  - {type: sequence_mean, name: mean}\n"
                            "  - {type: add, name: sum, from: 'bent, mean'}\n"
                            "  - {type: linear, name: one, units: 1}\n"
                            "  - {type: mul, name: gated, from: 'one, sum'}\n"
                            "  - {type: mul, name: scaled, from: 'mean, gated'}\n"
                            "  - {type: dense, name: last, units: classes}\n";

static double loss_of(weft_instance *p, const weft_model_values *v)
{
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    return *(const double *)weft_instance_output(p, PORT(*v, LOSS));
}

/* Compares the gradient of each element of a leaf with the change of the loss. */
static void check_gradient(weft_instance *p, weft_store *store, const weft_graph *g,
                           const weft_model_values *v, weft_value leaf, weft_value fetched)
{
    const double step = 1e-6;
    weft_type type = weft_graph_value_type(g, leaf);
    int64_t size = weft_shape_elements(&type.shape);
    int entry = weft_store_find(store, weft_graph_value_name(g, leaf));
    double gradient[256], at[256];
    assert_true(size <= 256);
    (void)loss_of(p, v);
    memcpy(gradient, weft_instance_output(p, fetched), (size_t)size * sizeof(double));
    assert_ok(weft_store_read(store, entry, at));
    for (int64_t i = 0; i < size; i++) {
        const double before = at[i];
        at[i] = before + step;
        assert_ok(weft_store_write(store, entry, at));
        double more = loss_of(p, v);
        at[i] = before - step;
        assert_ok(weft_store_write(store, entry, at));
        double change = (more - loss_of(p, v)) / (2 * step);
        at[i] = before;
        assert_ok(weft_store_write(store, entry, at));
        if (!(fabs(change - gradient[i]) < 1e-8))
            fail_msg("%s[%d]: %.17g, not %.17g", weft_graph_value_name(g, leaf), (int)i,
                     gradient[i], change);
    }
}

static void test_samples_broadcast(void **state)
{
    (void)state;
    enum { BATCH = 3, POSITIONS = 3, WIDTH = 5, MOST = 16 };
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_model_values v;
    weft_value fetch[MOST], leaf[MOST] = {WEFT_NO_VALUE};
    int count = 1;
    weft_model_options o = options("pairs", 3);
    weft_model_options_set_sample(&o, weft_shape_of(2, (int64_t[]){POSITIONS, WIDTH}));
    o.batch = BATCH;
    assert_ok(weft_graph_create(context, WEFT_F64, &g));
    assert_ok(weft_model_build_text(g, &o, "pairs", pairs, strlen(pairs), &v));
    assert_ok(weft_graph_differentiate(g, PORT(v, LOSS)));
    fetch[0] = PORT(v, LOSS);
    for (weft_value i = 0; i < weft_graph_value_count(g); i++)
        if (weft_graph_value_kind(g, i) == WEFT_VALUE_PARAM) {
            leaf[count] = i;
            fetch[count++] = weft_graph_gradient(g, i);
        }
    assert_ok(weft_store_create(context, "reference", 5, &store));
    assert_ok(weft_instance_build(store, g, fetch, count, &p));
    double *x = weft_instance_input(p, PORT(v, FEATURES)),
           *w = weft_instance_input(p, PORT(v, WEIGHTS));
    for (int i = 0; i < BATCH * POSITIONS * WIDTH; i++) x[i] = i * 37 % 101 / 101.0 - 0.4;
    ((int32_t *)weft_instance_input(p, PORT(v, TARGET)))[1] = 4;
    /* A sample does not depend on others. */
    w[0] = 1, w[1] = w[2] = 0;
    double first = loss_of(p, &v);
    for (int i = POSITIONS * WIDTH; i < BATCH * POSITIONS * WIDTH; i++) x[i] += 0.25;
    assert_true(loss_of(p, &v) == first);
    w[0] = 0.5, w[1] = 0.25, w[2] = 0.75;
    (void)loss_of(p, &v);
    for (int k = 1; k < count; k++) check_gradient(p, store, g, &v, leaf[k], fetch[k]);
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
}

static void test_models_refuse(void **state)
{
    (void)state;
    weft_graph *g;
    weft_model_values v;
    weft_model_options o = options("lenot", 28);
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_refused(weft_model_build(g, &o, &v), WEFT_ERR_ARGUMENT, "did you mean 'lenet'");
    o = options("lenet", 8);
    assert_refused(weft_model_build(g, &o, &v), WEFT_ERR_ARGUMENT, "at least 16 by 16");
    weft_graph_destroy(&g);
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    o = options("mlp", 4);
    o.classes = 1;
    assert_refused(weft_model_build(g, &o, &v), WEFT_ERR_ARGUMENT, "at least 2");
    o.struct_size = 3;
    assert_refused(weft_model_build(g, &o, &v), WEFT_ERR_ARGUMENT,
                   "the struct_size of weft_model_options is 3");
    weft_graph_destroy(&g);
    static const struct {
        int64_t batch;
        bool fits;
    } batches[] = {{INT32_MAX, true}, {INT64_C(1) + INT32_MAX, false}, {1, true}, {0, false}};
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        o = options("mlp", 4);
        o.batch = batches[i].batch;
        if (batches[i].fits)
            assert_ok(weft_model_build(g, &o, &v));
        else
            assert_refused(weft_model_build(g, &o, &v), WEFT_ERR_ARGUMENT, "from 1 to 2147483647");
        weft_graph_destroy(&g);
    }
}

/* Built-in models take images that are not square. Exchanging height and width leaves the number of
 * nodes in the graph the same. */
static void test_models_take_long_images(void **state)
{
    (void)state;
    int taken = 0;
    for (int m = 0; built_in(WEFT_KIND_MODEL, m); m++) {
        int count[2];
        if (!takes_images(context, built_in(WEFT_KIND_MODEL, m))) continue;
        taken++;
        for (int turned = 0; turned < 2; turned++) {
            weft_graph *g;
            weft_model_values v;
            weft_model_options o = options(built_in(WEFT_KIND_MODEL, m), 16);
            o.input[0].shape.dim[turned ? 2 : 1] = 64;
            assert_ok(weft_graph_create(context, WEFT_F32, &g));
            assert_ok(weft_model_build(g, &o, &v));
            count[turned] = weft_graph_node_count(g);
            weft_graph_destroy(&g);
        }
        assert_int_equal(count[0], count[1]);
    }
    assert_true(taken >= 4); /* lenet, mlp, vgg11, inception and others */
}

/* The text of a YAML model's graph. Free it. */
static char *graph_of(const char *yaml, bool training, int64_t batch, double smoothing)
{
    weft_graph *g;
    weft_model_values v;
    char *text;
    weft_model_options o = options("net.yaml", 8);
    o.training = training;
    o.batch = batch;
    o.label_smoothing = smoothing;
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_model_build_text(g, &o, "net.yaml", yaml, strlen(yaml), &v));
    for (int i = 0; i < v.count; i++)
        assert_string_not_equal("", weft_graph_value_name(g, v.ports[i].value));
    assert_ok(weft_graph_text(g, &text));
    weft_graph_destroy(&g);
    return text;
}

static void same_graph(char *a, char *b)
{
    assert_string_equal(a, b);
    weft_free(a);
    weft_free(b);
}

/* The text of the graph of a model that is built in or a file. Free it. */
static char *graph_named(const char *model, int64_t side)
{
    weft_graph *g;
    weft_model_values v;
    char *text;
    weft_model_options o = options(model, side);
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_model_build(g, &o, &v));
    assert_ok(weft_graph_text(g, &text));
    weft_graph_destroy(&g);
    return text;
}

/* A built-in model is nothing that a file cannot write. */
static void test_example_is_built_in(void **state)
{
    (void)state;
    same_graph(graph_named(WEFT_TESTS_DIR "/../examples/resnet18.yaml", 28),
               graph_named("resnet:depth=18", 28));
}

/* The layers of an mlp are those of its list. */
static void test_hidden_layers(void **state)
{
    (void)state;
    weft_graph *g;
    weft_model_values v;
    static const char *const refused[] = {"",     "3x",  "x3",    "3xx4", "0",
                                          "3x-1", "2.5", "70000", "3,4"};
    const weft_model_options o = options("mlp:hidden=5x7x3,dropout=0.25", 8);
    same_graph(graph_named("mlp", 8), graph_named("mlp:hidden=256x128,dropout=0", 8));
    same_graph(graph_named("mlp:hidden=5x7x3,dropout=0.25", 8),
               graph_of("layers:\n  - {type: flatten, name: flatten}\n"
                        "  - {type: dense, name: fc1, units: 5}\n  - {type: relu, name: relu1}\n"
                        "  - {type: dropout, name: dropout1, rate: 0.25}\n"
                        "  - {type: dense, name: fc2, units: 7}\n  - {type: relu, name: relu2}\n"
                        "  - {type: dropout, name: dropout2, rate: 0.25}\n"
                        "  - {type: dense, name: fc3, units: 3}\n  - {type: relu, name: relu3}\n"
                        "  - {type: dropout, name: dropout3, rate: 0.25}\n"
                        "  - {type: dense, name: fc4, units: 10}\n",
                        o.training, o.batch, o.label_smoothing));
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        char model[64];
        (void)snprintf(model, sizeof(model), "mlp:hidden=%s", refused[i]);
        const weft_model_options wrong = options(model, 8);
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        assert_int_equal(weft_model_build(g, &wrong, &v), WEFT_ERR_ARGUMENT);
        weft_graph_destroy(&g);
    }
}

/* A model with repeated blocks is the one in which they are written out: names of a block mean the
 * layers of the same copy, and its input the last layer of the copy before. */
static void test_blocks(void **state)
{
    (void)state;
    static const char *const blocks[][2] = {
        {"layers:\n  - {type: conv, name: stem, filters: 3}\n"
         "  - {type: conv, name: a, filters: 3, kernel: 3, padding: 1}\n"
         "  - {type: relu, name: r}\n"
         "  - {type: add, name: sum, from: \"stem, r\", block: 3, repeat: 3}\n"
         "  - {type: dense, name: d, units: 10, from: sum_2}\n",
         "layers:\n  - {type: conv, name: stem, filters: 3}\n"
         "  - {type: conv, name: a, filters: 3, kernel: 3, padding: 1}\n"
         "  - {type: relu, name: r}\n  - {type: add, name: sum, from: \"stem, r\"}\n"
         "  - {type: conv, name: a_2, filters: 3, kernel: 3, padding: 1}\n"
         "  - {type: relu, name: r_2}\n  - {type: add, name: sum_2, from: \"sum, r_2\"}\n"
         "  - {type: conv, name: a_3, filters: 3, kernel: 3, padding: 1}\n"
         "  - {type: relu, name: r_3}\n  - {type: add, name: sum_3, from: \"sum_2, r_3\"}\n"
         "  - {type: dense, name: d, units: 10, from: sum_2}\n"},
        /* A block that reads the input, of layers without names; another one behind it. */
        {"layers:\n  - {type: conv, filters: 1, kernel: 1}\n"
         "  - {type: add, name: s, from: \"x, conv1\", block: 2, repeat: 2}\n"
         "  - {type: conv, name: c, filters: 2, kernel: 1, repeat: 2}\n"
         "  - {type: dense, name: d, units: 10}\n",
         "layers:\n  - {type: conv, filters: 1, kernel: 1}\n"
         "  - {type: add, name: s, from: \"x, conv1\"}\n"
         "  - {type: conv, filters: 1, kernel: 1}\n"
         "  - {type: add, name: s_2, from: \"s, conv1\"}\n"
         "  - {type: conv, name: c, filters: 2, kernel: 1}\n  - {type: conv, name: c_2, filters: "
         "2, kernel: 1}\n"
         "  - {type: dense, name: d, units: 10}\n"},
        /* Weights are shared within a copy. */
        {"layers:\n  - {type: conv, name: a, filters: 1, kernel: 1}\n"
         "  - {type: conv, name: b, filters: 1, kernel: 1, share: a, block: 2, repeat: 2}\n"
         "  - {type: dense, name: d, units: 10}\n",
         "layers:\n  - {type: conv, name: a, filters: 1, kernel: 1}\n"
         "  - {type: conv, name: b, filters: 1, kernel: 1, share: a}\n"
         "  - {type: conv, name: a_2, filters: 1, kernel: 1}\n"
         "  - {type: conv, name: b_2, filters: 1, kernel: 1, share: a_2}\n"
         "  - {type: dense, name: d, units: 10}\n"},
    };
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        same_graph(graph_of(blocks[i][0], true, 2, 0), graph_of(blocks[i][1], true, 2, 0));
}

/* A graph for inference has nothing of training: it is that of the model without the layers that
 * act in training alone, and one sample is batch enough. */
static void test_inference_has_no_training(void **state)
{
    (void)state;
    static const char *const training[] = {"step",          "counter",     "dropout",
                                           "batch_mean",    "batch_count", "smoothing",
                                           "batch_running", "<-",          "batch_norm("};
    static const char plain[] =
        "layers:\n  - {type: conv, name: c, filters: 3}\n"
        "  - {type: flatten, name: f}\n  - {type: dense, name: d, units: 10}\n",
                      dropped[] = "layers:\n  - {type: conv, name: c, filters: 3}\n"
                                  "  - {type: dropout, rate: 0.4}\n  - {type: flatten, name: f}\n"
                                  "  - {type: dropout, rate: 0.2}\n"
                                  "  - {type: dense, name: d, units: 10}\n",
                      normed[] = "layers:\n  - {type: conv, name: c, filters: 3}\n"
                                 "  - {type: batch_norm}\n  - {type: flatten, name: f}\n"
                                 "  - {type: dense, name: d, units: 10}\n";
    same_graph(graph_of(plain, false, 2, 0), graph_of(dropped, false, 2, 0.1));
    char *norm = graph_of(normed, false, 1, 0.1), *trained = graph_of(normed, true, 2, 0.1);
    assert_non_null(strstr(norm, "batch_norm_infer("));
    assert_non_null(strstr(trained, "batch_norm("));
    for (size_t i = 0; i < sizeof(training) / sizeof(*training); i++)
        if (strstr(norm, training[i]))
            fail_msg("'%s' in a graph for inference:\n%s", training[i], norm);
    weft_free(norm);
    weft_free(trained);
}

enum { MIXED = 4 };

/* The loss of fixed samples with these labels and weights; other, share: of a model that mixes
 * samples, or NULL. */
static float loss_of_labels(const int32_t *labels, const float *weights, const int32_t *other,
                            const float *share)
{
    weft_graph *g;
    weft_store *store;
    weft_instance *program;
    weft_model_values v;
    weft_model_options o = options("mlp", 8);
    o.training = true;
    o.batch = MIXED;
    o.label_smoothing = 0.1;
    o.mixes = other != NULL;
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    assert_ok(weft_model_build(g, &o, &v));
    assert_ok(weft_store_create(context, "reference", 7, &store));
    assert_ok(weft_instance_build(store, g, (weft_value[]){PORT(v, LOSS)}, 1, &program));
    float *x = weft_instance_input(program, PORT(v, FEATURES));
    for (int64_t i = 0; i < MIXED * weft_shape_elements(&o.input[0].shape); i++)
        x[i] = (float)(i * 37 % 101) / 101;
    for (int i = 0; i < v.count; i++) {
        const weft_port *p = &v.ports[i];
        bool mixed = strncmp(p->name, "mixed_", 6) == 0, label = p->role == WEFT_PORT_TARGET;
        if (!label && p->role != WEFT_PORT_WEIGHTS) continue;
        const void *from = label ? (const void *)(mixed ? other : labels)
                                 : (const void *)(mixed ? share : weights);
        memcpy(weft_instance_input(program, p->value), from, MIXED * 4);
    }
    assert_ok(weft_instance_run(program, WEFT_PHASE_MICRO));
    float loss = *(const float *)weft_instance_output(program, PORT(v, LOSS));
    weft_instance_destroy(&program);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    return loss;
}

/* The loss of samples with two labels is the sum of those of both, each by its part of the weight.
 */
static void test_mixed_labels(void **state)
{
    (void)state;
    const int32_t labels[MIXED] = {3, 1, 7, 0}, other[MIXED] = {2, 1, 0, 9};
    const float weights[MIXED] = {.25F, .25F, .375F, .125F},
                share[MIXED] = {.125F, .0625F, .375F, 0};
    float rest[MIXED];
    for (int i = 0; i < MIXED; i++) rest[i] = weights[i] - share[i];
    float want =
        loss_of_labels(labels, rest, NULL, NULL) + loss_of_labels(other, share, NULL, NULL);
    float got = loss_of_labels(labels, weights, other, share);
    assert_true(fabsf(got - want) < 1e-5F && want > 0.1F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_agree_on_models),
        cmocka_unit_test(test_yaml_models),
        cmocka_unit_test(test_automatic_names_step_aside),
        cmocka_unit_test(test_keys_of_layers),
        cmocka_unit_test(test_layers_nobody_reads),
        cmocka_unit_test(test_samples_broadcast),
        cmocka_unit_test(test_models_refuse),
        cmocka_unit_test(test_models_take_long_images),
        cmocka_unit_test(test_example_is_built_in),
        cmocka_unit_test(test_hidden_layers),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_inference_has_no_training),
        cmocka_unit_test(test_mixed_labels),
    };
    return cmocka_run_group_tests_name("models", tests, setup, teardown);
}
