/* Nodes of several actors, and the time of handlers: work that an actor reports makes its later
 * events wait, its messages leave later, and its computation end later. */
#include "actor/sim_internal.h"

machine *weft_sim_node(const weft_sim *sim, const machine *m)
{
    return &sim->machines[m->node];
}

weft_status weft_sim_share_node(weft_sim *sim, weft_actor_id id, weft_actor_id with)
{
    machine *m = weft_sim_machine(sim, id), *other = weft_sim_machine(sim, with);
    if (m && id == with) return WEFT_OK;
    if (!m || !other || m->node != id || m->next != id)
        return weft_fail(WEFT_ERR_ARGUMENT, "actor %u cannot move to the node of actor %u", id,
                         with);
    machine *node = weft_sim_node(sim, other);
    m->node = other->node;
    m->next = node->next;
    node->next = id;
    return WEFT_OK;
}

/* --- work --- */

static bool computes_now(const machine *m)
{
    return m->actor && m->computing && m->begun && !m->stalled;
}

void weft_sim_charge(weft_actor *actor, weft_work_kind kind, const char *codec, double bytes)
{
    weft_sim *sim = (weft_sim *)actor->host;
    machine *me = weft_sim_machine(sim, actor->id);
    int computing = 0;
    if (!sim->options.work) return;
    for (machine *m = &sim->machines[me->next]; m != me; m = &sim->machines[m->next])
        computing += computes_now(m);
    weft_sim_delay d = sim->options.work(sim->options.user, actor, kind, codec,
                                         weft_sim_scaled(sim, bytes), computing);
    me->working += d.own;
    for (machine *m = &sim->machines[me->next]; m != me && d.others > 0;
         m = &sim->machines[m->next])
        if (computes_now(m)) m->delay += d.others;
}

void weft_sim_end_work(weft_sim *sim, machine *m)
{
    if (m->working <= 0) return;
    m->works_until = sim->now + m->working;
    m->worked += m->working;
    m->delay += m->working;
    m->working = 0;
}

static weft_status plan_wake(weft_sim *sim, machine *m, weft_actor_id id)
{
    if (m->wakes) return WEFT_OK;
    m->wakes = true;
    return weft_sim_plan(
        sim, (event){.at = WEFT_MAX(m->works_until, sim->now), .kind = EVENT_WAKE, .to = id});
}

/* Makes room for one more event in the ring. */
static weft_status grow(machine *m)
{
    event *larger;
    size_t capacity = WEFT_MAX(2 * m->waiting_capacity, (size_t)16);
    if (m->waiting_count < m->waiting_capacity) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&larger, capacity));
    for (size_t i = 0; i < m->waiting_count; i++)
        larger[i] = m->waiting[(m->first + i) & (m->waiting_capacity - 1)];
    free(m->waiting);
    m->waiting = larger;
    m->waiting_capacity = capacity;
    m->first = 0;
    return WEFT_OK;
}

weft_status weft_sim_wait(weft_sim *sim, machine *m, event *e, bool *waits)
{
    *waits = m->waiting_count > 0 || sim->now < m->works_until;
    if (!*waits) return WEFT_OK;
    WEFT_TRY(grow(m));
    m->waiting[(m->first + m->waiting_count++) & (m->waiting_capacity - 1)] = *e;
    e->parcel = NULL;
    return plan_wake(sim, m, e->to);
}

weft_status weft_sim_wake(weft_sim *sim, machine *m, weft_actor_id id)
{
    m->wakes = false;
    while (m->waiting_count > 0 && sim->now >= m->works_until) {
        event e = m->waiting[m->first];
        m->first = (m->first + 1) & (m->waiting_capacity - 1);
        m->waiting_count--;
        weft_status status = weft_sim_attend(sim, m, &e);
        weft_sim_forget(sim, &e.parcel, true);
        WEFT_TRY(status);
    }
    return m->waiting_count > 0 ? plan_wake(sim, m, id) : WEFT_OK;
}

void weft_sim_forget_waiting(weft_sim *sim, machine *m)
{
    for (size_t i = 0; i < m->waiting_count; i++)
        weft_sim_forget(sim, &m->waiting[(m->first + i) & (m->waiting_capacity - 1)].parcel, true);
    free(m->waiting);
}

bool weft_sim_is_delayed(const machine *m, event *e)
{
    bool computation = e->kind == EVENT_NEED || e->kind == EVENT_PART || e->kind == EVENT_COMPUTED;
    if (!computation || m->delay <= e->delay) return false;
    e->at += m->delay - e->delay;
    e->delay = m->delay;
    return true;
}

weft_sim_use weft_sim_used(const weft_sim *sim, weft_actor_id id)
{
    const machine *m = weft_sim_machine(sim, id), *node = weft_sim_node(sim, m);
    /* A message that waits, or is on its way, has yet to leave. */
    double left = WEFT_MAX(node->sends_until - sim->now, 0.0);
    return (weft_sim_use){.worked = m->worked - WEFT_MAX(m->works_until - sim->now, 0.0),
                          .sent_bytes = node->given_bytes - left * node->rate,
                          .sending = node->given - left * node->rate_busy,
                          .receiving = node->receiving,
                          .posted = m->posted};
}
