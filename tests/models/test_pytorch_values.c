/* lenet and the optimizers must give the values that tests/golden/make.py took from PyTorch, on
 * every device and in both precisions. */
#include <math.h>

#include "support.h"

static double hashed(uint64_t stream, uint64_t i, double scale)
{
    const uint64_t m = 0xFFFFFFFFu;
    uint64_t x = (i * 2654435761u + stream * 40503u) & m;
    x ^= x >> 16;
    x = x * 2246822519u & m;
    x ^= x >> 13;
    x = x * 3266489917u & m;
    x ^= x >> 16;
    return ((double)x / 4294967296.0 - 0.5) * 2 * scale;
}

static void put(weft_dtype real, void *to, int64_t i, double value)
{
    if (real == WEFT_F32)
        ((float *)to)[i] = (float)value;
    else
        ((double *)to)[i] = value;
}

static double get(weft_dtype real, const void *from, int64_t i)
{
    return real == WEFT_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static FILE *open_golden(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/golden/%s", WEFT_TESTS_DIR, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    return f;
}

typedef struct run {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_model_values values;
    weft_dtype real;
    double tolerance;
    int64_t batch;
} run;

static const char *const names[] = {"conv1/weight", "conv1/bias", "conv2/weight", "conv2/bias",
                                    "fc1/weight",   "fc1/bias",   "fc2/weight",   "fc2/bias"};
static const double fan_ins[] = {25, 25, 800, 800, 1024, 1024, 1024, 1024};

static void check(const run *r, const char *what, const void *data, int64_t count, const char *line)
{
    double want, norm = 0;
    int used = 0;
    for (int64_t i = 0; i < count; i++) norm += get(r->real, data, i) * get(r->real, data, i);
    norm = sqrt(norm);
    assert_int_equal(sscanf(line, " %lf%n", &want, &used), 1);
    if (fabs(norm - want) > r->tolerance * fabs(want))
        fail_msg("%s: norm %.12g, golden %.12g", what, norm, want);
    for (int k = 0; k < 8; k++) {
        line += used;
        assert_int_equal(sscanf(line, " %lf%n", &want, &used), 1);
        double have = get(r->real, data, k * 7919 % count);
        if (fabs(have - want) > r->tolerance * fmax(fabs(want), norm / sqrt((double)count)))
            fail_msg("%s: element %lld is %.12g, golden %.12g", what, (long long)(k * 7919 % count),
                     have, want);
    }
}

static void start(run *r, const char *device)
{
    weft_model_options o;
    weft_optimizer_options opt;
    weft_optimizer_values values;
    weft_model_options_init(&o);
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, 28, 28}));
    o.batch = r->batch;
    o.classes = 10;
    o.training = true;
    assert_ok(weft_context_create(&r->context));
    assert_ok(weft_graph_create(r->context, r->real, &r->graph));
    assert_ok(weft_model_build(r->graph, &o, &r->values));
    assert_ok(weft_graph_differentiate(r->graph, PORT(r->values, LOSS)));
    weft_optimizer_options_init(&opt);
    opt.name = "sgd";
    opt.lr = 0.01;
    opt.momentum = 0.9;
    assert_ok(weft_optimizer_build(r->graph, &opt, &values));
    assert_ok(weft_store_create(r->context, device, 1, &r->store));
    weft_value fetch[9] = {PORT(r->values, LOSS)};
    for (int i = 0; i < 8; i++)
        fetch[i + 1] = weft_graph_gradient(r->graph, weft_graph_find(r->graph, names[i]));
    assert_ok(weft_instance_build(r->store, r->graph, fetch, 9, &r->program));
    for (int i = 0; i < 8; i++) {
        int at = weft_store_find(r->store, names[i]);
        weft_type type = weft_store_type(r->store, at);
        void *data = malloc(weft_type_bytes(&type));
        for (int64_t j = 0; j < weft_shape_elements(&type.shape); j++)
            put(r->real, data, j, hashed((uint64_t)i + 1, (uint64_t)j, 1 / sqrt(fan_ins[i])));
        assert_ok(weft_store_write(r->store, at, data));
        free(data);
    }
    for (int64_t j = 0; j < r->batch * 784; j++)
        put(r->real, weft_instance_input(r->program, PORT(r->values, FEATURES)), j,
            hashed(100, (uint64_t)j, 0.5) + 0.5);
    for (int64_t j = 0; j < r->batch; j++) {
        ((int32_t *)weft_instance_input(r->program, PORT(r->values, TARGET)))[j] =
            (int32_t)((7 * j + 3) % 10);
        put(r->real, weft_instance_input(r->program, PORT(r->values, WEIGHTS)), j,
            1.0 / (double)r->batch);
    }
}

static int index_of(const char *name)
{
    for (int i = 0; i < 8; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static void check_line(run *r, const char *line)
{
    char what[16], name[32];
    int used = 0;
    assert_int_equal(sscanf(line, "%15s %31s%n", what, name, &used), 2);
    if (strcmp(what, "loss") == 0) {
        double want = strtod(line + used, NULL);
        assert_ok(weft_instance_run(r->program, WEFT_PHASE_MICRO));
        double have = get(r->real, weft_instance_output(r->program, PORT(r->values, LOSS)), 0);
        if (fabs(have - want) > r->tolerance * want)
            fail_msg("loss of step %s is %.12g, golden %.12g", name, have, want);
        /* The gradients of the first step are compared before the update. */
        if (atoi(name) > 0) assert_ok(weft_instance_run(r->program, WEFT_PHASE_UPDATE));
        return;
    }
    int i = index_of(name);
    int at = weft_store_find(r->store, name);
    weft_type type = weft_store_type(r->store, at);
    int64_t count = weft_shape_elements(&type.shape);
    if (strcmp(what, "gradient") == 0) {
        weft_value g = weft_graph_gradient(r->graph, weft_graph_find(r->graph, name));
        check(r, line, weft_instance_output(r->program, g), count, line + used);
        if (i == 7) assert_ok(weft_instance_run(r->program, WEFT_PHASE_UPDATE));
        return;
    }
    void *data = malloc(weft_type_bytes(&type));
    assert_ok(weft_store_read(r->store, at, data));
    check(r, line, data, count, line + used);
    free(data);
}

static void lenet_on(const char *device, weft_dtype real, double tolerance)
{
    run r = {.real = real, .tolerance = tolerance, .batch = 6};
    char line[1024];
    FILE *f = open_golden("lenet.txt");
    start(&r, device);
    int lines = 0;
    for (; fgets(line, sizeof(line), f); lines++) check_line(&r, line);
    assert_int_equal(lines, 10 + 8 + 8);
    fclose(f);
    weft_instance_destroy(&r.program);
    weft_store_destroy(&r.store);
    weft_graph_destroy(&r.graph);
    weft_context_destroy(&r.context);
}

static void test_lenet_reference_f64(void **state)
{
    (void)state;
    lenet_on("reference", WEFT_F64, 1e-9);
}

static void test_lenet_devices_f32(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        lenet_on(built_in(WEFT_KIND_DEVICE, d), WEFT_F32, 2e-3);
}

/* The parameter w gets the gradient that is fed as g, since loss = sum(w * g). */
static void optimizer_on(const char *device, weft_dtype real, const char *name,
                         const weft_optimizer_options *o, const char *numbers, double tolerance)
{
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_optimizer_values values;
    weft_shape seven = weft_shape_of(1, (int64_t[]){7});
    double data[7];
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, real, &graph));
    weft_init zero = {WEFT_INIT_CONSTANT, 0};
    weft_value w = weft_graph_leaf(graph, WEFT_VALUE_PARAM, "w", real, &seven, zero);
    weft_value g = weft_graph_leaf(graph, WEFT_VALUE_INPUT, "g", real, &seven, zero);
    weft_value y = weft_graph_node(graph, "mul", "y", (weft_value[]){w, g}, 2, NULL, 0);
    weft_attr axes = WEFT_ATTR_INT("axes", 0);
    weft_value loss = weft_graph_node(graph, "reduce_sum", "loss", &y, 1, &axes, 1);
    assert_ok(weft_graph_differentiate(graph, loss));
    assert_ok(weft_optimizer_build(graph, o, &values));
    assert_ok(weft_store_create(context, device, 1, &store));
    assert_ok(weft_instance_build(store, graph, NULL, 0, &program));
    for (int i = 0; i < 7; i++) put(real, data, i, hashed(1, (uint64_t)i, 1));
    assert_ok(weft_store_write(store, weft_store_find(store, "w"), data));
    for (uint64_t step = 0; step < 5; step++) {
        for (int i = 0; i < 7; i++)
            put(real, weft_instance_input(program, g), i, hashed(10 + step, (uint64_t)i, 1));
        assert_ok(weft_instance_run(program, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(program, WEFT_PHASE_UPDATE));
    }
    assert_ok(weft_store_read(store, weft_store_find(store, "w"), data));
    for (int i = 0; i < 7; i++) {
        char *end;
        double want = strtod(numbers, &end), have = get(real, data, i);
        numbers = end;
        if (fabs(want - have) > tolerance)
            fail_msg("%s on %s: element %d is %.12g, golden %.12g", name, device, i, have, want);
    }
    weft_instance_destroy(&program);
    weft_store_destroy(&store);
    weft_graph_destroy(&graph);
    weft_context_destroy(&context);
}

static weft_optimizer_options options_of(const char *name)
{
    weft_optimizer_options o;
    weft_optimizer_options_init(&o);
    o.name = strncmp(name, "adamw", 5) == 0  ? "adamw"
             : strncmp(name, "adam", 4) == 0 ? "adam"
                                             : "sgd";
    o.lr = 0.1;
    if (strcmp(name, "momentum") == 0 || strcmp(name, "nesterov") == 0) o.momentum = 0.9;
    o.nesterov = strcmp(name, "nesterov") == 0;
    if (strcmp(name, "decay") == 0) {
        o.momentum = 0.5;
        o.weight_decay = 0.01;
    }
    if (strcmp(name, "adam_decay") == 0) {
        o.beta1 = 0.8;
        o.beta2 = 0.95;
        o.epsilon = 1e-3;
    }
    if (strcmp(name, "adam_decay") == 0 || strcmp(name, "adamw") == 0) o.weight_decay = 0.1;
    if (strcmp(name, "clip") == 0) o.clip_norm = 0.7;
    return o;
}

static void test_optimizers(void **state)
{
    (void)state;
    char line[1024], name[32];
    int used = 0, cases = 0;
    FILE *f = open_golden("optimizers.txt");
    for (; fgets(line, sizeof(line), f); cases++) {
        assert_int_equal(sscanf(line, "%31s%n", name, &used), 1);
        weft_optimizer_options o = options_of(name);
        /* PyTorch adds 1e-6 to the norm before it clips. */
        double slack = strcmp(name, "clip") == 0 ? 1e-6 : 0;
        optimizer_on("reference", WEFT_F64, name, &o, line + used, 1e-12 + slack);
        for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
            optimizer_on(built_in(WEFT_KIND_DEVICE, d), WEFT_F32, name, &o, line + used,
                         1e-5 + slack);
    }
    assert_int_equal(cases, 8);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet_reference_f64),
        cmocka_unit_test(test_lenet_devices_f32),
        cmocka_unit_test(test_optimizers),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
