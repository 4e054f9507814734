/* Fetched values are whole when a run returns: one that ranks have exchanged, and a part of one
 * that no instruction copies, also if another rank begins later. */
#include <time.h>

#include "graph_fixture.h"

enum { RANKS = 3, EACH = 2, COLUMNS = 5 };

static double number(int row, int column)
{
    return row * COLUMNS + column + 1;
}

/* The sums over the samples, which an all-reduce makes, and some of them. */
static weft_status build(weft_context *context, weft_graph **g, weft_value *x, weft_value *part)
{
    const weft_attr axis = WEFT_ATTR_INT("axes", 0);
    const weft_attr some[] = {WEFT_ATTR_INT("axis", 0), WEFT_ATTR_INT("start", 1),
                              WEFT_ATTR_INT("stop", COLUMNS)};
    weft_shape all = weft_shape_of(2, (int64_t[]){RANKS * EACH, COLUMNS});
    weft_status status = weft_graph_create(context, WEFT_F64, g);
    if (status != WEFT_OK) return status;
    *x = weft_graph_leaf(*g, WEFT_VALUE_INPUT, "x", WEFT_F64, &all, (weft_init){0});
    weft_value sums = weft_graph_node(*g, "reduce_sum", "sums", x, 1, &axis, 1);
    *part = weft_graph_node(*g, "slice", "part", &sums, 1, some, 3);
    return weft_graph_status(*g);
}

static void run_rank(weft_comm *world, void *user)
{
    const char *device = user;
    weft_context *context;
    weft_graph *g;
    weft_plan *plan;
    weft_rewritten *mine;
    weft_comms comms;
    weft_store *store;
    weft_instance *instance;
    weft_plan_options o;
    weft_program_options po;
    weft_value x, part;
    int rank = weft_comm_rank(world);
    rank_ok(weft_context_create(&context));
    rank_ok(weft_context_set_threads(context, 1));
    rank_ok(build(context, &g, &x, &part));
    weft_plan_options_init(&o);
    o.ranks = RANKS;
    rank_ok(weft_plan_create(g, &o, &plan));
    rank_ok(weft_plan_rewrite(plan, g, rank, &mine));
    rank_ok(weft_plan_split(plan, world, &comms));
    rank_ok(weft_store_create(context, device, 1, &store));
    weft_program_options_init(&po);
    part = weft_rewritten_value(mine, part);
    po.fetch = &part;
    po.fetch_count = 1;
    rank_ok(weft_instance_build_with(store, weft_rewritten_graph(mine), &po, &comms, &instance));
    double *to = weft_instance_input(instance, weft_rewritten_value(mine, x));
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < EACH * COLUMNS; i++)
            to[i] = run + number(rank * EACH + i / COLUMNS, i % COLUMNS);
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000000L * rank}, NULL);
        rank_ok(weft_instance_run(instance, WEFT_PHASE_FORWARD));
        const double *have = weft_instance_output(instance, part);
        for (int k = 1; k < COLUMNS; k++) {
            double want = 0;
            for (int row = 0; row < RANKS * EACH; row++) want += run + number(row, k);
            assert_true(have[k - 1] == want);
        }
        rank_ok(weft_instance_drain(instance));
    }
    weft_instance_destroy(&instance);
    weft_store_destroy(&store);
    weft_plan_close_comms(&comms);
    weft_rewritten_destroy(&mine);
    weft_plan_destroy(&plan);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void test_devices(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "reference", "distant"};
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
        char *device = strdup(devices[d]);
        on_ranks("threads", RANKS, run_rank, device);
        free(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices)};
    return cmocka_run_group_tests_name("fetched", tests, NULL, NULL);
}
