/* Implements views: members by id, names for displays, events, and the protobuf encoding. */
#include "membership/view.h"

#include <stdio.h>

#include "membership.pb-c.h"
#include "actor/rpc.h"

const char *weft_member_role_name(weft_member_role role)
{
    static const char *const names[WEFT_MEMBER_ROLES] = {"learner", "server"};
    return names[role];
}

void weft_view_free(weft_view *view)
{
    free(view->fault);
    free(view->members);
    weft_id_index_free(&view->places);
    free(view->ranges);
    free(view->events);
    free(view->removed);
    *view = (weft_view){.number = 0};
}

weft_view_member *weft_view_find(const weft_view *view, weft_actor_id id)
{
    size_t at = weft_id_index_find(&view->places, id);
    return at == WEFT_NO_PLACE ? NULL : &view->members[at];
}

weft_status weft_view_add(weft_view *view, const weft_view_member *member)
{
    WEFT_TRY(WEFT_GROW(&view->members, &view->member_capacity, view->member_count));
    WEFT_TRY(weft_id_index_put(&view->places, member->id, view->member_count));
    view->members[view->member_count++] = *member;
    return WEFT_OK;
}

weft_rpc_role weft_member_rpc_role(weft_member_role role)
{
    return role == WEFT_MEMBER_SERVER ? WEFT_RPC_SERVER : WEFT_RPC_LEARNER;
}

weft_rpc_role weft_view_role(const weft_view *view, weft_actor_id id)
{
    const weft_view_member *m = weft_view_find(view, id);
    if (id == WEFT_COORDINATOR) return WEFT_RPC_COORDINATOR;
    return m ? weft_member_rpc_role(m->role) : WEFT_RPC_OTHER;
}

bool weft_view_remove(weft_view *view, weft_actor_id id)
{
    const weft_view_member *m = weft_view_find(view, id);
    if (!m) return false;
    size_t at = (size_t)(m - view->members), last = --view->member_count;
    weft_id_index_remove(&view->places, id);
    if (at == last) return true;
    view->members[at] = view->members[last];
    /* The id is there already, so this call cannot fail. */
    return weft_id_index_put(&view->places, view->members[at].id, at) == WEFT_OK;
}

int weft_view_count(const weft_view *view, weft_member_role role)
{
    int count = 0;
    for (size_t i = 0; i < view->member_count; i++) count += view->members[i].role == role;
    return count;
}

int64_t weft_view_step(const weft_view *view, int64_t clock)
{
    int64_t step = view->about.begun + WEFT_MIN(clock, INT64_MAX / 2);
    return view->about.steps > 0 ? WEFT_MIN(step, view->about.steps) : step;
}

uint64_t weft_view_sum(const weft_view *view)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < view->member_count; i++)
        sum += weft_mix(view->member_count, view->members[i].id);
    return sum | 1;
}

/* --- names and events --- */

const char *weft_member_name(weft_member_role role, int slot, char out[WEFT_MEMBER_NAME])
{
    (void)snprintf(out, WEFT_MEMBER_NAME, "%s %d", weft_member_role_name(role), slot);
    return out;
}

const char *weft_view_name(const weft_view *view, weft_actor_id id, char out[WEFT_MEMBER_NAME])
{
    const weft_view_member *m = weft_view_find(view, id);
    if (m) return weft_member_name(m->role, m->slot, out);
    (void)snprintf(out, WEFT_MEMBER_NAME, "the member with number %u", id);
    return out;
}

/* Bounds on the events that a view keeps, and on the last ones that are encoded. */
enum { MOST_EVENTS = 256, PACKED_EVENTS = 16 };

weft_status weft_view_note(weft_view *view, const weft_member_event *event)
{
    if (view->event_count == MOST_EVENTS) {
        view->event_count /= 2;
        memmove(view->events, view->events + view->event_count,
                view->event_count * sizeof(*view->events));
    }
    WEFT_TRY(WEFT_GROW(&view->events, &view->event_capacity, view->event_count));
    size_t last = view->event_count++;
    view->events[last] = *event;
    view->events[last].number = last > 0 ? view->events[last - 1].number + 1 : 1;
    return WEFT_OK;
}

/* --- encoding --- */

/* The protobuf messages of a view: one for each member and range. */
typedef struct packed_view {
    Weft__Member *members;
    Weft__Member **member_list;
    Weft__Stats *figures;
    Weft__RangeOwner *owners;
    Weft__RangeOwner **owner_list;
    Weft__MemberEvent events[PACKED_EVENTS], *event_list[PACKED_EVENTS];
    Weft__About about;
    uint32_t expected[WEFT_MEMBER_ROLES];
} packed_view;

static void free_packed(packed_view *s)
{
    free(s->members);
    free(s->member_list);
    free(s->figures);
    free(s->owners);
    free(s->owner_list);
}

static weft_status new_packed(const weft_view *v, size_t count, packed_view *s)
{
    size_t members = WEFT_MAX(count, 1), ranges = (size_t)WEFT_MAX(v->range_count, 1);
    WEFT_TRY(WEFT_NEW(&s->members, members));
    WEFT_TRY(WEFT_NEW(&s->member_list, members));
    WEFT_TRY(WEFT_NEW(&s->figures, members));
    WEFT_TRY(WEFT_NEW(&s->owners, ranges));
    return WEFT_NEW(&s->owner_list, ranges);
}

static void fill_member(const weft_view_member *from, Weft__Member *m, Weft__Stats *f)
{
    weft__stats__init(f);
    f->clock = from->figures.clock;
    f->loss = from->figures.loss;
    f->rate = from->figures.rate;
    f->staleness = from->figures.staleness;
    f->device_busy = from->figures.device_busy;
    f->device_used = from->figures.device_used;
    f->device_total = from->figures.device_total;
    weft__member__init(m);
    m->id = from->id;
    m->role = (uint32_t)from->role;
    m->slot = (uint32_t)from->slot;
    m->address = (char *)(uintptr_t)from->address;
    m->figures = f;
    m->silent = from->silent;
    m->dismissed = from->dismissed;
    m->lacks_state = from->lacks_state;
    m->host = (char *)(uintptr_t)from->host;
}

static void fill_event(const weft_member_event *from, double now, Weft__MemberEvent *e)
{
    weft__member_event__init(e);
    e->number = from->number;
    e->kind = (uint32_t)from->kind;
    e->id = from->id;
    e->role = (uint32_t)from->role;
    e->slot = (uint32_t)from->slot;
    e->host = (char *)(uintptr_t)from->host;
    e->ago = now - from->when;
    e->silent = from->silent;
}

static void fill_description(const weft_view *v, double now, packed_view *s, Weft__View *m)
{
    size_t packed = WEFT_MIN(v->event_count, (size_t)PACKED_EVENTS);
    weft__about__init(&s->about);
    s->about.model = (char *)(uintptr_t)v->about.model;
    s->about.exchange = (char *)(uintptr_t)v->about.exchange;
    s->about.data = (char *)(uintptr_t)v->about.data;
    s->about.steps = v->about.steps;
    s->about.begun = v->about.begun;
    s->about.reached = v->about.reached;
    for (int i = 0; i < WEFT_MEMBER_ROLES; i++) s->expected[i] = (uint32_t)v->about.expected[i];
    s->about.expected = s->expected;
    s->about.n_expected = WEFT_MEMBER_ROLES;
    for (size_t i = 0; i < packed; i++) {
        fill_event(&v->events[v->event_count - packed + i], now, &s->events[i]);
        s->event_list[i] = &s->events[i];
    }
    m->about = &s->about;
    m->events = s->event_list;
    m->n_events = packed;
}

static weft_status pack(const weft_view *v, const weft_view_changes *changes, size_t count,
                        double now, packed_view *s, weft_buffer **out)
{
    Weft__View m;
    weft__view__init(&m);
    for (size_t i = 0; i < count; i++) {
        fill_member(&v->members[changes ? changes->places[i] : i], &s->members[i], &s->figures[i]);
        s->member_list[i] = &s->members[i];
    }
    for (int i = 0; i < v->range_count; i++) {
        weft__range_owner__init(&s->owners[i]);
        s->owners[i].primary = v->ranges[i].primary;
        s->owners[i].replica = v->ranges[i].replica;
        s->owners[i].ready = v->ranges[i].in_sync;
        s->owner_list[i] = &s->owners[i];
    }
    m.run = v->run;
    m.number = v->number;
    m.running = v->running;
    m.over = v->over;
    m.failure_timeout = v->failure_timeout;
    if (v->fault) m.fault = v->fault;
    m.members = s->member_list;
    m.n_members = count;
    if (changes) {
        m.since = changes->base;
        m.removed = (uint32_t *)(uintptr_t)changes->removed;
        m.n_removed = changes->removed_count;
    }
    m.ranges = s->owner_list;
    m.n_ranges = (size_t)v->range_count;
    fill_description(v, now, s, &m);
    WEFT_TRY(weft_buffer_new(weft__view__get_packed_size(&m), out));
    weft__view__pack(&m, (*out)->data);
    return WEFT_OK;
}

weft_status weft_view_pack(const weft_view *view, const weft_view_changes *changes, double now,
                           weft_buffer **out)
{
    packed_view s = {.members = NULL};
    size_t count = changes ? changes->place_count : view->member_count;
    weft_status status = new_packed(view, count, &s);
    if (status == WEFT_OK) status = pack(view, changes, count, now, &s, out);
    free_packed(&s);
    return status;
}

/* --- decoding --- */

static weft_status take_member(const Weft__Member *m, weft_view_member *out)
{
    if (m->id == WEFT_NOBODY || m->role >= WEFT_MEMBER_ROLES || m->slot > INT32_MAX ||
        strlen(m->address) >= WEFT_ADDRESS)
        return weft_fail(WEFT_ERR_FORMAT, "a view with an invalid member");
    *out = (weft_view_member){.id = m->id,
                              .role = (weft_member_role)m->role,
                              .slot = (int)m->slot,
                              .silent = m->silent,
                              .dismissed = m->dismissed,
                              .lacks_state = m->lacks_state};
    (void)snprintf(out->address, sizeof(out->address), "%s", m->address);
    (void)snprintf(out->host, sizeof(out->host), "%s", m->host);
    if (m->figures)
        out->figures = (weft_member_stats){.clock = m->figures->clock,
                                           .loss = m->figures->loss,
                                           .rate = m->figures->rate,
                                           .staleness = m->figures->staleness,
                                           .device_busy = m->figures->device_busy,
                                           .device_used = m->figures->device_used,
                                           .device_total = m->figures->device_total};
    return WEFT_OK;
}

static weft_status take_event(const Weft__MemberEvent *e, double now, weft_member_event *out)
{
    if (e->kind >= WEFT_MEMBER_EVENT_KINDS || e->role >= WEFT_MEMBER_ROLES || e->slot > INT32_MAX)
        return weft_fail(WEFT_ERR_FORMAT, "a view with an invalid event");
    *out = (weft_member_event){.number = e->number,
                               .kind = (weft_member_event_kind)e->kind,
                               .id = e->id,
                               .role = (weft_member_role)e->role,
                               .slot = (int)e->slot,
                               .when = now - e->ago,
                               .silent = e->silent};
    (void)snprintf(out->host, sizeof(out->host), "%s", e->host);
    return WEFT_OK;
}

static weft_status take_description(const Weft__View *m, double now, weft_view *v)
{
    size_t count = WEFT_MIN(m->n_events, (size_t)PACKED_EVENTS);
    if (m->about) {
        const Weft__About *a = m->about;
        v->about.steps = a->steps;
        v->about.begun = WEFT_MIN(WEFT_MAX(a->begun, 0), INT64_MAX / 2);
        v->about.reached = WEFT_MAX(a->reached, 0);
        (void)snprintf(v->about.model, sizeof(v->about.model), "%s", a->model);
        (void)snprintf(v->about.exchange, sizeof(v->about.exchange), "%s", a->exchange);
        (void)snprintf(v->about.data, sizeof(v->about.data), "%s", a->data);
        for (size_t i = 0; i < WEFT_MIN(a->n_expected, (size_t)WEFT_MEMBER_ROLES); i++)
            v->about.expected[i] = (int)WEFT_MIN(a->expected[i], (uint32_t)WEFT_MOST_MEMBERS);
    }
    WEFT_TRY(WEFT_NEW(&v->events, WEFT_MAX(count, 1)));
    v->event_capacity = WEFT_MAX(count, 1);
    for (size_t i = 0; i < count; i++)
        WEFT_TRY(take_event(m->events[i], now, &v->events[v->event_count++]));
    return WEFT_OK;
}

static weft_status unpack_view(const Weft__View *m, double now, weft_view *v)
{
    if (m->n_members > WEFT_MOST_MEMBERS || m->n_removed > WEFT_MOST_MEMBERS ||
        m->n_ranges > WEFT_MOST_RANGES || m->number < 0 || m->since < 0)
        return weft_fail(WEFT_ERR_FORMAT, "a view of %zu members and %zu ranges", m->n_members,
                         m->n_ranges);
    v->run = m->run;
    v->number = m->number;
    v->running = m->running;
    v->over = m->over;
    v->failure_timeout = m->failure_timeout;
    v->base = m->since;
    if (m->n_removed > 0) WEFT_TRY(WEFT_NEW(&v->removed, m->n_removed));
    for (size_t i = 0; i < m->n_removed; i++) v->removed[v->removed_count++] = m->removed[i];
    if (*m->fault) WEFT_TRY(weft_strdup(m->fault, &v->fault));
    WEFT_TRY(WEFT_NEW(&v->ranges, WEFT_MAX(m->n_ranges, 1)));
    for (size_t i = 0; i < m->n_members; i++) {
        weft_view_member member;
        WEFT_TRY(take_member(m->members[i], &member));
        if (weft_view_find(v, member.id))
            return weft_fail(WEFT_ERR_FORMAT, "a view with member %u twice", member.id);
        WEFT_TRY(weft_view_add(v, &member));
    }
    for (size_t i = 0; i < m->n_ranges; i++)
        v->ranges[v->range_count++] =
            (weft_range_owner){m->ranges[i]->primary, m->ranges[i]->replica, m->ranges[i]->ready};
    return take_description(m, now, v);
}

/* Bound on the bytes of an encoded view with the most members and ranges. */
static const size_t MOST_BYTES = (size_t)WEFT_MOST_MEMBERS * (WEFT_ADDRESS + WEFT_HOST + 80) +
                                 (size_t)WEFT_MOST_RANGES * 24 + 8192;

weft_status weft_view_unpack(const weft_buffer *blob, double now, weft_view *out)
{
    weft_view v = {.number = 0};
    Weft__View *m = NULL;
    if (blob && blob->bytes <= MOST_BYTES) m = weft__view__unpack(NULL, blob->bytes, blob->data);
    if (!m) return weft_fail(WEFT_ERR_FORMAT, "not a valid view");
    weft_rpc_clean(&m->base);
    weft_status status = unpack_view(m, now, &v);
    weft__view__free_unpacked(m, NULL);
    if (status != WEFT_OK) {
        weft_view_free(&v);
        return status;
    }
    weft_view_free(out);
    *out = v;
    return WEFT_OK;
}
