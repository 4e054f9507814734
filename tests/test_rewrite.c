/* Rewrites against the graph they came from: for every model and mesh of the tables, ten training
 * steps on rank threads give the losses and the parameters of one rank. */
#include <math.h>

#include "ranks.h"

enum { STEPS = 10 };

/* As "test_rewrite mpi" under mpirun: the meshes of as many ranks, as processes. */
static const char *engine = "threads";
static int processes;

static const char convolutions[] =
    "layers:\n"
    "  - {type: conv, filters: 6, kernel: 3, padding: 1}\n"
    "  - {type: relu}\n"
    "  - {type: conv, filters: 8, kernel: 5, stride: 2, padding: 2}\n"
    "  - {type: gelu}\n"
    "  - {type: maxpool, kernel: 3, stride: 2, padding: 1}\n"
    "  - {type: conv, filters: 8, kernel: 3, dilation: 2, padding: 2}\n"
    "  - {type: avgpool, kernel: 2, stride: 1}\n"
    "  - {type: dropout, rate: 0.25}\n"
    "  - {type: conv, filters: 4, kernel: 1, stride: 2}\n"
    "  - {type: tanh}\n"
    "  - {type: dense, units: 12}\n"
    "  - {type: sigmoid}\n"
    "  - {type: dense, units: classes}\n";
static const char norms[] = "layers:\n"
                            "  - {type: conv, filters: 8, kernel: 3}\n"
                            "  - {type: batch_norm}\n"
                            "  - {type: relu}\n"
                            "  - {type: conv, filters: 8, kernel: 3, groups: 2}\n"
                            "  - {type: global_avgpool}\n"
                            "  - {type: dense, units: 16}\n"
                            "  - {type: layer_norm}\n"
                            "  - {type: relu}\n"
                            "  - {type: dropout, rate: 0.5}\n"
                            "  - {type: dense, units: classes}\n";

typedef struct model_case {
    const char *model, *yaml;
    int64_t sample[3];
    int64_t batch;
    int rank; /* of a sample */
    bool f32; /* too slow in double precision */
    double lr;
} model_case;

static const model_case models[] = {
    {"mlp", NULL, {7, 0, 0}, 12, 1, false, 0.05},
    {"convolutions", convolutions, {2, 25, 21}, 9, 3, false, 0.05},
    {"norms", norms, {3, 11, 9}, 8, 3, false, 0.05},
    {"lenet", NULL, {1, 16, 16}, 8, 3, false, 0.02},
    {"inception", NULL, {3, 16, 16}, 8, 3, true, 0.02},
    {"vgg11", NULL, {3, 32, 32}, 8, 3, true, 0.001},
};

static const struct mesh_case {
    const char *mesh;
    int ranks, zero;
    const char *place, *shard;
} meshes[] = {
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

/* --- one training graph --- */

typedef struct net {
    weft_context *context;
    weft_graph *graph;
    weft_model_values values;
    weft_optimizer_values optimizer;
} net;

typedef struct setting {
    const model_case *model;
    const struct mesh_case *mesh;
    const char *device;
    weft_dtype real;
    int microbatches;
    const char *optimizer;
    double clip;
    bool recompute;
} setting;

static weft_status build(net *n, const setting *s)
{
    weft_model_options o;
    weft_optimizer_options opt;
    weft_status status = weft_context_create(&n->context);
    if (status == WEFT_OK) status = weft_context_set_threads(n->context, 1);
    if (status == WEFT_OK) status = weft_graph_create(n->context, s->real, &n->graph);
    if (status != WEFT_OK) return status;
    weft_model_options_init(&o);
    o.model = s->model->model;
    o.sample = weft_shape_of(s->model->rank, s->model->sample);
    o.batch = s->model->batch / s->microbatches;
    o.classes = 5;
    o.training = true;
    o.seed = 3;
    if (s->model->yaml)
        status = weft_model_build_text(n->graph, &o, s->model->model, s->model->yaml,
                                       strlen(s->model->yaml), &n->values);
    else
        status = weft_model_build(n->graph, &o, &n->values);
    if (status == WEFT_OK) status = weft_graph_differentiate(n->graph, n->values.loss);
    weft_optimizer_options_init(&opt);
    opt.name = s->optimizer;
    opt.lr = strcmp(s->optimizer, "sgd") == 0 ? s->model->lr : 0.04 * s->model->lr;
    opt.momentum = 0.5;
    opt.accumulate = s->microbatches;
    opt.clip_norm = s->clip;
    if (status == WEFT_OK) status = weft_optimizer_build(n->graph, &opt, &n->optimizer);
    if (status != WEFT_OK || !s->recompute) return status;
    weft_graph *again;
    weft_value *map = calloc((size_t)weft_graph_value_count(n->graph), sizeof(*map));
    weft_value *const all[] = {&n->values.x,    &n->values.labels,  &n->values.weights,
                               &n->values.loss, &n->optimizer.keep, &n->values.first_sample};
    status = weft_graph_recompute(n->graph, &again, map);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && status == WEFT_OK; i++)
        if (*all[i] != WEFT_NO_VALUE) *all[i] = map[*all[i]];
    weft_graph_destroy(&n->graph);
    n->graph = again;
    free(map);
    return status;
}

static void drop(net *n)
{
    weft_graph_destroy(&n->graph);
    weft_context_destroy(&n->context);
}

static double number(int64_t i)
{
    double x = sin((double)(i + 1) * 12.9898) * 43758.5453;
    return 2 * (x - floor(x)) - 1;
}

/* Writes the part of an input whose whole has these numbers. */
static void feed(const weft_graph *g, const weft_program *p, weft_value v,
                 double (*at)(const setting *, int64_t, int, int), const setting *s, int step,
                 int m)
{
    if (v == WEFT_NO_VALUE) return;
    void *to = weft_program_input(p, v);
    weft_type type = weft_graph_value_type(g, v);
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0};
    if (!to) return;
    weft_graph_part(g, v, &whole, start);
    for (int64_t i = 0; i < weft_shape_elements(&type.shape); i++) {
        int64_t place = 0;
        for (int d = 0; d < whole.rank; d++) place = place * whole.dim[d] + start[d] + index[d];
        double x = at(s, place, step, m);
        if (type.dtype == WEFT_I32) ((int32_t *)to)[i] = (int32_t)x;
        if (type.dtype == WEFT_F32) ((float *)to)[i] = (float)x;
        if (type.dtype == WEFT_F64) ((double *)to)[i] = x;
        for (int d = whole.rank; d-- > 0 && ++index[d] == type.shape.dim[d];) index[d] = 0;
    }
}

static double pixel(const setting *s, int64_t i, int step, int m)
{
    (void)s;
    return number(i + 100003 * step + 7919 * m);
}
static double label(const setting *s, int64_t i, int step, int m)
{
    int64_t first = m * s->model->batch / s->microbatches;
    return (double)((i + first + 3 * step) % 5);
}
/* The last sample of the batch is padding. */
static double weight(const setting *s, int64_t i, int step, int m)
{
    int64_t first = m * s->model->batch / s->microbatches;
    (void)step;
    return i + first == s->model->batch - 1 ? 0 : 1.0 / (double)(s->model->batch - 1);
}
static double sample(const setting *s, int64_t i, int step, int m)
{
    (void)i;
    (void)step;
    return (double)(m * s->model->batch / s->microbatches);
}
static double keep(const setting *s, int64_t i, int step, int m)
{
    (void)s;
    (void)i;
    (void)step;
    return m > 0;
}

static double fetched(const weft_program *p, weft_value v, weft_dtype real)
{
    const void *data = weft_program_output(p, v);
    if (!data) return NAN;
    return real == WEFT_F32 ? (double)*(const float *)data : *(const double *)data;
}

/* Ten steps. map gives the values of the program's graph; losses[step] gets this rank's share. */
static weft_status train(const setting *s, const net *n, const weft_graph *g, weft_program *p,
                         const weft_rewritten *map, double losses[STEPS])
{
#define MAP(v) ((v) == WEFT_NO_VALUE || !map ? (v) : weft_rewritten_value(map, v))
    weft_value loss = MAP(n->values.loss);
    for (int step = 0; step < STEPS; step++) {
        losses[step] = 0;
        for (int m = 0; m < s->microbatches; m++) {
            feed(g, p, MAP(n->values.x), pixel, s, step, m);
            feed(g, p, MAP(n->values.labels), label, s, step, m);
            feed(g, p, MAP(n->values.weights), weight, s, step, m);
            feed(g, p, MAP(n->values.first_sample), sample, s, step, m);
            feed(g, p, MAP(n->optimizer.keep), keep, s, step, m);
            weft_status status = weft_program_run(p, WEFT_PHASE_MICRO);
            if (status != WEFT_OK) return status;
            if (!map || weft_rewritten_counts(map, n->values.loss))
                losses[step] += fetched(p, loss, s->real);
        }
        weft_status status = weft_program_run(p, WEFT_PHASE_UPDATE);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
#undef MAP
}

/* --- the oracle --- */

typedef struct result {
    double losses[STEPS];
    int count;
    char *names[256];
    weft_shape shapes[256];
    void *data[256];
} result;

static void oracle(const setting *s, result *out)
{
    net n = {0};
    weft_store *store;
    weft_program *p;
    memset(out, 0, sizeof(*out));
    assert_ok(build(&n, s));
    assert_ok(weft_store_create(n.context, s->device, 5, &store));
    assert_ok(weft_program_create(store, n.graph, &n.values.loss, 1, &p));
    assert_ok(train(s, &n, n.graph, p, NULL, out->losses));
    for (int i = 0; i < weft_store_count(store); i++) {
        if (weft_store_transient(store, i)) continue;
        weft_type type = weft_store_type(store, i);
        out->names[out->count] = strdup(weft_store_name(store, i));
        out->shapes[out->count] = type.shape;
        out->data[out->count] = malloc(weft_type_bytes(&type));
        assert_ok(weft_store_read(store, i, out->data[out->count++]));
    }
    weft_program_destroy(&p);
    weft_store_destroy(&store);
    drop(&n);
}

static void result_free(result *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->names[i]);
        free(r->data[i]);
    }
}

/* --- one rank --- */

typedef struct rank_case {
    const setting *setting;
    const result *want;
    _Atomic int seen[256];
    bool exact;
} rank_case;

static double value_at(const void *data, weft_dtype dtype, int64_t i)
{
    if (dtype == WEFT_I32) return (double)((const int32_t *)data)[i];
    return dtype == WEFT_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

static void compare_part(rank_case *c, weft_store *store, int i)
{
    const result *want = c->want;
    weft_type type = weft_store_type(store, i);
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0};
    int w = 0;
    if (weft_store_transient(store, i)) return;
    while (w < want->count && strcmp(want->names[w], weft_store_name(store, i)) != 0) w++;
    rank_check(w < want->count);
    void *have = malloc(weft_type_bytes(&type));
    rank_ok(weft_store_read(store, i, have));
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

static void run_rank(weft_comm *world, void *user)
{
    rank_case *c = user;
    const setting *s = c->setting;
    net n = {0};
    weft_plan *plan;
    weft_rewritten *mine;
    weft_comms comms;
    weft_store *store;
    weft_program *p;
    weft_plan_options o;
    weft_program_options po;
    double losses[STEPS], sums[STEPS];
    rank_ok(build(&n, s));
    weft_plan_options_init(&o);
    o.ranks = s->mesh->ranks;
    o.mesh = s->mesh->mesh;
    o.zero = s->mesh->ranks > 1 ? s->mesh->zero : 0;
    o.place = s->mesh->place;
    o.shard = s->mesh->shard;
    rank_ok(weft_plan_create(n.graph, &o, &plan));
    rank_ok(weft_plan_rewrite(plan, n.graph, weft_comm_rank(world), &mine));
    rank_ok(weft_plan_split(plan, world, &comms));
    rank_ok(weft_store_create(n.context, s->device, 5, &store));
    weft_program_options_init(&po);
    weft_value loss = weft_rewritten_value(mine, n.values.loss);
    po.fetch = &loss;
    po.fetch_count = loss != WEFT_NO_VALUE;
    po.comms = &comms;
    weft_status made = weft_program_create_with(store, weft_rewritten_graph(mine), &po, &p);
    double differs = made == WEFT_ERR_UNSUPPORTED;
    rank_ok(weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                  .dtype = WEFT_F64,
                                                  .send = &differs,
                                                  .receive = &differs,
                                                  .count = 1}));
    if (differs > 0) { /* as the trainer does: again, with sums in plain layout */
        if (made == WEFT_OK) weft_program_destroy(&p);
        weft_store_destroy(&store);
        weft_rewritten_destroy(&mine);
        weft_plan_destroy(&plan);
        o.plain_sums = true;
        rank_ok(weft_plan_create(n.graph, &o, &plan));
        rank_ok(weft_plan_rewrite(plan, n.graph, weft_comm_rank(world), &mine));
        rank_ok(weft_store_create(n.context, s->device, 5, &store));
        made = weft_program_create_with(store, weft_rewritten_graph(mine), &po, &p);
    }
    rank_ok(made);
    if (getenv("WEFT_DUMP") && weft_comm_rank(world) == atoi(getenv("WEFT_DUMP"))) {
        char *text;
        rank_ok(weft_program_text(p, &text));
        printf("%s\n", text);
        weft_free(text);
    }
    weft_status status = train(s, &n, weft_rewritten_graph(mine), p, mine, losses);
    if (status != WEFT_OK) weft_comm_abort(world);
    rank_ok(status);
    rank_ok(weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                  .dtype = WEFT_F64,
                                                  .send = losses,
                                                  .receive = sums,
                                                  .count = STEPS}));
    double limit = s->real == WEFT_F32 ? 2e-3 : 1e-9;
    for (int i = 0; i < STEPS; i++)
        if (fabs(sums[i] - c->want->losses[i]) > limit * fmax(1, fabs(sums[i]))) {
            fprintf(stderr, "step %d: loss %.9g, should be %.9g\n", i, sums[i], c->want->losses[i]);
            atomic_fetch_add(&rank_failures, 1);
            break;
        }
    for (int i = 0; i < weft_store_count(store); i++) compare_part(c, store, i);
    rank_ok(weft_comm_barrier(world));
    weft_program_destroy(&p);
    weft_store_destroy(&store);
    weft_plan_close_comms(&comms);
    weft_rewritten_destroy(&mine);
    weft_plan_destroy(&plan);
    drop(&n);
}

/* Whether a mesh makes sense for a model; refusals have tests of their own. */
static bool fits(const setting *s, const struct mesh_case *mesh)
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
    /* A slow build meets each mechanism, but not every product of them. */
    bool slow = mesh->ranks > 3 || s->model->f32 || strcmp(s->model->model, "lenet") == 0;
    if (getenv("WEFT_FAST") && slow) return false;
#ifdef WEFT_SANITIZED /* each mechanism once for the large models */
    if (s->model->f32 && (mesh->ranks != 2 || strcmp(s->model->model, "vgg11") == 0)) return false;
#endif
    return image || (mesh->mesh && !strstr(mesh->mesh, "domain"));
}

static void check(const setting *s, const result *want)
{
    rank_case c = {.setting = s, .want = want};
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
    oracle(&s, &want);
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
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
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
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        const char *only = getenv("WEFT_ONLY_MODEL");
        if (models[m].f32 || (only && strcmp(only, models[m].model) != 0)) continue;
        int parts = models[m].batch % 2 ? 3 : 2;
        all_meshes(&models[m], "reference", WEFT_F64, parts, "adam", 0.1);
        all_meshes(&models[m], "reference", WEFT_F64, 1, "adamw", 0.1);
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
        oracle(&s, &want);
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

static void same_bits(const model_case *m, struct mesh_case a, struct mesh_case b)
{
    twin_case twins[2] = {{.setting = {.model = m,
                                       .mesh = &a,
                                       .device = "reference",
                                       .real = WEFT_F32,
                                       .microbatches = 1,
                                       .optimizer = "adam"}}};
    twins[1] = twins[0];
    twins[1].setting.mesh = &b;
    for (int t = 0; t < 2; t++)
        on_ranks("threads", twins[t].setting.mesh->ranks, rank_parameters, &twins[t]);
    assert_int_equal(twins[0].kept.count, twins[1].kept.count);
    for (int i = 0; i < twins[0].kept.count; i++) {
        const result *x = &twins[0].kept, *y = &twins[1].kept;
        assert_string_equal(x->names[i], y->names[i]);
        size_t bytes = (size_t)weft_shape_elements(&x->shapes[i]) * sizeof(float);
        if (memcmp(x->data[i], y->data[i], bytes) != 0)
            fail_msg("%s: %s differs between %s and %s, zero %d", m->model, x->names[i], a.mesh,
                     b.mesh, b.zero);
    }
    for (int t = 0; t < 2; t++) result_free(&twins[t].kept);
}

/* Puts the parts of parameters that ranks hold together, in the order of the graph. */
static void collect(weft_comm *world, weft_store *store, const net *n, result *out)
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
            rank_ok(weft_store_read(store, e, mine));
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

/* One rank of a plan, ready to run. */
typedef struct prepared {
    net n;
    weft_plan *plan;
    weft_rewritten *mine;
    weft_comms comms;
    weft_store *store;
    weft_program *program;
} prepared;

static weft_status prepare(prepared *p, const setting *s, weft_comm *world)
{
    weft_plan_options o;
    weft_program_options po;
    weft_status status = build(&p->n, s);
    weft_plan_options_init(&o);
    o.ranks = s->mesh->ranks;
    o.mesh = s->mesh->mesh;
    o.zero = s->mesh->zero;
    if (status == WEFT_OK) status = weft_plan_create(p->n.graph, &o, &p->plan);
    if (status == WEFT_OK)
        status = weft_plan_rewrite(p->plan, p->n.graph, weft_comm_rank(world), &p->mine);
    if (status == WEFT_OK) status = weft_plan_split(p->plan, world, &p->comms);
    if (status == WEFT_OK) status = weft_store_create(p->n.context, s->device, 5, &p->store);
    weft_program_options_init(&po);
    if (status != WEFT_OK) return status;
    weft_value loss = weft_rewritten_value(p->mine, p->n.values.loss);
    po.fetch = &loss;
    po.fetch_count = loss != WEFT_NO_VALUE;
    po.comms = &p->comms;
    return weft_program_create_with(p->store, weft_rewritten_graph(p->mine), &po, &p->program);
}

static void unprepare(prepared *p)
{
    weft_program_destroy(&p->program);
    weft_store_destroy(&p->store);
    weft_plan_close_comms(&p->comms);
    weft_rewritten_destroy(&p->mine);
    weft_plan_destroy(&p->plan);
    drop(&p->n);
}

static void rank_parameters(weft_comm *world, void *user)
{
    twin_case *t = user;
    prepared p = {0};
    double losses[STEPS];
    rank_ok(prepare(&p, &t->setting, world));
    rank_ok(train(&t->setting, &p.n, weft_rewritten_graph(p.mine), p.program, p.mine, losses));
    collect(world, p.store, &p.n, &t->kept);
    rank_ok(weft_comm_barrier(world));
    unprepare(&p);
}

/* Sharded optimiser state changes no bit, and neither do weights split by columns. */
static void test_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < 3; m++)
        for (int zero = 1; zero <= 3; zero++)
            same_bits(&models[m], (struct mesh_case){"data=4", 4, 0, NULL, NULL},
                      (struct mesh_case){"data=4", 4, zero, NULL, NULL});
}

/* --- bytes on the wire --- */

typedef struct bytes_case {
    setting setting;
    double want; /* of all ranks in a step */
} bytes_case;

static void count_bytes(weft_comm *world, void *user)
{
    bytes_case *b = user;
    prepared p = {0};
    double losses[STEPS], bytes;
    rank_ok(prepare(&p, &b->setting, world));
    bytes = -(double)weft_comm_get_stats(world).bytes;
    rank_ok(train(&b->setting, &p.n, weft_rewritten_graph(p.mine), p.program, p.mine, losses));
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
    unprepare(&p);
}

static void expect_bytes(const model_case *m, const char *mesh, int ranks, int zero, double want)
{
    struct mesh_case c = {mesh, ranks, zero, NULL, NULL};
    bytes_case b = {{.model = m,
                     .mesh = &c,
                     .device = "reference",
                     .real = WEFT_F32,
                     .microbatches = 1,
                     .optimizer = "sgd"},
                    want};
    on_ranks("threads", ranks, count_bytes, &b);
}

/* Sizes for which every formula is exact: 16 inputs, 8 and 4 units, 16-byte gradients. */
static const char dense_net[] = "layers:\n"
                                "  - {type: dense, units: 32, bias: false}\n"
                                "  - {type: relu}\n"
                                "  - {type: dense, units: 16, bias: false}\n"
                                "  - {type: relu}\n"
                                "  - {type: dense, units: classes, bias: false}\n";

static void test_bytes(void **state)
{
    (void)state;
    const model_case dense = {"dense", dense_net, {16, 0, 0}, 8, 1, false, 0.05};
    const double w = 4.0 * (16 * 32 + 32 * 16 + 16 * 5), b = 8;
    for (int n = 2; n <= 8; n *= 2) {
        char mesh[32];
        (void)snprintf(mesh, sizeof(mesh), "data=%d", n);
        /* All-reduce, or reduce-scatter and all-gather: 2 (N - 1) W; with parameters split, two
         * gathers: 3 (N - 1) W, but backward does not need the first layer's weight. */
        expect_bytes(&dense, mesh, n, 0, 2 * (n - 1) * w);
        expect_bytes(&dense, mesh, n, 1, 2 * (n - 1) * w);
        expect_bytes(&dense, mesh, n, 2, 2 * (n - 1) * w);
        expect_bytes(&dense, mesh, n, 3, (n - 1) * (3 * w - 4.0 * 16 * 32));
    }
    /* Columns, rows, columns: a sum of [b, 16] forward, the joined logits [b, 5], and backward a
     * sum of [b, 16] where the third layer's inputs split again. */
    expect_bytes(&dense, "tensor=2", 2, 0, 4 * b * (2 * 16 + 5 + 2 * 16));
    /* A pipeline of two sends an activation and its gradient. */
    expect_bytes(&dense, "data=2,tensor=2", 4, 0,
                 2 * 4 * (b / 2) * (2 * 16 + 5 + 2 * 16) + 2 * 4.0 * (16 * 32 + 32 * 16 + 16 * 5));
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
            weft_plan_options o;
            if (!fits(&s, &meshes[i])) continue;
            assert_ok(build(&n, &s));
            weft_plan_options_init(&o);
            o.ranks = meshes[i].ranks;
            o.mesh = meshes[i].mesh;
            o.zero = meshes[i].zero;
            o.place = meshes[i].place;
            o.shard = meshes[i].shard;
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
            drop(&n);
        }
    for (int op = 0; weft_operator_name(op); op++)
        if (weft_operator_is_transfer(op) && !met[op])
            fail_msg("no mesh of these tests needs %s", weft_operator_name(op));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        engine = argv[1];
        processes = atoi(getenv("OMPI_COMM_WORLD_SIZE") ? getenv("OMPI_COMM_WORLD_SIZE") : "0");
        const struct CMUnitTest on_processes[] = {cmocka_unit_test(test_models),
                                                  cmocka_unit_test(test_updates)};
        return cmocka_run_group_tests(on_processes, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),    cmocka_unit_test(test_updates),
        cmocka_unit_test(test_recompute), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_every_transfer_is_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
