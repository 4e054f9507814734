/* The operators of sequence models: values that tests/golden/make.py took from PyTorch, on every
 * device; parts of a sequence that are computed alone; the same bits for any number of threads; and
 * labels of samples without weight. */
#include <math.h>

#include "graph/graph.h"
#include "golden_lines.h"
#include "op_cases.h"

/* --- golden values --- */

/* Starts the case of this name with the numbers of make.py. */
static void start(fixture *f, const char *name, weft_dtype real)
{
    int c = 0;
    while (c < op_case_count && strcmp(op_cases[c].name, name) != 0) c++;
    if (c == op_case_count) fail_msg("there is no case %s", name);
    fixture_start(f, &op_cases[c], real);
    for (int i = 0; i < f->input_count; i++)
        for (int64_t j = 0; f->data[i] && j < f->sizes[i]; j++)
            f->data[i][j] = golden_number((uint32_t)i + 1, j);
}

static void check_line(const char *device, weft_dtype real, const char *line)
{
    fixture f;
    weft_store *store;
    weft_instance *p;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    char name[64], what[16];
    int used = 0;
    assert_int_equal(sscanf(line, "%63s %15s%n", name, what, &used), 2);
    start(&f, name, real);
    assert_ok(weft_store_create(f.context, device, 1, &store));
    assert_ok(weft_instance_build(store, f.graph, fetch, fixture_fetch(&f, fetch), &p));
    fixture_feed(&f, p);
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    weft_value v = f.outputs[0];
    if (strcmp(what, "y") != 0) v = weft_graph_gradient(f.graph, f.inputs[atoi(what)]);
    weft_type type = weft_graph_value_type(f.graph, v);
    golden_compare(name, what, line + used, weft_instance_output(p, v), &type);
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    fixture_end(&f);
}

static void test_golden(void **state)
{
    (void)state;
    char path[4096], line[1024];
    int lines = 0;
    (void)snprintf(path, sizeof(path), "%s/golden/sequence.txt", WEFT_TESTS_DIR);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof(line), file); lines++) {
        check_line("reference", WEFT_F64, line);
        for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
            check_line(built_in(WEFT_KIND_DEVICE, d), WEFT_F32, line);
    }
    assert_int_equal(lines, 49);
    fclose(file);
}

/* --- rotary of a part of a sequence --- */

enum { BATCH = 2, TIME = 7, HEADS = 2, SIZE = 10, FROM = 3 };

typedef struct model {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
} model;

static void open_model(model *m, weft_dtype real)
{
    *m = (model){0};
    assert_ok(weft_context_create(&m->context));
    assert_ok(weft_graph_create(m->context, real, &m->graph));
}

static void build(model *m, const char *device, int threads, const weft_value *fetch, int count)
{
    assert_ok(weft_graph_status(m->graph));
    assert_ok(weft_store_create(m->context, device, threads, &m->store));
    assert_ok(weft_instance_build(m->store, m->graph, fetch, count, &m->program));
}

static void close_model(model *m)
{
    weft_instance_destroy(&m->program);
    weft_store_destroy(&m->store);
    weft_graph_destroy(&m->graph);
    weft_context_destroy(&m->context);
}

static weft_value input(model *m, const char *name, weft_dtype dtype, weft_shape shape)
{
    return weft_graph_leaf(m->graph, WEFT_VALUE_INPUT, name, dtype, &shape,
                           (weft_init){WEFT_INIT_CONSTANT, 0});
}

/* Fills a real input of f32 with fixed numbers. */
static void fill(model *m, weft_value v, uint32_t stream)
{
    weft_type type = weft_graph_value_type(m->graph, v);
    float *to = weft_instance_input(m->program, v);
    for (int64_t i = 0; i < weft_shape_elements(&type.shape); i++)
        to[i] = (float)golden_number(stream, i);
}

/* Rotates positions [begin, TIME) of a sequence; `added` of them as an operand. */
static void rotate(const char *device, int begin, int added, float *out)
{
    model m;
    open_model(&m, WEFT_F32);
    int time = TIME - begin, row = HEADS * SIZE;
    weft_attr first = WEFT_ATTR_INT("first", begin - added);
    weft_value in[2] = {
        input(&m, "x", WEFT_F32, weft_shape_of(4, (int64_t[]){BATCH, time, HEADS, SIZE})),
        input(&m, "added", WEFT_I32, weft_shape_of(0, NULL))};
    weft_value y = weft_graph_node(m.graph, "rotary", "y", in, added ? 2 : 1, &first, 1);
    build(&m, device, 2, &y, 1);
    float *x = weft_instance_input(m.program, in[0]);
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < time * row; i++)
            x[b * time * row + i] = (float)golden_number(1, (b * TIME + begin) * row + i);
    if (added) *(int32_t *)weft_instance_input(m.program, in[1]) = added;
    assert_ok(weft_instance_run(m.program, WEFT_PHASE_MICRO));
    memcpy(out, weft_instance_output(m.program, y), (size_t)(BATCH * time * row) * sizeof(float));
    close_model(&m);
}

/* A part of a sequence has the bits of the whole, whether its position is an attribute or added. */
static void test_rotary_of_a_part(void **state)
{
    (void)state;
    float whole[BATCH * TIME * HEADS * SIZE], part[BATCH * TIME * HEADS * SIZE];
    const int row = HEADS * SIZE, rest = (TIME - FROM) * row;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        rotate(built_in(WEFT_KIND_DEVICE, d), 0, 0, whole);
        for (int added = 0; added <= FROM; added++) {
            rotate(built_in(WEFT_KIND_DEVICE, d), FROM, added, part);
            for (int b = 0; b < BATCH; b++)
                assert_memory_equal(part + b * rest, whole + (b * TIME + FROM) * row,
                                    (size_t)rest * sizeof(float));
        }
    }
}

/* A rank that has a part of the sequence gets the position of that part. */
static void test_rotary_is_localized(void **state)
{
    (void)state;
    model m;
    open_model(&m, WEFT_F32);
    weft_attr first = WEFT_ATTR_INT("first", 11);
    weft_value x = input(&m, "x", WEFT_F32, weft_shape_of(4, (int64_t[]){4, 8, 2, 6}));
    weft_value y = weft_graph_node(m.graph, "rotary", "y", &x, 1, &first, 1);
    const weft_node *node = m.graph->nodes[m.graph->values[y].node];
    weft_node part = {.op = node->op};
    assert_ok(node->op->localize(m.graph, node, (int64_t[]){2, 5, 1, 0}, &part));
    assert_int_equal(weft_node_int(&part, "first", 0, 0), 16);
    free(part.attrs);
    weft_graph_destroy(&m.graph);
    weft_context_destroy(&m.context);
}

/* --- labels of operators --- */

/* Which dimensions of a sequence model may be split over ranks. */
static void test_signatures(void **state)
{
    (void)state;
    static const char *const want[][2] = {
        {"embedding", "d0 d1, !v e -> d0 d1 e"},
        {"embedding_grad", "d0 d1, d0 d1 e -> !v e"},
        {"rms_norm", "d0 d1 !d2, !d2 -> d0 d1 !d2, d0 d1"},
        {"rotary", "b t h !d -> b t h !d"},
        {"bias_table", "d0 d1 d2, d1 d2 -> d0 d1 d2"},
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        fixture f;
        bool found = false;
        start(&f, strcmp(want[i][0], "embedding_grad") == 0 ? "embedding" : want[i][0], WEFT_F32);
        for (int n = 0; n < weft_graph_node_count(f.graph) && !found; n++) {
            char *labels;
            const char *op = weft_graph_node_op(f.graph, n);
            if (strncmp(op, want[i][0], strlen(op)) != 0) continue;
            if (strcmp(want[i][0], "embedding_grad") == 0 && strcmp(op, "embedding") == 0) continue;
            assert_ok(weft_graph_node_labels(f.graph, n, &labels));
            assert_string_equal(labels, want[i][1]);
            weft_free(labels);
            found = true;
        }
        if (!found) fail_msg("no node of %s", want[i][0]);
        fixture_end(&f);
    }
}

/* --- threads --- */

enum { ROWS = 13, WIDTH = 70, SAMPLES = 20, POSITIONS = 30, MOST_RESULTS = 20000 };

/* The gradients of the table of an embedding, of a gamma and of a bias; *count: their elements. The
 * last two rows of the table have no index. */
static void gradients(int threads, float *results, size_t *count)
{
    model m;
    open_model(&m, WEFT_F32);
    weft_shape heads = weft_shape_of(4, (int64_t[]){SAMPLES, POSITIONS, 5, WIDTH / 5});
    weft_value ids = input(&m, "ids", WEFT_I32, weft_shape_of(2, (int64_t[]){SAMPLES, POSITIONS}));
    weft_value in[] = {input(&m, "table", WEFT_F32, weft_shape_of(2, (int64_t[]){ROWS, WIDTH})),
                       input(&m, "gamma", WEFT_F32, weft_shape_of(1, (int64_t[]){WIDTH})),
                       input(&m, "bias", WEFT_F32, weft_shape_of(3, heads.dim + 1)),
                       input(&m, "weight", WEFT_F32, heads)};
    for (int i = 0; i < 3; i++) weft_graph_want_gradient(m.graph, in[i]);
    weft_graph *g = m.graph;
    weft_attr shape = {.name = "shape", .count = 4}, axes = {"axes", 4, {0, 1, 2, 3}, 0};
    for (int i = 0; i < 4; i++) shape.ints[i] = heads.dim[i];
    weft_value x = weft_graph_node(g, "embedding", "x", (weft_value[]){ids, in[0]}, 2, NULL, 0);
    x = weft_graph_node(g, "rms_norm", "norm", (weft_value[]){x, in[1]}, 2, NULL, 0);
    x = weft_graph_node(g, "reshape", "heads", &x, 1, &shape, 1);
    x = weft_graph_node(g, "rotary", "rotary", &x, 1, NULL, 0);
    x = weft_graph_node(g, "bias", "add", (weft_value[]){x, in[2]}, 2, NULL, 0);
    x = weft_graph_node(g, "silu", "silu", &x, 1, NULL, 0);
    x = weft_graph_node(g, "mul", "weighted", (weft_value[]){x, in[3]}, 2, NULL, 0);
    x = weft_graph_node(g, "reduce_sum", "loss", &x, 1, &axes, 1);
    assert_ok(weft_graph_differentiate(g, x));
    weft_value fetch[3];
    for (int i = 0; i < 3; i++) fetch[i] = weft_graph_gradient(g, in[i]);
    build(&m, "cpu", threads, fetch, 3);
    for (uint32_t i = 0; i < 4; i++) fill(&m, in[i], i + 1);
    for (int i = 0; i < SAMPLES * POSITIONS; i++)
        ((int32_t *)weft_instance_input(m.program, ids))[i] = (i * 7 + i / 11) % (ROWS - 2);
    *count = 0;
    assert_ok(weft_instance_run(m.program, WEFT_PHASE_MICRO));
    for (int i = 0; i < 3; i++) {
        weft_type type = weft_graph_value_type(g, fetch[i]);
        size_t n = (size_t)weft_shape_elements(&type.shape);
        assert_true(*count + n <= MOST_RESULTS);
        memcpy(results + *count, weft_instance_output(m.program, fetch[i]), n * sizeof(float));
        *count += n;
    }
    close_model(&m);
}

static void test_threads_leave_the_bits(void **state)
{
    (void)state;
    float *one = malloc(MOST_RESULTS * sizeof(float)), *many = malloc(MOST_RESULTS * sizeof(float));
    size_t count, again;
    assert_true(one && many);
    gradients(1, one, &count);
    for (int threads = 2; threads <= 7; threads++) {
        gradients(threads, many, &again);
        assert_int_equal(again, count);
        assert_memory_equal(one, many, count * sizeof(float));
    }
    for (int i = (ROWS - 2) * WIDTH; i < ROWS * WIDTH; i++) assert_true(one[i] == 0);
    free(one);
    free(many);
}

/* --- labels of samples --- */

enum { CLASSES = 4 };

/* The loss of three samples in *loss, its gradient in dx. every: the value of all logits; NaN: they
 * are different. */
static void cross_entropy(const char *device, double smoothing, float every, const int32_t *labels,
                          const float *weights, float *loss, float *dx)
{
    model m;
    open_model(&m, WEFT_F32);
    weft_shape rows = weft_shape_of(1, (int64_t[]){3});
    weft_value in[] = {input(&m, "x", WEFT_F32, weft_shape_of(2, (int64_t[]){3, CLASSES})),
                       input(&m, "labels", WEFT_I32, rows), input(&m, "weights", WEFT_F32, rows)};
    weft_attr attr = WEFT_ATTR_REAL("smoothing", smoothing);
    weft_value y = weft_graph_node(m.graph, "softmax_xent", "loss", in, 3, &attr, smoothing >= 0);
    weft_graph_want_gradient(m.graph, in[0]);
    assert_ok(weft_graph_differentiate(m.graph, y));
    weft_value fetch[] = {y, weft_graph_gradient(m.graph, in[0])};
    build(&m, device, 1, fetch, 2);
    fill(&m, in[0], 1);
    float *x = weft_instance_input(m.program, in[0]);
    for (int i = 0; i < 3 * CLASSES && !isnan(every); i++) x[i] = every;
    memcpy(weft_instance_input(m.program, in[1]), labels, 3 * sizeof(*labels));
    memcpy(weft_instance_input(m.program, in[2]), weights, 3 * sizeof(*weights));
    assert_ok(weft_instance_run(m.program, WEFT_PHASE_MICRO));
    *loss = *(const float *)weft_instance_output(m.program, y);
    memcpy(dx, weft_instance_output(m.program, fetch[1]), 3 * CLASSES * sizeof(float));
    close_model(&m);
}

/* Rows of weight 0 have any label, such as -1, and count exactly nothing. A row with weight and a
 * label out of range makes the loss NaN. */
static void test_labels_without_weight(void **state)
{
    (void)state;
    static const double smoothings[] = {-1, 0, 0.1};
    float loss[3], alone, dx[3][3 * CLASSES], other[3 * CLASSES];
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        const char *device = built_in(WEFT_KIND_DEVICE, d);
        for (int s = 0; s < 3; s++) {
            float weights[] = {0, 0.5f, 0};
            cross_entropy(device, smoothings[s], NAN, (int32_t[]){-1, 2, -1}, weights, &loss[s],
                          dx[s]);
            cross_entropy(device, smoothings[s], NAN, (int32_t[]){0, 2, 1}, weights, &alone, other);
            assert_true(loss[s] > 0 && loss[s] == alone);
            assert_memory_equal(dx[s], other, sizeof(other));
            for (int i = 0; i < CLASSES; i++) {
                assert_true(dx[s][i] == 0 && dx[s][2 * CLASSES + i] == 0);
                assert_true(dx[s][CLASSES + i] != 0);
            }
            weights[0] = 0.5f;
            cross_entropy(device, smoothings[s], NAN, (int32_t[]){-1, 2, 0}, weights, &alone,
                          other);
            assert_true(isnan(alone));
        }
        /* Smoothing 0 is no smoothing. */
        assert_true(loss[0] == loss[1] && loss[1] != loss[2]);
        assert_memory_equal(dx[0], dx[1], sizeof(dx[0]));
    }
}

/* Equal logits, however large, have a loss of log(classes), since a common addend changes nothing.
 */
static void test_equal_logits(void **state)
{
    (void)state;
    static const float every[] = {0, -7, 1e4F, 1e12F, -1e17F, 3e38F};
    static const double smoothings[] = {-1, 0.3};
    float loss, dx[3 * CLASSES];
    const float weights[] = {0.25F, 0.5F, 0.25F};
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (size_t i = 0; i < WEFT_COUNT(every); i++)
            for (size_t s = 0; s < WEFT_COUNT(smoothings); s++) {
                cross_entropy(built_in(WEFT_KIND_DEVICE, d), smoothings[s], every[i],
                              (int32_t[]){0, 2, 1}, weights, &loss, dx);
                assert_true(fabs((double)loss - log(CLASSES)) < 1e-6);
            }
}

/* --- refusals --- */

static const struct refusal {
    const char *op;
    int rank;
    weft_attr attr;
    const char *words;
} refusals[] = {
    {"softmax_xent", 2, WEFT_ATTR_REAL("smoothing", 1), "the smoothing is 1, must be from 0"},
    {"softmax_xent", 2, WEFT_ATTR_REAL("smoothing", -0.1), "the smoothing is -0.1"},
    {"softmax_xent", 2, WEFT_ATTR_REAL("smoothing", NAN), "the smoothing is nan"},
    {"rotary", 4, WEFT_ATTR_INT("first", 0), "with an even d"},
    {"rotary", 5, WEFT_ATTR_INT("first", 0), "must be [batch, positions, heads, d]"},
    {"rotary", 3, WEFT_ATTR_INT("first", 0), "at least 4 dimensions"},
    {"rotary", 4, WEFT_ATTR_REAL("base", 0), "the base is 0, must be a number above 0"},
};

static void test_refusals(void **state)
{
    (void)state;
    const int64_t dims[] = {2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *r = &refusals[i];
        model m;
        open_model(&m, WEFT_F32);
        weft_shape shape = weft_shape_of(r->rank, dims), rows = weft_shape_of(r->rank - 1, dims);
        weft_value in[] = {input(&m, "x", WEFT_F32, shape), input(&m, "labels", WEFT_I32, rows),
                           input(&m, "weights", WEFT_F32, rows)};
        int count = strcmp(r->op, "softmax_xent") == 0 ? 3 : 1;
        (void)weft_graph_node(m.graph, r->op, "it", in, count, &r->attr, 1);
        assert_refused(weft_graph_status(m.graph), WEFT_ERR_ARGUMENT, r->words);
        weft_graph_destroy(&m.graph);
        weft_context_destroy(&m.context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_rotary_of_a_part),
        cmocka_unit_test(test_rotary_is_localized),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_threads_leave_the_bits),
        cmocka_unit_test(test_labels_without_weight),
        cmocka_unit_test(test_equal_logits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("sequence", tests, NULL, NULL);
}
