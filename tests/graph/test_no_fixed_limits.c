/* Graphs, files and plans without small fixed limits: long names, and many attributes, keys, inputs
 * of layers, pins and ranks. */
#include <math.h>

#include "formats/yaml.h"
#include "graph/graph.h"
#include "graph_fixture.h"

/* --- names --- */

enum { LONG_NAME = 700, DENSE = 3 };

/* Dense layers with names of LONG_NAME bytes that differ only in the last byte. */
static weft_value long_names(weft_graph *g, weft_value x)
{
    char name[LONG_NAME + 1], full[LONG_NAME + 16];
    memset(name, 'n', LONG_NAME);
    name[LONG_NAME] = '\0';
    for (int i = 0; i < DENSE; i++) {
        weft_shape w = {2, {16, 16}};
        name[LONG_NAME - 1] = (char)('a' + i);
        (void)snprintf(full, sizeof(full), "%s/weight", name);
        weft_value in[] = {x, weft_graph_leaf(g, WEFT_VALUE_PARAM, full, weft_graph_real(g), &w,
                                              (weft_init){WEFT_INIT_UNIFORM, 0.3})};
        x = weft_graph_node(g, "dense", name, in, 2, NULL, 0);
        x = weft_graph_node(g, "tanh", name, &x, 1, NULL, 0);
    }
    return x;
}

static void try_long_names(weft_comm *world, void *user)
{
    const setting *s = user;
    prepared p;
    double losses[STEPS];
    int moments = 0, whole = 0;
    rank_ok(net_prepare(&p, s, world));
    rank_ok(net_train(s, &p, losses));
    rank_check(isfinite(losses[STEPS - 1]));
    for (int i = 0; i < weft_store_count(p.store); i++) {
        const char *name = weft_store_name(p.store, i);
        whole += strlen(name) > LONG_NAME;
        moments += strlen(name) > 2 && strcmp(name + strlen(name) - 2, "/m") == 0;
        rank_check(weft_store_find(p.store, name) == i); /* no other entry has this name */
    }
    rank_check(moments == DENSE && whole >= 3 * DENSE);
    net_unprepare(&p);
}

static void test_long_names(void **state)
{
    (void)state;
    static const mesh_case meshes[] = {
        {"data=1", 1, 0, NULL, NULL}, {"data=2", 2, 3, NULL, NULL}, {"tensor=2", 2, 0, NULL, NULL}};
    const model_case m = {.model = "long names",
                          .build = long_names,
                          .sample = {16},
                          .batch = 4,
                          .rank = 1,
                          .lr = 0.01,
                          .classes = 16};
    for (size_t i = 0; i < sizeof(meshes) / sizeof(*meshes); i++) {
        setting s = net_setting(&m, &meshes[i]);
        s.optimizer = "adam";
        s.microbatches = 2; /* sums of gradients have names then, too */
        on_ranks("threads", meshes[i].ranks, try_long_names, &s);
    }
}

/* --- attributes --- */

static void test_many_attributes(void **state)
{
    (void)state;
    enum { MANY = 40 };
    char names[MANY][8];
    const char *known[MANY + 1] = {NULL};
    for (int i = 0; i < MANY; i++) (void)snprintf(names[i], sizeof(names[i]), "a%d", i);
    for (int i = 0; i < MANY; i++) known[i] = names[i];
    const weft_op op = {.name = "many", .attrs = known};
    weft_node node = {.op = &op};
    for (int round = 0; round < 2; round++) /* the second round gives other values */
        for (int i = 0; i < MANY; i++) {
            weft_attr a = WEFT_ATTR_INT(names[i], 100 * round + i);
            assert_ok(weft_node_set(&node, &a));
        }
    assert_int_equal(node.attr_count, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(weft_node_int(&node, names[i], 0, -1), 100 + i);
    free(node.attrs);
}

/* The error for a node with too many inputs says how many inputs it can have. */
static void test_too_many_inputs(void **state)
{
    (void)state;
    enum { MANY = 300 };
    weft_context *context;
    weft_graph *g;
    weft_value in[MANY];
    weft_shape one = {1, {1}};
    weft_attr axis = WEFT_ATTR_INT("axis", 0);
    char name[16];
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "x%d", i);
        in[i] = weft_graph_leaf(g, WEFT_VALUE_INPUT, name, WEFT_F32, &one, (weft_init){0});
    }
    assert_int_equal(weft_graph_node(g, "concat", "all", in, MANY, &axis, 1), WEFT_NO_VALUE);
    assert_refused(weft_graph_status(g), WEFT_ERR_ARGUMENT, "joins 300 tensors, at most 16");
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

/* --- layers that read many --- */

static const char *const functions[] = {"tanh", "sigmoid", "relu", "gelu"};

static double applied(int f, double x)
{
    if (f == 0) return tanh(x);
    if (f == 1) return 1 / (1 + exp(-x));
    return f == 2 ? fmax(x, 0) : x / 2 * (1 + erf(x / sqrt(2)));
}

/* n functions of the input, concatenated, are the logits. */
static void joined(int n, const char *device)
{
    weft_text yaml = {0};
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_model_values v;
    weft_model_options o;
    weft_model_options_init(&o);
    weft_model_options_set_sample(&o, weft_shape_of(1, (int64_t[]){2}));
    o.batch = 1;
    o.classes = 2 * n;
    weft_text_add(&yaml, "layers:\n");
    for (int i = 0; i < n; i++)
        weft_text_add(&yaml, "  - {type: %s, name: f%d, from: x}\n", functions[i % 4], i);
    weft_text_add(&yaml, "  - {type: concat, name: all, from: 'f0");
    for (int i = 1; i < n; i++) weft_text_add(&yaml, ", f%d", i);
    weft_text_add(&yaml, "'}\n");
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F64, &g));
    assert_ok(weft_model_build_text(g, &o, "joined", yaml.data, yaml.size, &v));
    assert_ok(weft_store_create(context, device, 5, &store));
    assert_ok(weft_instance_build(store, g, &(weft_value){PORT(v, LOGITS)}, 1, &p));
    double *x = weft_instance_input(p, PORT(v, FEATURES));
    x[0] = 0.7;
    x[1] = -1.3;
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    const double *y = weft_instance_output(p, PORT(v, LOGITS));
    for (int i = 0; i < 2 * n; i++) {
        double want = applied(i / 2 % 4, x[i % 2]);
        if (fabs(y[i] - want) > 1e-12) fail_msg("%d joined: %d is %g, not %g", n, i, y[i], want);
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
    free(yaml.data);
}

static void test_layers_that_read_many(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 15, 16, 17, 31, 33, 255, 256, 257, 300};
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        joined(counts[i], i % 2 ? "reference" : "cpu");
}

/* --- keys --- */

enum { KEYS = 300 };

static void test_many_options(void **state)
{
    (void)state;
    char names[KEYS][8];
    static weft_option table[KEYS + 1];
    int64_t values[KEYS] = {0};
    weft_text text = {0};
    weft_yaml *y;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "k%d", i);
        table[i] = (weft_option){.name = names[i],
                                 .argument = "N",
                                 .offset = (size_t)i * sizeof(int64_t),
                                 .kind = WEFT_OPT_INT};
        weft_text_add(&text, "k%d: %d\n", i, 7 * i + 1);
    }
    assert_ok(weft_yaml_parse("y", text.data, text.size, table, NULL, NULL, &y));
    assert_ok(weft_yaml_apply(y, -1, values));
    for (int i = 0; i < KEYS; i++) assert_int_equal(values[i], 7 * i + 1);
    weft_yaml_free(&y);
    weft_text_add(&text, "k%d: 5\n", KEYS - 2);
    assert_refused(weft_yaml_parse("y", text.data, text.size, table, NULL, NULL, &y),
                   WEFT_ERR_FORMAT, "y:301: the key 'k298' is given twice");
    free(text.data);
}

/* A key may stand in each mapping of a YAML file, but only once. */
static void test_keys_of_mappings(void **state)
{
    (void)state;
    static const char fine[] = "a: {b: 1, c: {b: 1, a: 2}}\nb: [{b: 1}, {b: 2, a: 1}]\nc: 1\n";
    static const char *const twice[] = {"a: {b: 1, c: {b: 1}, b: 2}\n", "a: 1\nb: {a: 1}\na: 2\n",
                                        "l: [{b: 1}, {c: 1, c: 2}]\n"};
    assert_ok(weft_yaml_check("y", fine, strlen(fine)));
    for (size_t i = 0; i < sizeof(twice) / sizeof(*twice); i++)
        assert_refused(weft_yaml_check("y", twice[i], strlen(twice[i])), WEFT_ERR_FORMAT,
                       "is given twice");
}

/* --- plans --- */

/* A graph of LAYERS dense layers, each of which gets a pin. */
enum { LAYERS = 2000 };

static void deep(weft_graph **g, weft_context *context)
{
    weft_shape in = {2, {1024, 4}}, w = {2, {4, 4}};
    char name[16];
    assert_ok(weft_graph_create(context, WEFT_F32, g));
    weft_value x = weft_graph_leaf(*g, WEFT_VALUE_INPUT, "x", WEFT_F32, &in, (weft_init){0});
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        weft_value weight = weft_graph_leaf(*g, WEFT_VALUE_PARAM, name, WEFT_F32, &w,
                                            (weft_init){WEFT_INIT_UNIFORM, 0.3});
        (void)snprintf(name, sizeof(name), "n%d", i);
        x = weft_graph_node(*g, "dense", name, (weft_value[]){x, weight}, 2, NULL, 0);
    }
    assert_ok(weft_graph_status(*g));
}

static void rewritten(const weft_graph *g, const weft_plan_options *o, int rank,
                      weft_rewritten **out)
{
    weft_plan *plan;
    assert_ok(weft_plan_create(g, o, &plan));
    assert_ok(weft_plan_rewrite(plan, g, rank, out));
    weft_plan_destroy(&plan);
}

static void test_many_pins(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    weft_rewritten *mine;
    weft_text shard = {0}, place = {0};
    weft_plan_options o;
    char name[16];
    assert_ok(weft_context_create(&context));
    deep(&g, context);
    for (int i = 0; i < LAYERS; i++) {
        weft_text_add(&shard, "%sw%d:%d=tensor", i ? "," : "", i, i % 2);
        weft_text_add(&place, "%sn%d=rank:%d", i ? "," : "", i, i * 2 / LAYERS);
    }
    weft_plan_options_init(&o);
    o.ranks = 2;
    o.mesh = "tensor=2";
    o.shard = shard.data;
    rewritten(g, &o, 1, &mine);
    for (int i = 0; i < LAYERS; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        weft_value w = weft_graph_find(weft_rewritten_graph(mine), name);
        weft_type type = weft_graph_value_type(weft_rewritten_graph(mine), w);
        assert_int_equal(type.shape.dim[i % 2], 2);
        assert_int_equal(type.shape.dim[1 - i % 2], 4);
    }
    weft_rewritten_destroy(&mine);
    o.mesh = o.shard = NULL;
    o.place = place.data;
    rewritten(g, &o, 1, &mine);
    for (int i = 0; i < LAYERS; i += 7) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        bool here = weft_graph_find(weft_rewritten_graph(mine), name) != WEFT_NO_VALUE;
        assert_int_equal(here, i * 2 / LAYERS == 1);
    }
    weft_rewritten_destroy(&mine);
    weft_text_add(&shard, ",w%d:0=tensor", LAYERS);
    o.place = NULL;
    o.mesh = "tensor=2";
    o.shard = shard.data;
    weft_plan *plan;
    assert_refused(weft_plan_create(g, &o, &plan), WEFT_ERR_ARGUMENT, "'w2000'");
    free(shard.data);
    free(place.data);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void test_most_ranks(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    weft_rewritten *mine;
    weft_plan_options o;
    weft_comm *none[1];
    int local;
    assert_ok(weft_context_create(&context));
    deep(&g, context);
    weft_plan_options_init(&o);
    o.ranks = WEFT_MAX_RANKS;
    rewritten(g, &o, WEFT_MAX_RANKS - 1, &mine);
    weft_type type = weft_graph_value_type(weft_rewritten_graph(mine),
                                           weft_graph_find(weft_rewritten_graph(mine), "x"));
    assert_int_equal(type.shape.dim[0], 1);
    weft_rewritten_destroy(&mine);
    assert_refused(weft_comm_open(context, "threads", WEFT_MAX_RANKS + 1, none, &local),
                   WEFT_ERR_ARGUMENT, "1025 ranks, 1 to 1024 are possible");
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_names),      cmocka_unit_test(test_many_attributes),
        cmocka_unit_test(test_too_many_inputs), cmocka_unit_test(test_layers_that_read_many),
        cmocka_unit_test(test_many_options),    cmocka_unit_test(test_keys_of_mappings),
        cmocka_unit_test(test_many_pins),       cmocka_unit_test(test_most_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
