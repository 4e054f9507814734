/* Lower bounds of the time of a step.
 *
 * Kernels: however a mesh cuts a graph, its ranks together compute all operations of forward and
 * backward, and none of them faster than the fastest measurement of its operator. The ranks' sum of
 * kernels divided by their threads and speeds is below the time of the slowest.
 *
 * Links: ranks that share a batch add up each gradient, and learners that meet each parameter; a
 * part crosses to other machines. The links of all machines together carry it no faster than the
 * sum of their bandwidths.
 *
 * Memory: each learner has all parameters somewhere. */
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
                               double *seconds)
{
    op_list list = {0};
    int count = weft_program_describe(program).instructions;
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (!weft_instruction_updates(program, i) && !weft_instruction_transfer(program, i))
            status = add_instruction(&list, times, program, i);
    for (size_t i = 0; i < list.count; i++) *seconds += list.at[i].flops * list.at[i].least;
    free(list.at);
    return status;
}

/* Bytes of an element that crosses between ranks, at least. */
static double element_bytes(const weft_trainer *t)
{
    const weft_run_spec *k = &t->run_spec;
    bool narrow = k->real == WEFT_BF16 || k->bf16_weights || k->plan.bf16_sums;
    return (double)weft_dtype_size(narrow ? WEFT_BF16 : k->real);
}

/* again: with recomputation. */
static weft_status look_at(const weft_site *site, weft_trainer *t, bool again, strategy_work *out)
{
    weft_program *program = NULL;
    weft_rank rank = {.run_spec = &t->run_spec, .rank = 0};
    weft_status status = weft_rank_rewrite(&rank);
    if (status == WEFT_OK) status = weft_rank_dry_program(&rank, &program);
    if (status == WEFT_OK) status = add_program(site->times, program, &out->thread_seconds[again]);
    if (status == WEFT_OK && !again) {
        const weft_train_options *o = &t->options;
        double bytes = element_bytes(t);
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
    weft_options_free(space->table, &options);
    return strategy_is_refused(status) ? WEFT_OK : status;
}

weft_status strategy_work_find(const weft_site *site, const strategy_space *space,
                               strategy_work *out)
{
    const strategy_values *exchanges = &space->values[STRATEGY_EXCHANGE];
    *out = (strategy_work){.gradient_bytes = 0};
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

/* The ranks of a candidate on the machines, as estimates place them. */
typedef struct strategy_place {
    const weft_cluster *cluster;
    int ranks, each, machines;
    double threads;   /* that work, of all ranks, times the speeds of their machines */
    double bandwidth; /* of all machines' links; INFINITY: one is unlimited */
    double memory;    /* of all machines; INFINITY: one is not known */
} strategy_place;

static strategy_place place_of(const weft_site *site, const strategy_space *space, int ranks)
{
    strategy_place p = {.cluster = &site->cluster, .ranks = ranks};
    int64_t threads = space->given->where.threads, cores = INT64_MAX;
    p.each = (int)((ranks + space->machines - 1) / space->machines);
    p.machines = (ranks + p.each - 1) / p.each;
    for (int m = 0; m < p.machines; m++)
        cores = WEFT_MIN(cores, weft_cluster_group_of(p.cluster, m)->cores);
    if (threads == 0) threads = WEFT_MAX(cores / p.each, (int64_t)1);
    double share = WEFT_MIN(1, (double)cores / ((double)threads * p.each));
    for (int m = 0; m < p.machines; m++) {
        const weft_machine_group *g = weft_cluster_group_of(p.cluster, m);
        int here = WEFT_MIN(p.each, ranks - m * p.each);
        p.threads += here * (double)threads * share * g->speed * g->awake;
        p.bandwidth += g->link.bandwidth > 0 ? g->link.bandwidth : INFINITY;
        p.memory += g->memory > 0 ? g->memory : INFINITY;
    }
    return p;
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

double strategy_bound(const weft_site *site, const strategy_space *space, const strategy_work *work,
                      const strategy_candidate *c, bool *fits)
{
    int ranks = (int)space->mesh_ranks[c->at[STRATEGY_MESH]] * c->learners;
    strategy_place p = place_of(site, space, ranks);
    bool again = c->at[STRATEGY_RECOMPUTE] > 0;
    double kernels = work->thread_seconds[again] * c->learners / p.threads;
    double links = bytes_between(space, work, &p, c) / p.bandwidth;
    *fits = work->parameter_bytes * c->learners <= p.memory;
    return (double)(space->given->length.batch * c->learners) / WEFT_MAX(kernels, links);
}
