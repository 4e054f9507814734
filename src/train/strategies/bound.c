/* Lower bounds of the time of a step.
 *
 * Kernels: however a mesh cuts a graph, its ranks together compute all operations of forward and
 * backward, and none of them faster than the fastest measurement of its operator. The ranks' sum of
 * kernels divided by their threads and speeds is below the time of the slowest.
 *
 * Pipelines: let stage s of p take x(s) for a micro-batch, of m. The stage begins when one has
 * passed the stages before it, and after its last one these run backward: a step takes m x(s) plus
 * the sum of all x before s. For stages that make the greatest of these numbers least, with the sum
 * X, this is X / (1 - (1 - 1/m)^p).
 *
 * Links: ranks that share a batch add up each gradient, and learners that meet each parameter; a
 * part crosses to other machines. The links of all machines together carry it no faster than the
 * sum of their bandwidths.
 *
 * Latencies: where all parameters are trained, ranks on several machines cannot begin the next step
 * before a message of this one has come from another machine.
 *
 * Memory: each learner has all parameters somewhere.
 *
 * A candidate with more micro-batches than an estimated one has the same work in smaller pieces. A
 * roofline of all pieces is no less than that of the whole, so that kernels take no less than what
 * was estimated, times how even the measurements of an operator are; nor do the ranks send less.
 * Fusion and padding may differ between the two, for which a twentieth is left. */
#include <math.h>

#include "ops/ops.h"
#include "program/walk.h"
#include "train/strategies/bound.h"

/* --- the work of one rank --- */

/* The operations of an operator in the program of a single rank, and the least time for one. */
typedef struct op_work {
    const char *op;
    double flops, least;
} op_work;

typedef struct op_list {
    op_work *at;
    size_t count, capacity;
} op_list;

static weft_status find_op(op_list *list, const weft_times *times, const char *op, op_work **out)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i].op, op) == 0) {
            *out = &list->at[i];
            return WEFT_OK;
        }
    WEFT_TRY(WEFT_GROW(&list->at, &list->capacity, list->count));
    *out = &list->at[list->count++];
    **out = (op_work){.op = op, .least = weft_times_least(times, op)};
    return WEFT_OK;
}

/* An operator that is fused behind another one is part of an instruction of that one's name, and
 * takes the time of either. */
static weft_status add_instruction(op_list *list, const weft_times *times,
                                   const weft_program *program, int i)
{
    const char *first, *op;
    double flops;
    op_work *work;
    for (int k = 0; weft_instruction_node(program, i, k, &op, &flops); k++) {
        if (k == 0) first = op;
        WEFT_TRY(find_op(list, times, op, &work));
        work->flops += flops;
        work->least = WEFT_MIN(work->least, weft_times_least(times, first));
    }
    return WEFT_OK;
}

static weft_status add_program(const weft_times *times, const weft_program *program,
                               double *seconds, double *evenness)
{
    op_list list = {0};
    int count = weft_program_describe(program).instructions;
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (!weft_instruction_updates(program, i) && !weft_instruction_transfer(program, i))
            status = add_instruction(&list, times, program, i);
    for (size_t i = 0; i < list.count; i++) {
        *seconds += list.at[i].flops * list.at[i].least;
        *evenness = WEFT_MIN(*evenness, weft_times_evenness(times, list.at[i].op));
    }
    free(list.at);
    return status;
}

/* The type of an element that crosses between ranks, at least. */
static weft_dtype element_type(const weft_trainer *t)
{
    const weft_run_spec *k = &t->run_spec;
    return k->bf16_weights || k->plan.bf16_sums ? WEFT_BF16 : k->real;
}

/* again: with recomputation. */
static weft_status look_at(const weft_site *site, weft_trainer *t, bool again, strategy_work *out)
{
    weft_program *program = NULL;
    weft_rank rank = {.run_spec = &t->run_spec, .rank = 0};
    weft_status status = weft_rank_rewrite(&rank);
    if (status == WEFT_OK) status = weft_rank_dry_program(&rank, &program);
    if (status == WEFT_OK)
        status = add_program(site->times, program, &out->thread_seconds[again], &out->evenness);
    if (status == WEFT_OK && !again) {
        const weft_train_options *o = &t->options;
        out->dtype = element_type(t);
        double bytes = (double)weft_dtype_size(out->dtype);
        bool all = !o->weights.freeze && !o->update.lr_multiplier && !o->parallel.shard;
        out->parameter_bytes = o->parallel.shard ? 0 : bytes * (double)weft_rank_parameters(&rank);
        out->gradient_bytes = all ? out->parameter_bytes : 0;
    }
    weft_program_destroy(&program);
    weft_rank_free(&rank);
    return status;
}

static weft_status look(const weft_site *site, const strategy_space *space, bool again,
                        strategy_work *out)
{
    weft_train_options options;
    weft_trainer *t = NULL;
    WEFT_TRY(strategy_space_simplest(space, &options));
    options.parallel.recompute = again;
    weft_status status = weft_trainer_prepare(space->context, &options, NULL, &t);
    if (status == WEFT_OK) status = look_at(site, t, again, out);
    weft_trainer_destroy(&t);
    weft_step_estimate step;
    if (status == WEFT_OK && !again)
        status = weft_site_memory(site, space->context, &options, &step);
    weft_options_free(space->table, &options);
    out->refused = strategy_is_refused(status);
    return out->refused ? WEFT_OK : status;
}

weft_status strategy_work_find(const weft_site *site, const strategy_space *space,
                               strategy_work *out)
{
    const strategy_values *exchanges = &space->values[STRATEGY_EXCHANGE];
    *out = (strategy_work){.evenness = 1};
    WEFT_TRY(WEFT_NEW(&out->meetings, exchanges->count));
    for (size_t e = 0; e < exchanges->count; e++) {
        const char *spec = e ? exchanges->text[e] : space->given->parallel.exchange;
        weft_meetings meetings = {.period = 0};
        if (spec) WEFT_TRY(weft_exchange_meetings(space->context, spec, &meetings));
        out->meetings[e] = meetings.period;
    }
    for (int again = 0; again < 2; again++) WEFT_TRY(look(site, space, again, out));
    return WEFT_OK;
}

void strategy_work_free(strategy_work *work)
{
    free(work->meetings);
}

/* --- bounds --- */

static const weft_machine_group *group_of(const strategy_place *p, int rank)
{
    return weft_cluster_group_of(p->cluster, rank / p->each);
}

strategy_place strategy_place_of(const weft_site *site, const strategy_space *space, int ranks)
{
    strategy_place p = {.cluster = &site->cluster, .ranks = ranks, .latency = INFINITY};
    int64_t threads = space->given->where.threads, cores = INT64_MAX;
    p.each = (int)((ranks + space->machines - 1) / space->machines);
    p.machines = (ranks + p.each - 1) / p.each;
    for (int m = 0; m < p.machines; m++) {
        const weft_machine_group *g = weft_cluster_group_of(p.cluster, m);
        cores = WEFT_MIN(cores, g->cores);
        p.bandwidth += g->link.bandwidth > 0 ? g->link.bandwidth : INFINITY;
        p.memory += g->memory > 0 ? g->memory : INFINITY;
        p.latency = WEFT_MIN(p.latency, g->link.latency);
    }
    if (p.machines == 1) p.latency = 0;
    if (threads == 0) threads = weft_usual_threads(cores, p.each);
    p.each_threads = (double)threads;
    p.threads = (double)threads * WEFT_MIN(1, (double)cores / ((double)threads * p.each));
    return p;
}

/* The threads of ranks `begin` to `end` - 1, times their speeds. */
static double threads_of(const strategy_place *p, int begin, int end)
{
    double sum = 0;
    for (int r = begin; r < end; r++)
        sum += p->threads * group_of(p, r)->speed * group_of(p, r)->awake;
    return sum;
}

/* The part of what `count` ranks send to all others alike that crosses to other machines, as the
 * number of ranks that would send it all; the ranks are `first`, `first` + `stride` and so on. */
static double crossing(const strategy_place *p, int first, int stride, int count)
{
    double sum = 0;
    for (int i = 0, next; i < count; i = next) {
        int machine = (first + i * stride) / p->each;
        for (next = i + 1; next < count && (first + next * stride) / p->each == machine;) next++;
        sum += (double)(next - i) * (count - (next - i)) / (count - 1);
    }
    return sum;
}

/* The least of all groups of ranks on an axis, whose ranks are `stride` apart, from rank `begin` to
 * `end`. */
static double least_crossing(const strategy_place *p, int begin, int end, int stride, int count)
{
    double least = INFINITY;
    for (int first = begin; first < end; first += stride * count)
        for (int i = 0; i < stride; i++)
            least = WEFT_MIN(least, crossing(p, first + i, stride, count));
    return least;
}

/* Bytes between machines in a step, at least: a sum over n ranks sends 2 (n - 1) / n of its bytes
 * from each. */
static double bytes_between(const strategy_space *space, const strategy_work *work,
                            const strategy_place *p, const strategy_candidate *c)
{
    int mesh = c->at[STRATEGY_MESH], ranks = (int)space->mesh_ranks[mesh];
    int data = (int)strategy_space_axis(space, mesh, "data"), learners = c->learners;
    int64_t period = work->meetings[c->at[STRATEGY_EXCHANGE]];
    int stride = (int)(strategy_space_axis(space, mesh, "tensor") *
                       strategy_space_axis(space, mesh, "domain"));
    double bytes = 0;
    for (int l = 0; l < learners && data > 1; l++)
        bytes += work->gradient_bytes * 2 * (data - 1) / data *
                 least_crossing(p, l * ranks, (l + 1) * ranks, stride, data);
    if (period > 0 && learners > 1)
        bytes += work->parameter_bytes * 2 * (learners - 1) / learners / (double)period *
                 least_crossing(p, 0, p->ranks, ranks, learners);
    return bytes;
}

/* Each learner's mesh has ranks of several machines, or learners of several machines meet. */
static double late_in(const strategy_space *space, const strategy_work *work,
                      const strategy_place *p, const strategy_candidate *c)
{
    int64_t period = work->meetings[c->at[STRATEGY_EXCHANGE]];
    if (work->gradient_bytes <= 0) return 0;
    if (space->mesh_ranks[c->at[STRATEGY_MESH]] > p->each) return p->latency;
    return period > 0 && c->learners > 1 ? p->latency / (double)period : 0;
}

void strategy_means_find(const weft_site *site, const strategy_space *space,
                         const strategy_work *work, const strategy_candidate *c,
                         strategy_means *out)
{
    int mesh = c->at[STRATEGY_MESH];
    int ranks = (int)space->mesh_ranks[mesh] * c->learners;
    strategy_place p = strategy_place_of(site, space, ranks);
    *out = (strategy_means){.threads = threads_of(&p, 0, ranks),
                            .links = bytes_between(space, work, &p, c) / p.bandwidth,
                            .late = late_in(space, work, &p, c),
                            .stages = (int)strategy_space_axis(space, mesh, "pipeline"),
                            .learners = c->learners,
                            .samples = (double)(space->given->length.batch * c->learners),
                            .fits = work->parameter_bytes * c->learners <= p.memory};
    int stage = (int)space->mesh_ranks[mesh] / out->stages;
    for (int r = 0; r < ranks; r += stage)
        out->stage = WEFT_MAX(out->stage, threads_of(&p, r, r + stage));
}

/* The time of a step whose stages together take `all` seconds for a micro-batch. */
static double pipeline_time(double all, double microbatches, int stages)
{
    return all / (1 - pow(1 - 1 / microbatches, stages));
}

double strategy_bound(const strategy_space *space, const strategy_work *work,
                      const strategy_means *means, const strategy_candidate *c,
                      const strategy_known *known)
{
    enum { TWENTIETHS = 19 };
    double pieces = (double)strategy_space_microbatches(space, c), least = TWENTIETHS / 20.0;
    double seconds = work->thread_seconds[c->at[STRATEGY_RECOMPUTE] > 0];
    /* Learners that do not wait for each other are played: what one candidate takes says nothing of
     * another one. */
    if (work->meetings[c->at[STRATEGY_EXCHANGE]] < 0) least = 0;
    double bounds[] = {
        seconds * means->learners / means->threads,
        pipeline_time(seconds / means->stage / pieces, pieces, means->stages),
        least * work->evenness * known->kernels,
        means->links,
        means->late,
        least * known->links,
    };
    double most = 0;
    for (size_t i = 0; i < WEFT_COUNT(bounds); i++) most = WEFT_MAX(most, bounds[i]);
    return means->samples / most;
}
