/* Sums up the memory of ranks over the processes and machines of a run. */
#include "train/estimate/memory.h"

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

/* A process that has `count` ranks of the job, from `first` on. */
static double bytes_of_process(const weft_memory_plan *m, int first, int count)
{
    double bytes = m->shared, moment[MOMENTS] = {0};
    for (int r = first; r < first + count; r++) {
        int place = r % m->mesh;
        for (int p = 0; p < WEFT_MEMORY_PARTS; p++) bytes += m->part[place][p];
        for (int k = 0; k < MOMENTS; k++)
            if (k != MOMENT_END || r < m->mesh) moment[k] += m->moment[place][k];
        if (r < m->mesh) bytes += m->first[r];
    }
    return bytes + largest(moment);
}

/* Sums up the processes of a machine, and compares it with the fullest one; *most: how full that
 * is. */
static void add_machine(const weft_memory_plan *m, const weft_trainer *t, int first, int count,
                        double limit, double *most, weft_memory_estimate *out)
{
    int each = ranks_of_process(t, count);
    double bytes = 0;
    for (int r = 0; r < count; r += each) {
        double process = bytes_of_process(m, first + r, WEFT_MIN(each, count - r));
        bytes += process;
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
    for (int first = 0, i = 0; first < t->size; first += each, i++) {
        double limit = cluster ? weft_cluster_group_of(cluster, i)->memory : 0;
        add_machine(m, t, first, WEFT_MIN(each, t->size - first), limit, &most, out);
    }
}

/* --- a run --- */

typedef struct ranks {
    weft_memory_plan *m;
    weft_trainer *t;
    int *kind; /* [ranks of a learner] */
    double parameters;
} ranks;

static weft_status add_rank(void *user, weft_rank *r)
{
    ranks *all = user;
    weft_store *store = NULL;
    weft_program *program = NULL;
    size_t before = weft_allocated_memory();
    WEFT_TRY(weft_rank_store(r, NULL, &store));
    weft_status status = weft_rank_dry_program_on(r, store, &program);
    if (status == WEFT_OK)
        status = weft_memory_plan_add(all->m, all->t, r, store, program, before, all->kind);
    if (r->rank == 0) all->parameters = (double)weft_rank_parameters(r);
    weft_program_destroy(&program);
    weft_store_destroy(&store);
    return status;
}

/* A rank of each kind is planned, one after the other. */
static weft_status add_ranks(weft_memory_plan *m, weft_trainer *t, weft_memory_estimate *out)
{
    ranks all = {.m = m, .t = t};
    int kinds;
    WEFT_TRY(WEFT_NEW(&all.kind, t->mesh));
    weft_status status = weft_trainer_each_kind(t, false, all.kind, &kinds, add_rank, &all);
    out->parameters = all.parameters;
    free(all.kind);
    return status;
}

/* The arrays of *out are those of m from then on. */
static weft_status estimate(weft_trainer *t, const weft_cluster *cluster, weft_memory_plan *m,
                            weft_memory_estimate *out)
{
    WEFT_TRY(weft_memory_plan_open(t, m));
    WEFT_TRY(add_ranks(m, t, out));
    weft_memory_plan_sum_up(m, t, cluster, out);
    out->ranks = m->mesh;
    out->shared = m->shared;
    WEFT_TRY(WEFT_NEW(&out->moment, m->mesh));
    for (int r = 0; r < m->mesh; r++) out->moment[r] = largest(m->moment[r]);
    out->part = &m->part[0][0];
    free((void *)m->moment);
    free(m->first);
    *m = (weft_memory_plan){.mesh = 0};
    return WEFT_OK;
}

weft_status weft_estimate_memory(weft_context *context, const weft_train_options *options,
                                 const char *cluster, weft_memory_estimate *out)
{
    WEFT_NEED(context, options, out);
    weft_trainer *t = NULL;
    weft_memory_plan m = {.mesh = 0};
    weft_cluster machines = {.rate = 0};
    int64_t count = 1;
    *out = (weft_memory_estimate){.struct_size = sizeof(*out)};
    WEFT_TRY(weft_options_check(weft_train_table(context), options));
    weft_status status = cluster ? weft_cluster_open(cluster, &count, &machines) : WEFT_OK;
    if (status == WEFT_OK) status = weft_trainer_prepare(context, options, NULL, &t);
    if (status == WEFT_OK) status = estimate(t, cluster ? &machines : NULL, &m, out);
    weft_memory_plan_close(&m);
    weft_trainer_destroy(&t);
    weft_cluster_free(&machines);
    return status;
}

void weft_memory_estimate_free(weft_memory_estimate *e)
{
    if (!e) return;
    free(e->part);
    free(e->moment);
    e->part = e->moment = NULL;
}
