/* Predicts the memory of the processes of a run. The graphs and programs of a rank are made as in a
 * run, so that what they take is counted and not computed; arrays, which a plan does not allocate,
 * are the bytes that the code reports which allocates them. */
#include "train/estimate/memory.h"

#include "comm/comm.h"
#include "program/program.h"
#include "rewrite/rewrite.h"

static const char *const names[WEFT_MEMORY_PARTS] = {
    [WEFT_MEMORY_WEIGHTS] = "weights",       [WEFT_MEMORY_STATE] = "state",
    [WEFT_MEMORY_GRADIENTS] = "gradients",   [WEFT_MEMORY_ACTIVATIONS] = "activations",
    [WEFT_MEMORY_SCRATCH] = "scratch",       [WEFT_MEMORY_STAGING] = "staging",
    [WEFT_MEMORY_EVALUATION] = "evaluation", [WEFT_MEMORY_BATCHES] = "batches",
    [WEFT_MEMORY_EXCHANGE] = "exchange",     [WEFT_MEMORY_PROGRAMS] = "programs",
};

const char *weft_memory_part_name(weft_memory_part part)
{
    WEFT_CHECK_INDEX_ELSE(NULL, part, WEFT_MEMORY_PARTS);
    return names[part];
}

weft_status weft_memory_plan_open(const weft_trainer *t, weft_memory_plan *out)
{
    *out = (weft_memory_plan){.mesh = t->mesh};
    weft_status status = weft_new_bytes((void *)&out->part, (size_t)t->mesh, sizeof(*out->part));
    if (status == WEFT_OK)
        status = weft_new_bytes((void *)&out->moment, (size_t)t->mesh, sizeof(*out->moment));
    if (status == WEFT_OK) status = WEFT_NEW(&out->first, t->mesh);
    if (status == WEFT_OK) status = WEFT_NEW(&out->hosted, t->mesh);
    if (status != WEFT_OK) weft_memory_plan_close(out);
    return status;
}

void weft_memory_plan_close(weft_memory_plan *m)
{
    free(m->part);
    free(m->moment);
    free(m->first);
    free(m->hosted);
    *m = (weft_memory_plan){.mesh = 0};
}

static void add_program(const weft_program *program, double part[WEFT_MEMORY_PARTS])
{
    const weft_program_info info = weft_program_on_host(program);
    part[WEFT_MEMORY_WEIGHTS] = (double)info.parameter_bytes;
    part[WEFT_MEMORY_STATE] = (double)info.state_bytes;
    part[WEFT_MEMORY_GRADIENTS] = (double)info.gradient_bytes;
    part[WEFT_MEMORY_ACTIVATIONS] = (double)(info.arena_bytes + info.slot_bytes + info.input_bytes +
                                             info.sequence_bytes + info.derived_bytes);
    part[WEFT_MEMORY_SCRATCH] = (double)info.scratch_bytes;
    part[WEFT_MEMORY_STAGING] = (double)info.transfer_bytes;
}

/* The batches of the training, which are there until its end. */
static void add_batches(weft_trainer *t, const weft_rank *r, double part[WEFT_MEMORY_PARTS])
{
    const weft_run run = {.job = t, .rank = *r};
    const weft_loader_options options = weft_run_loader(&run);
    part[WEFT_MEMORY_BATCHES] = (double)weft_loader_bytes(t->data, &options);
}

/* The ranks of the job, of the learner and those of the same place in other learners have a
 * communicator each, and so have sets of the mesh's axes. */
static void add_communicators(const weft_trainer *t, const weft_rank *r,
                              double part[WEFT_MEMORY_PARTS])
{
    const char *engine = t->options.job.engine;
    int sizes[WEFT_MESH_MASKS + 3], count = weft_plan_comms(r->plan, sizes);
    if (t->size < 2) return;
    sizes[count++] = t->size;
    sizes[count++] = t->mesh;
    sizes[count++] = t->learners;
    for (int i = 0; i < count; i++)
        part[WEFT_MEMORY_STAGING] += (double)weft_comm_share_bytes(t->context, engine, sizes[i]);
}

/* The most that the evaluation of a split takes while it runs. */
static weft_status evaluation_moment(const weft_rank *r, double *moment)
{
    const weft_run_spec *k = r->run_spec;
    for (int split = WEFT_TRAIN + 1; split < WEFT_SPLITS; split++) {
        size_t bytes;
        if (weft_dataset_count(k->data, (weft_split)split) == 0) continue;
        WEFT_TRY(weft_evaluator_bytes(k->context, k->data, (weft_split)split, k->model.batch,
                                      k->real, k->metrics, &bytes));
        *moment = WEFT_MAX(*moment, (double)bytes);
    }
    return WEFT_OK;
}

/* The program that evaluates reads the parameters of the training. The program stays
 * from the first evaluation on. */
static weft_status add_evaluation(const weft_rank *r, weft_store *store,
                                  double part[WEFT_MEMORY_PARTS], double *moment,
                                  weft_program **program)
{
    double graphs;
    WEFT_TRY(weft_rank_dry_evaluation_on(r, store, false, &graphs, program));
    if (!*program) return WEFT_OK;
    weft_program_info info = weft_program_on_host(*program);
    part[WEFT_MEMORY_PROGRAMS] = graphs;
    part[WEFT_MEMORY_EVALUATION] = weft_program_bytes(&info) + (double)info.derived_bytes -
                                   (double)(info.parameter_bytes + info.state_bytes);
    return evaluation_moment(r, moment);
}

/* Averages of parameters that the exchange updates are state, and have a program. */
static weft_status add_averages(const weft_rank *r, weft_store *store,
                                double part[WEFT_MEMORY_PARTS], weft_program **program)
{
    WEFT_TRY(weft_averages_dry_program(r, store, program));
    if (!*program) return WEFT_OK;
    weft_program_info info = weft_program_on_host(*program);
    part[WEFT_MEMORY_STATE] = (double)info.state_bytes; /* of the whole store */
    part[WEFT_MEMORY_SCRATCH] +=
        weft_program_bytes(&info) - (double)(info.parameter_bytes + info.state_bytes);
    return WEFT_OK;
}

/* Whether a rank is the first of those of its learner that have its shard of the parameters. */
static bool leads(const weft_plan *plan, int rank)
{
    return weft_plan_coordinate(plan, rank, AXIS_DATA) == 0 &&
           weft_plan_coordinate(plan, rank, AXIS_DOMAIN) == 0;
}

/* Whether learners take their steps together, or none of them exchanges anything. Other exchanges
 * have freed their arrays when the run has ended. */
static bool is_lockstep(const weft_trainer *t)
{
    const weft_exchange_ops *ops = NULL;
    const char *arguments, *exchange = t->run_spec.exchange;
    if (exchange && t->learners > 1)
        (void)!weft_exchange_find(t->context, exchange, &ops, &arguments);
    return !ops || ops->lockstep;
}

/* Whether an evaluation or a checkpoint after an epoch, or after each `every` steps, is made while
 * batches of the training are there. The last ones of a run may be made when they have gone. */
static bool is_amid(const weft_trainer *t, int64_t every)
{
    const weft_length_choice *length = &t->options.length;
    int64_t all = length->batch * t->learners, epoch = (t->samples + all - 1) / all;
    int64_t last = t->total_steps - !is_lockstep(t);
    return epoch <= last || (every > 0 && every <= last);
}

/* A checkpoint is gathered and written tensor by tensor. */
static double checkpoint_room(const weft_trainer *t, const weft_rank *r, const weft_store *store,
                              bool first)
{
    if (!t->options.output.checkpoint) return 0;
    return (double)weft_checkpoint_room(r->graph, store, first);
}

/* The bytes that the engine takes for the sum of the parameters where learners meet. */
static double meeting_room(const weft_trainer *t, const weft_exchange_sizes *sizes)
{
    weft_meetings m;
    const weft_transfer sum = {.kind = WEFT_ALL_REDUCE,
                               .dtype = sizes->dtype,
                               .count = sizes->count,
                               .send = sizes,
                               .receive = &m};
    if (weft_exchange_meetings(t->context, t->run_spec.exchange, &m) != WEFT_OK || m.period < 0)
        return 0;
    return (double)weft_comm_room_bytes(t->context, t->options.job.engine, &sum, t->learners);
}

/* The exchange says what it takes of each learner, beside that for all of them, and where its
 * servers are. Sets *room to what the engine takes where learners meet. */
static weft_status ask_exchange(weft_memory_plan *m, const weft_trainer *t, const weft_rank *r,
                                const weft_store *store, weft_exchange_memory *out, double *room)
{
    weft_exchange_least least;
    const weft_run_spec *k = r->run_spec;
    const weft_exchange_plan plan = {.context = k->context,
                                     .learners = t->learners,
                                     .servers = WEFT_MAX(k->servers, 1),
                                     .replicas = k->replicas,
                                     .codec = k->codec,
                                     .back = k->back,
                                     .hosted = t->engine->hosted,
                                     .here = t->engine->processes ? 1 : t->learners};
    weft_exchange_sizes sizes = {.struct_size = sizeof(sizes),
                                 .plan = &plan,
                                 .optimizer = &k->optimizer,
                                 .store = store,
                                 .bf16_sums = k->plan.bf16_sums,
                                 .saves = k->saves,
                                 .steps = t->total_steps};
    *out = (weft_exchange_memory){.struct_size = sizeof(*out)};
    *room = 0;
    if (!k->exchange || t->learners < 2) return WEFT_OK;
    weft_store_planned(store, &sizes.dtype, &sizes.count);
    WEFT_TRY(weft_exchange_memory_of(k->exchange, &sizes, out));
    WEFT_TRY(weft_exchange_least_of(k->exchange, &sizes, &least));
    m->host = least.host;
    *room = meeting_room(t, &sizes);
    return WEFT_OK;
}

/* Takes the batches of the training off the moments in which they are not there. A run that
 * evaluates after its end alone has the program of the evaluation in place of the exchange's
 * arrays.
 */
static void place_moments(const weft_trainer *t, double part[WEFT_MEMORY_PARTS],
                          double moment[MOMENTS])
{
    const weft_output_choice *o = &t->options.output;
    bool evaluates = is_amid(t, o->evaluate_every),
         saves = is_amid(t, o->keep_best ? o->evaluate_every : o->checkpoint_every);
    double gone = part[WEFT_MEMORY_BATCHES], end = moment[MOMENT_CHECKPOINT] - gone;
    moment[MOMENT_END] -= gone;
    double freed = is_lockstep(t) ? 0 : part[WEFT_MEMORY_EXCHANGE];
    if (evaluates) {
        if (!saves) moment[MOMENT_CHECKPOINT] = end - freed;
        return;
    }
    double more = part[WEFT_MEMORY_EVALUATION] - freed;
    part[WEFT_MEMORY_EVALUATION] = 0;
    moment[MOMENT_EVALUATION] += more - gone;
    moment[MOMENT_CHECKPOINT] =
        saves ? WEFT_MAX(moment[MOMENT_CHECKPOINT], end + more) : end + more;
}

/* Sets the numbers of the ranks of a kind from those of its first one, r. */
static void set_kind(weft_memory_plan *m, const weft_trainer *t, const weft_rank *r,
                     const int *kind, const weft_exchange_memory *takes, const double room[2])
{
    bool hosted = t->engine->hosted;
    double part[WEFT_MEMORY_PARTS], moment[MOMENTS];
    memcpy(part, m->part[r->rank], sizeof(part));
    memcpy(moment, m->moment[r->rank], sizeof(moment));
    for (int i = r->rank; i < m->mesh; i++) {
        bool lead = leads(r->plan, i);
        if (kind[i] != kind[r->rank]) continue;
        memcpy(m->part[i], part, sizeof(part));
        memcpy(m->moment[i], moment, sizeof(moment));
        m->part[i][WEFT_MEMORY_EXCHANGE] = lead ? takes->learner : 0;
        m->moment[i][MOMENT_END] = lead ? takes->end : 0;
        m->moment[i][MOMENT_CHECKPOINT] = lead ? room[i == 0] : 0;
        place_moments(t, m->part[i], m->moment[i]);
        m->first[i] = lead ? takes->shared : 0;
        m->hosted[i] = lead && hosted ? takes->server : 0;
        m->server += lead && !hosted ? takes->server : 0;
    }
}

/* The memory of a process without its ranks: all that is resident now but the graphs and programs
 * of the first rank, and with each rank of another kind what libraries map for it, as for generated
 * code. */
static void measure_process(weft_memory_plan *m, const weft_rank *r, double programs)
{
    weft_trim_memory();
    double resident = (double)weft_resident_memory();
    double mapped = resident - (double)weft_allocated_memory();
    if (r->rank == 0)
        m->shared = resident - programs - m->beside;
    else
        m->shared += WEFT_MAX(mapped - m->mapped, 0.0);
    m->mapped = r->rank == 0 ? mapped : WEFT_MAX(m->mapped, mapped);
}

enum { PROGRAMS = 3 }; /* that train, move averages and evaluate */

/* Counts the graphs and programs of a rank, as a run has them: with what an instance of each has
 * for its kernels, and a kernel for each instruction. */
static weft_status count_programs(weft_memory_plan *m, const weft_rank *r,
                                  const weft_program *programs[PROGRAMS], size_t before)
{
    weft_bound **bound[PROGRAMS] = {NULL};
    weft_status status = WEFT_OK;
    double saved = 0;
    for (int i = 0; i < PROGRAMS && status == WEFT_OK; i++) {
        size_t more = 0;
        if (programs[i]) status = weft_program_bind(programs[i], &bound[i], &saved);
        if (programs[i]) (void)weft_program_kernels(programs[i], &more);
        saved += (double)more;
    }
    double bytes =
        r->graph_bytes + r->part_bytes + (double)weft_allocated_memory() - (double)before;
    m->part[r->rank][WEFT_MEMORY_PROGRAMS] += bytes + saved; /* beside graphs of the evaluation */
    if (r->rank == 0) m->measured = m->shared == 0;
    if (m->measured) measure_process(m, r, bytes);
    for (int i = 0; i < PROGRAMS; i++)
        if (programs[i]) weft_program_unbind(programs[i], &bound[i]);
    return status;
}

/* Memory that stays when the programs have gone is that of the process, and not of each rank. */
void weft_memory_plan_stays(weft_memory_plan *m, int rank, double bytes, const int *kind)
{
    if (!weft_kind_first(kind, rank)) return;
    for (int r = rank; r < m->mesh; r++)
        if (kind[r] == kind[rank]) m->part[r][WEFT_MEMORY_PROGRAMS] -= bytes;
    if (m->measured) m->shared += bytes;
}

weft_status weft_memory_plan_add(weft_memory_plan *m, weft_trainer *t, const weft_rank *r,
                                 weft_store *store, const weft_program *program, size_t before,
                                 const int *kind)
{
    double *part = m->part[r->rank], *moment = m->moment[r->rank];
    double room[2];
    weft_exchange_memory takes;
    weft_program *evaluation = NULL, *averages = NULL;
    if (!weft_kind_first(kind, r->rank)) return WEFT_OK;
    add_program(program, part);
    add_communicators(t, r, part);
    add_batches(t, r, part);
    weft_status status = add_averages(r, store, part, &averages);
    if (status == WEFT_OK)
        status = add_evaluation(r, store, part, &moment[MOMENT_EVALUATION], &evaluation);
    for (int first = 0; first < 2; first++) room[first] = checkpoint_room(t, r, store, first);
    if (status == WEFT_OK) status = ask_exchange(m, t, r, store, &takes, &moment[MOMENT_MEETING]);
    if (status == WEFT_OK)
        status =
            count_programs(m, r, (const weft_program *[]){program, averages, evaluation}, before);
    if (status == WEFT_OK) {
        moment[MOMENT_MEETING] += takes.moment;
        set_kind(m, t, r, kind, &takes, room);
    }
    weft_program_destroy(&averages);
    weft_program_destroy(&evaluation);
    return status;
}
