/* Computations in virtual time: a computation runs until it needs a missing input part, and reports
 * its output parts. */
#include "actor/sim_internal.h"

static bool lacks(const machine *m, int part)
{
    return m->actor->ops->lacks && m->actor->ops->lacks(m->actor, m->ticket, part);
}

/* The missing input part that the computation needs first; -1: none is missing. A part that has
 * arrived stays, so it is not checked again when the computation needs it. */
static int next_lack(const weft_sim *sim, const machine *m)
{
    const double *needs = sim->options.needs;
    int next = -1;
    for (int k = 0; k < sim->options.need_count; k++)
        if ((next < 0 || needs[k] < needs[next]) && lacks(m, k)) next = k;
    return next;
}

static weft_status plan_at(weft_sim *sim, const machine *m, double share, event_kind kind, int what)
{
    double left = WEFT_MAX(share - m->share, 0.0);
    double at = weft_sim_awake_after(m, sim->now + m->working, left * m->work.seconds);
    return weft_sim_plan(sim, (event){.at = at,
                                      .delay = m->delay + m->working,
                                      .kind = kind,
                                      .to = m->actor->id,
                                      .life = m->life,
                                      .what = what});
}

/* Called when all input is there: plans the events for the output parts and the end of the
 * computation. */
static weft_status run_through(weft_sim *sim, const machine *m)
{
    if (sim->options.supplied)
        WEFT_TRY(sim->options.supplied(sim->options.user, m->actor, m->ticket));
    for (int i = 0; i < m->work.part_count; i++)
        WEFT_TRY(plan_at(sim, m, m->work.parts[i], EVENT_PART, i));
    return plan_at(sim, m, 1, EVENT_COMPUTED, 0);
}

static weft_status begin(weft_sim *sim, machine *m)
{
    m->begun = true;
    WEFT_TRY(sim->options.compute(sim->options.user, m->actor, m->ticket, &m->work));
    m->busy += m->work.seconds;
    return WEFT_OK;
}

weft_status weft_sim_work_on(weft_sim *sim, machine *m)
{
    m->stalled = !m->begun && !sim->options.needs && lacks(m, WEFT_ANY_PART);
    if (m->stalled) return WEFT_OK;
    if (!m->begun) WEFT_TRY(begin(sim, m));
    m->since = sim->now;
    int next = next_lack(sim, m);
    if (next < 0) return run_through(sim, m);
    m->stalled = sim->options.needs[next] <= m->share;
    return m->stalled ? WEFT_OK : plan_at(sim, m, sim->options.needs[next], EVENT_NEED, next);
}

weft_status weft_sim_need(weft_sim *sim, machine *m, int part)
{
    m->share = sim->options.needs[part];
    return weft_sim_work_on(sim, m);
}

weft_status weft_sim_compute(weft_actor *actor, int64_t ticket)
{
    weft_sim *sim = (weft_sim *)actor->host;
    machine *m = weft_sim_machine(sim, actor->id);
    if (m->computing || !sim->options.compute)
        return weft_fail(WEFT_ERR_INTERNAL, "%s",
                         m->computing ? "a computation is going on already"
                                      : "this simulation has no computations");
    m->computing = m->computes = true;
    m->part_reported = m->begun = false;
    m->ticket = ticket;
    m->share = 0;
    m->work = (weft_sim_work){0};
    return weft_sim_work_on(sim, m);
}

double weft_sim_progress(const weft_sim *sim, weft_actor_id id)
{
    const machine *m = weft_sim_machine(sim, id);
    if (!m || !m->computing || !m->begun) return 0;
    if (m->stalled || !(m->work.seconds > 0)) return m->share;
    double gone = weft_sim_awake(m, sim->now) - weft_sim_awake(m, m->since);
    return WEFT_MIN(m->share + gone / m->work.seconds, 1.0);
}
