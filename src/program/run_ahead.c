/* Runs ahead: the host queues a whole step, and writes the next batch, before it knows the loss of
 * the step. An instance that does so has two sets of host memory, which it uses in turns: inputs
 * and the arena with the fetched values. Only copies between the spaces touch host memory, so only
 * they are placed again at each turn. A loss that is not finite stops what follows on the device
 * itself: a kernel that watches the loss sets a flag, and kernels that write the store are guarded
 * by it. */
#include "program/instance.h"

/* A set of host memory, the end of the step that was queued with it, whether a step has run with
 * it, and the step as the device has captured it. */
typedef struct host_set {
    weft_memory *inputs, *arena;
    weft_queue_event *ended;
    bool ran;
    weft_capture *step;
} host_set;

struct ahead {
    host_set set[2];
    int now;    /* the set that the instance uses */
    int queued; /* steps that the host has not waited for: the last one is of the other set */
    weft_memory *flag;
    weft_kernel *watch;
    weft_bound *watching;
    int after; /* the instruction behind which the loss is watched */
    bool captures;
};

static weft_device *device_of(const weft_instance *x)
{
    return x->program->schema->devices[0];
}

static weft_bound *bound_of(const weft_instance *x, size_t i)
{
    return x->bound[i * (size_t)x->program->slots];
}

static bool is_in_turns(const weft_program *p, int b)
{
    const buffer *root = &p->buffers[buffer_root(p, b)];
    return root->space != SPACE_HOST || root->kind == BUFFER_INPUT || root->kind == BUFFER_ARENA;
}

/* Whether a program computes on the device alone, so that nothing but the copies of inputs and
 * fetched values makes the host wait. */
static bool is_plain(const weft_program *p)
{
    if (schema_own(p->schema) == SPACE_HOST || p->slots != 1) return false;
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        if (code->transfer || code->derives || code->space == SPACE_HOST) return false;
        if (code->copy && !(is_in_turns(p, code->in[0]) && is_in_turns(p, code->out[0])))
            return false;
    }
    return true;
}

/* The instruction that copies a value to the host, or -1. */
static int copy_of(const weft_program *p, weft_value value)
{
    for (size_t i = 0; i < p->code_count; i++)
        if (p->code[i].copy && p->code[i].in_value[0] == value &&
            layout_space(p->code[i].kernel->out[0]) == SPACE_HOST)
            return (int)i;
    return -1;
}

static bool writes_store(const weft_program *p, const instruction *code)
{
    for (int o = 0; o < code->out_count; o++) {
        buffer_kind kind = p->buffers[buffer_root(p, code->out[o])].kind;
        if (kind == BUFFER_STORE || kind == BUFFER_SEQUENCE) return true;
    }
    return false;
}

static weft_status place(weft_instance *x, size_t i)
{
    return weft_instruction_place(x->program, &x->program->code[i], &x->at, 0, x->scratch,
                                  bound_of(x, i));
}

/* Guards the kernels that write parameters or state. */
static weft_status guard_all(weft_instance *x, weft_address flag)
{
    for (size_t i = 0; i < x->program->code_count; i++) {
        if (!writes_store(x->program, &x->program->code[i])) continue;
        WEFT_TRY(weft_bound_guard(bound_of(x, i), flag));
        WEFT_TRY(place(x, i));
    }
    return WEFT_OK;
}

static weft_status watch(weft_instance *x, struct ahead *a, weft_value loss)
{
    const weft_program *p = x->program;
    weft_address in, out = {a->flag, 0};
    in = weft_instance_address(x, p->code[a->after].in[0]);
    WEFT_TRY(weft_device_watch(device_of(x), &p->graph->values[loss].type, &a->watch));
    WEFT_TRY(weft_kernel_bind(a->watch, &a->watching));
    return weft_bound_place(a->watching, &in, &out, (weft_address){0});
}

static weft_status make(weft_instance *x, struct ahead *a, weft_value loss)
{
    const weft_program *p = x->program;
    a->set[0] =
        (host_set){.inputs = x->at.inputs, .arena = x->at.arena[SPACE_HOST], .ended = x->ended};
    WEFT_TRY(weft_memory_new(device_of(x), sizeof(int32_t), &a->flag));
    WEFT_TRY(weft_memory_zero(device_of(x), x->queue, (weft_address){a->flag, 0}, sizeof(int32_t)));
    WEFT_TRY(watch(x, a, loss));
    WEFT_TRY(guard_all(x, (weft_address){a->flag, 0}));
    WEFT_TRY(weft_space_memory(p->schema, SPACE_HOST, p->input_bytes, &a->set[1].inputs));
    WEFT_TRY(
        weft_space_memory(p->schema, SPACE_HOST, p->arena_bytes[SPACE_HOST], &a->set[1].arena));
    return weft_event_open(device_of(x), &a->set[1].ended);
}

/* Undoes what `make` has done: the kernels that were guarded run always again. */
static void unmake(weft_instance *x)
{
    for (size_t i = 0; i < x->program->code_count; i++)
        if (writes_store(x->program, &x->program->code[i]) &&
            weft_bound_guard(bound_of(x, i), (weft_address){0}) == WEFT_OK)
            (void)!place(x, i);
    weft_run_ahead_close(x);
}

weft_status weft_run_ahead_open(weft_instance *x, weft_value loss, bool captures, bool *can)
{
    struct ahead *a;
    int after = copy_of(x->program, loss);
    *can = false;
    if (!is_plain(x->program) || after < 0 || x->trace_capacity) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&a, 1));
    x->ahead = a;
    a->after = after;
    a->captures = captures && device_of(x)->ops->capture;
    weft_status status = make(x, a, loss);
    *can = status == WEFT_OK;
    if (status == WEFT_OK) return WEFT_OK;
    weft_error message = {.status = WEFT_OK};
    weft_error_catch(&message, status);
    unmake(x);
    return status == WEFT_ERR_UNSUPPORTED ? WEFT_OK : weft_error_raise(&message);
}

weft_status weft_run_ahead_forget(weft_instance *x)
{
    struct ahead *a = x->ahead;
    if (!a || !(a->set[0].step || a->set[1].step)) return WEFT_OK;
    WEFT_TRY(weft_instance_synchronize(x));
    for (int s = 0; s < 2; s++) weft_capture_close(device_of(x), &a->set[s].step);
    return WEFT_OK;
}

void weft_run_ahead_close(weft_instance *x)
{
    struct ahead *a = x->ahead;
    if (!a) return;
    for (int s = 0; s < 2; s++) weft_capture_close(device_of(x), &a->set[s].step);
    host_set *other = &a->set[!a->now];
    weft_queue_event **unused = &a->set[a->set[0].ended == x->ended].ended;
    if (a->watching) a->watching->ops->destroy(a->watching);
    if (a->watch) a->watch->ops->destroy(a->watch);
    weft_memory_free(&a->flag);
    weft_memory_free(&other->inputs);
    weft_memory_free(&other->arena);
    weft_event_close(device_of(x), unused);
    free(a);
    x->ahead = NULL;
}

/* Makes the instance use the other set. */
static weft_status turn(weft_instance *x)
{
    struct ahead *a = x->ahead;
    a->now = !a->now;
    const host_set *set = &a->set[a->now];
    x->at.inputs = set->inputs;
    x->at.arena[SPACE_HOST] = set->arena;
    for (size_t i = 0; i < x->program->code_count; i++)
        if (x->program->code[i].copy) WEFT_TRY(place(x, i));
    return WEFT_OK;
}

static weft_status queue_phase(weft_instance *x, weft_phase phase)
{
    const struct ahead *a = x->ahead;
    const weft_program *p = x->program;
    for (size_t i = 0; i < p->code_count; i++) {
        if (p->code[i].phase != phase) continue;
        WEFT_TRY(weft_bound_run(bound_of(x, i), x->queue));
        if ((int)i == a->after) WEFT_TRY(weft_bound_run(a->watching, x->queue));
    }
    return WEFT_OK;
}

static weft_status queue_phases(weft_instance *x)
{
    WEFT_TRY(queue_phase(x, WEFT_PHASE_FORWARD));
    WEFT_TRY(queue_phase(x, WEFT_PHASE_BACKWARD));
    return queue_phase(x, WEFT_PHASE_UPDATE);
}

/* A queue that has begun to record must end that, also after a failure. */
static weft_status capture(weft_instance *x, host_set *set)
{
    weft_error message = {.status = WEFT_OK};
    WEFT_TRY(weft_capture_begin(device_of(x), x->queue));
    weft_error_catch(&message, queue_phases(x));
    weft_error_catch(&message, weft_capture_end(device_of(x), x->queue, &set->step));
    if (message.status != WEFT_OK) weft_capture_close(device_of(x), &set->step);
    return weft_error_raise(&message);
}

/* The first step of a set is queued as it is: what the device prepares in the first use of a kernel
 * is no part of a capture. */
static weft_status queue_all(weft_instance *x, host_set *set)
{
    if (!set->ran || !x->ahead->captures) {
        set->ran = true;
        return queue_phases(x);
    }
    if (!set->step) WEFT_TRY(capture(x, set));
    x->replays++;
    return weft_capture_replay(device_of(x), x->queue, set->step);
}

weft_status weft_run_ahead_queue(weft_instance *x)
{
    double began = weft_seconds();
    host_set *set = &x->ahead->set[x->ahead->now];
    WEFT_TRY(weft_instance_begin_run(x, true));
    weft_instance_end_in(x, set->ended);
    WEFT_TRY(queue_all(x, set));
    weft_store_touch(x->store);
    WEFT_TRY(weft_instance_end_run(x, true));
    x->ahead->queued++;
    WEFT_TRY(turn(x));
    x->host_seconds += weft_seconds() - began;
    return WEFT_OK;
}

weft_status weft_run_ahead_wait(weft_instance *x)
{
    struct ahead *a = x->ahead;
    if (a->queued == 1) WEFT_TRY(turn(x));
    a->queued--;
    return weft_event_wait(device_of(x), a->set[a->now].ended);
}

weft_status weft_run_ahead_stop(weft_instance *x)
{
    const int32_t none = 0;
    WEFT_TRY(weft_instance_synchronize(x));
    x->ahead->queued = 0;
    WEFT_TRY(weft_copy_in(x->queue, (weft_address){x->ahead->flag, 0}, &none, sizeof(none)));
    return weft_instance_synchronize(x);
}
