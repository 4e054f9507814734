/* Graphs: building, errors, differentiation and printing; label signatures. */
#include "support.h"

static weft_context *context;
static weft_graph *graph;

static int setup(void **state)
{
    (void)state;
    return weft_context_create(&context) != WEFT_OK ||
           weft_graph_create(context, WEFT_F32, &graph) != WEFT_OK;
}

static int teardown(void **state)
{
    (void)state;
    weft_graph_destroy(&graph);
    weft_context_destroy(&context);
    return 0;
}

static weft_value leaf(weft_value_kind kind, const char *name, int rank, const int64_t *dim)
{
    weft_shape shape = weft_shape_of(rank, dim);
    return weft_graph_leaf(graph, kind, name, WEFT_F32, &shape, (weft_init){WEFT_INIT_CONSTANT, 0});
}
#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_failures_stick(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_INPUT, "x", DIMS(2, 3)),
               w = leaf(WEFT_VALUE_PARAM, "w", DIMS(4, 5));
    assert_int_equal(weft_graph_node(graph, "dense", "fc1", (weft_value[]){x, w}, 2, NULL, 0),
                     WEFT_NO_VALUE);
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "node 'fc1' (dense)");
    assert_int_equal(weft_graph_node(graph, "relu", "r", &x, 1, NULL, 0), WEFT_NO_VALUE);
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "fc1");
    assert_int_equal(weft_graph_node_count(graph), 0);
}

static void test_unknown_operator(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_INPUT, "x", DIMS(2, 3));
    (void)weft_graph_node(graph, "con2d", "c", &x, 1, NULL, 0);
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "did you mean 'conv'");
}

static void test_unknown_attribute(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_INPUT, "x", DIMS(2, 3));
    weft_attr attr = WEFT_ATTR_INT("strides", 1);
    (void)weft_graph_node(graph, "relu", "r", &x, 1, &attr, 1);
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "takes no attribute 'strides'");
}

static void test_names_are_unique(void **state)
{
    (void)state;
    (void)leaf(WEFT_VALUE_PARAM, "w", DIMS(2));
    (void)leaf(WEFT_VALUE_PARAM, "w", DIMS(2));
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "two leaves are named 'w'");
}

static void test_window_larger_than_image(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_INPUT, "x", DIMS(1, 1, 4, 4)),
               w = leaf(WEFT_VALUE_PARAM, "w", DIMS(1, 1, 5, 5));
    (void)weft_graph_node(graph, "conv", "c", (weft_value[]){x, w}, 2, NULL, 0);
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "window of 5 is larger");
}

/* Without a stride the windows of a pool lie side by side: the stride is the size of the window. */
static void test_windows_side_by_side(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_INPUT, "x", DIMS(1, 1, 7, 9));
    weft_attr kernel = WEFT_ATTR_PAIR("kernel", 2, 3);
    static const char *const pools[] = {"maxpool", "avgpool"};
    for (int i = 0; i < 2; i++) {
        weft_value y = weft_graph_node(graph, pools[i], pools[i], &x, 1, &kernel, 1);
        assert_ok(weft_graph_status(graph));
        weft_shape shape = weft_graph_value_type(graph, y).shape;
        assert_true(shape.dim[2] == 3 && shape.dim[3] == 3);
    }
}

static void test_too_few_dimensions(void **state)
{
    (void)state;
    weft_value in[] = {leaf(WEFT_VALUE_INPUT, "x", DIMS(2, 3)),
                       leaf(WEFT_VALUE_INPUT, "dy", 0, NULL)};
    (void)weft_graph_node(graph, "dense_dw", "dw", in, 2, NULL, 0);
    assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT,
                   "dy is f32[], must be f32 with at least 2 dimensions");
}

static void test_only_scalars_are_differentiated(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_PARAM, "x", DIMS(2));
    assert_refused(weft_graph_differentiate(graph, x), WEFT_ERR_ARGUMENT, "scalar");
}

static void test_operator_without_gradient(void **state)
{
    (void)state;
    weft_value x = leaf(WEFT_VALUE_PARAM, "x", DIMS(2));
    weft_value s = weft_graph_node(graph, "sum_squares", "s", &x, 1, NULL, 0);
    weft_attr norm = WEFT_ATTR_REAL("max_norm", 1);
    weft_value y = weft_graph_node(graph, "clip_factor", "f", &s, 1, &norm, 1);
    assert_refused(weft_graph_differentiate(graph, y), WEFT_ERR_UNSUPPORTED, "has no gradient");
}

/* A loss that depends on a statistic of layer_norm, through which it has no gradient. */
static void test_results_without_gradient(void **state)
{
    (void)state;
    weft_value in[] = {leaf(WEFT_VALUE_PARAM, "x", DIMS(2, 3)),
                       leaf(WEFT_VALUE_PARAM, "gamma", DIMS(3)),
                       leaf(WEFT_VALUE_PARAM, "beta", DIMS(3))};
    weft_attr axes = WEFT_ATTR_INT("axes", 0);
    weft_value rstd = weft_graph_node(graph, "layer_norm", "norm", in, 3, NULL, 0) + 2;
    weft_value loss = weft_graph_node(graph, "reduce_sum", "sum", &rstd, 1, &axes, 1);
    assert_refused(weft_graph_differentiate(graph, loss), WEFT_ERR_UNSUPPORTED,
                   "'norm': the loss depends on the rstd of layer_norm");
}

static void test_prints(void **state)
{
    (void)state;
    char *text;
    weft_value x = leaf(WEFT_VALUE_INPUT, "x", DIMS(2, 3)),
               w = leaf(WEFT_VALUE_PARAM, "w", DIMS(3, 4));
    (void)weft_graph_node(graph, "dense", "fc", (weft_value[]){x, w}, 2, NULL, 0);
    assert_ok(weft_graph_text(graph, &text));
    assert_non_null(strstr(text, "%2 = dense(%0, %1) : f32[2, 4]  # fc [b k, k n -> b n]"));
    weft_free(text);
    weft_value moment = leaf(WEFT_VALUE_STATE, "m", DIMS(3, 4)),
               age = leaf(WEFT_VALUE_STATE, "t", DIMS(1));
    weft_graph_set_role(graph, moment, WEFT_ROLE_OPTIMIZER, w);
    weft_graph_set_role(graph, age, WEFT_ROLE_COUNTER, WEFT_NO_VALUE);
    assert_ok(weft_graph_text(graph, &text));
    assert_non_null(strstr(text, " 'm' f32[3, 4]  # optimizer of %1\n"));
    assert_non_null(strstr(text, " 't' f32[1]  # counter\n"));
    weft_free(text);
    assert_ok(weft_graph_dot(graph, &text));
    assert_non_null(strstr(text, "digraph weft {"));
    assert_non_null(strstr(text, "  v0 -> n0;\n  v1 -> n0;\n"));
    assert_null(strstr(text, "n0 -> "));
    weft_free(text);
    weft_graph_assign(graph, moment, weft_graph_node(graph, "relu", "next", &moment, 1, NULL, 0));
    assert_ok(weft_graph_text(graph, &text));
    assert_non_null(strstr(text, "\n'm' <- %5\n"));
    assert_null(strstr(text, "'t' <- "));
    weft_free(text);
    assert_ok(weft_graph_dot(graph, &text));
    assert_string_equal(strstr(text, "  n1 -> v3"), "  n1 -> v3 [style=dashed];\n}\n");
    weft_free(text);
    weft_cost cost = weft_graph_node_cost(graph, 0);
    assert_true(cost.flops == 2 * 2 * 3 * 4 && cost.bytes == 4 * (6 + 12 + 8));
}

static void test_labels(void **state)
{
    (void)state;
    weft_shape shapes[] = {{2, {2, 3}}, {2, {3, 4}}, {2, {2, 4}}};
    assert_ok(weft_labels_check("b k, k n -> b n", shapes, 2, 1));
    assert_refused(weft_labels_check("b n, k n -> b n", shapes, 2, 1), WEFT_ERR_ARGUMENT, "n is 3");
    assert_refused(weft_labels_check("b k, k n -> b", shapes, 2, 1), WEFT_ERR_ARGUMENT, "1 labels");
    assert_refused(weft_labels_check("b k -> b n", shapes, 2, 1), WEFT_ERR_ARGUMENT, "1 inputs");
    static const char *const bad[] = {"",
                                      "b k",
                                      "b k ->> b",
                                      "B -> b",
                                      "b b -> b",
                                      "!~b -> b",
                                      "!!b -> b",
                                      "b -> b -> b",
                                      "verylonglabel -> b",
                                      "a b c d e f g -> a",
                                      "b ? -> b",
                                      "! -> b"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(weft_labels_check(bad[i], shapes, 1, 1), WEFT_ERR_FORMAT, "column");
}

/* The label signature of a reshape: d a dimension that stays as it is, *d one that may be split in
 * proportion, !d one that must be whole. */
static void test_labels_of_reshapes(void **state)
{
    (void)state;
    static const struct {
        int64_t from[4], to[4];
        const char *labels;
    } cases[] = {
        {{2, 3, 4, 5}, {2, 60}, "d0 *d1 !d2 !d3 -> d0 *d1"},
        {{2, 60}, {2, 3, 4, 5}, "d0 *d1 -> d0 *d1 !e2 !e3"},
        {{2, 12, 5}, {2, 4, 15}, "d0 *d1 !d2 -> d0 *d1 !e2"},
        {{2, 4, 15}, {2, 12, 5}, "d0 *d1 !d2 -> d0 *d1 !e2"},
        {{2, 5, 12}, {2, 4, 15}, "d0 !d1 !d2 -> d0 !e1 !e2"},
        {{2, 4, 15}, {2, 5, 12}, "d0 !d1 !d2 -> d0 !e1 !e2"},
        {{6, 4}, {4, 6}, "!d0 !d1 -> !e0 !e1"},
        {{2, 3, 4}, {2, 3, 4}, "d0 d1 d2 -> d0 d1 d2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int rank = 0;
        char name[16], *labels;
        weft_attr shape = {.name = "shape"};
        while (rank < 4 && cases[i].from[rank]) rank++;
        for (; shape.count < 4 && cases[i].to[shape.count]; shape.count++)
            shape.ints[shape.count] = cases[i].to[shape.count];
        (void)snprintf(name, sizeof(name), "x%zu", i);
        weft_value x = leaf(WEFT_VALUE_INPUT, name, rank, cases[i].from);
        (void)weft_graph_node(graph, "reshape", name, &x, 1, &shape, 1);
        assert_ok(weft_graph_node_labels(graph, (int)i, &labels));
        assert_string_equal(labels, cases[i].labels);
        weft_free(labels);
    }
}

/* A node copies tensors and texts that are attributes, and passes and dumps show them; what is no
 * tensor is refused. */
static void test_tensor_attributes(void **state)
{
    (void)state;
    double numbers[] = {0.5, -2, 3, 4, 5};
    char word[] = "word";
    const weft_type five = {WEFT_F64, weft_shape_of(1, (int64_t[]){5})},
                    none = {WEFT_F64, weft_shape_of(1, (int64_t[]){0})},
                    deep = {WEFT_F64, {WEFT_MAX_RANK + 1, {1}}}, odd = {99, {0, {0}}};
    const struct {
        weft_attr attr;
        const char *words;
    } wrong[] = {
        {weft_attr_tensor("data", &none, numbers), "'data' is no tensor"},
        {weft_attr_tensor("data", &deep, numbers), "'data' is no tensor"},
        {weft_attr_tensor("data", &odd, numbers), "'data' is no tensor"},
        {weft_attr_tensor("data", &five, NULL), "'data' is no tensor"},
        {weft_attr_text("data", NULL), "'data' is no tensor"},
        {WEFT_ATTR_INT("data", 3), "'data' is no tensor"},
        {WEFT_ATTR_REAL("data", 3), "'data' is no tensor"},
        {weft_attr_text("text", "x"), "takes no attribute 'text'"},
    };
    weft_graph *again;
    weft_value map[2];
    weft_type type;
    char *text;
    const weft_attr data = weft_attr_tensor("data", &five, numbers),
                    spelt = weft_attr_text("data", word);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        weft_graph *g;
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        (void)weft_graph_node(g, "constant", "c", NULL, 0, &wrong[i].attr, 1);
        assert_refused(weft_graph_status(g), WEFT_ERR_ARGUMENT, wrong[i].words);
        weft_graph_destroy(&g);
    }
    (void)weft_graph_node(graph, "constant", "numbers", NULL, 0, &data, 1);
    (void)weft_graph_node(graph, "constant", "text", NULL, 0, &spelt, 1);
    numbers[0] = 7;
    word[0] = 'W';
    assert_ok(weft_graph_recompute(graph, &again, map));
    weft_graph_destroy(&graph);
    assert_ok(weft_graph_text(again, &text));
    if (!strstr(text, "constant() data=f64[5]{0.5,-2,3,4,...} : f64[5]") ||
        !strstr(text, "constant() data='word' : u8[5]"))
        fail_msg("the dump of tensors is:\n%s", text);
    const weft_attr *kept = weft_graph_node_attr(again, 1, "data");
    assert_non_null(kept);
    assert_string_equal(weft_attr_data(kept, &type), "word");
    assert_int_equal(type.dtype, WEFT_U8);
    assert_null(weft_graph_node_attr(again, 1, "value"));
    weft_free(text);
    weft_graph_destroy(&again);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_failures_stick),
        TEST(test_unknown_operator),
        TEST(test_unknown_attribute),
        TEST(test_names_are_unique),
        TEST(test_window_larger_than_image),
        TEST(test_windows_side_by_side),
        TEST(test_too_few_dimensions),
        TEST(test_only_scalars_are_differentiated),
        TEST(test_operator_without_gradient),
        TEST(test_results_without_gradient),
        TEST(test_prints),
        TEST(test_labels),
        TEST(test_tensor_attributes),
        TEST(test_labels_of_reshapes),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
