/* What strategies cost, against their formulas: bytes on the wire, messages, memory. */
#include "nets.h"

/* --- bytes of all ranks in a step --- */

typedef struct bytes_case {
    setting setting;
    double want;
} bytes_case;

static void count_bytes(weft_comm *world, void *user)
{
    bytes_case *b = user;
    prepared p;
    double losses[STEPS], bytes;
    rank_ok(net_prepare(&p, &b->setting, world));
    bytes = -(double)weft_comm_get_stats(world).bytes;
    rank_ok(net_train(&b->setting, &p, losses));
    bytes += (double)weft_comm_get_stats(world).bytes;
    rank_ok(weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                  .dtype = WEFT_F64,
                                                  .send = &bytes,
                                                  .receive = &bytes,
                                                  .count = 1}));
    if (bytes != STEPS * b->want)
        fprintf(stderr, "%s, zero %d: %.0f bytes a step, should be %.0f\n", b->setting.mesh->mesh,
                b->setting.mesh->zero, bytes / STEPS, b->want);
    rank_check(bytes == STEPS * b->want);
    net_unprepare(&p);
}

static setting plain_setting(const model_case *m, const mesh_case *mesh)
{
    return (setting){.model = m,
                     .mesh = mesh,
                     .device = "reference",
                     .real = WEFT_F32,
                     .microbatches = 1,
                     .optimizer = "sgd"};
}

static void expect_bytes(const model_case *m, const mesh_case *mesh, double want)
{
    bytes_case b = {plain_setting(m, mesh), want};
    on_ranks("threads", mesh->ranks, count_bytes, &b);
}

/* Sizes for which every formula is exact: gradients fill whole cache lines. */
static const char dense_net[] = "layers:\n"
                                "  - {type: dense, units: 32, bias: false}\n"
                                "  - {type: relu}\n"
                                "  - {type: dense, units: 16, bias: false}\n"
                                "  - {type: relu}\n"
                                "  - {type: dense, units: classes, bias: false}\n";
enum { W1 = 16 * 32, W2 = 32 * 16, BATCH = 8 };
static const model_case dense = {"dense",        dense_net, .sample = {16},
                                 .batch = BATCH, .rank = 1, .lr = 0.05};
static const model_case dense8 = {"dense",   dense_net,  .sample = {16}, .batch = BATCH,
                                  .rank = 1, .lr = 0.05, .classes = 8};

/* Data parallelism moves 2 (N - 1) W in all. Sharded optimiser state moves as much, as a
 * reduce-scatter and an all-gather; with sharded parameters one gather more, 3 (N - 1) W, but
 * backward does not need the first layer's weight (Rajbhandari et al. 2020). */
static void test_data_bytes(void **state)
{
    (void)state;
    const double w = 4.0 * (W1 + W2 + 16 * 5);
    for (int n = 2; n <= 8; n *= 2) {
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "data=%d", n);
        for (int zero = 0; zero <= 2; zero++)
            expect_bytes(&dense, &(mesh_case){mesh, n, zero, NULL, NULL}, 2 * (n - 1) * w);
        expect_bytes(&dense, &(mesh_case){mesh, n, 3, NULL, NULL}, (n - 1) * (3 * w - 4.0 * W1));
    }
}

/* Integrated model and batch parallelism (Gholami et al. 2018) over P_r x P_c ranks. Each of the
 * P_c columns sends what its tensor axis needs for its share of the batch, and weights, of which a
 * rank has 1 / P_r, are summed over the P_c ranks that hold the same part.
 *
 * As the rewrite splits layers by itself: columns, rows, columns. A sum of [b, 16] forward, the
 * joined logits, and a sum of [b, 16] backward.
 *
 * With every layer pinned to columns, as in the paper: every layer but the first gathers what it
 * reads, and the gradient of that is scattered where it is summed, since its reader wants a part;
 * the paper's all-reduce would send twice as much. */
static void test_integrated_bytes(void **state)
{
    (void)state;
    static const char all_columns[] =
        "dense1/weight:out=tensor,dense3/weight:out=tensor,dense5/weight:out=tensor";
    const double w = W1 + W2 + 16 * 8;
    for (int r = 1; r <= 8; r *= 2)
        for (int c = 1; r * c <= 8; c *= 2) {
            char mesh[32];
            double b = (double)BATCH / c, weights = r * 2 * (c - 1) * w / r;
            (void)snprintf(mesh, sizeof(mesh), "data=%d,tensor=%d", c, r);
            double tensor = c * b * (r - 1) * (2 * 16 + 8 + 2 * 16);
            expect_bytes(&dense8, &(mesh_case){mesh, r * c, 0, NULL, NULL}, 4 * (tensor + weights));
            tensor = c * b * (r - 1) * (32 + 16 + 8 + 32 + 16);
            expect_bytes(&dense8, &(mesh_case){mesh, r * c, 0, NULL, all_columns},
                         4 * (tensor + weights));
        }
}

/* Domain parallelism: at each border of two ranks a convolution of kernel k over c channels and w
 * columns exchanges (k - 1) c w numbers of every sample, for its result, again for its weight's
 * gradient, and for its input's gradient, which the first layer has not. The first dense layer
 * needs all rows, and weights of convolutions are summed: the costs of Gholami et al. (2018). */
static void test_halo_bytes(void **state)
{
    (void)state;
    static const char layers[] =
        "layers:\n"
        "  - {type: conv, filters: 8, kernel: 5, padding: 2, bias: false}\n"
        "  - {type: relu}\n"
        "  - {type: conv, filters: 4, kernel: 3, padding: 1, bias: false}\n"
        "  - {type: relu}\n"
        "  - {type: dense, units: classes, bias: false}\n";
    enum { B = 4, C = 2, H = 18, W = 7 };
    const model_case m = {"halo", layers, .sample = {C, H, W}, .batch = B, .rank = 3, .lr = 0.01};
    const double weights = 8 * C * 25 + 4 * 8 * 9;
    for (int n = 2; n <= 5; n++) { /* 4 and 5 do not divide the rows */
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "domain=%d", n);
        double halo = B * W * (2.0 * 4 * C + 3.0 * 2 * 8), gathered = B * 4 * H * W;
        expect_bytes(&m, &(mesh_case){mesh, n, 0, NULL, NULL},
                     4 * (n - 1) * (halo + gathered + 2 * weights));
    }
}

/* Batch norm adds up c numbers for the mean, c for the variance about it, and c each for the
 * gradients of gamma and beta, which then are the parameters' gradients as well: 4 c a layer and
 * pass. Three more numbers a pass, for all layers, count the samples over the data axis. Nothing
 * else moves, so what comes behind stays split, and it is the same over the domain axis and both.
 * With sharded optimiser state ranks gather their parts of gamma and beta once a step. */
static void expect_norm_bytes(const mesh_case *mesh, int norms, int passes)
{
    enum { C = 16, H = 8, W = 6, POOLED = C * H / 2 * W / 2 };
    char text[512] = "layers:\n  - {type: conv, filters: 16, kernel: 1, bias: false}\n";
    for (int k = 0; k < norms; k++)
        (void)strcat(text, "  - {type: batch_norm}\n  - {type: relu}\n");
    (void)strcat(text, "  - {type: maxpool}\n  - {type: dense, units: classes, bias: false}\n");
    const model_case m = {"batch_norm",   text,      .sample = {C, H, W},
                          .batch = BATCH, .rank = 3, .lr = 0.01};
    const char *data = strstr(mesh->mesh, "data="), *domain = strstr(mesh->mesh, "domain=");
    double n = mesh->ranks, d = data ? atoi(data + 5) : 1, r = domain ? atoi(domain + 7) : 1;
    /* The dense layer needs all rows of the pool. Its gradient is summed over the data axis by
     * ranks that hold it alike; from stage 2 on each pass scatters it. */
    double sums = mesh->zero >= 2 ? passes + 1 : 2;
    double head = r * sums * (d - 1) * POOLED * 5 + (r - 1) * BATCH * POOLED;
    head += sums * (n - 1) * C * C; /* the convolution's */
    double counts = norms ? r * 2 * (d - 1) * 3 : 0;
    double norm = passes * (2 * (n - 1) * 4 * C * norms + counts);
    if (mesh->zero) norm += (n - 1) * 2 * C * norms;
    bytes_case b = {plain_setting(&m, mesh), 4 * (head + norm)};
    b.setting.microbatches = passes;
    on_ranks("threads", mesh->ranks, count_bytes, &b);
}

static void test_batch_norm_bytes(void **state)
{
    (void)state;
    static const mesh_case meshes[] = {
        {"data=2", 2, 0, NULL, NULL},   {"data=4", 4, 0, NULL, NULL},
        {"data=8", 8, 0, NULL, NULL},   {"data=2", 2, 1, NULL, NULL},
        {"data=4", 4, 2, NULL, NULL},   {"domain=2", 2, 0, NULL, NULL},
        {"domain=4", 4, 0, NULL, NULL}, {"data=2,domain=2", 4, 0, NULL, NULL}};
    for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++)
        for (int norms = 0; norms <= 3; norms++)
            for (int passes = 1; passes <= (meshes[i].ranks == 8 ? 1 : 2); passes++)
                expect_norm_bytes(&meshes[i], norms, passes);
}

/* A pipeline sends each border's activation and its gradient once. */
static void test_pipeline_bytes(void **state)
{
    (void)state;
    expect_bytes(&dense, &(mesh_case){NULL, 2, 0, "dense1*=rank:0,relu2*=rank:0,*=rank:1", NULL},
                 4 * 2 * BATCH * 32);
}

/* --- Megatron (Shoeybi et al. 2019) --- */

/* Transfers of a trace, which has one event a line: an operator's, in a phase, of so many bytes. */
static int transfers(const char *trace, const char *op, const char *phase, int bytes)
{
    int count = 0;
    char name[64], in[64], size[32];
    (void)snprintf(name, sizeof(name), "\"name\":\"%s ", op);
    (void)snprintf(in, sizeof(in), "\"phase\":\"%s\"", phase);
    (void)snprintf(size, sizeof(size), "\"bytes\":%d,", bytes);
    for (const char *line = trace; line; line = strchr(line + 1, '\n')) {
        char copy[512];
        (void)snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
        count += strstr(copy, name) && strstr(copy, in) && strstr(copy, size) &&
                 strstr(copy, "\"cat\":\"transfer\"");
    }
    return count;
}

static void count_sums(weft_comm *world, void *user)
{
    const setting *s = user;
    prepared p;
    char *trace;
    rank_ok(net_prepare(&p, s, world));
    rank_ok(weft_program_trace(p.program, 10000));
    rank_ok(weft_program_run(p.program, WEFT_PHASE_MICRO));
    rank_ok(weft_program_run(p.program, WEFT_PHASE_UPDATE));
    rank_ok(weft_program_trace_events(p.program, weft_comm_rank(world), -1, &trace));
    const int bytes = 2 * 4 * 8 * SEQUENCE * WIDTH; /* reads and writes [batch, tokens, width] */
    rank_check(transfers(trace, "all_reduce", "forward", bytes) == 2);
    rank_check(transfers(trace, "all_reduce", "backward", bytes) == 2);
    weft_free(trace);
    net_unprepare(&p);
}

/* A transformer block split over heads and hidden units adds up activations twice forward and twice
 * backward,
 * as read from the trace. */
static void test_transformer_block(void **state)
{
    (void)state;
    const model_case block = {
        "transformer", .build = transformer, .sample = {SEQUENCE, WIDTH}, .batch = 8, .rank = 2,
        .lr = 0.02};
    for (int n = 2; n <= HEADS; n *= 2) {
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "tensor=%d", n);
        const mesh_case c = {mesh, n, 0, NULL, NULL};
        setting s = plain_setting(&block, &c);
        on_ranks("threads", n, count_sums, &s);
    }
}

/* --- memory --- */

typedef struct memory_case {
    setting setting;
    weft_program_info info[WEFT_MAX_RANKS];
} memory_case;

static void describe_rank(weft_comm *world, void *user)
{
    memory_case *c = user;
    prepared p;
    rank_ok(net_prepare(&p, &c->setting, world));
    c->info[weft_comm_rank(world)] = weft_program_describe(p.program);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

static void measure(memory_case *c)
{
    on_ranks("threads", c->setting.mesh->ranks, describe_rank, c);
}

/* Adam in single precision has 16 bytes for each parameter: itself, its gradient and two moments.
 * Of n ranks, stage 1 splits the moments, stage 2 the gradient as well, stage 3 the parameter too;
 * the tensor axis splits all of it (Rajbhandari et al. 2020). */
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
            memory_case m = {.setting = plain_setting(&dense8, &c)};
            m.setting.optimizer = "adam";
            measure(&m);
            for (int r = 0; r < n; r++) {
                assert_int_equal(m.info[r].parameter_bytes, 4 * (zero >= 3 ? part : w));
                assert_int_equal(m.info[r].gradient_bytes, 4 * (zero >= 2 ? part : w));
                /* the counts of steps, the run's and the moments', are states, too */
                assert_in_range(m.info[r].state_bytes, 8 * (zero >= 1 ? part : w),
                                8 * (zero >= 1 ? part : w) + 2 * 64);
            }
        }
}

/* A rank's program as it is planned; nothing of it is run. */
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

static double activations(const setting *s, int rank)
{
    weft_program_info info = planned(s, rank);
    return (double)(info.arena_bytes + info.slot_bytes);
}

/* Ranges lie in the order in which the first kernel that reads a weight wants it, so gathering it
 * leaves nothing to turn, and neither does cutting its gradient: as many reorders as without. (A
 * layout with padding has no such order; here the channels fill their blocks.) */
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
        setting s = plain_setting(&m, &c);
        s.device = "cpu";
        weft_program_info info = planned(&s, 0);
        print_message("zero %d: %d reorders\n", zero, info.reorders);
        if (zero == 0) without = info.reorders;
        assert_int_equal(info.reorders, without);
    }
}

/* Of n ranks each has 1/n of the rows. Beside them stand, for a moment, the largest gradient of a
 * part with the rows of its neighbours and without (the second convolution's), and two rows of what
 * each convolution reads. */
static void test_domain_memory(void **state)
{
    (void)state;
    enum { B = 4, SIDE = 224 };
    const model_case m = {"vgg11",   .sample = {3, SIDE, SIDE}, .batch = B, .rank = 3, .f32 = true,
                          .lr = 0.01};
    static const int reads[][2] = {{3, 224},  {64, 112}, {128, 56}, {256, 56}, {256, 28},
                                   {512, 28}, {512, 14}, {512, 14}}; /* channels, width */
    const mesh_case one = {"data=1", 1, 0, NULL, NULL};
    setting s = plain_setting(&m, &one);
    s.device = "cpu";
    double whole = activations(&s, 0);
    for (int n = 2; n <= 4; n *= 2) {
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "domain=%d", n);
        const mesh_case c = {mesh, n, 0, NULL, NULL};
        s.mesh = &c;
        double beside = 2 * 4.0 * B * 64 * (SIDE / 2 / n + 2) * SIDE / 2;
        for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++)
            beside += 4.0 * B * 2 * reads[i][0] * reads[i][1];
        for (int r = 0; r < n; r++) {
            double part = activations(&s, r);
            print_message("vgg11 of %d, domain=%d, rank %d: %.1f of %.1f MB, %.3f of it\n", SIDE, n,
                          r, part / 1e6, whole / 1e6, part / whole);
            assert_true(part >= whole / n);
            assert_true(part <= whole / n + beside);
        }
    }
}

/* Recomputation keeps what crosses the borders of about sqrt(n) segments, and one segment at a time
 * (Chen et al. 2016): of n equal layers about 2 sqrt(n) instead of n. */
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
    setting s = plain_setting(&m, &one);
    const double layer = 4.0 * B * C * SIDE * SIDE;
    double full = activations(&s, 0) / layer;
    s.recompute = true;
    double again = activations(&s, 0) / layer;
    print_message("%d layers: %.1f of them kept, %.1f with recomputation\n", LAYERS, full, again);
    assert_true(full >= LAYERS);
    /* the borders, a segment, and the two that backward works on */
    assert_true(again <= 4 + 4 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_bytes),       cmocka_unit_test(test_integrated_bytes),
        cmocka_unit_test(test_halo_bytes),       cmocka_unit_test(test_batch_norm_bytes),
        cmocka_unit_test(test_pipeline_bytes),   cmocka_unit_test(test_transformer_block),
        cmocka_unit_test(test_parameter_memory), cmocka_unit_test(test_reorders_of_ranges),
        cmocka_unit_test(test_domain_memory),    cmocka_unit_test(test_recompute_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
