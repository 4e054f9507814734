/* Convolutions and pools over 1, 2 and 3 spatial dimensions. On every device, results and gradients
 * must equal values that tests/golden/make.py took from PyTorch. A network over one dimension must
 * equal the same network with further dimensions of size one. */
#include <math.h>

#include "golden_lines.h"
#include "graph_fixture.h"

/* --- golden values --- */

#define SIDES(key, ...)                                                                            \
    {                                                                                              \
        .name = key, .count = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .ints = { \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* The cases of make.py; pools have no weight w. */
static const struct golden {
    const char *name;
    weft_shape x, w;
    weft_attr attrs[4];
} cases[] = {
    {"conv/line", {3, {2, 3, 11}}, {3, {4, 3, 4}}, {SIDES("stride", 2), SIDES("padding", 1)}},
    {"conv/line_groups",
     {3, {3, 6, 13}},
     {3, {4, 3, 3}},
     {SIDES("padding", 2), SIDES("dilation", 2), SIDES("groups", 2)}},
    {"conv/image",
     {4, {2, 3, 8, 7}},
     {4, {5, 3, 3, 2}},
     {SIDES("stride", 2, 1), SIDES("padding", 1, 0), SIDES("dilation", 1, 2)}},
    {"conv/volume",
     {5, {2, 3, 5, 6, 7}},
     {5, {4, 3, 3, 2, 3}},
     {SIDES("stride", 2, 1, 3), SIDES("padding", 1, 1, 0)}},
    {"conv/volume_groups",
     {5, {1, 4, 7, 5, 6}},
     {5, {6, 2, 2, 3, 2}},
     {SIDES("padding", 0, 2, 1), SIDES("dilation", 2, 1, 3), SIDES("groups", 2)}},
    {"pool/line",
     {3, {2, 3, 11}},
     {0},
     {SIDES("kernel", 3), SIDES("stride", 2), SIDES("padding", 1)}},
    {"pool/image",
     {4, {2, 3, 9, 8}},
     {0},
     {SIDES("kernel", 3, 2), SIDES("stride", 1, 2), SIDES("padding", 1, 0)}},
    {"pool/volume",
     {5, {2, 2, 7, 6, 8}},
     {0},
     {SIDES("kernel", 3, 2, 3), SIDES("stride", 2, 2, 1), SIDES("padding", 1, 0, 1)}},
};

typedef struct fixture {
    const char *device;
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_dtype real;
} fixture;

static weft_value leaf(fixture *f, const char *name, const weft_shape *shape)
{
    weft_value v = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, name, f->real, shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_graph_want_gradient(f->graph, v);
    return v;
}

static void check_case(fixture *f, const struct golden *c, const char *op, const char *name)
{
    weft_value in[2] = {WEFT_NO_VALUE, WEFT_NO_VALUE}, fetch[4];
    const char *const what[] = {"y", "x", "w"};
    int inputs = c->w.rank ? 2 : 1, attrs = 0;
    assert_ok(weft_context_create(&f->context));
    assert_ok(weft_graph_create(f->context, f->real, &f->graph));
    in[0] = leaf(f, "x", &c->x);
    if (inputs == 2) in[1] = leaf(f, "w", &c->w);
    while (attrs < 4 && c->attrs[attrs].name) attrs++;
    weft_value y = weft_graph_node(f->graph, op, "y", in, inputs, c->attrs, attrs);
    assert_ok(weft_graph_status(f->graph));
    weft_shape shape = weft_graph_value_type(f->graph, y).shape;
    weft_value by = leaf(f, "c", &shape);
    weft_attr axes = SIDES("axes", 0, 1, 2, 3, 4);
    axes.count = shape.rank;
    weft_value sum = weft_graph_node(f->graph, "mul", "weighed", (weft_value[]){y, by}, 2, NULL, 0);
    sum = weft_graph_node(f->graph, "reduce_sum", "sum", &sum, 1, &axes, 1);
    assert_ok(weft_graph_differentiate(f->graph, sum));
    fetch[0] = y;
    for (int i = 0; i < inputs; i++) fetch[1 + i] = weft_graph_gradient(f->graph, in[i]);
    assert_ok(weft_store_create(f->context, f->device, 1, &f->store));
    assert_ok(weft_instance_build(f->store, f->graph, fetch, 1 + inputs, &f->program));
    for (int i = 0; i < inputs; i++) golden_feed(f->program, f->graph, in[i], 1 + i);
    golden_feed(f->program, f->graph, by, 3);
    assert_ok(weft_instance_run(f->program, WEFT_PHASE_MICRO));
    for (int i = 0; i <= inputs; i++) {
        weft_type type = weft_graph_value_type(f->graph, fetch[i]);
        golden_check("windows.txt", name, what[i], weft_instance_output(f->program, fetch[i]),
                     &type);
    }
    weft_instance_destroy(&f->program);
    weft_store_destroy(&f->store);
    weft_graph_destroy(&f->graph);
    weft_context_destroy(&f->context);
}

static void test_golden(void **state)
{
    (void)state;
    const struct {
        const char *device;
        weft_dtype real;
    } on[] = {{"reference", WEFT_F64}, {"reference", WEFT_F32}, {"cpu", WEFT_F32}};
    for (size_t d = 0; d < sizeof(on) / sizeof(on[0]); d++)
        for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
            fixture f = {.device = on[d].device, .real = on[d].real};
            char name[64];
            const char *slash = strchr(cases[c].name, '/');
            if (cases[c].w.rank) {
                check_case(&f, &cases[c], "conv", cases[c].name);
                continue;
            }
            (void)snprintf(name, sizeof(name), "maxpool%s", slash);
            check_case(&f, &cases[c], "maxpool", name);
            (void)snprintf(name, sizeof(name), "avgpool%s", slash);
            check_case(&f, &cases[c], "avgpool", name);
        }
}

/* --- dimensions of size one --- */

/* One network for one, two or three spatial dimensions. S stands for a list of ones that ends with
 * the number, Z for a list of zeros that ends with it. */
static const char pattern[] = "layers:\n"
                              "  - {type: conv, filters: 16, kernel: S4, padding: Z2}\n"
                              "  - {type: batch_norm}\n"
                              "  - {type: relu}\n"
                              "  - {type: maxpool, kernel: S3, stride: S2, padding: Z1}\n"
                              "  - {type: conv, filters: 4, kernel: S3, dilation: S2, groups: 2}\n"
                              "  - {type: gelu}\n"
                              "  - {type: avgpool, kernel: S2}\n"
                              "  - {type: conv, filters: 6, kernel: S2, stride: S2}\n"
                              "  - {type: tanh}\n"
                              "  - {type: %s}\n"
                              "  - {type: dense, units: classes}\n";

static void write_net(const char *last, int ones, char *out, size_t room)
{
    char text[1024];
    size_t used = 0;
    (void)snprintf(text, sizeof(text), pattern, last);
    for (const char *p = text; *p && used + 16 < room; p++) {
        bool side = (*p == 'S' || *p == 'Z') && p[1] >= '0' && p[1] <= '9';
        if (!side) {
            out[used++] = *p;
            continue;
        }
        int n = *p == 'S';
        const int64_t all[] = {n, n, p[1] - '0'};
        used += (size_t)(ones == 0   ? snprintf(out + used, room - used, "%d", (int)all[2])
                         : ones == 1 ? snprintf(out + used, room - used, "[%d, %d]", (int)all[1],
                                                (int)all[2])
                                     : snprintf(out + used, room - used, "[%d, %d, %d]",
                                                (int)all[0], (int)all[1], (int)all[2]));
        p++;
    }
    out[used] = '\0';
}

/* Compares two results: tensors differ by at most `limit` of their largest element; 0: no bit. */
static void same(const result *a, const result *b, weft_dtype real, double limit, const char *what)
{
    assert_int_equal(a->count, b->count);
    for (int step = 0; step < STEPS; step++)
        if (!(fabs(a->losses[step] - b->losses[step]) <= limit))
            fail_msg("%s: loss of step %d is %.9g, %.9g", what, step, a->losses[step],
                     b->losses[step]);
    for (int i = 0; i < a->count; i++) {
        assert_string_equal(a->names[i], b->names[i]);
        int64_t count = weft_shape_elements(&a->shapes[i]);
        weft_dtype type = strstr(a->names[i], "step") ? WEFT_I32 : real;
        double most = 1e-3, off = 0;
        assert_int_equal(count, weft_shape_elements(&b->shapes[i]));
        for (int64_t k = 0; k < count; k++) {
            most = fmax(most, fabs(value_at(a->data[i], type, k)));
            off = fmax(off, fabs(value_at(a->data[i], type, k) - value_at(b->data[i], type, k)));
        }
        if (!(off <= limit * most)) fail_msg("%s: %s is off by %g", what, a->names[i], off);
    }
}

static void test_ones_change_nothing(void **state)
{
    (void)state;
    static const char *const lasts[] = {"global_avgpool", "flatten"};
    const mesh_case one = {"data=1", 1, 0, NULL, NULL};
    for (int l = 0; l < 2; l++)
        for (int cpu = 0; cpu < 2; cpu++) {
            result results[3];
            for (int ones = 0; ones < 3; ones++) {
                char yaml[1024];
                write_net(lasts[l], ones, yaml, sizeof(yaml));
                model_case m = {"ones", yaml, .batch = 6, .rank = 2 + ones, .lr = 0.05};
                const int64_t samples[][4] = {{3, 29}, {3, 1, 29}, {3, 1, 1, 29}};
                memcpy(m.sample, samples[ones], sizeof(m.sample));
                setting s = net_setting(&m, &one);
                s.device = cpu ? "cpu" : "reference";
                result_of_one(&s, &results[ones]);
            }
            for (int ones = 1; ones < 3; ones++)
                same(&results[0], &results[ones], WEFT_F32, cpu ? 2e-3 : 0,
                     cpu ? "cpu" : "reference");
            for (int ones = 0; ones < 3; ones++) result_free(&results[ones]);
        }
}

/* --- what is refused --- */

static const struct refusal {
    const char *layer, *words;
    int rank; /* dimensions of a sample, each of size 8 */
    weft_status status;
} refusals[] = {
    {"type: conv, filters: 2, kernel: [3, 3]",
     "layer 'conv1': kernel has 2 numbers, but what it reads 1 dimension of space", 2,
     WEFT_ERR_ARGUMENT},
    {"type: maxpool, stride: [1, 2, 3]", "stride has 3 numbers, but what it reads 2 dimensions", 3,
     WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, padding: [0, 9, 0]", "height: padding 9 must be smaller", 4,
     WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, kernel: 9", "depth: the window of 9 is larger", 4, WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, kernel: 9", "width: the window of 9 is larger", 2, WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2", "layer 'conv1' (conv) needs samples [channels, ...]", 1,
     WEFT_ERR_ARGUMENT},
    {"type: avgpool", "layer 'avgpool1' (avgpool) needs samples [channels, ...]", 5,
     WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, kernel: [3, 0]", "option 'kernel' is '3, 0'", 3, WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, kernel: []", "option 'kernel' is ''", 3, WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, kernel: [3, x]", "option 'kernel' is '3, x'", 3, WEFT_ERR_ARGUMENT},
    {"type: conv, filters: 2, kernel: [1, 1, 1, 1, 1, 1, 1, 1, 1]", "option 'kernel' is '1, 1", 3,
     WEFT_ERR_ARGUMENT},
    {"type: conv, filters: [2]", "'filters' must be one plain value", 3, WEFT_ERR_FORMAT},
    {"type: conv, filters: 2, kernel: [[3, 3]]", "'kernel' must be one plain value", 3,
     WEFT_ERR_FORMAT},
    {"type: conv, filters: 2, kernel: {a: 3}", "'kernel' must be one plain value", 3,
     WEFT_ERR_FORMAT},
};

static weft_status build(const char *yaml, int rank)
{
    weft_context *context;
    weft_graph *graph;
    weft_model_options o;
    weft_model_values values;
    weft_model_options_init(&o);
    weft_model_options_set_sample(&o, weft_shape_of(rank, (int64_t[]){8, 8, 8, 8, 8}));
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &graph));
    weft_status status = weft_model_build_text(graph, &o, "net.yaml", yaml, strlen(yaml), &values);
    weft_graph_destroy(&graph);
    weft_context_destroy(&context);
    return status;
}

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        char yaml[256];
        (void)snprintf(yaml, sizeof(yaml), "layers:\n  - {%s}\n  - {type: dense, units: classes}\n",
                       refusals[i].layer);
        assert_refused(build(yaml, refusals[i].rank), refusals[i].status, refusals[i].words);
        if (strncmp(weft_last_message(), "net.yaml:2: ", 12) != 0)
            fail_msg("'%s' does not name the line", weft_last_message());
    }
    assert_ok(build("layers:\n  - type: conv\n    filters: 2\n    kernel:\n      - 3\n      - 2\n"
                    "    stride: '1, 2'\n  - {type: dense, units: classes}\n",
                    3));
}

/* Operators can still be added by the names that they had when there were only images, such as
 * conv2d. */
static void test_former_names(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_shape x = {4, {2, 3, 5, 4}}, w = {4, {2, 3, 3, 2}};
    const weft_init none = {WEFT_INIT_CONSTANT, 0};
    weft_value in[] = {weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F32, &x, none),
                       weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &w, none)};
    (void)weft_graph_node(g, "conv2d", "c", in, 2, NULL, 0);
    assert_ok(weft_graph_status(g));
    assert_string_equal(weft_graph_node_op(g, 0), "conv");
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_ones_change_nothing),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_former_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
