/* Compares the rewritten graphs of all ranks with the graph of one rank: for every model and mesh
 * of the tables, ten training steps on rank threads must give the same losses and parameters up to
 * rounding, and then an evaluation by the same plan the same loss. "test_rewrite mpi" under mpirun
 * runs the meshes with as many ranks as there are processes. */
#include "mesh_check.h"

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

/* The result of one rank, `alone`, is computed when the first mesh is compared with it. */
static void compare_mesh(setting *s, const mesh_case *mesh, const setting *alone, result *want)
{
    if (want->count == 0) result_of_one(alone, want);
    s->mesh = mesh;
    check_mesh(s, want);
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
    const setting alone = s;
    result want = {.count = 0};
    for (int i = 0; i < MESHES; i++) {
#ifdef __SANITIZE_THREAD__ /* slow; ranks interact alike in all models */
        if (getenv("WEFT_FAST") && (i + (m - models)) % 4) continue;
#endif
        /* A short run takes every mesh with a third of the models, each mesh with other ones. */
        int part = in_full() || processes > 0 ? 1 : 3;
        if (paths_alone()) part = strcmp(optimizer, "sgd") == 0 ? 12 : 36;
        if ((i + (m - models)) % part) continue;
        if (!net_fits(&s, &suite_meshes[i], processes)) continue;
        compare_mesh(&s, &suite_meshes[i], &alone, &want);
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

/* Every optimizer on every mesh, also those whose update of an element needs the whole tensor. */
static void test_optimizers(void **state)
{
    (void)state;
    /* A bias before a normalization has a gradient that is nothing but rounding errors, which rules
     * divide by their own size: with a larger epsilon they stay small. */
    static const struct {
        const char *name, *spec;
    } given[] = {{"rmsprop", "rmsprop:epsilon=0.1"},
                 {"adagrad", "adagrad:epsilon=0.1"},
                 {"adadelta", "adadelta:epsilon=0.1"},
                 {"nadam", "nadam:epsilon=0.1"}};
    const char *name;
    for (int o = 0; (name = built_in(WEFT_KIND_OPTIMIZER, o)) != NULL; o++)
        for (size_t m = 0; m < MODELS; m++) {
            bool other = (int)m % 7 != o % 7 && strcmp(models[m].model, "mlp") != 0;
            const char *spec = name;
            for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
                if (strcmp(given[i].name, name) == 0) spec = given[i].spec;
            /* The sign of a rounding error is as large as any, and so is a quotient of norms. */
            bool relative = name[0] == 'l'; /* lion, lars, lamb */
            if (relative && strcmp(models[m].model, "mlp") != 0) continue;
            if (left_out(&models[m]) || models[m].f32 || (!in_full() && other)) continue;
            all_meshes(&models[m], "reference", WEFT_F64, 1, spec, 0);
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
            const setting alone = s;
            result want = {.count = 0};
            s.schedule = schedules[k];
            for (int i = 0; i < MESHES; i++) {
                bool cut = suite_meshes[i].place || strstr(suite_meshes[i].mesh, "pipeline");
                if (!cut || !net_fits(&s, &suite_meshes[i], processes)) continue;
                if (!in_full() && processes == 0 && (i + m / 2) % (paths_alone() ? 8 : 2)) continue;
                compare_mesh(&s, &suite_meshes[i], &alone, &want);
            }
            result_free(&want);
        }
}

/* A sequence of which each rank has some positions is gathered for a recurrence, which needs all;
 * the domain axis, which is meant to split them, is refused. */
static void test_split_sequences(void **state)
{
    (void)state;
    static const mesh_case meshes[] = {{"data=2", 2, 0, NULL, "x:1=data"},
                                       {"data=2", 2, 0, NULL, "x:2=data"}};
    for (size_t m = 0; m < MODELS; m++) {
        if (strcmp(models[m].model, "recurrent") != 0 || processes > 0) continue;
        setting s = net_setting(&models[m], &suite_meshes[0]);
        s.real = WEFT_F64;
        result want;
        result_of_one(&s, &want);
        for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
            s.mesh = &meshes[i];
            check_mesh(&s, &want);
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
                suite_meshes[i].zero == 2 || (paths_alone() && (i + m) % 3))
                continue;
            s.mesh = &suite_meshes[i];
            check_mesh(&s, &want);
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
            check_mesh(&s, &want);
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
            if (how < 8 && !taken(i + (size_t)how, 1, 3)) continue;
            result_of_one(&s, &want);
            check_mesh(&s, &want);
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
        check_mesh(&s, &want);
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
        cmocka_unit_test(test_optimizers),
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
