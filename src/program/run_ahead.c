/* Runs ahead: the host queues a whole step, and writes the next batch, before it knows the loss of
 * the step. An instance that does so has two sets of host memory, which it uses in turns: inputs
 * and fetched values, of each micro-batch. Only copies between the spaces touch host memory, so
 * only they are placed again. A loss that is not finite stops what follows on the device itself: a
 * kernel that watches the losses sets a flag, and kernels that write the store are guarded by it.
 * Transfers between ranks run on devices; their hosts meet to tell each other what they have
 * queued. */
#include "program/run_ahead.h"

/* Host memory of the micro-batches that use the slots once. */
typedef struct host_room {
    weft_memory *inputs, *arena, *slots;
} host_room;

/* A set of host memory, the end of the step that was queued with it, whether a step has run with
 * it, and the step as the device has captured it. */
typedef struct host_set {
    host_room *room; /* [rooms] */
    weft_queue_event *ended;
    bool ran;
    weft_capture *step;
} host_set;

struct ahead {
    host_set set[2];
    int rooms;
    int now;    /* the set that the instance uses */
    int queued; /* steps that the host has not waited for: the last one is of the other set */
    const host_room **placed; /* [slots]: the room of its copies */
    loss_watch *watch;
    const weft_schedule *schedule;
    int after; /* the instruction behind which the loss is noted; -1: this rank has none */
    bool captures;
};

static weft_device *device_of(const weft_instance *x)
{
    return x->program->schema->devices[0];
}

static weft_bound *bound_of(const weft_instance *x, size_t i, int slot)
{
    return x->bound[i * (size_t)x->program->slots + (size_t)slot];
}

static int slots_of(const weft_program *p, const instruction *code)
{
    return code->phase == WEFT_PHASE_UPDATE ? 1 : p->slots;
}

/* --- opening --- */

static weft_status place(weft_instance *x, size_t i, int slot)
{
    return weft_instruction_place(x->program, &x->program->code[i], &x->at, slot, x->scratch,
                                  bound_of(x, i, slot));
}

static weft_status guard_all(weft_instance *x, weft_address flag)
{
    const weft_program *p = x->program;
    for (size_t i = 0; i < p->code_count; i++)
        for (int s = 0; s < slots_of(p, &p->code[i]) && weft_step_guards(p, &p->code[i]); s++) {
            WEFT_TRY(weft_bound_guard(bound_of(x, i, s), flag));
            WEFT_TRY(place(x, i, s));
        }
    return WEFT_OK;
}

static weft_status make_room(const weft_program *p, host_room *room)
{
    const schema *s = p->schema;
    size_t slots = (size_t)p->slots;
    WEFT_TRY(weft_space_memory(s, SPACE_HOST, p->input_bytes * slots, &room->inputs));
    WEFT_TRY(weft_space_memory(s, SPACE_HOST, p->slot_bytes[SPACE_HOST] * slots, &room->slots));
    return weft_space_memory(s, SPACE_HOST, p->arena_bytes[SPACE_HOST], &room->arena);
}

static weft_status make(weft_instance *x, struct ahead *a, weft_dtype dtype)
{
    const weft_program *p = x->program;
    for (int s = 0; s < 2; s++) WEFT_TRY(WEFT_NEW(&a->set[s].room, a->rooms));
    WEFT_TRY(weft_new_bytes((void *)&a->placed, (size_t)p->slots, sizeof(*a->placed)));
    a->set[0].ended = x->ended;
    a->set[0].room[0] = (host_room){x->at.inputs, x->at.arena[SPACE_HOST], x->at.slots[SPACE_HOST]};
    for (int s = 0; s < p->slots; s++) a->placed[s] = &a->set[0].room[0];
    int loss = a->after < 0 ? -1 : p->code[a->after].in[0];
    WEFT_TRY(weft_loss_watch_open(x, dtype, a->schedule->count / 2, loss, &a->watch));
    WEFT_TRY(guard_all(x, weft_loss_watch_flag(a->watch)));
    for (int r = 0; r < 2 * a->rooms; r++)
        if (r > 0) WEFT_TRY(make_room(p, &a->set[r / a->rooms].room[r % a->rooms]));
    return weft_event_open(device_of(x), &a->set[1].ended);
}

/* Undoes what `make` has done: the kernels that were guarded run always again. */
static void unmake(weft_instance *x)
{
    const weft_program *p = x->program;
    for (size_t i = 0; i < p->code_count; i++)
        for (int s = 0; s < slots_of(p, &p->code[i]) && weft_step_guards(p, &p->code[i]); s++)
            if (weft_bound_guard(bound_of(x, i, s), (weft_address){0}) == WEFT_OK)
                (void)!place(x, i, s);
    weft_run_ahead_close(x);
}

/* Whether all ranks can. */
static weft_status agree(const weft_instance *x, bool *can)
{
    weft_comm *learner = ahead_ranks(x);
    double all = *can;
    if (!learner) return WEFT_OK;
    WEFT_TRY(weft_comm_run(learner, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64,
                                                  .what = "whether steps can be queued ahead",
                                                  .send = &all, .receive = &all, .count = 1)));
    *can = all == weft_comm_size(learner);
    return WEFT_OK;
}

/* Whether the ranks of the instance's learner reach each other's memory. */
static bool is_reached(const weft_instance *x)
{
    const reach *r = x->program->schema->reach;
    return !ahead_ranks(x) || (r && r->learner);
}

static weft_status open_here(weft_instance *x, const weft_ahead_options *o, bool *can)
{
    struct ahead *a;
    const weft_program *p = x->program;
    int after = o->loss == WEFT_NO_VALUE ? -1 : weft_step_copy_of(p, o->loss),
        micros = o->schedule->count / 2;
    *can = false;
    if (!weft_step_is_whole(p) || !is_reached(x) || (after < 0 && o->loss != WEFT_NO_VALUE) ||
        x->trace_capacity)
        return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&a, 1));
    x->ahead = a;
    a->schedule = o->schedule;
    a->rooms = (micros + p->slots - 1) / p->slots;
    a->after = after;
    /* The losses of several ranks are exchanged within a step, too. */
    a->captures =
        o->captures && device_of(x)->ops->capture && !weft_step_has_transfers(p) && !ahead_ranks(x);
    weft_status status = make(x, a, o->dtype);
    *can = status == WEFT_OK;
    if (status == WEFT_OK) return WEFT_OK;
    weft_error message = {.status = WEFT_OK};
    weft_error_catch(&message, status);
    unmake(x);
    return status == WEFT_ERR_UNSUPPORTED ? WEFT_OK : weft_error_raise(&message);
}

weft_status weft_run_ahead_open(weft_instance *x, const weft_ahead_options *o, bool *can)
{
    WEFT_TRY(open_here(x, o, can));
    WEFT_TRY(agree(x, can));
    if (!*can && x->ahead) unmake(x);
    return WEFT_OK;
}

weft_status weft_run_ahead_forget(weft_instance *x)
{
    struct ahead *a = x->ahead;
    if (!a || !(a->set[0].step || a->set[1].step)) return WEFT_OK;
    WEFT_TRY(weft_instance_synchronize(x));
    for (int s = 0; s < 2; s++) weft_capture_close(device_of(x), &a->set[s].step);
    return WEFT_OK;
}

/* Makes the instance use the memory of a micro-batch of a set. */
static void use(weft_instance *x, int set, int micro)
{
    const host_room *room = &x->ahead->set[set].room[micro / x->program->slots];
    x->slot = micro % x->program->slots;
    x->at.inputs = room->inputs;
    x->at.arena[SPACE_HOST] = room->arena;
    x->at.slots[SPACE_HOST] = room->slots;
    x->ahead->now = set;
}

static void free_set(struct ahead *a, host_set *set)
{
    for (int r = 0; set->room && r < a->rooms; r++) {
        if (set == &a->set[0] && r == 0) continue; /* of the instance */
        weft_memory_free(&set->room[r].inputs);
        weft_memory_free(&set->room[r].arena);
        weft_memory_free(&set->room[r].slots);
    }
    free(set->room);
}

void weft_run_ahead_close(weft_instance *x)
{
    struct ahead *a = x->ahead;
    if (!a) return;
    for (int s = 0; s < 2; s++) weft_capture_close(device_of(x), &a->set[s].step);
    if (a->set[0].ended) {
        use(x, 0, 0);
        weft_instance_end_in(x, a->set[0].ended);
    }
    weft_loss_watch_close(&a->watch);
    weft_event_close(device_of(x), &a->set[1].ended);
    for (int s = 0; s < 2; s++) free_set(a, &a->set[s]);
    free((void *)a->placed);
    free(a);
    x->ahead = NULL;
}

/* --- steps --- */

weft_status weft_instance_micro(weft_instance *x, int micro)
{
    const weft_program *p = x->program;
    struct ahead *a = x->ahead;
    if (!a) return weft_instance_set_slot(x, micro % p->slots);
    use(x, a->now, micro);
    const host_room *room = &a->set[a->now].room[micro / p->slots];
    if (a->placed[x->slot] == room) return WEFT_OK;
    for (size_t i = 0; i < p->code_count; i++)
        if (p->code[i].copy && x->slot < slots_of(p, &p->code[i])) WEFT_TRY(place(x, i, x->slot));
    a->placed[x->slot] = room;
    return WEFT_OK;
}

static weft_status queue_phase(weft_instance *x, weft_phase phase, int micro)
{
    const struct ahead *a = x->ahead;
    const weft_program *p = x->program;
    WEFT_TRY(weft_instance_micro(x, micro));
    WEFT_TRY(weft_instance_begin_phase(x, phase));
    for (size_t i = 0; i < p->code_count; i++) {
        if (p->code[i].phase != phase) continue;
        WEFT_TRY(weft_instance_run_one(x, (int)i));
        if ((int)i == a->after) WEFT_TRY(weft_loss_watch_note(a->watch, micro));
    }
    return weft_instance_forget(x, phase, SPACE_DEVICE);
}

static weft_status queue_phases(weft_instance *x, weft_comm_stats *apart)
{
    const struct ahead *a = x->ahead;
    for (int i = 0; i < a->schedule->count; i++)
        WEFT_TRY(queue_phase(x, a->schedule->actions[i].phase, a->schedule->actions[i].micro));
    WEFT_TRY(weft_loss_watch_look(a->watch, apart));
    WEFT_TRY(queue_phase(x, WEFT_PHASE_UPDATE, 0));
    return weft_instance_drain(x);
}

/* A queue that has begun to record must end that, also after a failure. */
static weft_status capture(weft_instance *x, host_set *set)
{
    weft_comm_stats none;
    weft_error message = {.status = WEFT_OK};
    WEFT_TRY(weft_capture_begin(device_of(x), x->queue));
    weft_error_catch(&message, queue_phases(x, &none));
    weft_error_catch(&message, weft_capture_end(device_of(x), x->queue, &set->step));
    if (message.status != WEFT_OK) weft_capture_close(device_of(x), &set->step);
    return weft_error_raise(&message);
}

/* The first step of a set is queued as it is: what the device prepares in the first use of a kernel
 * is no part of a capture. */
static weft_status queue_all(weft_instance *x, host_set *set, weft_comm_stats *apart)
{
    if (!set->ran || !x->ahead->captures) {
        set->ran = true;
        return queue_phases(x, apart);
    }
    if (!set->step) WEFT_TRY(capture(x, set));
    x->replays++;
    return weft_capture_replay(device_of(x), x->queue, set->step);
}

weft_status weft_run_ahead_queue(weft_instance *x, weft_comm_stats *apart)
{
    struct ahead *a = x->ahead;
    double began = weft_seconds() - x->waited;
    host_set *set = &a->set[a->now];
    *apart = (weft_comm_stats){0};
    WEFT_TRY(weft_instance_begin_run(x, true));
    weft_instance_end_in(x, set->ended);
    x->whole = true;
    weft_status status = queue_all(x, set, apart);
    x->whole = false;
    WEFT_TRY(status);
    weft_store_touch(x->store);
    WEFT_TRY(weft_instance_end_run(x, true));
    a->queued++;
    use(x, !a->now, 0);
    x->host_seconds += weft_seconds() - x->waited - began;
    return WEFT_OK;
}

weft_status weft_run_ahead_wait(weft_instance *x)
{
    struct ahead *a = x->ahead;
    use(x, a->queued == 1 ? !a->now : a->now, 0);
    a->queued--;
    return weft_event_wait(device_of(x), a->set[a->now].ended);
}

weft_status weft_run_ahead_stop(weft_instance *x)
{
    WEFT_TRY(weft_instance_synchronize(x));
    x->ahead->queued = 0;
    return weft_loss_watch_clear(x->ahead->watch);
}
