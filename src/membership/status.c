/* Fills in the public status of a run from a view. */
#include "membership/status.h"

#include <stdio.h>

void weft_cluster_status_free(weft_cluster_status *status)
{
    WEFT_NEED_VOID(status);
    free(status->fault);
    free(status->members);
    free(status->events);
    *status = (weft_cluster_status){0};
}

static void describe_member(const weft_view *v, const weft_view_member *m, weft_cluster_member *out)
{
    int64_t clock = m->figures.clock;
    *out = (weft_cluster_member){.id = m->id,
                                 .role = weft_member_role_name(m->role),
                                 .slot = m->slot,
                                 .step = m->role == WEFT_MEMBER_LEARNER ? weft_view_step(v, clock)
                                                                        : clock,
                                 .loss = m->figures.loss,
                                 .rate = m->figures.rate,
                                 .staleness = m->figures.staleness,
                                 .device_busy = m->figures.device_busy,
                                 .device_used = m->figures.device_used,
                                 .device_total = m->figures.device_total,
                                 .silent = m->silent,
                                 .leaving = m->dismissed};
    weft_member_name(m->role, m->slot, out->name);
    (void)snprintf(out->host, sizeof(out->host), "%s", m->host);
    (void)snprintf(out->address, sizeof(out->address), "%s", m->address);
}

static void describe_event(const weft_member_event *e, double now, weft_cluster_event *out)
{
    static const char *const texts[WEFT_MEMBER_EVENT_KINDS] = {
        [WEFT_MEMBER_JOINED] = "has joined",
        [WEFT_MEMBER_FINISHED] = "has finished and left",
        [WEFT_MEMBER_STOPPED] = "has left before the end of the run: it was stopped, or has failed",
        [WEFT_MEMBER_DISMISSED] = "has left, as requested (weft leave)",
        [WEFT_MEMBER_SILENT] = "is lost: no heartbeat for",
        [WEFT_MEMBER_REPLACED] = "is lost: its process has ended, and a new one takes its slot",
    };
    char name[WEFT_MEMBER_NAME], seconds[32] = "";
    if (e->kind == WEFT_MEMBER_SILENT)
        (void)snprintf(seconds, sizeof(seconds), " %.1f s", e->silent);
    *out = (weft_cluster_event){.number = e->number, .ago = now - e->when};
    (void)snprintf(out->text, sizeof(out->text), "%s%s%s (number %u) %s%s",
                   weft_member_name(e->role, e->slot, name), *e->host ? " on " : "", e->host, e->id,
                   texts[e->kind], seconds);
}

/* Learners before servers, each in the order of their slots. */
static int by_name(const void *a, const void *b)
{
    const weft_cluster_member *x = a, *y = b;
    int roles = strcmp(x->role, y->role);
    return roles ? roles : (x->slot > y->slot) - (x->slot < y->slot);
}

static void describe_run(const weft_view *v, weft_cluster_status *out)
{
    const weft_run_about *about = &v->about;
    *out = (weft_cluster_status){.run = v->run,
                                 .steps = about->steps,
                                 .running = v->running,
                                 .over = v->over,
                                 .servers = weft_view_count(v, WEFT_MEMBER_SERVER),
                                 .servers_expected = about->expected[WEFT_MEMBER_SERVER],
                                 .learners_expected = about->expected[WEFT_MEMBER_LEARNER]};
    out->learners = (int)v->member_count - out->servers;
    out->step = weft_view_step(v, v->about.reached);
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        if (m->role == WEFT_MEMBER_SERVER) continue;
        out->step = WEFT_MAX(out->step, weft_view_step(v, m->figures.clock));
        out->rate += m->figures.rate;
    }
    if (v->over) out->step = about->steps; /* members that have left report no step any more */
    (void)snprintf(out->model, sizeof(out->model), "%s", about->model);
    (void)snprintf(out->exchange, sizeof(out->exchange), "%s", about->exchange);
    (void)snprintf(out->data, sizeof(out->data), "%s", about->data);
}

weft_status weft_cluster_describe(const weft_view *view, double now, weft_cluster_status *out)
{
    weft_status status = WEFT_OK;
    describe_run(view, out);
    if (view->fault) status = weft_strdup(view->fault, &out->fault);
    if (status == WEFT_OK) status = WEFT_NEW(&out->members, view->member_count + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&out->events, view->event_count + 1);
    for (size_t i = 0; i < view->member_count && status == WEFT_OK; i++)
        describe_member(view, &view->members[i], &out->members[out->count++]);
    if (status == WEFT_OK) qsort(out->members, (size_t)out->count, sizeof(*out->members), by_name);
    for (size_t i = 0; i < view->event_count && status == WEFT_OK; i++)
        describe_event(&view->events[i], now, &out->events[out->event_count++]);
    if (status != WEFT_OK) weft_cluster_status_free(out);
    return status;
}
