/* Tests entries that a program adds: each kind refuses structs of another version, and functions
 * that are missing; and operators of plug-ins have the derivatives that finite differences have. */
#include <math.h>

#include "support.h"

/* The public struct of each kind; 0: only the library has such entries. */
static const size_t sizes[WEFT_KIND_COUNT] = {
    [WEFT_KIND_LAYER] = sizeof(weft_layer_ops),
    [WEFT_KIND_MODEL] = sizeof(weft_model_ops),
    [WEFT_KIND_LOSS] = sizeof(weft_loss_ops),
    [WEFT_KIND_DATA] = sizeof(weft_data_ops),
    [WEFT_KIND_EXCHANGE] = sizeof(weft_exchange_ops),
    [WEFT_KIND_CODEC] = sizeof(weft_codec_rule),
    [WEFT_KIND_OPTIMIZER] = sizeof(weft_optimizer_ops),
    [WEFT_KIND_RATE] = sizeof(weft_rate_ops),
    [WEFT_KIND_DEVICE] = sizeof(weft_device_ops),
    [WEFT_KIND_OPERATOR] = sizeof(weft_operator_ops),
    [WEFT_KIND_ENGINE] = sizeof(weft_transport_ops),
    [WEFT_KIND_SERVER_POLICY] = sizeof(weft_server_policy_ops),
};

static void test_wrong_structs(void **state)
{
    (void)state;
    weft_context *context;
    assert_ok(weft_context_create(&context));
    for (int k = WEFT_KIND_NONE + 1; k < WEFT_KIND_COUNT; k++) {
        size_t ops[256] = {0};
        weft_entry e = {.kind = (weft_kind)k, .name = "own"};
        if (sizes[k] == 0) {
            e.ops = ops;
            assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_UNSUPPORTED,
                           "own: only the library has");
            continue;
        }
        assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                       "own: its 'ops' is NULL, which every");
        e.ops = ops;
        for (int wrong = 0; wrong < 3; wrong++) {
            ops[0] = wrong == 0 ? 0 : wrong == 1 ? sizes[k] + 8 : SIZE_MAX;
            assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_UNSUPPORTED,
                           "bytes, this library's");
        }
        ops[0] = sizes[k];
        assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                       "is NULL, which every");
        assert_null(weft_context_entry(context, (weft_kind)k, 1000));
    }
    weft_context_destroy(&context);
}

/* A policy that is registered and never asked. */
static int complete(const weft_server_pending *pending)
{
    return pending->updates;
}

static bool may_begin(const weft_server_waiting *learner)
{
    return learner->clock <= learner->made;
}

static weft_late late(int64_t clocks)
{
    return clocks > 1 ? WEFT_LATE_DISCARD : WEFT_LATE_KEEP;
}

static void test_server_policies(void **state)
{
    (void)state;
    weft_context *context;
    weft_server_policy_ops ops = {
        .struct_size = sizeof(ops), .complete = complete, .may_begin = may_begin, .late = late};
    weft_entry e = {.kind = WEFT_KIND_SERVER_POLICY, .name = "own", .ops = &ops};
    assert_ok(weft_context_create(&context));
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "server policy own: its 'late' is set and 'rounds' is false");
    ops.rounds = true;
    ops.may_begin = NULL;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "server policy own: its 'may_begin' is NULL");
    ops.may_begin = may_begin;
    e.name = "ssp";
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "a server policy named 'ssp' is there already");
    e.name = "own";
    assert_ok(weft_context_register(context, &e, 1));
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "a server policy named 'own' is there already");
    weft_context_destroy(&context);
}

static weft_status exchange_open(weft_exchange *exchange, const char *arguments,
                                 const weft_exchange_setup *setup)
{
    (void)exchange, (void)arguments, (void)setup;
    return WEFT_OK;
}

static weft_status exchange_update(weft_exchange *exchange, int64_t step)
{
    (void)exchange, (void)step;
    return WEFT_OK;
}

static weft_status codec_open(const char *arguments, int64_t count, void **state)
{
    (void)arguments, (void)count, (void)state;
    return WEFT_OK;
}

static weft_status codec_choose(void *state, const weft_codec_choice *choice)
{
    (void)state, (void)choice;
    return WEFT_OK;
}

static weft_status codec_encode(void *state, const weft_codec_choice *choice, uint8_t *body,
                                weft_codec_message *message)
{
    (void)state, (void)choice, (void)body, (void)message;
    return WEFT_OK;
}

static bool codec_valid(const weft_codec_message *message, double most)
{
    (void)message, (void)most;
    return true;
}

static void codec_add(const weft_codec_message *message, int64_t begin, int64_t n, double scale,
                      void *to)
{
    (void)message, (void)begin, (void)n, (void)scale, (void)to;
}

/* A codec chooses, or has a whole form of its own; a struct of the time before forms is taken. */
static void test_codecs(void **state)
{
    (void)state;
    weft_context *context;
    weft_codec_rule rule = {.struct_size = sizeof(rule), .open = codec_open, .close = free};
    weft_entry e = {.kind = WEFT_KIND_CODEC, .name = "own", .ops = &rule};
    assert_ok(weft_context_create(&context));
    rule.encode = codec_encode;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "codec own: its 'valid' is NULL");
    rule.valid = codec_valid;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "codec own: its 'add' is NULL");
    rule.add = codec_add;
    rule.choose = codec_choose;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "codec own: with a form of its own it has no use for 'choose'");
    rule.choose = NULL;
    assert_ok(weft_context_register(context, &e, 1));
    e.name = "older";
    rule = (weft_codec_rule){.struct_size = offsetof(weft_codec_rule, encode),
                             .open = codec_open,
                             .close = free,
                             .choose = codec_choose};
    assert_ok(weft_context_register(context, &e, 1));
    weft_context_destroy(&context);
}

static void test_exchanges(void **state)
{
    (void)state;
    weft_context *context;
    weft_exchange_ops ops = {.struct_size = sizeof(ops), .size = 8, .open = exchange_open};
    weft_entry e = {.kind = WEFT_KIND_EXCHANGE, .name = "own", .ops = &ops};
    assert_ok(weft_context_create(&context));
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "exchange own: its size is 8 bytes; its struct begins with a weft_exchange");
    ops.size = sizeof(weft_exchange);
    ops.owns_update = true;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "exchange own: owns_update is true and the hook update is NULL");
    ops.owns_update = false;
    ops.step.update = exchange_update;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "exchange own: owns_update is false and the hook update is set");
    ops.owns_update = true;
    ops.actors = (const struct weft_exchange_actors *)&ops;
    assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                   "exchange own: its 'actors' is set");
    ops.actors = NULL;
    assert_ok(weft_context_register(context, &e, 1));
    weft_context_destroy(&context);
}

/* The loss of a graph that sums what the operator gives for x. */
static double run(weft_context *context, const char *op, double *x, int64_t count, double *slope)
{
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    weft_shape shape = weft_shape_of(1, &count);
    assert_ok(weft_graph_create(context, WEFT_F64, &graph));
    weft_value in = weft_graph_leaf(graph, WEFT_VALUE_INPUT, "x", WEFT_F64, &shape, (weft_init){0});
    weft_graph_want_gradient(graph, in);
    weft_attr axes = WEFT_ATTR_INT("axes", 0);
    weft_value y = weft_graph_node(graph, op, "y", &in, 1, NULL, 0);
    weft_value fetch[2] = {weft_graph_node(graph, "reduce_sum", "sum", &y, 1, &axes, 1)};
    assert_ok(weft_graph_differentiate(graph, fetch[0]));
    fetch[1] = weft_graph_gradient(graph, in);
    assert_ok(weft_store_create(context, "reference", 1, &store));
    assert_ok(weft_instance_build(store, graph, fetch, 2, &instance));
    memcpy(weft_instance_input(instance, in), x, (size_t)count * sizeof(*x));
    assert_ok(weft_instance_run(instance, WEFT_PHASE_MICRO));
    double loss = *(const double *)weft_instance_output(instance, fetch[0]);
    if (slope) memcpy(slope, weft_instance_output(instance, fetch[1]), (size_t)count * sizeof(*x));
    weft_instance_destroy(&instance);
    weft_store_destroy(&store);
    weft_graph_destroy(&graph);
    return loss;
}

static void test_derivative(void **state)
{
    (void)state;
    enum { COUNT = 7 };
    double x[COUNT] = {-700, -3.5, -0.25, 0, 0.75, 2, 700}, slope[COUNT];
    const double h = 1e-5;
    weft_context *context;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_plugin_load(context, PLUGINS "/libsoftplus.so"));
    (void)run(context, "softplus", x, COUNT, slope);
    for (int i = 0; i < COUNT; i++) {
        double low[] = {x[i] - h}, high[] = {x[i] + h};
        double difference =
            run(context, "softplus", high, 1, NULL) - run(context, "softplus", low, 1, NULL);
        assert_true(fabs(difference / (2 * h) - slope[i]) < 1e-6);
    }
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_structs), cmocka_unit_test(test_server_policies),
        cmocka_unit_test(test_exchanges),     cmocka_unit_test(test_codecs),
        cmocka_unit_test(test_derivative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
