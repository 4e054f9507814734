/* Gradients that cross ranks in bf16 (weft_plan_options.bf16_sums) against a formula: each rank
 * adds up its samples in f32, rounds its sum once, and the fixed tree rounds each sum; the result
 * lies within the stated bound of the exact sum. With any stage of ZeRO the bits are the same. */
#include <math.h>

#include "graph_fixture.h"

enum { COLUMNS = 37, EACH = 2, MOST = 5 };

static float number(int row, int column)
{
    double x = sin((row * COLUMNS + column + 1) * 12.9898) * 43758.5453;
    return (float)(ldexp(2 * (x - floor(x)) - 1, column % 7));
}

static float rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, sizeof(bits));
    return x;
}

/* The sum of leaves [first, end) of the tree: the left half has a power of two of them. */
static float tree(const float *leaves, int first, int end)
{
    int half = 1;
    if (end - first == 1) return rounded(leaves[first]);
    while (2 * half < end - first) half *= 2;
    return rounded(tree(leaves, first, first + half) + tree(leaves, first + half, end));
}

typedef struct sums_case {
    int ranks, zero;
    bool narrow;
    float w[COLUMNS];
} sums_case;

/* The loss is the sum of w x, so that the gradient of w is the sum of the rows. */
static weft_status build(weft_context *context, int rows, weft_graph **g, weft_value *x)
{
    weft_optimizer_options o;
    weft_optimizer_values values;
    weft_shape one = weft_shape_of(1, (int64_t[]){COLUMNS});
    weft_shape all = weft_shape_of(2, (int64_t[]){rows, COLUMNS});
    weft_status status = weft_graph_create(context, WEFT_F32, g);
    if (status != WEFT_OK) return status;
    *x = weft_graph_leaf(*g, WEFT_VALUE_INPUT, "x", WEFT_F32, &all, (weft_init){0});
    weft_value w = weft_graph_leaf(*g, WEFT_VALUE_PARAM, "w", WEFT_F32, &one,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_attr axes = {.name = "axes", .count = 2, .ints = {0, 1}};
    weft_value loss = weft_graph_node(*g, "mul", "product", (weft_value[]){*x, w}, 2, NULL, 0);
    loss = weft_graph_node(*g, "reduce_sum", "loss", &loss, 1, &axes, 1);
    status = weft_graph_differentiate(*g, loss);
    weft_optimizer_options_init(&o);
    o.name = "sgd";
    o.lr = 1;
    o.momentum = 0;
    return status == WEFT_OK ? weft_optimizer_build(*g, &o, &values) : status;
}

static void run_rank(weft_comm *world, void *user)
{
    sums_case *c = user;
    weft_context *context;
    weft_graph *g;
    weft_plan *plan;
    weft_rewritten *mine;
    weft_comms comms;
    weft_store *store;
    weft_instance *instance;
    weft_plan_options o;
    weft_value x;
    int rank = weft_comm_rank(world);
    float all[COLUMNS];
    rank_ok(weft_context_create(&context));
    rank_ok(weft_context_set_threads(context, 1));
    rank_ok(build(context, c->ranks * EACH, &g, &x));
    weft_plan_options_init(&o);
    o.ranks = c->ranks;
    o.zero = c->zero;
    o.bf16_sums = c->narrow;
    rank_ok(weft_plan_create(g, &o, &plan));
    rank_ok(weft_plan_rewrite(plan, g, rank, &mine));
    rank_ok(weft_plan_split(plan, world, &comms));
    rank_ok(weft_store_create(context, "cpu", 1, &store));
    weft_program_options po;
    weft_program_options_init(&po);
    rank_ok(weft_instance_build_with(store, weft_rewritten_graph(mine), &po, &comms, &instance));
    float *to = weft_instance_input(instance, weft_rewritten_value(mine, x));
    for (int i = 0; i < EACH * COLUMNS; i++) to[i] = number(rank * EACH + i / COLUMNS, i % COLUMNS);
    rank_ok(weft_instance_run(instance, WEFT_PHASE_MICRO));
    rank_ok(weft_instance_run(instance, WEFT_PHASE_UPDATE));
    rank_ok(weft_instance_drain(instance));
    rank_ok(net_gather(store, weft_store_find(store, "w"), comms.axes[1], all));
    if (rank == 0) memcpy(c->w, all, sizeof(all));
    weft_instance_destroy(&instance);
    weft_store_destroy(&store);
    weft_plan_close_comms(&comms);
    weft_rewritten_destroy(&mine);
    weft_plan_destroy(&plan);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void test_formula(void **state)
{
    (void)state;
    for (int n = 2; n <= MOST; n++)
        for (int zero = 0; zero <= 3; zero++) {
            sums_case c = {.ranks = n, .zero = zero, .narrow = true};
            on_ranks("threads", n, run_rank, &c);
            for (int k = 0; k < COLUMNS; k++) {
                float own[MOST];
                double exact = 0, size = 0;
                for (int r = 0; r < n; r++) {
                    own[r] = number(r * EACH, k) + number(r * EACH + 1, k);
                    exact += (double)own[r];
                    size += fabs((double)own[r]);
                }
                float want = -tree(own, 0, n);
                if (c.w[k] != want)
                    fail_msg("%d ranks, zero %d, column %d: %.9g, must be %.9g", n, zero, k,
                             (double)c.w[k], (double)want);
                double bound = (1 + ceil(log2(n))) / 256 * 1.02 * size;
                assert_true(fabs((double)c.w[k] + exact) <= bound);
            }
        }
}

/* Virtual workers promise bits that this rounding does not keep. */
static void test_virtual_workers(void **state)
{
    (void)state;
    weft_context *context;
    weft_graph *g;
    weft_plan *plan = NULL;
    weft_plan_options o;
    weft_value x;
    assert_ok(weft_context_create(&context));
    assert_ok(build(context, 4, &g, &x));
    weft_plan_options_init(&o);
    o.ranks = 2;
    o.virtual_workers = 4;
    o.bf16_sums = true;
    assert_int_equal(weft_plan_create(g, &o, &plan), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_message(), "--sum-dtype f32"));
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formula),
        cmocka_unit_test(test_virtual_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
