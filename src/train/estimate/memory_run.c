/* Sums up the memory of ranks over the processes and machines of a run. */
#include "comm/comm.h"
#include "train/estimate/memory.h"
#include "train/estimate/site.h"

/* --- processes --- */

/* The most ranks of a process, where a machine has `here` of them. */
static int ranks_of_process(const weft_trainer *t, int here)
{
    if (!t->engine || !t->engine->processes) return here;
    return WEFT_MIN(t->engine->members ? t->mesh : 1, here);
}

static double largest(const double moment[MOMENTS])
{
    double most = 0;
    for (int k = 0; k < MOMENTS; k++) most = WEFT_MAX(most, moment[k]);
    return most;
}

/* How many of the servers are on the machine of a learner. */
static int servers_at(const weft_memory_plan *m, const weft_trainer *t, int learner)
{
    int servers = WEFT_MAX(t->run_spec.servers, 1), count = 0;
    for (int s = 0; s < servers; s++) count += (m->host ? m->host(s, t->learners) : 0) == learner;
    return count;
}

/* A process that has `count` ranks of the job, from `first` on. */
static double bytes_of_process(const weft_memory_plan *m, const weft_trainer *t, int first,
                               int count)
{
    double servers = WEFT_MAX(t->run_spec.servers, 1);
    double bytes = m->shared + m->engine, moment[MOMENTS] = {0};
    for (int r = first; r < first + count; r++) {
        int place = r % m->mesh;
        for (int p = 0; p < WEFT_MEMORY_PARTS; p++) bytes += m->part[place][p];
        for (int k = 0; k < MOMENTS; k++)
            if (k != MOMENT_END || r < m->mesh) moment[k] += m->moment[place][k];
        if (r < m->mesh) bytes += m->first[r];
        bytes += m->hosted[place] * servers_at(m, t, r / m->mesh) / servers;
    }
    return bytes + largest(moment);
}

/* Sets the processes without ranks: what starts those with ranks stays beside them. A coordinator
 * has built the model for a moment alone, before others have joined. */
static void add_others(const weft_memory_plan *m, const weft_trainer *t, weft_memory_estimate *out)
{
    const weft_exchange_ops *ops;
    const char *arguments, *exchange = t->run_spec.exchange;
    if (!t->engine->processes) return;
    out->supervisor = m->bare;
    if (!t->engine->members) return;
    out->coordinator = m->bare;
    if (weft_exchange_find(t->context, exchange, &ops, &arguments) != WEFT_OK) return;
    if (!WEFT_EXCHANGE_HAS(ops, serve)) return;
    out->servers = WEFT_MAX(t->run_spec.servers, 1);
    out->server = m->bare + m->server / out->servers;
}

/* Sums up the processes of a machine, with `bytes` of those without ranks, and compares it with the
 * fullest one; *most: how full that is. */
static void add_machine(const weft_memory_plan *m, const weft_trainer *t, int first, int count,
                        double bytes, double limit, double *most, weft_memory_estimate *out)
{
    int each = ranks_of_process(t, count);
    for (int r = 0; r < count; r += each) {
        double process = bytes_of_process(m, t, first + r, WEFT_MIN(each, count - r));
        bytes += process;
        if (first + r == 0) out->first_process = process;
        out->processes++;
        out->process = WEFT_MAX(out->process, process);
    }
    out->each = WEFT_MAX(out->each, each);
    double full = limit > 0 ? bytes / limit : bytes * 1e-18;
    if (full <= *most) return;
    *most = full;
    out->machine = bytes;
    out->limit = limit;
}

void weft_memory_plan_sum_up(const weft_memory_plan *m, const weft_trainer *t,
                             const weft_cluster *cluster, weft_memory_estimate *out)
{
    double most = -1;
    int64_t machines = cluster ? 0 : 1;
    for (int g = 0; cluster && g < cluster->group_count; g++) machines += cluster->groups[g].count;
    int each = (int)((t->size + machines - 1) / machines);
    add_others(m, t, out);
    for (int first = 0, i = 0; first < t->size; first += each, i++) {
        double others = i == 0 ? out->supervisor + out->coordinator : 0;
        for (int r = first; r < WEFT_MIN(first + each, t->size) && out->servers > 0; r++)
            if (r % t->mesh == 0) others += out->server * servers_at(m, t, r / t->mesh);
        double limit = cluster ? weft_cluster_group_of(cluster, i)->memory : 0;
        add_machine(m, t, first, WEFT_MIN(each, t->size - first), others, limit, &most, out);
    }
}

/* --- the memory of a process beside its ranks --- */

/* The share is measured once for a model and its data, so that compared runs have the same. */
typedef struct process_share {
    pthread_mutex_t lock;
    uint64_t of;        /* hash of the model and its data */
    double bytes;       /* 0: not measured */
    double bare;        /* without both; 0: not measured */
    uint64_t engine_of; /* hash of the engine that was measured */
    double engine;
} process_share;

static weft_status make_share(weft_context *context, void **out)
{
    process_share *s;
    (void)context;
    WEFT_TRY(WEFT_NEW(&s, 1));
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return WEFT_OK;
}

static void destroy_share(void *thing)
{
    process_share *s = thing;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const weft_singleton_kind share_kind = {make_share, destroy_share};

/* Sets *bytes to the memory of a process that has neither model nor data: that of this process
 * before it has some for the first time. */
static weft_status find_bare(weft_context *context, const weft_site *site, double *bytes)
{
    void *thing;
    WEFT_TRY(weft_context_singleton(context, &share_kind, &thing));
    process_share *s = thing;
    pthread_mutex_lock(&s->lock);
    if (s->bare == 0) weft_trim_memory();
    if (s->bare == 0) s->bare = (double)weft_resident_memory() - site->own;
    *bytes = s->bare;
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

/* Sets m->engine. Some of it stays in this process, whose share has been measured before. */
static weft_status find_engine(const weft_trainer *t, weft_memory_plan *m)
{
    void *thing;
    const char *engine = t->options.job.engine;
    WEFT_TRY(weft_context_singleton(t->context, &share_kind, &thing));
    process_share *s = thing;
    pthread_mutex_lock(&s->lock);
    if (s->engine_of != weft_hash_text(engine))
        s->engine = (double)weft_comm_process_bytes(t->context, engine);
    s->engine_of = weft_hash_text(engine);
    m->engine = s->engine;
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

/* Sets *bytes to the share of the model and the data, or notes *bytes, if it is above 0. */
static weft_status share_of(const weft_trainer *t, double *bytes)
{
    void *thing;
    const weft_task_choice *task = &t->options.task;
    uint64_t of = weft_mix(weft_hash_text(task->model), weft_hash_text(task->data));
    WEFT_TRY(weft_context_singleton(t->context, &share_kind, &thing));
    process_share *s = thing;
    pthread_mutex_lock(&s->lock);
    if (*bytes > 0)
        s->of = of, s->bytes = *bytes;
    else if (s->of == of)
        *bytes = s->bytes;
    pthread_mutex_unlock(&s->lock);
    return WEFT_OK;
}

/* --- a run --- */

weft_status weft_memory_run_open(weft_context *context, const weft_site *site, weft_memory_run *out)
{
    *out = (weft_memory_run){.site = site};
    return find_bare(context, site, &out->bare);
}

weft_status weft_memory_run_begin(weft_memory_run *run, weft_trainer *t)
{
    WEFT_TRY(weft_memory_plan_open(t, &run->plan));
    run->t = t;
    run->plan.beside = run->site->own;
    run->plan.bare = run->bare;
    t->run_spec.counts_memory = true;
    return share_of(t, &run->plan.shared);
}

void weft_memory_run_close(weft_memory_run *run)
{
    weft_memory_plan_close(&run->plan);
}

static weft_status add_rank(void *of, weft_rank *r, weft_store *store, const weft_program *program,
                            size_t before, const int *kind)
{
    weft_memory_run *run = of;
    if (r->rank == 0) run->parameters = (double)weft_rank_parameters(r);
    return weft_memory_plan_add(&run->plan, run->t, r, store, program, before, kind);
}

static void note_staying(void *of, int rank, double bytes, const int *kind)
{
    weft_memory_run *run = of;
    weft_memory_plan_stays(&run->plan, rank, bytes, kind);
}

weft_planned weft_memory_run_planned(weft_memory_run *run)
{
    return (weft_planned){.fn = add_rank, .stays = note_staying, .user = run};
}

weft_status weft_memory_run_sum_up(weft_memory_run *run, weft_memory_estimate *out)
{
    const weft_cluster *cluster = &run->site->cluster;
    *out = (weft_memory_estimate){.struct_size = sizeof(*out), .parameters = run->parameters};
    WEFT_TRY(find_engine(run->t, &run->plan));
    weft_memory_plan_sum_up(&run->plan, run->t, cluster->group_count > 0 ? cluster : NULL, out);
    out->ranks = run->plan.mesh;
    out->shared = run->plan.shared + run->plan.engine;
    return share_of(run->t, &run->plan.shared);
}

weft_status weft_memory_run_step(weft_memory_run *run, weft_step_estimate *out)
{
    weft_memory_estimate m;
    WEFT_TRY(weft_memory_run_sum_up(run, &m));
    out->memory = m.machine;
    out->memory_limit = m.limit;
    if (m.limit > 0 && m.machine > m.limit) out->limited_by = "memory";
    return WEFT_OK;
}

/* A rank of each kind is planned, one after the other. plan NULL: only the memory is wanted. */
static weft_status add_ranks(weft_memory_run *run, weft_trainer *t, weft_plan_told *plan)
{
    weft_planned list[2] = {weft_memory_run_planned(run)};
    int *kind;
    WEFT_TRY(weft_memory_run_begin(run, t));
    if (plan) WEFT_TRY(weft_plan_report_new(t, plan->dump_rank, &plan->report));
    if (plan) list[1] = (weft_planned){.fn = weft_plan_report_add, .user = plan->report};
    WEFT_TRY(WEFT_NEW(&kind, t->mesh));
    weft_status status =
        weft_trainer_plan_kinds(t, false, plan ? plan->dump_rank : 0, kind, list, WEFT_COUNT(list));
    free(kind);
    if (plan && status == WEFT_OK) status = weft_plan_report_take(plan->report, &plan->text);
    return status;
}

/* Plans the ranks of a run. The caller closes *run and destroys *t, also after a failure. */
static weft_status plan_ranks(const weft_site *site, weft_context *context,
                              const weft_train_options *options, weft_memory_run *run,
                              weft_plan_told *plan, weft_trainer **t)
{
    *t = NULL;
    *run = (weft_memory_run){.site = site};
    WEFT_TRY(weft_options_check(weft_train_table(context), options));
    WEFT_TRY(weft_memory_run_open(context, site, run));
    WEFT_TRY(weft_trainer_prepare(context, options, NULL, t));
    return add_ranks(run, *t, plan);
}

/* The arrays of *out are those of the plan from then on. */
weft_status weft_memory_run_take(weft_memory_run *run, weft_memory_estimate *out)
{
    weft_memory_plan *m = &run->plan;
    WEFT_TRY(weft_memory_run_sum_up(run, out));
    WEFT_TRY(WEFT_NEW(&out->moment, m->mesh));
    for (int r = 0; r < m->mesh; r++) out->moment[r] = largest(m->moment[r]);
    out->part = &m->part[0][0];
    m->part = NULL;
    return WEFT_OK;
}

/* plan NULL: only the memory is wanted. */
static weft_status estimate_memory(weft_context *context, const weft_train_options *options,
                                   const char *cluster, weft_plan_told *plan,
                                   weft_memory_estimate *out)
{
    weft_site site = {.times = NULL};
    weft_memory_run run;
    weft_trainer *t;
    int64_t count = 1;
    *out = (weft_memory_estimate){.struct_size = sizeof(*out)};
    if (cluster) WEFT_TRY(weft_cluster_open(cluster, &count, &site.cluster));
    weft_status status = plan_ranks(&site, context, options, &run, plan, &t);
    if (status == WEFT_OK) status = weft_memory_run_take(&run, out);
    weft_memory_run_close(&run);
    weft_trainer_destroy(&t);
    weft_site_close(&site);
    return status;
}

weft_status weft_estimate_memory(weft_context *context, const weft_train_options *options,
                                 const char *cluster, weft_memory_estimate *out)
{
    WEFT_NEED(context, options, out);
    return estimate_memory(context, options, cluster, NULL, out);
}

weft_status weft_memory_run_tell(weft_context *context, const weft_train_options *options,
                                 const char *cluster, weft_plan_told *plan)
{
    return estimate_memory(context, options, cluster, plan, plan->memory);
}

weft_status weft_site_memory(const weft_site *site, weft_context *context,
                             const weft_train_options *options, weft_step_estimate *out)
{
    weft_memory_run run;
    weft_trainer *t;
    weft_status status = plan_ranks(site, context, options, &run, NULL, &t);
    if (status == WEFT_OK) status = weft_memory_run_step(&run, out);
    weft_memory_run_close(&run);
    weft_trainer_destroy(&t);
    return status;
}

void weft_memory_estimate_free(weft_memory_estimate *e)
{
    if (!e) return;
    free(e->part);
    free(e->moment);
    e->part = e->moment = NULL;
}
