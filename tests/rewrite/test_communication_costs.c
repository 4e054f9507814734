/* Communication costs of parallel strategies against formulas of papers: bytes on the wire, and
 * all-reduces. */
#include "graph_fixture.h"

/* --- bytes that all ranks send in a step --- */

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

static void expect_bytes(const model_case *m, const mesh_case *mesh, double want)
{
    bytes_case b = {net_setting(m, mesh), want};
    on_ranks("threads", mesh->ranks, count_bytes, &b);
}

/* Data parallelism with N ranks and weights of W bytes sends 2 (N - 1) W bytes in all. The ZeRO
 * stages 1 and 2 send as much, as a reduce-scatter and an all-gather. Stage 3 has one gather more,
 * 3 (N - 1) W bytes, but backward does not need the first layer's weight (Rajbhandari et al.
 * 2020). */
static void test_data_bytes(void **state)
{
    (void)state;
    const double w = 4.0 * (W1 + W2 + 16 * 5);
    for (int n = 2; n <= 8; n *= 2) {
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "data=%d", n);
        for (int zero = 0; zero <= 2; zero++)
            expect_bytes(&dense_case, &(mesh_case){mesh, n, zero, NULL, NULL}, 2 * (n - 1) * w);
        expect_bytes(&dense_case, &(mesh_case){mesh, n, 3, NULL, NULL},
                     (n - 1) * (3 * w - 4.0 * W1));
    }
}

/* The sum of N ranks in bf16 (weft_plan_options.bf16_sums) sends half of these bytes, and ZeRO half
 * of its reduce-scatter. */
static void test_data_bytes_in_bf16(void **state)
{
    (void)state;
    const double w = 4.0 * (W1 + W2 + 16 * 8), share[] = {1, 1.5, 1.5, 2.5};
    for (int n = 2; n <= 8; n *= 2)
        for (int zero = 0; zero <= 3; zero++) {
            char mesh[32];
            (void)snprintf(mesh, sizeof(mesh), "data=%d", n);
            const mesh_case c = {mesh, n, zero, NULL, NULL};
            double again = zero == 3 ? 4.0 * W1 : 0;
            bytes_case b = {net_setting(&dense8_case, &c), (n - 1) * (share[zero] * w - again)};
            b.setting.bf16_sums = true;
            on_ranks("threads", n, count_bytes, &b);
        }
}

/* Integrated model and batch parallelism (Gholami et al. 2018) over P_r x P_c ranks. Each of the
 * P_c columns sends what its tensor axis needs for its share of the batch. A rank has 1 / P_r of
 * the weights, whose gradients are summed over the P_c ranks that hold the same part.
 *
 * The rewrite by itself splits the layers by columns, rows, columns. That needs a sum of [b, 16]
 * forward, the gathered logits, and a sum of [b, 16] backward.
 *
 * With every layer pinned to columns, as in the paper, every layer but the first gathers its input.
 * The gradient of that input is reduce-scattered, since its reader wants a part; the paper's
 * all-reduce would send twice as much. */
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
            expect_bytes(&dense8_case, &(mesh_case){mesh, r * c, 0, NULL, NULL},
                         4 * (tensor + weights));
            tensor = c * b * (r - 1) * (32 + 16 + 8 + 32 + 16);
            expect_bytes(&dense8_case, &(mesh_case){mesh, r * c, 0, NULL, all_columns},
                         4 * (tensor + weights));
        }
}

/* Domain parallelism (Gholami et al. 2018): at each border between two ranks a convolution of
 * kernel k over c channels and w columns exchanges (k - 1) c w numbers of every sample. The
 * exchange is made for its result, for its weight's gradient, and for its input's gradient, which
 * the first layer does not have. The first dense layer gathers all rows, and the weight gradients
 * of convolutions are summed. */
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

/* A batch norm over c channels sums c numbers for the mean, c for the variance, and c each for the
 * gradients of gamma and beta, which are the parameters' gradients as well: 4 c for each layer and
 * pass. Three more numbers for each pass, for all layers together, count the samples over the data
 * axis. Nothing else is sent, so later layers stay split, over the domain axis as over the data
 * axis. With ZeRO, ranks also gather their parts of gamma and beta once a step. */
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
    /* The dense layer gathers all rows of the pool. Its weight's gradient is summed over the ranks
     * of the data axis; from stage 2 on each pass reduce-scatters it. */
    double sums = mesh->zero >= 2 ? passes + 1 : 2;
    double head = r * sums * (d - 1) * POOLED * 5 + (r - 1) * BATCH * POOLED;
    head += sums * (n - 1) * C * C; /* the convolution's weight gradient */
    double counts = norms ? r * 2 * (d - 1) * 3 : 0;
    double norm = passes * (2 * (n - 1) * 4 * C * norms + counts);
    if (mesh->zero) norm += (n - 1) * 2 * C * norms;
    bytes_case b = {net_setting(&m, mesh), 4 * (head + norm)};
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

/* A pipeline sends the activation and its gradient once across each border of stages. */
static void test_pipeline_bytes(void **state)
{
    (void)state;
    expect_bytes(&dense_case,
                 &(mesh_case){NULL, 2, 0, "dense1*=rank:0,relu2*=rank:0,*=rank:1", NULL},
                 4 * 2 * BATCH * 32);
}

/* --- Megatron (Shoeybi et al. 2019) --- */

/* Counts the transfers of operator `op` with so many bytes in a phase of a trace, which has one
 * event a line. */
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
    rank_ok(weft_instance_trace(p.program, 10000));
    rank_ok(weft_instance_run(p.program, WEFT_PHASE_MICRO));
    rank_ok(weft_instance_run(p.program, WEFT_PHASE_UPDATE));
    rank_ok(weft_instance_trace_events(p.program, weft_comm_rank(world), -1, &trace));
    const int bytes = 2 * 4 * 8 * SEQUENCE * WIDTH; /* one all-reduce reads and writes */
    rank_check(transfers(trace, "all_reduce", "forward", bytes) == 2);
    rank_check(transfers(trace, "all_reduce", "backward", bytes) == 2);
    weft_free(trace);
    net_unprepare(&p);
}

/* A transformer block that is split over heads and hidden units has two all-reduces of activations
 * forward and two backward, as its trace shows. */
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
        setting s = net_setting(&block, &c);
        on_ranks("threads", n, count_sums, &s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_bytes),        cmocka_unit_test(test_data_bytes_in_bf16),
        cmocka_unit_test(test_integrated_bytes),  cmocka_unit_test(test_halo_bytes),
        cmocka_unit_test(test_batch_norm_bytes),  cmocka_unit_test(test_pipeline_bytes),
        cmocka_unit_test(test_transformer_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
