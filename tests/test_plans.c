/* What a plan says before anything runs, and whether the meshes of the suite ask all of it. */
#include "nets.h"

static bool same_bytes(const weft_program_info *a, const weft_program_info *b)
{
    return a->arena_bytes == b->arena_bytes && a->gradient_bytes == b->gradient_bytes &&
           a->slot_bytes == b->slot_bytes && a->scratch_bytes == b->scratch_bytes &&
           a->parameter_bytes == b->parameter_bytes && a->state_bytes == b->state_bytes &&
           a->transfer_bytes == b->transfer_bytes;
}

static _Atomic size_t most_staged;

static void rank_memory(weft_comm *world, void *user)
{
    const setting *s = user;
    prepared p;
    weft_program *dry;
    weft_store *store;
    weft_program_options o;
    rank_ok(net_prepare(&p, s, world));
    weft_program_options_init(&o);
    o.dry = true;
    weft_value loss = weft_rewritten_value(p.mine, p.n.values.loss);
    o.fetch = &loss;
    o.fetch_count = loss != WEFT_NO_VALUE;
    if (s->schedule) o.slots = p.schedule.slots;
    rank_ok(weft_store_create(p.n.context, s->device, 5, &store));
    rank_ok(weft_program_create_with(store, weft_rewritten_graph(p.mine), &o, &dry));
    weft_program_info plan = weft_program_describe(dry),
                      run = weft_program_describe(weft_instance_program(p.program));
    rank_check(same_bytes(&plan, &run));
    if (run.transfer_bytes > atomic_load(&most_staged))
        atomic_store(&most_staged, run.transfer_bytes);
    weft_program_destroy(&dry);
    weft_store_destroy(&store);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

/* What a plan says is needed is what a run has, also where parts are packed to be sent, for every
 * micro-batch under way. */
static void test_planned_memory(void **state)
{
    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (int i = 0; i < MESHES; i++) {
            setting s = {.model = &models[m],
                         .mesh = &suite_meshes[i],
                         .device = i % 2 ? "cpu" : "reference",
                         .real = WEFT_F32,
                         .microbatches = models[m].batch % 2 ? 3 : 2,
                         .optimizer = "sgd",
                         .schedule = "gpipe"};
            if (!net_fits(&s, &suite_meshes[i], 0) || suite_meshes[i].ranks > 4) continue;
            on_ranks("threads", suite_meshes[i].ranks, rank_memory, &s);
        }
    assert_true(atomic_load(&most_staged) > 0);
}

/* Every operator that moves values is met by some mesh of some model. */
static void test_every_transfer_is_met(void **state)
{
    (void)state;
    bool met[256] = {false};
    for (size_t m = 0; m < 3; m++)
        for (int i = 0; i < MESHES; i++) {
            setting s = {.model = &models[m],
                         .mesh = &suite_meshes[i],
                         .real = WEFT_F32,
                         .microbatches = 1,
                         .optimizer = "sgd"};
            net n = {0};
            weft_plan *plan;
            weft_rewritten *mine;
            if (!net_fits(&s, &suite_meshes[i], 0)) continue;
            weft_plan_options o = net_plan_options(&s);
            assert_ok(net_build(&n, &s));
            assert_ok(weft_plan_create(n.graph, &o, &plan));
            for (int r = 0; r < o.ranks; r++) {
                assert_ok(weft_plan_rewrite(plan, n.graph, r, &mine));
                const weft_graph *g = weft_rewritten_graph(mine);
                for (int k = 0; k < weft_graph_node_count(g); k++)
                    for (int op = 0; weft_operator_name(op); op++)
                        if (strcmp(weft_operator_name(op), weft_graph_node_op(g, k)) == 0)
                            met[op] = true;
                weft_rewritten_destroy(&mine);
            }
            weft_plan_destroy(&plan);
            net_drop(&n);
        }
    for (int op = 0; weft_operator_name(op); op++)
        if (weft_operator_is_transfer(op) && !met[op])
            fail_msg("no mesh of these tests needs %s", weft_operator_name(op));
}

/* Shares of workers that fall into more subtrees than a node has results. */
static void test_too_many_subtrees(void **state)
{
    (void)state;
    setting s = net_setting(&dense_case, &(mesh_case){"data=44", 44, 0, NULL, NULL});
    net n = {0};
    weft_plan *plan;
    weft_rewritten *mine;
    model_case wide = dense_case;
    wide.batch = 44;
    s.model = &wide;
    weft_plan_options o = net_plan_options(&s);
    assert_ok(net_build(&n, &s));
    o.virtual_workers = 44 * 1405;
    assert_ok(weft_plan_create(n.graph, &o, &plan));
    for (int r = 0; r < 44; r += 43)
        assert_refused(weft_plan_rewrite(plan, n.graph, r, &mine), WEFT_ERR_UNSUPPORTED,
                       "61820 virtual workers on 44 ranks");
    weft_plan_destroy(&plan);
    net_drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned_memory),
        cmocka_unit_test(test_every_transfer_is_met),
        cmocka_unit_test(test_too_many_subtrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
