/* Rewrites against the graph they came from: for every model and mesh of the tables, ten training
 * steps on rank threads give the losses and the parameters of one rank. */
#include <math.h>

#include "nets.h"

/* As "test_rewrite mpi" under mpirun: the meshes of as many ranks, as processes. */
static const char *engine = "threads";
static int processes;
static int checked; /* meshes so far */

static const mesh_case meshes[] = {
    {"data=1", 1, 0, NULL, NULL},
    {"data=2", 2, 0, NULL, NULL},
    {"data=3", 3, 0, NULL, NULL},
    {"data=8", 8, 0, NULL, NULL},
    {"data=2", 2, 1, NULL, NULL},
    {"data=2", 2, 2, NULL, NULL},
    {"data=2", 2, 3, NULL, NULL},
    {"data=3", 3, 1, NULL, NULL},
    {"data=3", 3, 3, NULL, NULL},
    {"data=4", 4, 2, NULL, NULL},
    {"tensor=2", 2, 0, NULL, NULL},
    {"tensor=3", 3, 0, NULL, NULL},
    {"tensor=4", 4, 0, NULL, NULL},
    {"domain=2", 2, 0, NULL, NULL},
    {"domain=3", 3, 0, NULL, NULL},
    {"domain=5", 5, 0, NULL, NULL},
    {"pipeline=2", 2, 0, NULL, NULL},
    {"pipeline=3", 3, 0, NULL, NULL},
    {"data=2,tensor=2", 4, 0, NULL, NULL},
    {"data=2,tensor=2", 4, 1, NULL, NULL},
    {"data=2,tensor=2", 4, 3, NULL, NULL},
    {"data=2,domain=2", 4, 0, NULL, NULL},
    {"data=2,domain=2", 4, 3, NULL, NULL},
    {"tensor=2,domain=2", 4, 0, NULL, NULL},
    {"data=2,pipeline=2", 4, 0, NULL, NULL},
    {"data=2,pipeline=2", 4, 2, NULL, NULL},
    {"tensor=2,pipeline=2", 4, 0, NULL, NULL},
    {"domain=2,pipeline=2", 4, 0, NULL, NULL},
    {"data=2,tensor=2,domain=2", 8, 0, NULL, NULL},
    {"data=2,tensor=2,domain=2", 8, 2, NULL, NULL},
    {"data=2,tensor=2,pipeline=2", 8, 0, NULL, NULL},
    {"data=2,domain=2,pipeline=2", 8, 1, NULL, NULL},
    {"tensor=2,domain=2,pipeline=2", 8, 0, NULL, NULL},
    {"tensor=2", 2, 0, NULL, "fc1/weight:in=tensor"},
    {"tensor=2", 2, 0, NULL, "fc1/weight/momentum:0=tensor,fc2/weight:out=tensor"},
    {NULL, 2, 0, "*conv*=cpu:0,*pool*=cpu:1,*=cpu:0", NULL},
    {NULL, 3, 0, "*2*=rank:1,*1*=rank:2,*=rank:0", NULL},
};

/* --- one rank --- */

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
    rank_ok(weft_store_gather(store, i, data_axis, have));
    weft_store_part(store, i, &whole, start);
    rank_check(weft_shape_equal(&whole, &want->shapes[w]));
    double most = 1e-3, off = 0;
    for (int64_t k = 0; k < weft_shape_elements(&whole); k++)
        most = fmax(most, fabs(value_at(want->data[w], type.dtype, k)));
    for (int64_t k = 0; k < weft_shape_elements(&type.shape); k++) {
        int64_t place = 0;
        for (int d = 0; d < whole.rank; d++) place = place * whole.dim[d] + start[d] + index[d];
        double a = value_at(have, type.dtype, k), b = value_at(want->data[w], type.dtype, place);
        off = fmax(off, fabs(a - b) / most);
        if (isnan(a)) off = 1e9;
        for (int d = whole.rank; d-- > 0 && ++index[d] == type.shape.dim[d];) index[d] = 0;
    }
    free(have);
    double limit = c->exact ? 0 : c->setting->real == WEFT_F32 ? 2e-3 : 1e-9;
    if (off > limit) fprintf(stderr, "%s: off by %g\n", weft_store_name(store, i), off);
    rank_check(off <= limit);
    atomic_fetch_add(&c->seen[w], 1);
}
/* The losses of all ranks' parts, against those of one. */
static void compare_losses(const rank_case *c, weft_comm *world, const double *losses)
{
    double sums[STEPS], limit = c->setting->real == WEFT_F32 ? 2e-3 : 1e-9;
    rank_ok(weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                  .dtype = WEFT_F64,
                                                  .send = losses,
                                                  .receive = sums,
                                                  .count = STEPS}));
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(sums[i] - c->want->losses[i]) <= limit * fmax(1, fabs(sums[i])))) {
            fprintf(stderr, "step %d: loss %.9g, should be %.9g\n", i, sums[i], c->want->losses[i]);
            atomic_fetch_add(&rank_failures, 1);
            break;
        }
}

/* Under 1F1B stage s of K has K - s micro-batches under way, under GPipe all of them. */
static void check_under_way(const setting *s, const prepared *p, int rank)
{
    int stages = weft_plan_places(p->plan), stage = weft_plan_place(p->plan, rank);
    if (s->mesh->place) stage = 0; /* no chain of stages */
    int want = strcmp(s->schedule, "gpipe") == 0 ? s->microbatches : stages - stage;
    if (want > s->microbatches) want = s->microbatches;
    if (stages > 1) rank_check(p->most_under_way == want);
}

static void run_rank(weft_comm *world, void *user)
{
    rank_case *c = user;
    const setting *s = c->setting;
    prepared p;
    double losses[STEPS];
    rank_ok(net_prepare(&p, s, world));
    if (getenv("WEFT_DUMP") && weft_comm_rank(world) == atoi(getenv("WEFT_DUMP"))) {
        char *text;
        rank_ok(weft_program_text(p.program, &text));
        printf("%s\n", text);
        weft_free(text);
    }
    weft_status status = net_train(s, &p, losses);
    if (status != WEFT_OK) weft_comm_abort(world);
    rank_ok(status);
    if (s->schedule) check_under_way(s, &p, weft_comm_rank(world));
    compare_losses(c, world, losses);
    for (int i = 0; i < weft_store_count(p.store); i++)
        compare_part(c, p.store, i, p.comms.axes[1]);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

/* Whether a mesh makes sense for a model; refusals have tests of their own. */
static bool fits(const setting *s, const mesh_case *mesh)
{
    const char *data = mesh->mesh ? strstr(mesh->mesh, "data=") : NULL;
    const char *only = getenv("WEFT_ONLY_MESH");
    bool image = s->model->rank == 3;
    if (processes > 0 && (mesh->ranks != processes || s->model->f32)) return false;
    /* Pins name parameters of mlp and state of sgd. */
    if (mesh->shard && (strcmp(s->model->model, "mlp") != 0 || strcmp(s->optimizer, "sgd") != 0))
        return false;
    if (only && (!mesh->mesh || strcmp(only, mesh->mesh) != 0)) return false;
    if (data && atoi(data + 5) > s->model->batch / s->microbatches) return false;
    /* A slow build meets every mesh and every model, but each large one with one of the others. */
    bool slow = (mesh->ranks > 3 && processes == 0) || s->model->f32 ||
                strcmp(s->model->model, "lenet") == 0;
    if (getenv("WEFT_FAST") && slow && ((mesh - meshes) + (s->model - models)) % MODELS)
        return false;
#ifdef WEFT_SANITIZED /* each mechanism once for the large models */
    if (s->model->f32 && (mesh->ranks != 2 || strcmp(s->model->model, "vgg11") == 0)) return false;
#endif
#ifdef __SANITIZE_THREAD__ /* slower still; the command runs four ranks under it as well */
    if (getenv("WEFT_FAST") && slow) return false;
#endif
    return image || (mesh->mesh && !strstr(mesh->mesh, "domain"));
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

static void all_meshes(const model_case *m, const char *device, weft_dtype real, int microbatches,
                       const char *optimizer, double clip)
{
    setting s = {.model = m,
                 .mesh = &meshes[0],
                 .device = device,
                 .real = real,
                 .microbatches = microbatches,
                 .optimizer = optimizer,
                 .clip = clip};
    result want;
    result_of_one(&s, &want);
    for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
        if (!fits(&s, &meshes[i])) continue;
        s.mesh = &meshes[i];
        check(&s, &want);
    }
    result_free(&want);
}

static void test_models(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        const char *only = getenv("WEFT_ONLY_MODEL");
        if (only && strcmp(only, models[m].model) != 0) continue;
        all_meshes(&models[m], models[m].f32 ? "cpu" : "reference",
                   models[m].f32 ? WEFT_F32 : WEFT_F64, 1, "sgd", 0);
    }
}

/* Micro-batches, the other optimisers, and clipping, whose norm is one sum over everything. */
static void test_updates(void **state)
{
    (void)state;
    for (size_t m = 0; m < MODELS; m++) {
        const char *only = getenv("WEFT_ONLY_MODEL");
        if (models[m].f32 || (only && strcmp(only, models[m].model) != 0)) continue;
        int parts = models[m].batch % 2 ? 3 : 2;
        all_meshes(&models[m], "reference", WEFT_F64, parts, "adam", 0.1);
        all_meshes(&models[m], "reference", WEFT_F64, 1, "adamw", 0.1);
    }
}

/* Pipelines under both schedules, more micro-batches than stages and fewer. */
static void test_schedules(void **state)
{
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (size_t m = 0; m < MODELS; m++)
        for (int k = 0; k < 2; k++) {
            if (models[m].f32) continue;
            setting s = {.model = &models[m],
                         .mesh = &meshes[0],
                         .device = "reference",
                         .real = WEFT_F64,
                         .microbatches = models[m].batch % 2 ? 3 : 4,
                         .optimizer = "sgd"};
            result want;
            result_of_one(&s, &want);
            s.schedule = schedules[k];
            for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
                bool cut = meshes[i].place || strstr(meshes[i].mesh, "pipeline");
                if (!cut || !fits(&s, &meshes[i])) continue;
                s.mesh = &meshes[i];
                check(&s, &want);
            }
            result_free(&want);
        }
}

/* Results computed again are the same bits, alone and with every kind of mesh. */
static void test_recompute(void **state)
{
    (void)state;
    for (size_t m = 0; m < 4; m++) {
        setting s = {.model = &models[m],
                     .mesh = &meshes[0],
                     .device = models[m].f32 ? "cpu" : "reference",
                     .real = models[m].f32 ? WEFT_F32 : WEFT_F64,
                     .microbatches = 1,
                     .optimizer = "sgd"};
        result want;
        result_of_one(&s, &want);
        s.recompute = true;
        for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
            if (!fits(&s, &meshes[i]) || meshes[i].ranks > 2 || meshes[i].zero == 2) continue;
            s.mesh = &meshes[i];
            check(&s, &want);
        }
        result_free(&want);
    }
}

/* What a run with one mesh leaves, against another mesh: bit for bit. */
static void rank_parameters(weft_comm *world, void *user);

typedef struct twin_case {
    setting setting;
    result kept; /* of rank 0, gathered whole */
} twin_case;

static void same_bits(const setting *common, mesh_case a, mesh_case b, size_t bucket)
{
    const model_case *m = common->model;
    twin_case twins[2] = {{.setting = *common}, {.setting = *common}};
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

/* Puts the parts of parameters that ranks hold together, in the order of the graph. */
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
            rank_ok(weft_store_gather(store, e, data_axis, mine));
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
        /* Copies are equal, so their sum over their number is one of them: both powers of two. */
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
    twin_case *t = user;
    prepared p;
    double losses[STEPS];
    rank_ok(net_prepare(&p, &t->setting, world));
    rank_ok(net_train(&t->setting, &p, losses));
    collect(world, p.store, p.comms.axes[1], &p.n, &t->kept);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

/* Sharded optimiser state changes no bit, and neither do weights split by columns. */
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

/* As many convolutions as the tensors of a message and more, then a layer without bias: messages of
 * any size end between any two of them. */
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
        x = weft_graph_node(g, "conv2d", name, in, 2, &padding, 1);
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

/* Where a message ends changes nothing of what is computed. */
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
    weft_program_info plan = weft_program_describe(dry), run = weft_program_describe(p.program);
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
        for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
            setting s = {.model = &models[m],
                         .mesh = &meshes[i],
                         .device = i % 2 ? "cpu" : "reference",
                         .real = WEFT_F32,
                         .microbatches = models[m].batch % 2 ? 3 : 2,
                         .optimizer = "sgd",
                         .schedule = "gpipe"};
            if (!fits(&s, &meshes[i]) || meshes[i].ranks > 4) continue;
            on_ranks("threads", meshes[i].ranks, rank_memory, &s);
        }
    assert_true(atomic_load(&most_staged) > 0);
}

/* Every operator that moves values is met by some mesh of some model. */
static void test_every_transfer_is_met(void **state)
{
    (void)state;
    bool met[256] = {false};
    for (size_t m = 0; m < 3; m++)
        for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
            setting s = {.model = &models[m],
                         .mesh = &meshes[i],
                         .real = WEFT_F32,
                         .microbatches = 1,
                         .optimizer = "sgd"};
            net n = {0};
            weft_plan *plan;
            weft_rewritten *mine;
            if (!fits(&s, &meshes[i])) continue;
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

/* A suite that finds nothing to do must not pass. */
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
        const struct CMUnitTest on_processes[] = {
            cmocka_unit_test(test_models), cmocka_unit_test(test_updates),
            cmocka_unit_test(test_schedules), cmocka_unit_test(test_meshes_were_checked)};
        return cmocka_run_group_tests(on_processes, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_recompute),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_messages_of_any_size),
        cmocka_unit_test(test_planned_memory),
        cmocka_unit_test(test_every_transfer_is_met),
        cmocka_unit_test(test_meshes_were_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
