/* Compares the rewritten graphs of all ranks with the graph of one rank: for every model and mesh
 * of the tables, ten training steps on rank threads must give the same losses and parameters up to
 * rounding, and then an evaluation by the same plan the same loss. */
#include <math.h>

#include "graph_fixture.h"

/* "test_rewrite mpi" under mpirun runs the meshes with as many ranks as there are processes. */
static const char *engine = "threads";
static int processes;
static int checked; /* number of meshes that were run */

/* --- the ranks of a mesh --- */

typedef struct rank_case {
    const setting *setting;
    const result *want;
    _Atomic int seen[256];
    bool exact;
} rank_case;

static void compare_part(rank_case *c, weft_store *store, int i, weft_comm *data_axis)
{
    const result *want = c->want;
    weft_type type = weft_store_type(store, i);
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0};
    int w = 0;
    if (weft_store_role(store, i) == WEFT_ROLE_SUM) return;
    while (w < want->count && strcmp(want->names[w], weft_store_name(store, i)) != 0) w++;
    rank_check(w < want->count);
    void *have = malloc(weft_type_bytes(&type));
    rank_ok(net_gather(store, i, data_axis, have));
    weft_store_part(store, i, &whole, start);
    rank_check(weft_shape_equal(&whole, &want->shapes[w]));
    double most = 1e-3, squares = 0, off = 0, difference = 0;
    for (int64_t k = 0; k < weft_shape_elements(&whole); k++) {
        double b = value_at(want->data[w], type.dtype, k);
        most = fmax(most, fabs(b));
        squares += b * b;
    }
    for (int64_t k = 0; k < weft_shape_elements(&type.shape); k++) {
        int64_t place = 0;
        for (int d = 0; d < whole.rank; d++) place = place * whole.dim[d] + start[d] + index[d];
        double a = value_at(have, type.dtype, k), b = value_at(want->data[w], type.dtype, place);
        off = fmax(off, fabs(a - b) / most);
        difference += (a - b) * (a - b);
        if (isnan(a)) off = 1e9;
        for (int d = whole.rank; d-- > 0 && ++index[d] == type.shape.dim[d];) index[d] = 0;
    }
    free(have);
    double limit = c->exact ? 0 : 1e-9;
    if (!c->exact && c->setting->real == WEFT_F32) {
        /* In f32, rounding can change which of two values a maximum takes, and so which element a
         * gradient goes to: a large error of that element, but small for the tensor. So the norm of
         * the difference is compared with the norm of the tensor. Moments and biases begin at zero
         * and are sums of a few gradients, so their limit is higher than that of weights. */
        double rms = sqrt(squares / (double)weft_shape_elements(&whole));
        off = isnan(difference)
                  ? 1e9
                  : sqrt(difference / (double)weft_shape_elements(&type.shape)) / fmax(rms, 1e-6);
        limit = weft_store_role(store, i) == WEFT_ROLE_PARAMETER && whole.rank > 1 ? 2e-3 : 1e-1;
    }
    if (getenv("WEFT_VERBOSE") && off > limit / 10)
        fprintf(stderr, "%s: %g of %g\n", weft_store_name(store, i), off, limit);
    if (off > limit) fprintf(stderr, "%s: off by %g\n", weft_store_name(store, i), off);
    rank_check(off <= limit);
    atomic_fetch_add(&c->seen[w], 1);
}
/* Compares the losses, added over all ranks, with those of one rank. */
static void compare_losses(const rank_case *c, weft_comm *world, const double *losses)
{
    double sums[STEPS + 1], limit = c->setting->real == WEFT_F32 ? 2e-3 : 1e-9;
    rank_ok(weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                  .dtype = WEFT_F64,
                                                  .send = losses,
                                                  .receive = sums,
                                                  .count = STEPS + 1}));
    for (int i = 0; i <= STEPS; i++)
        if (!(fabs(sums[i] - c->want->losses[i]) <= limit * fmax(1, fabs(sums[i])))) {
            fprintf(stderr, "step %d: loss %.9g, should be %.9g\n", i, sums[i], c->want->losses[i]);
            atomic_fetch_add(&rank_failures, 1);
            break;
        }
}

/* In 1F1B, stage s of K has at most K - s micro-batches under way; in GPipe it has all of them. */
static void check_under_way(const setting *s, const prepared *p, int rank)
{
    int stages = weft_plan_places(p->plan), stage = weft_plan_place(p->plan, rank);
    if (s->mesh->place) stage = 0; /* --place makes no chain of stages */
    int want = strcmp(s->schedule, "gpipe") == 0 ? s->microbatches : stages - stage;
    if (want > s->microbatches) want = s->microbatches;
    if (stages > 1) rank_check(p->most_under_way == want);
}

static void run_rank(weft_comm *world, void *user)
{
    rank_case *c = user;
    const setting *s = c->setting;
    prepared p;
    double losses[STEPS + 1];
    rank_ok(net_prepare(&p, s, world));
    if (getenv("WEFT_DUMP") && weft_comm_rank(world) == atoi(getenv("WEFT_DUMP"))) {
        char *text;
        rank_ok(weft_program_text(weft_instance_program(p.program), &text));
        printf("%s\n", text);
        weft_free(text);
    }
    weft_status status = net_train(s, &p, losses);
    if (status == WEFT_OK) status = net_evaluate(s, &p, weft_comm_rank(world), &losses[STEPS]);
    if (status != WEFT_OK) weft_comm_abort(world);
    rank_ok(status);
    if (s->schedule) check_under_way(s, &p, weft_comm_rank(world));
    compare_losses(c, world, losses);
    for (int i = 0; i < weft_store_count(p.store); i++)
        compare_part(c, p.store, i, p.comms.axes[1]);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

static void check(const setting *s, const result *want)
{
    rank_case c = {.setting = s, .want = want};
    checked++;
    if (getenv("WEFT_VERBOSE"))
        print_message("%s on %s, zero %d, %d micro-batches, %s\n", s->model->model,
                      s->mesh->mesh ? s->mesh->mesh : s->mesh->place, s->mesh->zero,
                      s->microbatches, s->optimizer);
    on_ranks(engine, s->mesh->ranks, run_rank, &c);
    for (int i = 0; i < want->count && processes == 0; i++)
        if (atomic_load(&c.seen[i]) == 0) fail_msg("no rank has '%s'", want->names[i]);
}

/* Whether this run leaves the model out. Rewrites are the same for threads and processes, so a
 * short run takes few models with processes. */
static bool left_out(const model_case *m)
{
    const char *only = getenv("WEFT_ONLY_MODEL");
    if (only && strcmp(only, m->model) != 0) return true;
#ifdef WEFT_SANITIZED
    if (!in_full() && (m - models) % 2) return true;
#endif
    return processes > 0 && getenv("WEFT_FAST") && (m - models) % 5 != 3;
}

static void all_meshes(const model_case *m, const char *device, weft_dtype real, int microbatches,
                       const char *optimizer, double clip)
{
    setting s = {.model = m,
                 .mesh = &suite_meshes[0],
                 .device = device,
                 .real = real,
                 .microbatches = microbatches,
                 .optimizer = optimizer,
                 .clip = clip};
    result want;
    result_of_one(&s, &want);
    for (int i = 0; i < MESHES; i++) {
#ifdef __SANITIZE_THREAD__ /* slow; ranks interact alike in all models */
        if (getenv("WEFT_FAST") && (i + (m - models)) % 4) continue;
#endif
        /* A short run takes every mesh with a third of the models, each mesh with other ones. */
        if (!in_full() && processes == 0 && (i + (m - models)) % 3) continue;
        if (!net_fits(&s, &suite_meshes[i], processes)) continue;
        s.mesh = &suite_meshes[i];
        check(&s, &want);
    }
    result_free(&want);
}

static void test_models(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        if (left_out(&models[m])) continue;
        all_meshes(&models[m], models[m].f32 ? "cpu" : "reference",
                   models[m].f32 ? WEFT_F32 : WEFT_F64, 1, "sgd", 0);
    }
}

/* Micro-batches, other optimizers, and clipping, whose norm is one sum over all gradients. */
static void test_updates(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        if (models[m].f32 || left_out(&models[m])) continue;
        int parts = models[m].batch % 2 ? 3 : 2;
        if (in_full() || m % 2) all_meshes(&models[m], "reference", WEFT_F64, parts, "adam", 0.1);
        if (in_full() || m % 2 == 0) all_meshes(&models[m], "reference", WEFT_F64, 1, "adamw", 0.1);
    }
}

/* Pipelines with both schedules, with more micro-batches than stages and with fewer. */
static void test_schedules(void **state)
{
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (size_t m = 0; m < MODELS; m++)
        for (int k = 0; k < 2; k++) {
            if (!in_full() && (int)m % 2 != k) continue;
            if (models[m].f32 || left_out(&models[m])) continue;
            setting s = {.model = &models[m],
                         .mesh = &suite_meshes[0],
                         .device = "reference",
                         .real = WEFT_F64,
                         .microbatches = models[m].batch % 2 ? 3 : 4,
                         .optimizer = "sgd"};
            result want;
            result_of_one(&s, &want);
            s.schedule = schedules[k];
            for (int i = 0; i < MESHES; i++) {
                bool cut = suite_meshes[i].place || strstr(suite_meshes[i].mesh, "pipeline");
                if (!cut || !net_fits(&s, &suite_meshes[i], processes)) continue;
                if (!in_full() && processes == 0 && (i + m / 2) % 2) continue;
                s.mesh = &suite_meshes[i];
                check(&s, &want);
            }
            result_free(&want);
        }
}

/* A sequence of which each rank has some positions is gathered for a recurrence, which needs all.
 */
static void test_split_sequences(void **state)
{
    (void)state;
    static const mesh_case meshes[] = {{"domain=2", 2, 0, NULL, "x:1=domain"},
                                       {"data=2", 2, 0, NULL, "x:1=data"},
                                       {"data=2", 2, 0, NULL, "x:2=data"}};
    for (size_t m = 0; m < MODELS; m++) {
        if (strcmp(models[m].model, "recurrent") != 0 || processes > 0) continue;
        setting s = net_setting(&models[m], &suite_meshes[0]);
        s.real = WEFT_F64;
        result want;
        result_of_one(&s, &want);
        for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
            s.mesh = &meshes[i];
            check(&s, &want);
        }
        result_free(&want);
    }
}

/* With recomputation, every mesh gives the results of one rank without it, up to rounding. */
static void test_recompute(void **state)
{
    (void)state;
    for (size_t m = 0; m < 4; m++) {
        setting s = {.model = &models[m],
                     .mesh = &suite_meshes[0],
                     .device = models[m].f32 ? "cpu" : "reference",
                     .real = models[m].f32 ? WEFT_F32 : WEFT_F64,
                     .microbatches = 1,
                     .optimizer = "sgd"};
        result want;
        result_of_one(&s, &want);
        s.recompute = true;
        for (int i = 0; i < MESHES; i++) {
            if (!net_fits(&s, &suite_meshes[i], processes) || suite_meshes[i].ranks > 2 ||
                suite_meshes[i].zero == 2)
                continue;
            s.mesh = &suite_meshes[i];
            check(&s, &want);
        }
        result_free(&want);
    }
}

/* Devices with memory of their own on all ranks or on some, and devices that lack operators, which
 * the host computes: every model on a few meshes, other meshes for each model. */
static void test_other_memory(void **state)
{
    (void)state;
    static const char *const devices[] = {
        "distant", "reference,distant",
        "distant,distant:lacks=dense+conv_dw+relu_grad+batch_norm+adam+accumulate"};
    int at = 0;
    for (size_t m = 0; m < MODELS; m++) {
        setting s = {.model = &models[m],
                     .mesh = &suite_meshes[0],
                     .device = "reference",
                     .real = WEFT_F64,
                     .microbatches = models[m].batch % 2 ? 3 : 2,
                     .optimizer = "adam"};
        result want;
        if (models[m].f32 || left_out(&models[m])) continue;
        result_of_one(&s, &want);
        for (int i = 0; i < MESHES; i++) {
            if (!net_fits(&s, &suite_meshes[i], processes) || at++ % 4) continue;
            s.mesh = &suite_meshes[i];
            s.device = devices[at / 4 % 3];
            check(&s, &want);
        }
        result_free(&want);
    }
}

/* Stages that do not read a parameter alone, or that would be others in evaluation: there the first
 * convolution, which in training has no gradient of its input, costs more than half, and the cut
 * would be after it instead of after the second one. With ZeRO 3 the cpu device keeps weights in
 * blocked layouts. */
static void test_weights_of_stages(void **state)
{
    (void)state;
    static const model_case uneven = {"uneven",
                                      "layers:\n"
                                      "  - {type: conv, filters: 16, kernel: 5, padding: 2}\n"
                                      "  - {type: conv, filters: 16, kernel: 3, padding: 1}\n"
                                      "  - {type: conv, filters: 16, kernel: 3, padding: 1}\n"
                                      "  - {type: conv, filters: 16, kernel: 3, padding: 1}\n"
                                      "  - {type: dense, units: classes}\n",
                                      .sample = {16, 8, 8},
                                      .batch = 4,
                                      .rank = 3,
                                      .lr = 0.01};
    static const model_case shared = {
        "shared_weight", .build = shared_weight, .sample = {16, 6, 6}, .batch = 4, .rank = 3,
        .lr = 0.01};
    static const model_case side = {
        "side_reader", .build = side_reader, .sample = {6}, .batch = 8, .rank = 1, .lr = 0.05};
    static const struct {
        const model_case *model;
        const char *device;
        weft_dtype real;
    } cases[] = {
        {&uneven, "cpu", WEFT_F32}, {&shared, "cpu", WEFT_F32}, {&side, "reference", WEFT_F64}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int how = 0; how < 10; how++) {
            mesh_case mesh = {"data=2,pipeline=2", 4, how / 2 % 4, NULL, NULL};
            setting s = {.model = cases[i].model,
                         .mesh = &mesh,
                         .device = cases[i].device,
                         .real = cases[i].real,
                         .microbatches = 1 + how % 2,
                         .workers = how < 8 ? 0 : 2 + how % 2 * 2,
                         .optimizer = "sgd"};
            result want;
            bool f32 = cases[i].real == WEFT_F32;
            if (processes > 0 && (processes != mesh.ranks || f32)) continue;
            result_of_one(&s, &want);
            check(&s, &want);
            result_free(&want);
        }
}

/* A parameter that is added to partial sums is not one of them: it counts once. */
static void test_parameter_of_loss(void **state)
{
    (void)state;
    static const model_case shifted = {"shifted", .build = side_reader, .sample = {6},  .batch = 8,
                                       .rank = 1, .lr = 0.05,           .shifted = true};
    static const mesh_case meshes[] = {{"data=2", 2, 0, NULL, NULL},
                                       {"data=2", 2, 3, NULL, NULL},
                                       {"tensor=2", 2, 0, NULL, NULL},
                                       {"data=2,pipeline=2", 4, 1, NULL, NULL}};
    for (int how = 0; how < 8; how++) {
        setting s = {.model = &shifted,
                     .mesh = &meshes[how / 2],
                     .device = "reference",
                     .real = WEFT_F64,
                     .microbatches = 1 + how % 2,
                     .optimizer = "sgd"};
        result want;
        if (processes > 0 && processes != s.mesh->ranks) continue;
        result_of_one(&s, &want);
        check(&s, &want);
        result_free(&want);
    }
}

/* Fails if no mesh was run at all. */
static void test_meshes_were_checked(void **state)
{
    (void)state;
    if (processes > 0) print_message("%d meshes of %d processes\n", checked, processes);
    assert_true(checked > 0);
}

int main(int argc, char **argv)
{
    if (getenv("WEFT_ONLY_TEST")) cmocka_set_test_filter(getenv("WEFT_ONLY_TEST"));
    if (argc > 1) {
        engine = argv[1];
        processes = atoi(getenv("OMPI_COMM_WORLD_SIZE") ? getenv("OMPI_COMM_WORLD_SIZE") : "0");
        const struct CMUnitTest on_processes[] = {cmocka_unit_test(test_models),
                                                  cmocka_unit_test(test_updates),
                                                  cmocka_unit_test(test_schedules),
                                                  cmocka_unit_test(test_other_memory),
                                                  cmocka_unit_test(test_weights_of_stages),
                                                  cmocka_unit_test(test_parameter_of_loss),
                                                  cmocka_unit_test(test_meshes_were_checked)};
        return cmocka_run_group_tests(on_processes, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_split_sequences),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_other_memory),
        cmocka_unit_test(test_parameter_of_loss),
        cmocka_unit_test(test_weights_of_stages),
        cmocka_unit_test(test_meshes_were_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
