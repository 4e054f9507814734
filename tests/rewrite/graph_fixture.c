/* Runs small training graphs on one rank of a plan, with inputs that do not depend on how the graph
 * is split. */
#include <math.h>

#include "graph_fixture.h"

#include "weft/device.h"

setting net_setting(const model_case *m, const mesh_case *mesh)
{
    return (setting){.model = m,
                     .mesh = mesh,
                     .device = "reference",
                     .real = WEFT_F32,
                     .microbatches = 1,
                     .optimizer = "sgd"};
}

/* --- inputs --- */

static double number(int64_t i)
{
    double x = sin((double)(i + 1) * 12.9898) * 43758.5453;
    return 2 * (x - floor(x)) - 1;
}

/* Writes this rank's part of the input v for a step and micro-batch m; element i of the whole input
 * is at(s, i, step, m). */
static void feed(const weft_graph *g, const weft_instance *p, weft_value v,
                 double (*at)(const setting *, int64_t, int, int), const setting *s, int step,
                 int m)
{
    if (v == WEFT_NO_VALUE) return;
    void *to = weft_instance_input(p, v);
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
    if (s->model->targets) return number(i + first * s->model->targets + 31 * step);
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

/* --- a run --- */

static double fetched(const weft_instance *p, weft_value v, weft_dtype real)
{
    const void *data = weft_instance_output(p, v);
    if (!data) return NAN;
    return real == WEFT_F32 ? (double)*(const float *)data : *(const double *)data;
}

/* The graph that runs, and the value of that graph that stands for a value of the model's graph:
 * both are the original where no rewrite was made (`mine` is NULL). */
static const weft_graph *graph_of(const prepared *p)
{
    return p->mine ? weft_rewritten_graph(p->mine) : p->n.graph;
}

static weft_value mapped(const prepared *p, weft_value v)
{
    return p->mine && v != WEFT_NO_VALUE ? weft_rewritten_value(p->mine, v) : v;
}

static void feed_all(const setting *s, const prepared *p, int step, int m)
{
    const struct {
        weft_value value;
        double (*at)(const setting *, int64_t, int, int);
    } inputs[] = {{PORT(p->n.values, FEATURES), pixel},
                  {PORT(p->n.values, TARGET), label},
                  {PORT(p->n.values, WEIGHTS), weight},
                  {PORT(p->n.values, POSITION), sample},
                  {p->n.optimizer.keep, keep}};
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        feed(graph_of(p), p->program, mapped(p, inputs[i].value), inputs[i].at, s, step, m);
}

static double loss_share(const setting *s, const prepared *p)
{
    if (p->mine && !weft_rewritten_counts(p->mine, PORT(p->n.values, LOSS))) return 0;
    return fetched(p->program, mapped(p, PORT(p->n.values, LOSS)), s->real);
}

/* Runs the forward and backward passes of one step in the order of the pipeline schedule. */
static weft_status passes(const setting *s, prepared *p, int step, double *loss)
{
    int under_way = 0, last = p->schedule.count - 1;
    while (p->schedule.actions[last].phase != WEFT_PHASE_BACKWARD) last--;
    for (int i = 0; i < p->schedule.count; i++) {
        const weft_action *a = &p->schedule.actions[i];
        weft_instance_enable_ready_hook(p->program, i == last);
        assert_ok(weft_instance_set_slot(p->program, a->micro % p->schedule.slots));
        if (a->phase == WEFT_PHASE_FORWARD) feed_all(s, p, step, a->micro);
        weft_status status = weft_instance_run(p->program, a->phase);
        if (status != WEFT_OK) return status;
        if (a->phase == WEFT_PHASE_BACKWARD) *loss += loss_share(s, p);
        under_way += a->phase == WEFT_PHASE_FORWARD ? 1 : -1;
        if (under_way > p->most_under_way) p->most_under_way = under_way;
    }
    return WEFT_OK;
}

weft_status net_gather(const weft_store *store, int i, weft_comm *data_axis, void *data)
{
    int ranks = data_axis ? weft_comm_size(data_axis) : 1;
    int me = data_axis ? weft_comm_rank(data_axis) : 0;
    weft_status status = WEFT_OK;
    for (int r = 0; r < ranks && status == WEFT_OK; r++)
        status = weft_store_gather(store, i, NULL, data_axis, r, r == me ? data : NULL);
    return status;
}

weft_status net_train(const setting *s, prepared *p, double losses[STEPS])
{
    for (int step = 0; step < STEPS; step++) {
        losses[step] = 0;
        if (p->around) p->around(p->user, false);
        weft_status status = s->schedule ? passes(s, p, step, &losses[step]) : WEFT_OK;
        for (int m = 0; m < s->microbatches && !s->schedule && status == WEFT_OK; m++) {
            feed_all(s, p, step, m);
            weft_instance_enable_ready_hook(p->program, m == s->microbatches - 1);
            status = weft_instance_run(p->program, WEFT_PHASE_MICRO);
            if (status == WEFT_OK) losses[step] += loss_share(s, p);
        }
        if (status == WEFT_OK) status = weft_instance_run(p->program, WEFT_PHASE_UPDATE);
        weft_instance_enable_ready_hook(p->program, false);
        if (status != WEFT_OK) return status;
        if (p->around) p->around(p->user, true);
    }
    return WEFT_OK;
}

/* Builds the program of the forward graph. The program fetches the loss, or with `all` every value.
 */
static weft_status build_forward(const prepared *p, bool all, prepared *e)
{
    weft_program_options o;
    weft_program_options_init(&o);
    int count = weft_graph_value_count(e->n.graph);
    weft_value *fetch = calloc((size_t)count, sizeof(*fetch));
    for (weft_value v = 0; v < count; v++) {
        weft_value local = mapped(e, v);
        bool wanted = all ? weft_graph_value_kind(e->n.graph, v) == WEFT_VALUE_RESULT
                          : v == PORT(e->n.values, LOSS);
        if (wanted && local != WEFT_NO_VALUE) fetch[o.fetch_count++] = local;
    }
    o.fetch = fetch;
    weft_status status = weft_instance_build_with(p->store, graph_of(e), &o,
                                                  p->plan ? &p->comms : NULL, &e->program);
    free(fetch);
    return status;
}

weft_status net_run_forward(const setting *s, const prepared *p, int rank, bool all, prepared *e)
{
    memset(e, 0, sizeof(*e));
    weft_status status = net_build_forward(&e->n, s);
    if (status == WEFT_OK && p->plan)
        status = weft_plan_rewrite(p->plan, e->n.graph, rank, &e->mine);
    if (status == WEFT_OK) status = build_forward(p, all, e);
    if (status == WEFT_OK) {
        feed_all(s, e, STEPS, 0);
        status = weft_instance_run(e->program, WEFT_PHASE_MICRO);
    }
    return status == WEFT_OK ? weft_instance_drain(e->program) : status;
}

void net_drop_forward(prepared *e)
{
    weft_instance_destroy(&e->program);
    weft_rewritten_destroy(&e->mine);
    net_drop(&e->n);
}

weft_status net_evaluate(const setting *s, const prepared *p, int rank, double *loss)
{
    prepared e;
    weft_status status = net_run_forward(s, p, rank, false, &e);
    *loss = status == WEFT_OK ? loss_share(s, &e) : 0;
    net_drop_forward(&e);
    return status;
}

/* --- the rank of a plan --- */

weft_plan_options net_plan_options(const setting *s)
{
    weft_plan_options o;
    weft_plan_options_init(&o);
    o.ranks = s->mesh->ranks;
    o.mesh = s->mesh->mesh;
    o.zero = s->mesh->zero;
    o.place = s->mesh->place;
    o.shard = s->mesh->shard;
    o.bucket_bytes = s->bucket_bytes;
    o.virtual_workers = s->workers;
    o.bf16_sums = s->bf16_sums;
    return o;
}

/* Builds plan, store and program of this rank. With `plain`, all-reduces use the row-major layout.
 * UNSUPPORTED: the ranks of an all-reduce have different layouts. */
static weft_status lower(prepared *p, const setting *s, weft_comm *world, bool plain)
{
    weft_program_options po;
    weft_plan_options o = net_plan_options(s);
    o.plain_sums = plain;
    int rank = weft_comm_rank(world);
    weft_status status = weft_plan_create(p->n.graph, &o, &p->plan);
    if (status == WEFT_OK) status = weft_plan_rewrite(p->plan, p->n.graph, rank, &p->mine);
    if (status == WEFT_OK && !plain) status = weft_plan_split(p->plan, world, &p->comms);
    char *device = NULL;
    if (status == WEFT_OK) status = weft_device_of_rank(p->n.context, s->device, rank, &device);
    if (status == WEFT_OK) status = weft_store_create(p->n.context, device, 5, &p->store);
    weft_free(device);
    if (status == WEFT_OK && s->schedule)
        status = weft_plan_schedule(p->plan, rank, s->schedule, s->microbatches, &p->schedule);
    if (status != WEFT_OK) return status;
    weft_value loss = weft_rewritten_value(p->mine, PORT(p->n.values, LOSS));
    weft_program_options_init(&po);
    po.fetch = &loss;
    po.fetch_count = loss != WEFT_NO_VALUE;
    if (s->schedule) po.slots = p->schedule.slots;
    return weft_instance_build_with(p->store, weft_rewritten_graph(p->mine), &po, &p->comms,
                                    &p->program);
}

static void unlower(prepared *p)
{
    weft_schedule_free(&p->schedule);
    weft_instance_destroy(&p->program);
    weft_store_destroy(&p->store);
    weft_rewritten_destroy(&p->mine);
    weft_plan_destroy(&p->plan);
}

/* If any rank finds that the layouts of an all-reduce differ, all ranks build again with plain
 * layouts, as the trainer does. */
weft_status net_prepare(prepared *p, const setting *s, weft_comm *world)
{
    memset(p, 0, sizeof(*p));
    weft_status status = net_build(&p->n, s);
    if (status != WEFT_OK) return status;
    status = lower(p, s, world, false);
    double differs = status == WEFT_ERR_UNSUPPORTED;
    if (status != WEFT_OK && status != WEFT_ERR_UNSUPPORTED) return status;
    status = weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                   .dtype = WEFT_F64,
                                                   .send = &differs,
                                                   .receive = &differs,
                                                   .count = 1});
    if (status != WEFT_OK || differs == 0) return status;
    unlower(p);
    return lower(p, s, world, true);
}

void net_unprepare(prepared *p)
{
    unlower(p);
    weft_plan_close_comms(&p->comms);
    net_drop(&p->n);
}

/* --- the oracle: one rank, without a rewrite --- */

void result_of_one(const setting *s, result *out)
{
    prepared p = {0};
    memset(out, 0, sizeof(*out));
    assert_ok(net_build(&p.n, s));
    assert_ok(weft_store_create(p.n.context, s->device, 5, &p.store));
    assert_ok(weft_instance_build(p.store, p.n.graph, &(weft_value){PORT(p.n.values, LOSS)}, 1,
                                  &p.program));
    assert_ok(net_train(s, &p, out->losses));
    assert_ok(net_evaluate(s, &p, 0, &out->losses[STEPS]));
    for (int i = 0; i < weft_store_count(p.store); i++) {
        if (weft_store_role(p.store, i) == WEFT_ROLE_SUM) continue;
        weft_type type = weft_store_type(p.store, i);
        out->names[out->count] = strdup(weft_store_name(p.store, i));
        out->shapes[out->count] = type.shape;
        out->data[out->count] = malloc(weft_type_bytes(&type));
        assert_ok(weft_store_read(p.store, i, out->data[out->count++]));
    }
    net_unprepare(&p);
}

void result_free(result *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->names[i]);
        free(r->data[i]);
    }
}

double value_at(const void *data, weft_dtype dtype, int64_t i)
{
    if (dtype == WEFT_I32) return (double)((const int32_t *)data)[i];
    return dtype == WEFT_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}
