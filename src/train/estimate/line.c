/* Makes the timeline of a run from the tracks of its programs: one rank of it stands for all ranks
 * that are equal, and ranks with one program have one list of tasks. */
#include "comm/comm.h"
#include "train/estimate/tracks.h"

/* The members of a group on the timeline. */
typedef struct company {
    int *members, count;          /* each rank of the timeline once, in the order of the group */
    int *carriers, carrier_count; /* those of one machine for each of the timeline; none: no link */
    uint64_t key;
    int ranks, here;  /* ranks of the group, and those on the machine of this rank */
    double elsewhere; /* share of what a rank sends to all others that crosses to other machines */
} company;

typedef struct builder {
    const weft_trainer *t;
    const weft_hosts *hosts;
    const weft_groups *groups;
    weft_tracks *out;
    int *first;    /* [line_ranks] the lowest rank of the run that each stands for */
    int *leader;   /* [tracks] the rank of the timeline that has its tasks; -1: none yet */
    company *with; /* [ways] of the rank that is added */
    int *seen;     /* [line_ranks] and [line_machines], scratch */
    int rank, id;  /* rank: of the run; id: of the timeline */
} builder;

/* --- groups --- */

static void find_members(const builder *b, const weft_rank_groups *way, company *c)
{
    int g = way->of[b->rank];
    for (int i = 0; i < b->out->line_ranks; i++) b->seen[i] = 0;
    c->count = 0;
    c->key = weft_mix(77, (uint64_t)way->with);
    for (int i = way->begin[g]; i < way->begin[g + 1]; i++) {
        int id = b->out->rank_of[way->member[i]];
        if (b->seen[id]) continue;
        b->seen[id] = 1;
        c->members[c->count++] = id;
        c->key = weft_mix(c->key, (uint64_t)id);
    }
}

/* The first of equal machines carries for all. */
static void find_carriers(const builder *b, const weft_rank_groups *way, company *c)
{
    const int *machine = b->hosts->machine;
    int g = way->of[b->rank], elsewhere = 0, count = way->begin[g + 1] - way->begin[g];
    for (int i = 0; i < b->out->line_machines; i++) b->seen[i] = -1;
    c->carrier_count = 0;
    for (int i = way->begin[g]; i < way->begin[g + 1]; i++) {
        int r = way->member[i], *serves = &b->seen[b->out->machine_of[machine[r]]];
        elsewhere += machine[r] != machine[b->rank];
        if (*serves < 0) *serves = machine[r];
        if (*serves == machine[r]) c->carriers[c->carrier_count++] = b->out->rank_of[r];
    }
    c->ranks = count;
    c->here = count - elsewhere;
    c->elsewhere = count > 1 ? (double)elsewhere / (count - 1) : 0;
    if (elsewhere == 0) c->carrier_count = 0;
}

/* --- tasks --- */

static weft_status cost_of(const builder *b, const weft_track_part *part, double elsewhere,
                           int here, int stages, weft_part_cost *out)
{
    char text[WEFT_TRANSFER_KIND];
    weft_estimate e;
    /* Where learners are processes, the ranks of each are threads. */
    const weft_train_engine *engine = b->t->engine;
    const char *name =
        engine && engine->members ? weft_train_engine_threads.name : b->t->options.job.engine;
    weft_transfer_timed(part->kind == WEFT_SEND ? WEFT_RECEIVE : part->kind, part->dtype, name,
                        text);
    const weft_timed what = {
        .kind = text, .group = "", .threads = 1, .ranks = WEFT_MAX(here, 2), .bytes = part->bytes};
    double passes;
    WEFT_TRY(weft_known_estimate(b->out->known, &what, &e));
    WEFT_TRY(weft_pass_seconds(b->out->known, "pass", part->passes, b->hosts->each, &passes));
    if (part->bytes <= 0 && passes > 0) e.seconds = 0; /* a learner on its own */
    e.seconds += passes / b->hosts->speed[b->rank];
    double far = part->bytes * elsewhere / stages;
    *out = (weft_part_cost){.work = e.seconds / stages, .bytes = {far, far}};
    return WEFT_OK;
}

static weft_status begin_message(builder *b, const weft_track_part *part, int *out)
{
    int other = weft_rank_at_place(b->t, b->out, b->rank, part->place);
    bool sends = part->kind == WEFT_SEND,
         near = b->hosts->machine[other] == b->hosts->machine[b->rank];
    int members[2] = {b->out->rank_of[other], b->id};
    if (sends) members[0] = b->id, members[1] = b->out->rank_of[other];
    uint64_t key = weft_mix(weft_mix(78, (uint64_t)members[0]), (uint64_t)members[1]);
    weft_part_cost cost;
    WEFT_TRY(cost_of(b, part, near ? 0 : 1, near ? 2 : 1, 1, &cost));
    cost.bytes[sends] = 0;
    if (sends) cost.work = 0;
    return weft_timeline_start(b->out->line, b->id, weft_mix(key, (uint64_t)part->tag),
                               WEFT_MEET_PASS, members, 2, &cost, out);
}

/* Sets the rounds of a collective in each of its stages. Of its vector a rank sends all but its own
 * part, once a stage; where few bytes are summed by doubling, it sends all of it in each round. */
static void find_rounds(const weft_track_part *part, const company *c, int stages,
                        weft_part_cost *cost)
{
    double whole = part->bytes / stages * c->ranks / WEFT_MAX(c->ranks - 1, 1);
    int64_t bytes = (int64_t)(whole + 0.5);
    cost->rounds = (double)weft_comm_rounds(part->kind, c->ranks, c->here, bytes) / stages;
    bool sums = part->kind == WEFT_ALL_REDUCE || part->kind == WEFT_REDUCE_SCATTER;
    if (cost->rounds > 0 && sums &&
        weft_sum_way_of(stages == 1, c->ranks, bytes, false) == WEFT_SUM_DOUBLING)
        cost->bytes[0] = cost->bytes[1] = cost->rounds * whole;
}

static weft_status begin_part(builder *b, const weft_track_part *part, int *out)
{
    weft_timeline_label(b->out->line, b->id, part->label);
    if (part->with == WEFT_WITH_PLACE) return begin_message(b, part, out);
    const weft_rank_groups *way = weft_groups_with(b->groups, part->with);
    const company *c = &b->with[way - b->groups->ways];
    int stages = part->kind == WEFT_ALL_REDUCE ? 2 : 1;
    weft_part_cost cost;
    WEFT_TRY(cost_of(b, part, c->elsewhere, c->here, stages, &cost));
    find_rounds(part, c, stages, &cost);
    WEFT_TRY(weft_timeline_start(b->out->line, b->id, c->key,
                                 stages == 2 ? WEFT_MEET_TWICE : WEFT_MEET_ONCE, c->members,
                                 c->count, &cost, out));
    if (c->carrier_count == 0) return WEFT_OK;
    return weft_timeline_carriers(b->out->line, b->id, *out, c->carriers, c->carrier_count);
}

/* The transfers of a rank have the numbers of those of its track. */
static weft_status lead(builder *b, const weft_track *track)
{
    weft_timeline *line = b->out->line;
    for (size_t i = 0; i < track->task_count; i++) {
        const weft_track_task *task = &track->tasks[i];
        int part;
        if (i == track->mark) weft_timeline_mark(line, b->id);
        weft_timeline_label(line, b->id, task->label);
        if (task->kind == WEFT_TRACK_COMPUTE)
            WEFT_TRY(weft_timeline_compute(line, b->id, task->seconds, task->polls));
        else if (task->kind == WEFT_TRACK_START)
            WEFT_TRY(begin_part(b, &track->parts[task->part], &part));
        else
            WEFT_TRY(weft_timeline_finish(line, b->id, task->part));
    }
    return WEFT_OK;
}

static weft_status follow(builder *b, const weft_track *track, int leader)
{
    int part;
    weft_timeline_follow(b->out->line, b->id, leader);
    for (size_t p = 0; p < track->part_count; p++) WEFT_TRY(begin_part(b, &track->parts[p], &part));
    return WEFT_OK;
}

static weft_status add_rank(builder *b, int id)
{
    b->id = id;
    b->rank = b->first[id];
    int track = b->out->of[b->rank % b->t->mesh];
    for (size_t w = 0; w < b->groups->count; w++) {
        find_members(b, &b->groups->ways[w], &b->with[w]);
        find_carriers(b, &b->groups->ways[w], &b->with[w]);
    }
    weft_timeline_speed(b->out->line, id, b->hosts->speed[b->rank]);
    if (b->leader[track] >= 0) return follow(b, &b->out->tracks[track], b->leader[track]);
    b->leader[track] = id;
    return lead(b, &b->out->tracks[track]);
}

/* --- the timeline --- */

static weft_status open_line(builder *b)
{
    int ranks = b->out->line_ranks, machines = b->out->line_machines, *machine;
    weft_wire *wires = NULL;
    WEFT_TRY(WEFT_NEW(&machine, ranks));
    weft_status status = WEFT_NEW(&wires, machines);
    for (int m = b->hosts->machines; m-- > 0 && status == WEFT_OK;)
        wires[b->out->machine_of[m]] = b->hosts->wires[m];
    for (int i = 0; i < ranks; i++) machine[i] = b->out->machine_of[b->hosts->machine[b->first[i]]];
    if (status == WEFT_OK)
        status = weft_timeline_new(ranks, machine, machines, wires, &b->out->line);
    free(machine);
    free(wires);
    return status;
}

static weft_status allocate(builder *b)
{
    size_t ranks = (size_t)b->t->size;
    WEFT_TRY(WEFT_NEW(&b->first, ranks));
    WEFT_TRY(WEFT_NEW(&b->leader, b->out->count));
    WEFT_TRY(WEFT_NEW(&b->seen, ranks));
    WEFT_TRY(WEFT_NEW(&b->with, b->groups->count + 1));
    for (size_t w = 0; w < b->groups->count; w++) {
        WEFT_TRY(WEFT_NEW(&b->with[w].members, ranks));
        WEFT_TRY(WEFT_NEW(&b->with[w].carriers, ranks));
    }
    for (int r = b->t->size; r-- > 0;) b->first[b->out->rank_of[r]] = r;
    for (int i = 0; i < b->out->count; i++) b->leader[i] = -1;
    return WEFT_OK;
}

weft_status weft_line_make(const weft_trainer *t, const weft_hosts *hosts,
                           const weft_groups *groups, weft_tracks *out)
{
    builder b = {.t = t, .hosts = hosts, .groups = groups, .out = out};
    weft_status status = allocate(&b);
    if (status == WEFT_OK) status = open_line(&b);
    for (int i = 0; i < out->line_ranks && status == WEFT_OK; i++) status = add_rank(&b, i);
    for (size_t w = 0; b.with && w < groups->count; w++) {
        free(b.with[w].members);
        free(b.with[w].carriers);
    }
    free(b.first);
    free(b.leader);
    free(b.seen);
    free(b.with);
    return status;
}
