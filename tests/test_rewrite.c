/* Rewrites against the graph they came from: for every model and mesh of the tables, ten training
 * steps on rank threads give the losses and the parameters of one rank. */
#include <math.h>

#include "ranks.h"

enum { STEPS = 10, RANKS = 8 };

static const char convolutions[] = "layers:\n"
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
    {"lenet", NULL, {1, 28, 28}, 8, 3, true, 0.02},
    {"inception", NULL, {3, 16, 16}, 8, 3, true, 0.02},
    {"vgg11", NULL, {3, 32, 32}, 8, 3, true, 0.001},
};

static const struct mesh_case {
    const char *mesh;
    int ranks, zero;
    const char *place;
} meshes[] = {
    {"data=1", 1, 0, NULL},
    {"data=2", 2, 0, NULL},
    {"data=3", 3, 0, NULL},
    {"data=8", 8, 0, NULL},
    {"data=2", 2, 1, NULL},
    {"data=2", 2, 2, NULL},
    {"data=2", 2, 3, NULL},
    {"data=3", 3, 1, NULL},
    {"data=3", 3, 3, NULL},
    {"data=4", 4, 2, NULL},
    {"tensor=2", 2, 0, NULL},
    {"tensor=3", 3, 0, NULL},
    {"tensor=4", 4, 0, NULL},
    {"domain=2", 2, 0, NULL},
    {"domain=3", 3, 0, NULL},
    {"domain=5", 5, 0, NULL},
    {"pipeline=2", 2, 0, NULL},
    {"pipeline=3", 3, 0, NULL},
    {"data=2,tensor=2", 4, 0, NULL},
    {"data=2,tensor=2", 4, 1, NULL},
    {"data=2,tensor=2", 4, 3, NULL},
    {"data=2,domain=2", 4, 0, NULL},
    {"data=2,domain=2", 4, 3, NULL},
    {"tensor=2,domain=2", 4, 0, NULL},
    {"data=2,pipeline=2", 4, 0, NULL},
    {"data=2,pipeline=2", 4, 2, NULL},
    {"tensor=2,pipeline=2", 4, 0, NULL},
    {"domain=2,pipeline=2", 4, 0, NULL},
    {"data=2,tensor=2,domain=2", 8, 0, NULL},
    {"data=2,tensor=2,domain=2", 8, 2, NULL},
    {"data=2,tensor=2,pipeline=2", 8, 0, NULL},
    {"data=2,domain=2,pipeline=2", 8, 1, NULL},
    {"tensor=2,domain=2,pipeline=2", 8, 0, NULL},
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
                 double (*at)(const setting *, int64_t, int, int), const setting *s, int step, int m)
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
    rank_ok(weft_plan_create(n.graph, &o, &plan));
    rank_ok(weft_plan_rewrite(plan, n.graph, weft_comm_rank(world), &mine));
    rank_ok(weft_plan_split(plan, world, &comms));
    rank_ok(weft_store_create(n.context, s->device, 5, &store));
    weft_program_options_init(&po);
    weft_value loss = weft_rewritten_value(mine, n.values.loss);
    po.fetch = &loss;
    po.fetch_count = loss != WEFT_NO_VALUE;
    po.comms = &comms;
    rank_ok(weft_program_create_with(store, weft_rewritten_graph(mine), &po, &p));
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
static bool fits(const model_case *m, const struct mesh_case *mesh)
{
    bool image = m->rank == 3;
    return image || !strstr(mesh->mesh, "domain");
}

static void check(const setting *s, const result *want)
{
    rank_case c = {.setting = s, .want = want};
    if (getenv("WEFT_VERBOSE"))
        print_message("%s on %s, zero %d, %d micro-batches, %s\n", s->model->model, s->mesh->mesh,
                      s->mesh->zero, s->microbatches, s->optimizer);
    on_ranks("threads", s->mesh->ranks, run_rank, &c);
    for (int i = 0; i < want->count; i++)
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
        if (!fits(m, &meshes[i])) continue;
        const char *data = strstr(meshes[i].mesh, "data=");
        if (data && atoi(data + 5) > s.model->batch / microbatches) continue;
        const char *only = getenv("WEFT_ONLY_MESH");
        if (only && strcmp(only, meshes[i].mesh) != 0) continue;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
