/* ZeRO stages and sizes of gradient buckets must leave the same parameters, bit for bit. */
#include "graph_fixture.h"

typedef struct equal_case {
    setting setting;
    result kept; /* all parameters, gathered on rank 0 */
} equal_case;

/* Gathers whole parameters on rank 0 from the parts of all ranks, in the order of the graph. */
static void collect(weft_comm *world, weft_store *store, weft_comm *data_axis, const net *n,
                    result *out)
{
    for (weft_value v = 0; v < weft_graph_value_count(n->graph); v++) {
        weft_type type = weft_graph_value_type(n->graph, v);
        if (weft_graph_value_kind(n->graph, v) != WEFT_VALUE_PARAM) continue;
        int64_t count = weft_shape_elements(&type.shape), start[WEFT_MAX_RANK];
        float *whole = calloc((size_t)count, sizeof(float)), *sums = calloc((size_t)count, 4);
        float *times = calloc((size_t)count, 4);
        int e = weft_store_find(store, weft_graph_value_name(n->graph, v));
        if (e >= 0) {
            weft_type part = weft_store_type(store, e);
            weft_shape all;
            int64_t index[WEFT_MAX_RANK] = {0};
            float *mine = malloc(weft_type_bytes(&part));
            rank_ok(net_gather(store, e, data_axis, mine));
            weft_store_part(store, e, &all, start);
            for (int64_t k = 0; k < weft_shape_elements(&part.shape); k++) {
                int64_t place = 0;
                for (int d = 0; d < all.rank; d++) place = place * all.dim[d] + start[d] + index[d];
                whole[place] = mine[k];
                times[place] = 1;
                for (int d = all.rank; d-- > 0 && ++index[d] == part.shape.dim[d];) index[d] = 0;
            }
            free(mine);
        }
        /* Several ranks may hold copies of an element, which are equal. Their number is a power of
         * two, so dividing the sum by it is exact. */
        rank_ok(weft_comm_run(
            world, &(weft_transfer){
                       .kind = WEFT_ALL_REDUCE, .send = whole, .receive = sums, .count = count}));
        rank_ok(weft_comm_run(
            world, &(weft_transfer){
                       .kind = WEFT_ALL_REDUCE, .send = times, .receive = times, .count = count}));
        for (int64_t k = 0; k < count; k++) sums[k] /= times[k];
        if (weft_comm_rank(world) == 0) {
            out->names[out->count] = strdup(weft_graph_value_name(n->graph, v));
            out->shapes[out->count] = type.shape;
            out->data[out->count++] = sums;
        } else {
            free(sums);
        }
        free(whole);
        free(times);
    }
}

static void rank_parameters(weft_comm *world, void *user)
{
    equal_case *t = user;
    prepared p;
    double losses[STEPS];
    rank_ok(net_prepare(&p, &t->setting, world));
    rank_ok(net_train(&t->setting, &p, losses));
    collect(world, p.store, p.comms.axes[1], &p.n, &t->kept);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

static void same_bits(const setting *common, mesh_case a, mesh_case b, size_t bucket)
{
    const model_case *m = common->model;
    equal_case twins[2] = {{.setting = *common}, {.setting = *common}};
    twins[0].setting.mesh = &a;
    twins[1].setting.mesh = &b;
    twins[1].setting.bucket_bytes = bucket;
    for (int t = 0; t < 2; t++)
        on_ranks("threads", twins[t].setting.mesh->ranks, rank_parameters, &twins[t]);
    assert_int_equal(twins[0].kept.count, twins[1].kept.count);
    for (int i = 0; i < twins[0].kept.count; i++) {
        const result *x = &twins[0].kept, *y = &twins[1].kept;
        assert_string_equal(x->names[i], y->names[i]);
        size_t bytes = (size_t)weft_shape_elements(&x->shapes[i]) * sizeof(float);
        if (memcmp(x->data[i], y->data[i], bytes) != 0)
            fail_msg(
                "%s on %s: %s differs between %s and %s, zero %d, clip %g, messages of %zu bytes",
                m->model, common->device, x->names[i], a.mesh, b.mesh, b.zero, common->clip,
                bucket);
    }
    for (int t = 0; t < 2; t++) result_free(&twins[t].kept);
}

/* The ZeRO stages 1 to 3 leave the bits of plain data parallelism, on both devices, with and
 * without clipping. */
static void test_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (int how = 0; how < 4; how++)
            for (int zero = 1; zero <= 3; zero++) {
                setting s = {.model = &models[m],
                             .device = how & 1 ? "cpu" : "reference",
                             .real = WEFT_F32,
                             .microbatches = 1,
                             .optimizer = "adam",
                             .clip = how & 2 ? 0.1 : 0};
                same_bits(&s, (mesh_case){"data=4", 4, 0, NULL, NULL},
                          (mesh_case){"data=4", 4, zero, NULL, NULL}, 0);
            }
}

/* Seven convolutions with biases and a dense layer without one: 15 parameters, so that gradient
 * buckets end between any two of them. */
static weft_value many_layers(weft_graph *g, weft_value x)
{
    enum { LAYERS = 7, WIDTH_OF_ALL = 11 };
    static const weft_attr padding = WEFT_ATTR_PAIR("padding", 1, 1);
    weft_shape image = weft_graph_value_type(g, x).shape;
    char name[32];
    for (int i = 0; i < LAYERS; i++) {
        weft_shape w = {4, {WIDTH_OF_ALL, i ? WIDTH_OF_ALL : image.dim[1], 3, 3}};
        weft_shape b = {1, {WIDTH_OF_ALL}};
        weft_init some = {WEFT_INIT_UNIFORM, 0.1};
        (void)snprintf(name, sizeof(name), "conv%d/weight", i);
        weft_value in[] = {
            x, weft_graph_leaf(g, WEFT_VALUE_PARAM, name, weft_graph_real(g), &w, some)};
        x = weft_graph_node(g, "conv", name, in, 2, &padding, 1);
        (void)snprintf(name, sizeof(name), "conv%d/bias", i);
        weft_value shift[] = {
            x, weft_graph_leaf(g, WEFT_VALUE_PARAM, name, weft_graph_real(g), &b, some)};
        x = weft_graph_node(g, "bias", name, shift, 2, NULL, 0);
        x = weft_graph_node(g, "relu", name, &x, 1, NULL, 0);
    }
    weft_shape last = {2, {WIDTH_OF_ALL * image.dim[2] * image.dim[3], 5}};
    weft_attr flat = WEFT_ATTR_PAIR("shape", image.dim[0], last.dim[0]);
    x = weft_graph_node(g, "reshape", "flatten", &x, 1, &flat, 1);
    weft_value in[] = {x, weft_graph_leaf(g, WEFT_VALUE_PARAM, "fc/weight", weft_graph_real(g),
                                          &last, (weft_init){WEFT_INIT_UNIFORM, 0.05})};
    return weft_graph_node(g, "dense", "fc", in, 2, NULL, 0);
}

/* The size of gradient buckets changes no bit of the parameters. */
static void test_messages_of_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 1000, 4400, 9000, 30000};
    const model_case many = {.model = "many",
                             .build = many_layers,
                             .sample = {3, 6, 6},
                             .batch = 8,
                             .rank = 3,
                             .lr = 0.02};
    const model_case *cases[] = {&models[0], &models[1], &many};
    for (size_t m = 0; m < 3; m++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (int zero = 0; zero <= 3; zero++) {
                if (getenv("WEFT_FAST") && (zero == 1 || i % 2)) continue;
                setting s = {.model = cases[m],
                             .device = "cpu",
                             .real = WEFT_F32,
                             .microbatches = 1,
                             .optimizer = "sgd"};
                same_bits(&s, (mesh_case){"data=2", 2, 0, NULL, NULL},
                          (mesh_case){"data=2", 2, zero, NULL, NULL}, sizes[i]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_messages_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
