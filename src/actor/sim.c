/* The event loop of the simulator: a heap of events in virtual time, and faults. */
#include "actor/sim.h"

#include <math.h>

#include "actor/sim_internal.h"

enum { MACHINES = 1 << 20 };

/* --- events --- */

static bool before(const event *a, const event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static weft_status push(weft_sim *sim, event e)
{
    WEFT_TRY(WEFT_GROW(&sim->heap, &sim->heap_capacity, sim->heap_count));
    size_t i = sim->heap_count++;
    for (; i > 0 && before(&e, &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        sim->heap[i] = sim->heap[(i - 1) / 2];
    sim->heap[i] = e;
    return WEFT_OK;
}

static event pop(weft_sim *sim)
{
    event first = sim->heap[0], last = sim->heap[--sim->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= sim->heap_count) break;
        if (child + 1 < sim->heap_count && before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!before(&sim->heap[child], &last)) break;
        sim->heap[i] = sim->heap[child];
        i = child;
    }
    if (sim->heap_count) sim->heap[i] = last;
    return first;
}

weft_status weft_sim_plan(weft_sim *sim, event e)
{
    e.order = sim->order++;
    return push(sim, e);
}

machine *weft_sim_machine(const weft_sim *sim, weft_actor_id id)
{
    return id < sim->machine_count && sim->machines[id].known ? &sim->machines[id] : NULL;
}

/* --- the runtime --- */

static double sim_now(weft_runtime *host)
{
    return ((weft_sim *)host)->now;
}

static weft_status sim_set_timer(weft_actor *actor, int timer, double seconds)
{
    weft_sim *sim = (weft_sim *)actor->host;
    machine *m = weft_sim_machine(sim, actor->id);
    if (timer < 0 || timer >= WEFT_ACTOR_TIMERS)
        return weft_fail(WEFT_ERR_INTERNAL, "there is no timer %d", timer);
    uint64_t stamp = ++m->stamps[timer];
    if (seconds < 0) return WEFT_OK;
    return weft_sim_plan(sim, (event){.at = sim->now + seconds,
                                      .kind = EVENT_TIMER,
                                      .to = actor->id,
                                      .life = m->life,
                                      .stamp = stamp,
                                      .what = timer});
}

/* Addresses have no effect: the simulator knows all actors by their ids. */
static weft_status sim_know(weft_runtime *host, weft_actor_id id, const char *address)
{
    (void)host;
    (void)id;
    (void)address;
    return WEFT_OK;
}

static void sim_forget(weft_runtime *host, weft_actor_id id)
{
    (void)host;
    (void)id;
}

static bool sim_bind(weft_runtime *host, weft_actor_id id, const char *address)
{
    (void)host;
    (void)id;
    (void)address;
    return true;
}

static const char *sim_address(weft_runtime *host)
{
    (void)host;
    return "";
}

static const weft_runtime_ops host_ops = {
    .now = sim_now,
    .send = weft_sim_send,
    .set_timer = sim_set_timer,
    .compute = weft_sim_compute,
    .know = sim_know,
    .forget = sim_forget,
    .bind = sim_bind,
    .address = sim_address,
    .work = weft_sim_charge,
};

/* --- events of actors --- */

static weft_status fail_of(const weft_sim *sim, const machine *m, weft_status status)
{
    char name[48];
    return weft_fail_within(status, "%s at %g s", weft_actor_name(m->actor, name), sim->now);
}

static void kill_actor(machine *m)
{
    if (!m->actor) return;
    m->actor->ops->destroy(m->actor);
    m->actor = NULL;
}

/* A failed actor is destroyed; the simulation's options decide whether the others go on. */
static weft_status handle_failure(weft_sim *sim, machine *m, weft_status status)
{
    if (status == WEFT_OK) return WEFT_OK;
    weft_actor_id id = m->actor->id;
    status = fail_of(sim, m, status);
    if (!sim->options.failed) return status;
    kill_actor(m);
    return sim->options.failed(sim->options.user, id, status);
}

static weft_status begin(weft_sim *sim, machine *m, weft_actor_id id)
{
    if (m->actor) return WEFT_OK; /* alive already */
    WEFT_TRY(sim->options.make(sim->options.user, id, m->life, &m->actor));
    m->life++;
    m->computing = m->stalled = false;
    m->actor->host = &sim->host;
    m->actor->id = id;
    weft_status status = m->actor->ops->begin(m->actor);
    weft_sim_end_work(sim, m);
    return handle_failure(sim, m, status);
}

/* Before the actor is told of the first part, or the end, of a computation: calls `computed` of the
 * options, after which the results are there. */
static weft_status have_computed(const weft_sim *sim, machine *m, const event *e)
{
    if (m->part_reported || (e->kind != EVENT_PART && e->kind != EVENT_COMPUTED)) return WEFT_OK;
    m->part_reported = true;
    return sim->options.computed ? sim->options.computed(sim->options.user, m->actor, m->ticket)
                                 : WEFT_OK;
}

static weft_status deliver(weft_sim *sim, machine *m, event *e)
{
    weft_actor *a = m->actor;
    WEFT_TRY(have_computed(sim, m, e));
    switch (e->kind) {
    case EVENT_MESSAGE:
        if (e->parcel->crosses && e->parcel->message.payload)
            weft_sim_charge(a, e->parcel->here ? WEFT_WORK_RECEIVE_BESIDE : WEFT_WORK_RECEIVE, NULL,
                            2 * (double)e->parcel->message.payload->bytes);
        return a->ops->message(a, &e->parcel->message);
    case EVENT_TIMER:
        return e->stamp == m->stamps[e->what] ? a->ops->timer(a, (int)e->what) : WEFT_OK;
    case EVENT_PART: return a->ops->part ? a->ops->part(a, m->ticket, (int)e->what) : WEFT_OK;
    case EVENT_COMPUTED:
        m->computing = false;
        if (sim->options.ended) WEFT_TRY(sim->options.ended(sim->options.user, a, m->ticket));
        return a->ops->computed(a, m->ticket);
    case EVENT_NEED: return weft_sim_need(sim, m, (int)e->what);
    case EVENT_BEGIN:
    case EVENT_ARRIVE:
    case EVENT_RECEIVED:
    case EVENT_KILL:
    case EVENT_WAKE:
    case EVENT_PAUSE: break;
    }
    return WEFT_OK;
}

/* Adds an event to the digest, by which two runs can be compared. */
static void digest(weft_sim *sim, const event *e)
{
    uint64_t time, hash = sim->report.digest;
    memcpy(&time, &e->at, sizeof(time));
    hash = weft_mix(hash, time);
    hash = weft_mix(hash, (uint64_t)e->to << 8 | (uint64_t)e->kind);
    hash = weft_mix(hash, (uint64_t)e->what);
    if (e->parcel) {
        const weft_message *l = &e->parcel->message;
        const unsigned char *head = l->head;
        hash = weft_mix(hash, (uint64_t)l->from << 32 | l->type);
        for (size_t i = 0; i < l->head_bytes; i++) hash = weft_mix(hash, head[i]);
    }
    sim->report.digest = hash;
}

double weft_sim_awake(const machine *m, double time)
{
    if (m->period <= 0) return time;
    return floor(time / m->period) * m->awake + fmin(fmod(time, m->period), m->awake);
}

double weft_sim_awake_after(const machine *m, double time, double seconds)
{
    if (m->period <= 0) return time + seconds;
    double awake = weft_sim_awake(m, time) + seconds, periods = floor(awake / m->awake);
    return periods * m->period + (awake - periods * m->awake);
}

/* The time until which the actor is paused; not above `now`: it is awake. */
static double sleeps_until(const machine *m, double now)
{
    double slept = m->period > 0 ? fmod(now, m->period) : -1;
    return WEFT_MAX(m->paused_until, slept >= m->awake ? now - slept + m->period : 0);
}

weft_status weft_sim_attend(weft_sim *sim, machine *m, event *e)
{
    if (!m->actor || m->life != e->life || m->actor->done) {
        weft_sim_forget(sim, &e->parcel, true);
        return WEFT_OK;
    }
    double until = sleeps_until(m, sim->now);
    bool delayed = weft_sim_is_delayed(m, e);
    if (delayed || until > sim->now) {
        if (!delayed) e->at = until; /* keeps its place in the order */
        weft_status status = push(sim, *e);
        if (status == WEFT_OK) e->parcel = NULL;
        return status;
    }
    digest(sim, e);
    m->last = sim->now;
    sim->report.events++;
    weft_status status = deliver(sim, m, e);
    if (status == WEFT_OK && m->stalled) status = weft_sim_work_on(sim, m);
    weft_sim_end_work(sim, m);
    weft_sim_forget(sim, &e->parcel, false);
    return handle_failure(sim, m, status);
}

static weft_status happen(weft_sim *sim, event *e)
{
    machine *m = weft_sim_machine(sim, e->to);
    bool delivered = true;
    switch (e->kind) {
    case EVENT_BEGIN: return begin(sim, m, e->to);
    case EVENT_KILL: kill_actor(m); return WEFT_OK;
    case EVENT_PAUSE: m->paused_until = WEFT_MAX(m->paused_until, e->until); return WEFT_OK;
    case EVENT_WAKE: return weft_sim_wake(sim, m, e->to);
    case EVENT_ARRIVE: WEFT_TRY(weft_sim_arrive(sim, e, &delivered)); break;
    case EVENT_RECEIVED: WEFT_TRY(weft_sim_received(sim, e)); break;
    case EVENT_MESSAGE:
    case EVENT_TIMER:
    case EVENT_NEED:
    case EVENT_PART:
    case EVENT_COMPUTED: break;
    }
    bool waits = false;
    if (delivered) WEFT_TRY(weft_sim_wait(sim, m, e, &waits));
    return delivered && !waits ? weft_sim_attend(sim, m, e) : WEFT_OK;
}

weft_status weft_sim_run(weft_sim *sim, double until)
{
    while (sim->heap_count && sim->heap[0].at <= until) {
        if (sim->options.check) WEFT_TRY(sim->options.check(sim->options.user));
        event e = pop(sim);
        sim->now = e.at;
        weft_status status = happen(sim, &e);
        weft_sim_forget(sim, &e.parcel, true);
        WEFT_TRY(status);
    }
    if (sim->heap_count) sim->now = until;
    return WEFT_OK;
}

double weft_sim_next(const weft_sim *sim)
{
    return sim->heap_count ? sim->heap[0].at : INFINITY;
}

/* --- creation, faults --- */

weft_status weft_sim_create(const weft_sim_options *options, weft_sim **out)
{
    weft_sim *sim;
    WEFT_TRY(WEFT_NEW(&sim, 1));
    sim->host.ops = &host_ops;
    sim->options = *options;
    weft_random_start(&sim->random, options->seed, 0);
    *out = sim;
    return WEFT_OK;
}

void weft_sim_destroy(weft_sim **sim)
{
    if (!sim || !*sim) return;
    weft_sim *s = *sim;
    for (size_t i = 0; i < s->heap_count; i++) weft_sim_forget(s, &s->heap[i].parcel, true);
    for (size_t i = 0; i < s->machine_count; i++) {
        weft_sim_forget_waiting(s, &s->machines[i]);
        kill_actor(&s->machines[i]);
    }
    free(s->machines);
    free(s->heap);
    free(s->ways);
    free(s->cuts);
    free(s);
    *sim = NULL;
}

weft_status weft_sim_add(weft_sim *sim, weft_actor_id id, double at)
{
    if (id >= MACHINES)
        return weft_fail(WEFT_ERR_ARGUMENT, "actor %u: there are at most %d", id, MACHINES);
    while (sim->machine_count <= id) {
        WEFT_TRY(WEFT_GROW(&sim->machines, &sim->machine_capacity, sim->machine_count));
        sim->machines[sim->machine_count++] = (machine){.life = 0};
    }
    if (sim->machines[id].known) return weft_fail(WEFT_ERR_ARGUMENT, "actor %u exists already", id);
    sim->machines[id].known = true;
    sim->machines[id].node = sim->machines[id].next = id;
    return weft_sim_plan(sim, (event){.at = at, .kind = EVENT_BEGIN, .to = id});
}

static weft_status plan_fault(weft_sim *sim, event e)
{
    if (!weft_sim_machine(sim, e.to))
        return weft_fail(WEFT_ERR_ARGUMENT, "there is no actor %u", e.to);
    return weft_sim_plan(sim, e);
}

weft_status weft_sim_kill(weft_sim *sim, weft_actor_id id, double at)
{
    return plan_fault(sim, (event){.at = at, .kind = EVENT_KILL, .to = id});
}

weft_status weft_sim_restart(weft_sim *sim, weft_actor_id id, double at)
{
    return plan_fault(sim, (event){.at = at, .kind = EVENT_BEGIN, .to = id});
}

weft_status weft_sim_pause(weft_sim *sim, weft_actor_id id, double at, double until)
{
    return plan_fault(sim, (event){.at = at, .kind = EVENT_PAUSE, .to = id, .until = until});
}

weft_status weft_sim_doze(weft_sim *sim, weft_actor_id id, double period, double awake)
{
    machine *m = weft_sim_machine(sim, id);
    if (!m) return weft_fail(WEFT_ERR_ARGUMENT, "there is no actor %u", id);
    m->period = period;
    m->awake = awake;
    return WEFT_OK;
}

weft_status weft_sim_cut(weft_sim *sim, weft_actor_id a, weft_actor_id b, double at, double until)
{
    WEFT_TRY(WEFT_GROW(&sim->cuts, &sim->cut_capacity, sim->cut_count));
    sim->cuts[sim->cut_count++] = (cut){a, b, at, until};
    return WEFT_OK;
}

weft_sim_report weft_sim_stats(const weft_sim *sim)
{
    weft_sim_report report = sim->report;
    double busy = 0, last = 0, computing = 0;
    for (size_t i = 0; i < sim->machine_count; i++) {
        const machine *m = &sim->machines[i];
        busy += m->busy;
        computing += m->computes;
        if (m->computes) last = WEFT_MAX(last, m->last);
    }
    report.now = sim->now;
    report.seconds = computing > 0 ? last : sim->now;
    if (last > 0) report.utilisation = busy / last / computing;
    return report;
}

double weft_sim_sends_until(const weft_sim *sim, weft_actor_id id)
{
    return WEFT_MAX(weft_sim_node(sim, weft_sim_machine(sim, id))->sends_until, sim->now);
}

weft_actor *weft_sim_actor(const weft_sim *sim, weft_actor_id id)
{
    machine *m = weft_sim_machine(sim, id);
    return m ? m->actor : NULL;
}
