/* Compares the planned memory of parallel strategies (ZeRO, tensor, domain, recomputation) and the
 * number of reorders with their formulas. */
#include "graph_fixture.h"

typedef struct memory_case {
    setting setting;
    weft_program_info info[WEFT_MAX_RANKS];
} memory_case;

static void describe_rank(weft_comm *world, void *user)
{
    memory_case *c = user;
    prepared p;
    rank_ok(net_prepare(&p, &c->setting, world));
    c->info[weft_comm_rank(world)] = weft_program_describe(weft_instance_program(p.program));
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

static void measure(memory_case *c)
{
    on_ranks("threads", c->setting.mesh->ranks, describe_rank, c);
}

/* Adam in f32 has 16 bytes for each parameter: itself, its gradient and two moments. ZeRO on n
 * ranks gives each rank 1/n of the moments in stage 1, of the gradient as well in stage 2, of the
 * parameter as well in stage 3 (Rajbhandari et al. 2020). The tensor axis splits all four. */
static void test_parameter_memory(void **state)
{
    (void)state;
    const size_t w = W1 + W2 + 16 * 8;
    for (int n = 2; n <= 8; n *= 2)
        for (int zero = 0; zero <= 4; zero++) {
            char mesh[32];
            bool tensor = zero == 4;
            size_t part = w / (size_t)n;
            (void)snprintf(mesh, sizeof(mesh), "%s=%d", tensor ? "tensor" : "data", n);
            const mesh_case c = {mesh, n, tensor ? 0 : zero, NULL, NULL};
            memory_case m = {.setting = net_setting(&dense8_case, &c)};
            m.setting.optimizer = "adam";
            measure(&m);
            for (int r = 0; r < n; r++) {
                assert_int_equal(m.info[r].parameter_bytes, 4 * (zero >= 3 ? part : w));
                assert_int_equal(m.info[r].gradient_bytes, 4 * (zero >= 2 ? part : w));
                /* without ZeRO, gradients are summed in place */
                if (zero == 0) assert_int_equal(m.info[r].transfer_bytes, 0);
                /* the state also holds two counts of steps: of the run and of Adam */
                assert_in_range(m.info[r].state_bytes, 8 * (zero >= 1 ? part : w),
                                8 * (zero >= 1 ? part : w) + 2 * 64);
            }
        }
}

/* Plans the program of one rank without allocating memory or running it. */
static weft_program_info planned(const setting *s, int rank)
{
    net n = {0};
    weft_plan *plan;
    weft_rewritten *mine;
    weft_store *store;
    weft_program *program;
    weft_program_options o;
    weft_plan_options po = net_plan_options(s);
    assert_ok(net_build(&n, s));
    assert_ok(weft_plan_create(n.graph, &po, &plan));
    assert_ok(weft_plan_rewrite(plan, n.graph, rank, &mine));
    assert_ok(weft_store_create(n.context, s->device, 5, &store));
    weft_program_options_init(&o);
    o.dry = true;
    assert_ok(weft_program_create_with(store, weft_rewritten_graph(mine), &o, &program));
    weft_program_info info = weft_program_describe(program);
    weft_program_destroy(&program);
    weft_store_destroy(&store);
    weft_rewritten_destroy(&mine);
    weft_plan_destroy(&plan);
    net_drop(&n);
    return info;
}

static double activations(const weft_program_info *info)
{
    return (double)(info->arena_bytes + info->slot_bytes);
}

/* ZeRO shards a weight in the memory layout of the first kernel that reads it. So neither gathering
 * the weight nor cutting its gradient needs a reorder, and each stage has as many reorders as no
 * ZeRO. (A layout with padding cannot be sharded so; here the channels fill their blocks.) */
static void test_reorders_of_ranges(void **state)
{
    (void)state;
    static const char layers[] = "layers:\n"
                                 "  - {type: conv, filters: 32, kernel: 3, padding: 1}\n"
                                 "  - {type: batch_norm}\n"
                                 "  - {type: relu}\n"
                                 "  - {type: conv, filters: 32, kernel: 3, padding: 1}\n"
                                 "  - {type: relu}\n"
                                 "  - {type: dense, units: 64}\n"
                                 "  - {type: relu}\n"
                                 "  - {type: dense, units: classes}\n";
    const model_case m = {"blocks",  layers,      .sample = {16, 8, 8}, .batch = 8,
                          .rank = 3, .f32 = true, .lr = 0.01,           .classes = 64};
    int without = 0;
    for (int zero = 0; zero <= 3; zero++) {
        const mesh_case c = {"data=2", 2, zero, NULL, NULL};
        setting s = net_setting(&m, &c);
        s.device = "cpu";
        weft_program_info info = planned(&s, 0);
        print_message("zero %d: %d reorders\n", zero, info.reorders);
        if (zero == 0) without = info.reorders;
        assert_int_equal(info.reorders, without);
    }
}

/* On n ranks of the domain axis, each rank has 1/n of the rows of all activations. In addition it
 * has, for a moment, the largest gradient (that of the second convolution's input) twice, with the
 * halo rows and without, and two halo rows of the input of each convolution. On some processors
 * kernels also want these in another layout, and a reordered copy of the largest weight, which is
 * not split; the reference device has one layout only. */
static void domain_memory_on(const char *device, int copies, double turned)
{
    enum { B = 4, SIDE = 224 };
    const model_case m = {"vgg11",   .sample = {3, SIDE, SIDE}, .batch = B, .rank = 3, .f32 = true,
                          .lr = 0.01};
    static const int reads[][2] = {{3, 224},  {64, 112}, {128, 56}, {256, 56}, {256, 28},
                                   {512, 28}, {512, 14}, {512, 14}}; /* channels, width */
    const mesh_case one = {"data=1", 1, 0, NULL, NULL};
    setting s = net_setting(&m, &one);
    s.device = device;
    weft_program_info info = planned(&s, 0);
    double whole = activations(&info);
    for (int n = 2; n <= 4; n *= 2) {
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "domain=%d", n);
        const mesh_case c = {mesh, n, 0, NULL, NULL};
        s.mesh = &c;
        double beside = copies * 4.0 * B * 64 * (SIDE / 2 / n + 2) * SIDE / 2 + turned;
        for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
            beside += 4.0 * B * 2 * reads[i][0] * reads[i][1];
        for (int r = 0; r < n; r++) {
            info = planned(&s, r);
            double part = activations(&info);
            print_message("vgg11 of %d on %s, domain=%d, rank %d: %.1f of %.1f MB, %.3f of it\n",
                          SIDE, device, n, r, part / 1e6, whole / 1e6, part / whole);
            assert_true(part >= whole / n);
            assert_true(part <= whole / n + beside);
        }
    }
}

static void test_domain_memory(void **state)
{
    (void)state;
    domain_memory_on("reference", 2, 0);
    domain_memory_on("cpu", 2, 4.0 * 25088 * 512);
}

/* Recomputation keeps the values between about sqrt(n) segments, and those inside of one segment at
 * a time (Chen et al. 2016): for n equal layers about 2 sqrt(n) values instead of n. */
static void test_recompute_memory(void **state)
{
    (void)state;
    enum { LAYERS = 16, B = 4, C = 8, SIDE = 32 };
    char layers[4096] = "layers:\n";
    for (int i = 0; i < LAYERS; i++)
        strcat(layers, "  - {type: conv, filters: 8, kernel: 3, padding: 1}\n  - {type: tanh}\n");
    strcat(layers, "  - {type: global_avgpool}\n  - {type: dense, units: classes}\n");
    const model_case m = {"chain",     layers,    .sample = {C, SIDE, SIDE}, .batch = B, .rank = 3,
                          .f32 = true, .lr = 0.01};
    const mesh_case one = {"data=1", 1, 0, NULL, NULL};
    setting s = net_setting(&m, &one);
    const double layer = 4.0 * B * C * SIDE * SIDE;
    weft_program_info info = planned(&s, 0);
    double full = activations(&info) / layer;
    s.recompute = true;
    info = planned(&s, 0);
    double again = activations(&info) / layer;
    print_message("%d layers: %.1f of them kept, %.1f with recomputation\n", LAYERS, full, again);
    assert_true(full >= LAYERS);
    /* 4 between segments, 4 inside of a segment, and 2 that backward works on */
    assert_true(again <= 4 + 4 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameter_memory),
        cmocka_unit_test(test_reorders_of_ranges),
        cmocka_unit_test(test_domain_memory),
        cmocka_unit_test(test_recompute_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
