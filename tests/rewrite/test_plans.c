/* Tests of plans before anything runs: planned memory, the number of transfers, and whether the
 * meshes of the tests use every transfer operator. */
#include "graph_fixture.h"

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
    weft_value loss = weft_rewritten_value(p.mine, PORT(p.n.values, LOSS));
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

/* A dry program has the same memory sizes as the program that runs, also with buffers in which
 * transfers are packed and with a slot for every micro-batch under way. */
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

/* Some mesh of some model needs each transfer operator, so the tests cover all of them. */
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
                    for (int op = 0; built_in(WEFT_KIND_OPERATOR, op); op++)
                        if (strcmp(built_in(WEFT_KIND_OPERATOR, op), weft_graph_node_op(g, k)) == 0)
                            met[op] = true;
                weft_rewritten_destroy(&mine);
            }
            weft_plan_destroy(&plan);
            net_drop(&n);
        }
    for (int op = 0; built_in(WEFT_KIND_OPERATOR, op); op++)
        if (weft_operator_is_transfer(fresh_context(), built_in(WEFT_KIND_OPERATOR, op)) &&
            !met[op])
            fail_msg("no mesh of these tests needs %s", built_in(WEFT_KIND_OPERATOR, op));
}

/* The part of an input that a rank has ends within the whole, on every mesh and at every stage. */
static void test_inputs_are_parts_of_the_whole(void **state)
{
    (void)state;
    int inputs = 0;
    for (size_t m = 0; m < MODELS; m++)
        for (int i = 0; i < MESHES; i++) {
            setting s = {.model = &models[m],
                         .mesh = &suite_meshes[i],
                         .real = WEFT_F32,
                         .microbatches = 1,
                         .optimizer = "sgd"};
            net n = {0};
            weft_plan *plan;
            weft_rewritten *mine;
            if (!net_fits(&s, &suite_meshes[i], 0) || suite_meshes[i].ranks > 4) continue;
            weft_plan_options o = net_plan_options(&s);
            assert_ok(net_build(&n, &s));
            assert_ok(weft_plan_create(n.graph, &o, &plan));
            for (int r = 0; r < o.ranks; r++) {
                assert_ok(weft_plan_rewrite(plan, n.graph, r, &mine));
                const weft_graph *g = weft_rewritten_graph(mine);
                for (weft_value v = 0; v < weft_graph_value_count(g); v++) {
                    weft_shape whole;
                    int64_t start[WEFT_MAX_RANK];
                    weft_type type = weft_graph_value_type(g, v);
                    if (weft_graph_value_kind(g, v) != WEFT_VALUE_INPUT) continue;
                    weft_graph_part(g, v, &whole, start);
                    for (int d = 0; d < whole.rank; d++, inputs++)
                        if (start[d] + type.shape.dim[d] > whole.dim[d])
                            fail_msg("%s on %s, rank %d: '%s' begins at %lld of dimension %d",
                                     models[m].model, suite_meshes[i].mesh, r,
                                     weft_graph_value_name(g, v), (long long)start[d], d);
                }
                weft_rewritten_destroy(&mine);
            }
            weft_plan_destroy(&plan);
            net_drop(&n);
        }
    assert_true(inputs > 0);
}

/* The share of a rank in the virtual workers consists of more subtrees of the tree sum than a node
 * can have outputs; the rewrite refuses that. The share of rank 1 of 3 begins and ends off every
 * large subtree, so its stack of sums is as deep as stacks become. */
static void test_too_many_subtrees(void **state)
{
    (void)state;
    static const struct {
        const char *mesh;
        int ranks, workers;
        const char *words;
    } cases[] = {
        {"data=44", 44, 44 * 1405, "61820 virtual workers on 44 ranks"},
        {"data=3", 3, 36867, "36867 virtual workers on 3 ranks: those of rank 1 take 26 sums"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mesh_case mesh = {cases[i].mesh, cases[i].ranks, 0, NULL, NULL};
        setting s = net_setting(&dense_case, &mesh);
        net n = {0};
        weft_plan *plan;
        weft_rewritten *mine;
        model_case wide = dense_case;
        wide.batch = mesh.ranks;
        s.model = &wide;
        weft_plan_options o = net_plan_options(&s);
        assert_ok(net_build(&n, &s));
        o.virtual_workers = cases[i].workers;
        assert_ok(weft_plan_create(n.graph, &o, &plan));
        for (int r = 0; r < mesh.ranks; r += mesh.ranks - 1)
            assert_refused(weft_plan_rewrite(plan, n.graph, r, &mine), WEFT_ERR_UNSUPPORTED,
                           cases[i].words);
        weft_plan_destroy(&plan);
        net_drop(&n);
    }
}

/* Counts the nodes of a rank's graph with this operator and this peer; peer -1: any. */
static int count_nodes(const setting *s, int rank, const char *op, int peer)
{
    net n = {0};
    weft_plan *plan;
    weft_rewritten *mine;
    int count = 0;
    weft_plan_options o = net_plan_options(s);
    assert_ok(net_build(&n, s));
    assert_ok(weft_plan_create(n.graph, &o, &plan));
    assert_ok(weft_plan_rewrite(plan, n.graph, rank, &mine));
    const weft_graph *g = weft_rewritten_graph(mine);
    for (int k = 0; k < weft_graph_node_count(g); k++) {
        const int64_t *to;
        if (strcmp(op, weft_graph_node_op(g, k)) != 0) continue;
        count += peer < 0 || (weft_graph_node_ints(g, k, "peer", &to) == 1 && to[0] == peer);
    }
    weft_rewritten_destroy(&mine);
    weft_plan_destroy(&plan);
    net_drop(&n);
    return count;
}

/* The halo rows of a value are exchanged once for all layers with equal windows, and once more for
 * each different window. */
static void test_rows_come_once(void **state)
{
    (void)state;
    static const struct {
        const char *second;
        int more; /* further halo nodes, forward and backward */
    } cases[] = {{"conv, filters: 4, kernel: 3, padding: 1", 0},
                 {"maxpool, kernel: 3, stride: 1, padding: 1", 0},
                 {"conv, filters: 4, kernel: 5, padding: 2", 2}};
    const mesh_case mesh = {"domain=2", 2, 0, NULL, NULL};
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            char yaml[600];
            int halos[2];
            for (int both = 0; both < 2; both++) {
                (void)snprintf(yaml, sizeof(yaml),
                               "layers:\n"
                               "  - {type: conv, name: top, filters: 4, kernel: 1}\n"
                               "  - {type: conv, name: a, from: top, filters: 4, kernel: 3, "
                               "padding: 1}\n"
                               "  - {name: b, from: top, type: %s}\n"
                               "  - {type: add, from: 'a, b'}\n"
                               "  - {type: dense, units: classes}\n",
                               both ? cases[i].second : "relu");
                const model_case m = {"rows",     yaml,      .sample = {4, 12, 9},
                                      .batch = 8, .rank = 3, .lr = 0.01};
                setting s = net_setting(&m, &mesh);
                s.device = device ? "cpu" : "reference";
                halos[both] = count_nodes(&s, 0, "halo", -1);
            }
            assert_true(halos[0] > 0);
            assert_int_equal(halos[1], halos[0] + cases[i].more);
        }
}

/* A pipeline is not cut between the statistics of a batch norm and the node that reads them. So in
 * a chain of layers each stage sends one tensor to the next. */
static void test_stages_hand_on_one_tensor(void **state)
{
    (void)state;
    static const char yaml[] = "layers:\n  - {type: conv, filters: 6, kernel: 3, padding: 1}\n"
                               "  - {type: batch_norm}\n  - {type: relu}\n"
                               "  - {type: conv, filters: 3, kernel: 1}\n  - {type: batch_norm}\n"
                               "  - {type: relu}\n  - {type: batch_norm}\n"
                               "  - {type: dense, units: 7}\n  - {type: batch_norm}\n"
                               "  - {type: dense, units: classes}\n";
    const model_case m = {"chain", yaml, .sample = {2, 9, 8}, .batch = 8, .rank = 3, .lr = 0.01};
    for (int stages = 2; stages <= 9; stages++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "pipeline=%d", stages);
        const mesh_case mesh = {text, stages, 0, NULL, NULL};
        setting s = net_setting(&m, &mesh);
        for (int r = 0; r + 1 < stages; r++) assert_int_equal(count_nodes(&s, r, "send", r + 1), 1);
    }
}

/* A graph of the user's own whose accumulate has no input that counts the micro-batches. */
static weft_value sums_by_itself(weft_graph *g, weft_value x)
{
    weft_shape whole = weft_graph_value_type(g, x).shape, out = {2, {whole.dim[1], 5}};
    const weft_init zero = {WEFT_INIT_CONSTANT, 0};
    weft_attr one = WEFT_ATTR_REAL("value", 1);
    weft_value sum = weft_graph_leaf(g, WEFT_VALUE_STATE, "sum", WEFT_F32, &whole, zero);
    weft_value keep = weft_graph_node(g, "constant", "keep", NULL, 0, &one, 1);
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &out, zero);
    weft_graph_set_role(g, sum, WEFT_ROLE_SUM, WEFT_NO_VALUE);
    (void)weft_graph_node(g, "accumulate", "mine", (weft_value[]){sum, x, keep}, 3, NULL, 0);
    return weft_graph_node(g, "dense", "fc", (weft_value[]){x, w}, 2, NULL, 0);
}

/* A graph with an input that is no batch. */
static weft_value has_table(weft_graph *g, weft_value x)
{
    weft_shape three = weft_shape_of(1, (int64_t[]){3});
    (void)weft_graph_leaf(g, WEFT_VALUE_INPUT, "table", WEFT_F32, &three,
                          (weft_init){WEFT_INIT_CONSTANT, 0});
    return sums_by_itself(g, x);
}

static void test_graphs_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        weft_value (*build)(weft_graph *, weft_value);
        int workers;
        const char *words;
    } cases[] = {{sums_by_itself, 8, "input 2 is not an input of the graph"},
                 {has_table, 0, "mesh data=4: 'table' has 3 rows"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const mesh_case mesh = {"data=4", 4, 0, NULL, NULL};
        const model_case m = {
            "mine", .build = cases[i].build, .sample = {6}, .batch = 8, .rank = 1, .lr = 0.1};
        setting s = net_setting(&m, &mesh);
        net n = {0};
        weft_plan *plan;
        weft_rewritten *mine;
        s.workers = cases[i].workers;
        weft_plan_options o = net_plan_options(&s);
        assert_ok(net_build(&n, &s));
        assert_ok(weft_plan_create(n.graph, &o, &plan));
        assert_refused(weft_plan_rewrite(plan, n.graph, 1, &mine), WEFT_ERR_ARGUMENT,
                       cases[i].words);
        weft_plan_destroy(&plan);
        net_drop(&n);
    }
}

static void try_gather(weft_comm *world, void *user)
{
    const setting *s = user;
    prepared p;
    int spread = 0;
    rank_ok(net_prepare(&p, s, world));
    for (int i = 0; i < weft_store_count(p.store); i++) {
        weft_shape whole;
        int64_t start[WEFT_MAX_RANK];
        weft_store_part(p.store, i, &whole, start);
        void *data = malloc((size_t)weft_shape_elements(&whole) * sizeof(double));
        weft_status read = weft_store_read(p.store, i, data);
        weft_status gathered = weft_store_gather(p.store, i, NULL, NULL, 0, data);
        spread += read == WEFT_ERR_UNSUPPORTED;
        free(data);
        rank_check(read == WEFT_OK || read == WEFT_ERR_UNSUPPORTED);
        rank_check(gathered == (read == WEFT_OK ? WEFT_OK : WEFT_ERR_ARGUMENT));
        rank_check(read == WEFT_OK || strstr(weft_last_message(), "is spread over ranks"));
    }
    rank_check(spread > 0);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

/* A rank may read a tensor that it has as a whole. Reading or gathering a tensor that ZeRO has
 * sharded over ranks is refused if the call is made by one rank alone. */
static void test_what_is_spread_is_not_read_alone(void **state)
{
    (void)state;
    for (int zero = 1; zero <= 3; zero++) {
        const mesh_case mesh = {"data=2", 2, zero, NULL, NULL};
        setting s = net_setting(&dense_case, &mesh);
        s.optimizer = "adam";
        on_ranks("threads", 2, try_gather, &s);
    }
}

/* With ZeRO the ranks gather parameters alone, once (with stage 3 in forward and in backward):
 * every optimizer computes on their ranges, of whatever operators it consists. Optimizers that read
 * the rows and columns of whole matrices gather these, too. */
static void test_optimizers_compute_on_ranges(void **state)
{
    (void)state;
    const char *name;
    for (int i = 0; (name = built_in(WEFT_KIND_OPTIMIZER, i)) != NULL; i++)
        for (int zero = 1; zero <= 3; zero++) {
            const mesh_case mesh = {"data=2", 2, zero, NULL, NULL};
            setting s = net_setting(&dense_case, &mesh);
            net n = {0};
            weft_plan *plan;
            weft_rewritten *mine;
            int64_t parameters = 0, gathered = 0;
            s.optimizer = name;
            weft_plan_options o = net_plan_options(&s);
            assert_ok(net_build(&n, &s));
            assert_ok(weft_plan_create(n.graph, &o, &plan));
            assert_ok(weft_plan_rewrite(plan, n.graph, 1, &mine));
            for (weft_value v = 0; v < weft_graph_value_count(n.graph); v++) {
                weft_type type = weft_graph_value_type(n.graph, v);
                if (weft_graph_value_kind(n.graph, v) == WEFT_VALUE_PARAM)
                    parameters += weft_shape_elements(&type.shape);
            }
            const weft_graph *g = weft_rewritten_graph(mine);
            for (int k = 0; k < weft_graph_node_count(g); k++) {
                weft_value first;
                (void)weft_graph_node_outputs(g, k, &first);
                weft_type type = weft_graph_value_type(g, first);
                if (strcmp(weft_graph_node_op(g, k), "all_gather") == 0)
                    gathered += weft_shape_elements(&type.shape);
            }
            bool matrices = strcmp(name, "adafactor") == 0 || strcmp(name, "muon") == 0;
            if (!matrices && gathered > (zero == 3 ? 2 : 1) * parameters)
                fail_msg("%s with zero %d gathers %lld numbers of %lld parameters", name, zero,
                         (long long)gathered, (long long)parameters);
            weft_rewritten_destroy(&mine);
            weft_plan_destroy(&plan);
            net_drop(&n);
        }
}

static void test_sizes_of_meshes(void **state)
{
    (void)state;
    int64_t size;
    assert_ok(weft_mesh_axis("data=2,tensor=3", "tensor", &size));
    assert_int_equal(size, 3);
    assert_ok(weft_mesh_axis("data=2,tensor=3", "domain", &size));
    assert_int_equal(size, 1);
    assert_ok(weft_mesh_ranks("data=2,tensor=3", &size));
    assert_int_equal(size, 6);
    assert_refused(weft_mesh_axis("data=2", "dta", &size), WEFT_ERR_ARGUMENT,
                   "no mesh axis is named 'dta'; did you mean 'data'");
    assert_refused(weft_mesh_axis("dta=2", "data", &size), WEFT_ERR_ARGUMENT,
                   "no mesh axis is named 'dta'; did you mean 'data'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned_memory),
        cmocka_unit_test(test_every_transfer_is_met),
        cmocka_unit_test(test_inputs_are_parts_of_the_whole),
        cmocka_unit_test(test_too_many_subtrees),
        cmocka_unit_test(test_rows_come_once),
        cmocka_unit_test(test_stages_hand_on_one_tensor),
        cmocka_unit_test(test_graphs_that_do_not_fit),
        cmocka_unit_test(test_what_is_spread_is_not_read_alone),
        cmocka_unit_test(test_optimizers_compute_on_ranges),
        cmocka_unit_test(test_sizes_of_meshes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
