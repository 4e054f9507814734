/* Turns the programs of ranks into the tasks of a timeline. */
#include <stdio.h>

#include "ops/ops.h"
#include "program/walk.h"
#include "train/estimate/tracks.h"

typedef struct track {
    weft_trainer *t;
    const weft_times *times;
    const weft_hosts *hosts;
    weft_tracks *out;
    const weft_rank *rank;
    int learner, id; /* id: the rank's number in the job */
    const weft_program *program;
    weft_estimate *known; /* [instructions] of this rank; seconds below 0: not yet */
    int *begun;           /* [instructions, slots] the transfer that has begun */
    int *members;         /* [ranks] */
} track;

void weft_transfer_timed(weft_transfer_kind kind, const char *engine, char out[WEFT_TRANSFER_KIND])
{
    (void)snprintf(out, WEFT_TRANSFER_KIND, "%s %.40s", weft_transfer_name(kind), engine);
}

static weft_status estimate(track *k, int i, weft_estimate *out)
{
    weft_work work;
    if (k->known[i].seconds < 0) {
        WEFT_TRY(weft_instruction_work(k->program, i, &work));
        const weft_timed what = {.kind = work.kind,
                                 .group = work.size,
                                 .threads = k->hosts->threads,
                                 .ranks = k->hosts->each,
                                 .flops = work.flops,
                                 .bytes = work.bytes};
        k->known[i] = weft_times_estimate(k->times, &what);
    }
    *out = k->known[i];
    return WEFT_OK;
}

static weft_status run(track *k, int i)
{
    weft_estimate e;
    WEFT_TRY(estimate(k, i, &e));
    k->out->by[e.by] += e.seconds;
    k->out->errors[e.by] += e.seconds * e.error;
    return weft_timeline_compute(k->out->line, k->id, e.seconds / k->hosts->speed[k->id], true);
}

/* --- transfers --- */

/* The ranks of a communicator of axes (below 0: of the learner) that this rank is in. */
static int find_members(const track *k, int axes, uint64_t *key)
{
    const weft_plan *plan = k->rank->plan;
    int count = 0;
    *key = weft_mix(weft_mix(77, (uint64_t)k->learner), (uint64_t)(axes + 1));
    for (int a = 0; axes >= 0 && weft_axis_name(a); a++)
        if (!(axes & 1 << a))
            *key = weft_mix(*key, (uint64_t)weft_plan_coordinate(plan, k->rank->rank, a));
    for (int r = 0; r < k->t->mesh; r++) {
        bool here = true;
        for (int a = 0; axes >= 0 && weft_axis_name(a) && here; a++)
            here = axes & 1 << a ||
                   weft_plan_coordinate(plan, r, a) == weft_plan_coordinate(plan, k->rank->rank, a);
        if (here) k->members[count++] = k->learner * k->t->mesh + r;
    }
    return count;
}

/* The bytes of a transfer that cross to other machines, of those that the rank sends to all other
 * members alike. */
static double share_elsewhere(const track *k, int count)
{
    const int *machine = k->hosts->machine;
    int elsewhere = 0;
    for (int i = 0; i < count; i++) elsewhere += machine[k->members[i]] != machine[k->id];
    return count > 1 ? (double)elsewhere / (count - 1) : 0;
}

/* The members of the communicator on this machine, at most. */
static int members_here(const track *k, int count)
{
    int here = 0;
    for (int i = 0; i < count; i++)
        here += k->hosts->machine[k->members[i]] == k->hosts->machine[k->id];
    return here;
}

static weft_part_cost cost_of(const track *k, weft_transfer_kind kind, double bytes, int count,
                              int stages)
{
    char text[WEFT_TRANSFER_KIND];
    weft_transfer_timed(kind, k->t->options.job.engine, text);
    const weft_timed what = {.kind = text,
                             .group = "",
                             .threads = 1,
                             .ranks = WEFT_MAX(members_here(k, count), 2),
                             .bytes = bytes};
    double far = bytes * share_elsewhere(k, count) / stages;
    return (weft_part_cost){.work = weft_times_estimate(k->times, &what).seconds / stages,
                            .bytes = {far, far}};
}

/* Begins a collective of the members. */
static weft_status begin_collective(track *k, weft_transfer_kind kind, uint64_t key, int count,
                                    double bytes, int *out)
{
    int stages = kind == WEFT_ALL_REDUCE ? 2 : 1;
    weft_part_cost cost = cost_of(k, kind, bytes, count, stages);
    return weft_timeline_start(k->out->line, k->id, key,
                               stages == 2 ? WEFT_MEET_TWICE : WEFT_MEET_ONCE, k->members, count,
                               &cost, out);
}

static weft_status begin_message(track *k, const weft_node *node, bool sends, double bytes,
                                 int *out)
{
    int peer = k->learner * k->t->mesh + (int)weft_node_int(node, "peer", 0, 0);
    int from = sends ? k->id : peer, to = sends ? peer : k->id;
    uint64_t key = weft_mix(weft_mix(78, (uint64_t)from), (uint64_t)to);
    key = weft_mix(key, (uint64_t)weft_node_int(node, "tag", 0, 0));
    k->members[0] = from;
    k->members[1] = to;
    weft_part_cost cost = cost_of(k, WEFT_RECEIVE, bytes, 2, 1);
    cost.bytes[sends] = 0;
    if (sends) cost.work = 0;
    return weft_timeline_start(k->out->line, k->id, key, WEFT_MEET_PASS, k->members, 2, &cost, out);
}

static weft_status begin(track *k, int i, int *out)
{
    const weft_node *node = weft_instruction_transfer(k->program, i);
    const weft_graph *g = weft_rewritten_graph(k->rank->mine);
    weft_transfer_kind kind = weft_transfer_kind_of(node);
    if (kind == WEFT_SEND || kind == WEFT_RECEIVE) {
        bool sends = kind == WEFT_SEND;
        const weft_type *type = sends ? weft_in(g, node, 0) : weft_out(g, node, 0);
        return begin_message(k, node, sends, (double)weft_type_bytes(type), out);
    }
    uint64_t key;
    int count = find_members(k, (int)weft_node_int(node, "axes", 0, -1), &key);
    return begin_collective(k, kind, key, count, weft_instruction_sends(k->program, i), out);
}

/* The ranks of a learner add up the loss and their requests to stop, and wait for it. */
static weft_status add_loss(track *k)
{
    int transfer;
    uint64_t key;
    if (k->t->mesh == 1) return WEFT_OK;
    int count = find_members(k, -1, &key);
    WEFT_TRY(
        begin_collective(k, WEFT_ALL_REDUCE, key, count, sizeof(weft_step_consensus), &transfer));
    return weft_timeline_finish(k->out->line, k->id, transfer);
}

static weft_status on_event(void *user, weft_walk_event event, int i, int slot)
{
    track *k = user;
    int *begun =
        i >= 0 ? &k->begun[(size_t)i * (size_t)k->rank->schedule.slots + (size_t)slot] : NULL;
    switch (event) {
    case WEFT_WALK_FEED: return WEFT_OK; /* part of the rest */
    case WEFT_WALK_RUN: return run(k, i);
    case WEFT_WALK_START: return begin(k, i, begun);
    case WEFT_WALK_FINISH: return weft_timeline_finish(k->out->line, k->id, *begun);
    case WEFT_WALK_LOSS: return add_loss(k);
    }
    return WEFT_OK;
}

/* --- ranks --- */

static weft_status add_rest(track *k, const weft_program_info *info)
{
    double microbatches = (double)k->t->run_spec.microbatches;
    const weft_timed what = {.kind = WEFT_STEP_TIMED,
                             .group = "",
                             .threads = k->hosts->threads,
                             .ranks = k->hosts->each,
                             .flops = info->instructions * microbatches,
                             .bytes = (double)info->input_bytes * microbatches};
    double rest = weft_times_estimate(k->times, &what).seconds;
    k->out->rest += rest / k->t->size;
    return weft_timeline_compute(k->out->line, k->id, rest, false);
}

/* The learners add up their parameters, at the end of some steps. */
static weft_status add_meeting(track *k, const weft_program_info *info)
{
    int transfer, learners = k->t->learners;
    double bytes = (double)(info->parameter_bytes + (k->out->with_state ? info->state_bytes : 0));
    weft_timeline_mark(k->out->line, k->id);
    if (!k->out->meets) return WEFT_OK;
    for (int l = 0; l < learners; l++) k->members[l] = l * k->t->mesh + k->rank->rank;
    uint64_t key = weft_mix(79, (uint64_t)k->rank->rank);
    WEFT_TRY(begin_collective(k, WEFT_ALL_REDUCE, key, learners,
                              2 * bytes * (learners - 1) / learners, &transfer));
    return weft_timeline_finish(k->out->line, k->id, transfer);
}

static double bytes_of(const weft_program_info *info)
{
    return (double)(info->parameter_bytes + info->state_bytes + info->gradient_bytes +
                    info->arena_bytes + info->slot_bytes + info->input_bytes + info->scratch_bytes +
                    info->transfer_bytes + info->sequence_bytes);
}

static weft_status walk(track *k)
{
    weft_program_info info = weft_program_describe(k->program);
    size_t count = (size_t)info.instructions, slots = (size_t)k->rank->schedule.slots;
    if (info.device_bytes > 0)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "the time of a device with memory of its own cannot be predicted; give "
                         "--device cpu");
    weft_status status = WEFT_NEW(&k->known, count + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&k->begun, (count + 1) * slots);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) k->known[i].seconds = -1;
    for (k->learner = 0; k->learner < k->t->learners && status == WEFT_OK; k->learner++) {
        k->id = k->learner * k->t->mesh + k->rank->rank;
        k->hosts->bytes[k->hosts->machine[k->id]] += bytes_of(&info);
        status = add_rest(k, &info);
        if (status == WEFT_OK)
            status = weft_program_walk(k->program, &k->rank->schedule, on_event, k);
        if (status == WEFT_OK) status = add_meeting(k, &info);
    }
    free(k->known);
    free(k->begun);
    return status;
}

static weft_status add_rank(track *k, weft_rank *r)
{
    weft_program *program = NULL;
    WEFT_TRY(weft_rank_rewrite(r));
    WEFT_TRY(weft_rank_dry_program(r, &program));
    k->rank = r;
    k->program = program;
    weft_status status = walk(k);
    weft_program_destroy(&program);
    return status;
}

weft_status weft_tracks_make(weft_trainer *t, const weft_times *times, const weft_hosts *hosts,
                             weft_tracks *out)
{
    track k = {.t = t, .times = times, .hosts = hosts, .out = out};
    WEFT_TRY(WEFT_NEW(&k.members, t->size + 2));
    weft_status status = WEFT_OK;
    for (int r = 0; r < t->mesh && status == WEFT_OK; r++) {
        weft_rank rank = {.run_spec = &t->run_spec, .rank = r};
        status = add_rank(&k, &rank);
        weft_rank_free(&rank);
    }
    free(k.members);
    return status;
}
