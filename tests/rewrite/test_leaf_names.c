/* Names of leaves have no meaning. A model whose leaves are named like state that training adds
 * (its step, moments, sums) gives the same bits as a model with other names. */
#include "graph_fixture.h"

enum { LEAVES = 7, INSIDE = 11 };

static const char *const plain[LEAVES] = {"a", "b", "c", "d", "e", "f", "g"};
static const char *const reserved[][LEAVES] = {
    {"step", "keep", "moments/age", "w", "w/m", "w/v", "w/m_"},
    {"w", "w/momentum", "w/gradient_sum", "keep", "learning_rate", "w/gradient_sum/workers0",
     "step"},
    {"keep/workers0", "keep/workers1", "step/next", "gradient_sum", "m", "velocity", "keep"},
};
static const char *const *names; /* names of the leaves of the model that is built */

static weft_value leaf(weft_graph *g, int i, weft_value_kind kind, int rank, int64_t a, int64_t b)
{
    weft_shape shape = weft_shape_of(rank, (int64_t[]){a, b});
    return weft_graph_leaf(g, kind, names[i], weft_graph_real(g), &shape,
                           (weft_init){WEFT_INIT_CONSTANT, 0.05 * (i + 1)});
}

static weft_value two(weft_graph *g, const char *op, weft_value a, weft_value b)
{
    return weft_graph_node(g, op, op, (weft_value[]){a, b}, 2, NULL, 0);
}

/* Three dense layers with biases; the last leaf is a running sum of the inputs. */
static weft_value build(weft_graph *g, weft_value x)
{
    int64_t in = weft_graph_value_type(g, x).shape.dim[1];
    weft_value w1 = leaf(g, 0, WEFT_VALUE_PARAM, 2, in, INSIDE);
    weft_value b1 = leaf(g, 1, WEFT_VALUE_PARAM, 1, INSIDE, 0);
    weft_value w2 = leaf(g, 2, WEFT_VALUE_PARAM, 2, INSIDE, INSIDE);
    weft_value b2 = leaf(g, 3, WEFT_VALUE_PARAM, 1, INSIDE, 0);
    weft_value w3 = leaf(g, 4, WEFT_VALUE_PARAM, 2, INSIDE, 5);
    weft_value b3 = leaf(g, 5, WEFT_VALUE_PARAM, 1, 5, 0);
    weft_value seen = leaf(g, 6, WEFT_VALUE_STATE, 1, in, 0);
    weft_attr rows = WEFT_ATTR_INT("axes", 0);
    weft_value sum = weft_graph_node(g, "reduce_sum", "sum", &x, 1, &rows, 1);
    weft_graph_assign(g, seen, two(g, "add", seen, sum));
    weft_value y = two(g, "bias", two(g, "dense", x, w1), b1);
    y = weft_graph_node(g, "tanh", "tanh", &y, 1, NULL, 0);
    y = two(g, "bias", two(g, "dense", y, w2), b2);
    return two(g, "bias", two(g, "dense", y, w3), b3);
}

static const model_case model = {
    .model = "names", .build = build, .sample = {6}, .batch = 12, .rank = 1, .lr = 0.05};

/* The leaves of rank 0 at the end, in the order of the graph. */
typedef struct kept {
    setting setting;
    void *data[LEAVES];
    size_t bytes[LEAVES];
    double loss;
} kept;

static void run_rank(weft_comm *world, void *user)
{
    kept *k = user;
    prepared p;
    double losses[STEPS];
    rank_ok(net_prepare(&p, &k->setting, world));
    rank_ok(net_train(&k->setting, &p, losses));
    for (int i = 0; i < LEAVES; i++) {
        int e = weft_store_find(p.store, names[i]);
        rank_check(e >= 0);
        rank_check(weft_store_role(p.store, e) ==
                   (i < 6 ? WEFT_ROLE_PARAMETER : WEFT_ROLE_STATISTIC));
        weft_type type = weft_store_type(p.store, e);
        int64_t start[WEFT_MAX_RANK];
        weft_store_part(p.store, e, &type.shape, start);
        void *data = malloc(weft_type_bytes(&type));
        rank_ok(net_gather(p.store, e, p.comms.axes[1], data));
        if (weft_comm_rank(world) == 0) {
            k->data[i] = data;
            k->bytes[i] = weft_type_bytes(&type);
            k->loss = losses[STEPS - 1];
        } else {
            free(data);
        }
    }
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

static void check(const setting *s)
{
    kept want = {.setting = *s};
    names = plain;
    on_ranks("threads", s->mesh->ranks, run_rank, &want);
    for (size_t t = 0; t < sizeof(reserved) / sizeof(reserved[0]); t++) {
        kept have = {.setting = *s};
        names = reserved[t];
        on_ranks("threads", s->mesh->ranks, run_rank, &have);
        assert_true(want.loss == have.loss);
        for (int i = 0; i < LEAVES; i++) {
            assert_int_equal(want.bytes[i], have.bytes[i]);
            if (memcmp(want.data[i], have.data[i], want.bytes[i]) != 0)
                fail_msg("%s, zero %d, %d workers, %s: '%s' is not what '%s' is", s->mesh->mesh,
                         s->mesh->zero, s->workers, s->optimizer, names[i], plain[i]);
            free(have.data[i]);
        }
    }
    for (int i = 0; i < LEAVES; i++) free(want.data[i]);
}

static void test_names_mean_nothing(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd", "adam"};
    static const mesh_case meshes[] = {{"data=1", 1, 0, NULL, NULL},
                                       {"data=2", 2, 0, NULL, NULL},
                                       {"data=2", 2, 1, NULL, NULL},
                                       {"data=2", 2, 2, NULL, NULL},
                                       {"data=2", 2, 3, NULL, NULL}};
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++)
        for (int how = 0; how < 16; how++) {
            setting s = net_setting(&model, &meshes[m]);
            s.optimizer = optimizers[how & 1];
            s.microbatches = how & 2 ? 2 : 1;
            s.recompute = how & 4;
            s.workers = how & 8 ? meshes[m].ranks * s.microbatches : 0;
            check(&s);
        }
}

/* The graph tells by roles what a state belongs to, whatever its name. */
static void test_states_have_owners(void **state)
{
    (void)state;
    mesh_case one = {"data=1", 1, 0, NULL, NULL};
    setting s = net_setting(&model, &one);
    s.optimizer = "adam";
    s.microbatches = 2;
    net n;
    names = reserved[0];
    assert_ok(net_build(&n, &s));
    int of_each[LEAVES] = {0}, of_all = 0;
    for (weft_value v = 0; v < weft_graph_value_count(n.graph); v++) {
        weft_value parameter;
        if (weft_graph_value_kind(n.graph, v) != WEFT_VALUE_STATE) continue;
        weft_role role = weft_graph_role(n.graph, v, &parameter);
        for (int i = 0; i < LEAVES; i++)
            of_each[i] += parameter == weft_graph_find(n.graph, names[i]);
        of_all += parameter == WEFT_NO_VALUE;
        assert_true(role != WEFT_ROLE_DATA && role != WEFT_ROLE_PARAMETER);
    }
    for (int i = 0; i < LEAVES - 1; i++) assert_int_equal(of_each[i], 3); /* m, v and a sum */
    assert_int_equal(of_all, 3); /* step, age, and the running sum */
    assert_int_equal(weft_graph_step(n.graph), n.optimizer.step);
    assert_int_equal(weft_graph_role(n.graph, n.optimizer.step, NULL), WEFT_ROLE_COUNTER);
    net_drop(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_mean_nothing),
        cmocka_unit_test(test_states_have_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
