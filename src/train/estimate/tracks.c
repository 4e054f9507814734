/* Turns the programs of ranks into tracks: what a rank does in a step, with estimated times. */
#include <stdio.h>

#include "ops/ops.h"
#include "program/program.h"
#include "program/walk.h"
#include "train/estimate/tracks.h"

typedef struct walker {
    weft_trainer *t;
    const weft_hosts *hosts;
    weft_tracks *out;
    weft_track *track;
    const weft_rank *rank;
    const weft_program *program;
    weft_estimate *known; /* [instructions] of this rank; seconds below 0: not yet */
    int *alike;           /* [kernels] an instruction whose estimate is known, or -1 */
    int *named;           /* [instructions] their names, where they are known */
    int *label;           /* [instructions] their labels; 0: not yet */
    int *begun;           /* [instructions, slots] the transfer that has begun */
} walker;

static weft_status add_task(walker *k, weft_track_task task)
{
    weft_track *track = k->track;
    WEFT_TRY(WEFT_GROW(&track->tasks, &track->task_capacity, track->task_count));
    track->tasks[track->task_count++] = task;
    return WEFT_OK;
}

/* The number of a name, which is added. */
static weft_status find_name(weft_tracks *out, const char *name, int *number)
{
    *number = weft_names_find(&out->numbers, name);
    if (*number >= 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&out->names, &out->name_capacity, out->name_count));
    WEFT_TRY(weft_strdup(name, &out->names[out->name_count]));
    *number = (int)out->name_count++;
    return weft_names_add(&out->numbers, out->names[*number], *number);
}

/* Names are made where somebody is told them. */
static weft_status name_of(const walker *k, int i, int *number)
{
    char name[128];
    *number = 0;
    if (!k->out->named) return WEFT_OK;
    weft_instruction_name(k->program, i, name, sizeof(name));
    return find_name(k->out, name, number);
}

/* --- instructions --- */

/* The label of an instruction; 0: there are none. */
static weft_status label_of(walker *k, int i, int *label)
{
    char text[128];
    weft_tracks *out = k->out;
    *label = 0;
    if (!out->labelled) return WEFT_OK;
    if (k->label[i] == 0) {
        WEFT_TRY(WEFT_GROW(&out->labels, &out->label_capacity, out->label_count));
        weft_track_label *next = &out->labels[out->label_count];
        next->phase = weft_instruction_text(k->program, i, text, sizeof(text));
        WEFT_TRY(weft_strdup(text, &next->text));
        k->label[i] = (int)++out->label_count;
    }
    *label = k->label[i];
    return WEFT_OK;
}

static weft_status look_up(walker *k, int i, weft_estimate *out)
{
    weft_work work;
    WEFT_TRY(weft_instruction_work(k->program, i, &work));
    const weft_timed what = {.kind = work.kind,
                             .group = work.size,
                             .threads = k->hosts->threads,
                             .ranks = k->hosts->each,
                             .flops = work.flops,
                             .bytes = work.bytes};
    return weft_known_estimate(k->out->known, &what, out);
}

static weft_status estimate(walker *k, int i, weft_estimate *out)
{
    int kernel = weft_instruction_kernel(k->program, i);
    int *alike = kernel < 0 ? NULL : &k->alike[kernel];
    if (k->known[i].seconds < 0) {
        if (alike && *alike >= 0)
            k->known[i] = k->known[*alike];
        else
            WEFT_TRY(look_up(k, i, &k->known[i]));
        if (alike) *alike = i;
        WEFT_TRY(name_of(k, i, &k->named[i]));
    }
    *out = k->known[i];
    return WEFT_OK;
}

static weft_status run(walker *k, int i)
{
    weft_estimate e;
    weft_track *track = k->track;
    WEFT_TRY(estimate(k, i, &e));
    for (; track->kernel_count <= (size_t)k->named[i]; track->kernel_count++)
        WEFT_TRY(WEFT_GROW(&track->kernels, &track->kernel_capacity, track->kernel_count));
    track->kernels[k->named[i]] += e.seconds;
    k->track->by[e.by] += e.seconds;
    k->track->errors[e.by] += e.seconds * e.error;
    weft_track_task task = {.kind = WEFT_TRACK_COMPUTE, .seconds = e.seconds, .polls = true};
    WEFT_TRY(label_of(k, i, &task.label));
    return add_task(k, task);
}

/* --- transfers --- */

static weft_status begin_part(walker *k, weft_track_part part, int *out)
{
    weft_track *track = k->track;
    WEFT_TRY(WEFT_GROW(&track->parts, &track->part_capacity, track->part_count));
    *out = (int)track->part_count;
    track->parts[track->part_count++] = part;
    return add_task(k, (weft_track_task){.kind = WEFT_TRACK_START, .part = *out});
}

static weft_status finish(walker *k, int part)
{
    return add_task(k, (weft_track_task){.kind = WEFT_TRACK_FINISH, .part = part});
}

static weft_status begin(walker *k, int i, int *out)
{
    const weft_node *node = weft_instruction_transfer(k->program, i);
    const weft_graph *g = weft_rewritten_graph(k->rank->mine);
    weft_track_part part = {
        .kind = weft_transfer_kind_of(node),
        .dtype = weft_value_type(g, node->in_count > 0 ? node->in[0] : node->out)->dtype,
        .with = (int)weft_node_int(node, "axes", 0, WEFT_WITH_LEARNER)};
    if (part.kind == WEFT_SEND || part.kind == WEFT_RECEIVE) {
        const weft_type *type = part.kind == WEFT_SEND ? weft_in(g, node, 0) : weft_out(g, node, 0);
        part.with = WEFT_WITH_PLACE;
        part.place = weft_plan_place(k->rank->plan, (int)weft_node_int(node, "peer", 0, 0));
        part.tag = (int)weft_node_int(node, "tag", 0, 0);
        part.bytes = (double)weft_type_bytes(type);
    } else {
        part.bytes = weft_instruction_sends(k->program, i);
    }
    WEFT_TRY(name_of(k, i, &part.name));
    WEFT_TRY(label_of(k, i, &part.label));
    if (part.kind != WEFT_RECEIVE) k->track->sent[0] += part.bytes;
    return begin_part(k, part, out);
}

/* The ranks of a learner add up the loss and their requests to stop, and wait for it. */
static weft_status add_loss(walker *k)
{
    int part, name = 0;
    double ranks = k->t->mesh;
    if (k->t->mesh == 1) return WEFT_OK;
    WEFT_TRY(find_name(k->out, "sum of losses", &name));
    WEFT_TRY(begin_part(
        k,
        (weft_track_part){.kind = WEFT_ALL_REDUCE,
                          .dtype = WEFT_F64,
                          .with = WEFT_WITH_LEARNER,
                          .name = name,
                          .bytes = 2 * (ranks - 1) / ranks * (double)sizeof(weft_step_consensus)},
        &part));
    return finish(k, part);
}

static weft_status on_event(void *user, weft_walk_event event, int i, int slot)
{
    walker *k = user;
    int *begun =
        i >= 0 ? &k->begun[(size_t)i * (size_t)k->rank->schedule.slots + (size_t)slot] : NULL;
    switch (event) {
    case WEFT_WALK_FEED: return WEFT_OK; /* part of the rest */
    case WEFT_WALK_RUN: return run(k, i);
    case WEFT_WALK_START: return begin(k, i, begun);
    case WEFT_WALK_FINISH: return finish(k, *begun);
    case WEFT_WALK_LOSS: return add_loss(k);
    }
    return WEFT_OK;
}

/* --- ranks --- */

static weft_status add_rest(walker *k, const weft_program_info *info)
{
    double microbatches = (double)k->t->run_spec.microbatches;
    weft_estimate e;
    const weft_timed what = {.kind = WEFT_STEP_TIMED,
                             .group = "",
                             .threads = k->hosts->threads,
                             .ranks = k->hosts->each,
                             .flops = info->instructions * microbatches,
                             .bytes = (double)info->input_bytes * microbatches};
    WEFT_TRY(weft_known_estimate(k->out->known, &what, &e));
    k->track->rest = e.seconds;
    return add_task(k, (weft_track_task){.kind = WEFT_TRACK_COMPUTE, .seconds = e.seconds});
}

/* The learners add up their parameters, at the end of some steps. */
static weft_status add_meeting(walker *k, const weft_program_info *info)
{
    int part, name;
    double learners = k->t->learners;
    double narrow = k->t->run_spec.plan.bf16_sums ? 0.5 : 1; /* changes cross ranks in bf16 */
    double bytes = narrow * (double)info->parameter_bytes +
                   (k->out->with_state ? (double)info->state_bytes : 0);
    double passes = k->out->pass_parameters * (double)info->parameter_bytes +
                    k->out->pass_state * (double)info->state_bytes;
    k->track->mark = k->track->task_count;
    if (!k->out->meets && passes == 0) return WEFT_OK;
    WEFT_TRY(find_name(k->out, "meeting of the learners", &name));
    if (k->out->meets) k->track->sent[1] = 2 * bytes * (learners - 1) / learners;
    /* Learners that share memory wait for nobody: each is alone in its passes. */
    weft_track_part meeting = {.kind = k->out->meets ? WEFT_ALL_REDUCE : WEFT_ALL_GATHER,
                               .dtype = k->t->run_spec.plan.bf16_sums ? WEFT_BF16 : WEFT_F32,
                               .with = k->out->meets ? WEFT_WITH_LEARNERS : 0,
                               .name = name,
                               .bytes = k->track->sent[1],
                               .passes = passes};
    WEFT_TRY(begin_part(k, meeting, &part));
    return finish(k, part);
}

static weft_status walk(walker *k)
{
    weft_program_info info = weft_program_describe(k->program);
    size_t count = (size_t)info.instructions, slots = (size_t)k->rank->schedule.slots, saved;
    size_t kernels = weft_program_kernels(k->program, &saved);
    if (info.device_bytes > 0)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "the time of a device with memory of its own cannot be predicted; give "
                         "--device cpu");
    weft_status status = WEFT_NEW(&k->known, count + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&k->begun, (count + 1) * slots);
    if (status == WEFT_OK) status = WEFT_NEW(&k->named, count + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&k->label, count + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&k->alike, kernels + 1);
    for (size_t i = 0; i < kernels && status == WEFT_OK; i++) k->alike[i] = -1;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) k->known[i].seconds = -1;
    k->track->bytes = weft_program_bytes(&info);
    if (status == WEFT_OK) status = add_rest(k, &info);
    if (status == WEFT_OK) status = weft_program_walk(k->program, &k->rank->schedule, on_event, k);
    if (status == WEFT_OK) status = add_meeting(k, &info);
    free(k->known);
    free(k->begun);
    free(k->named);
    free(k->label);
    free(k->alike);
    k->known = NULL;
    k->begun = k->named = k->label = k->alike = NULL;
    return status;
}

/* Notes where the ranks of the mesh are. */
static weft_status note_positions(const walker *k)
{
    weft_tracks *out = k->out;
    const weft_plan *plan = k->rank->plan;
    out->places = weft_plan_places(plan);
    while (weft_axis_name(out->axes)) out->axes++;
    WEFT_TRY(WEFT_NEW(&out->position, (size_t)k->t->mesh * (size_t)out->axes));
    for (int r = 0; r < k->t->mesh; r++)
        for (int a = 0; a < out->axes; a++)
            out->position[r * out->axes + a] = weft_plan_coordinate(plan, r, a);
    return WEFT_OK;
}

static weft_status add_rank(void *user, weft_rank *r, weft_store *store,
                            const weft_program *program, size_t before, const int *kind)
{
    walker *k = user;
    weft_tracks *out = k->out;
    size_t saved;
    (void)store;
    (void)before;
    if (!out->apart && !weft_kind_first(kind, r->rank)) return WEFT_OK;
    WEFT_TRY(weft_estimate_go_on(out->end));
    k->rank = r;
    k->program = program;
    out->kernels += weft_program_kernels(program, &saved);
    if (!out->position) WEFT_TRY(note_positions(k));
    k->track = &out->tracks[out->count++];
    return walk(k);
}

/* Adds up over all ranks, in an order that does not depend on which of them are one. */
static void sum_up(const weft_trainer *t, const weft_hosts *hosts, weft_tracks *out)
{
    for (int r = 0; r < t->size; r++) {
        const weft_track *track = &out->tracks[out->of[r % t->mesh]];
        out->rest += track->rest / hosts->speed[r] / t->size;
        hosts->bytes[hosts->machine[r]] += track->bytes;
        for (int i = 0; i < WEFT_ESTIMATES; i++) {
            out->by[i] += track->by[i];
            out->errors[i] += track->errors[i];
        }
    }
}

static weft_status make_line(const weft_trainer *t, const weft_hosts *hosts, weft_tracks *out)
{
    weft_groups groups = {.count = 0};
    weft_status status = weft_groups_make(t, out, &groups);
    if (status == WEFT_OK) status = weft_equal_ranks_find(t, hosts, &groups, out);
    if (status == WEFT_OK) status = weft_line_make(t, hosts, &groups, out);
    weft_groups_free(&groups);
    return status;
}

weft_status weft_tracks_make(weft_trainer *t, const weft_times *times, const weft_hosts *hosts,
                             weft_tracks *out)
{
    walker k = {.t = t, .hosts = hosts, .out = out};
    const weft_planned list[] = {out->planned[0], out->planned[1], {.fn = add_rank, .user = &k}};
    WEFT_TRY(weft_known_new(times, &out->known));
    WEFT_TRY(WEFT_NEW(&out->tracks, t->mesh));
    WEFT_TRY(WEFT_NEW(&out->of, t->mesh));
    WEFT_TRY(WEFT_NEW(&out->kind, t->mesh));
    WEFT_TRY(weft_trainer_plan_kinds(t, out->apart, out->also, out->kind, list, WEFT_COUNT(list)));
    for (int r = 0; r < t->mesh; r++) out->of[r] = out->apart ? r : out->kind[r];
    sum_up(t, hosts, out);
    return make_line(t, hosts, out);
}

void weft_tracks_free(weft_tracks *tracks)
{
    for (int i = 0; i < tracks->count; i++) {
        free(tracks->tracks[i].tasks);
        free(tracks->tracks[i].parts);
        free(tracks->tracks[i].kernels);
    }
    for (size_t i = 0; i < tracks->name_count; i++) free(tracks->names[i]);
    for (size_t i = 0; i < tracks->label_count; i++) free(tracks->labels[i].text);
    free(tracks->labels);
    free(tracks->names);
    weft_names_free(&tracks->numbers);
    free(tracks->tracks);
    free(tracks->of);
    free(tracks->kind);
    free(tracks->position);
    free(tracks->rank_of);
    free(tracks->machine_of);
    weft_known_free(&tracks->known);
    weft_timeline_free(&tracks->line);
}
