#include "exchange/cluster/view.h"

#include <stdio.h>

#include "cluster.pb-c.h"
#include "exchange/wire.h"

const char *weft_member_role_name(weft_member_role role)
{
    static const char *const names[WEFT_MEMBER_ROLES] = {"learner", "server", "peer"};
    return names[role];
}

void weft_view_free(weft_view *view)
{
    free(view->fault);
    free(view->members);
    free(view->ranges);
    *view = (weft_view){.number = 0};
}

weft_view_member *weft_view_find(const weft_view *view, weft_actor_id id)
{
    for (size_t i = 0; i < view->member_count; i++)
        if (view->members[i].id == id) return &view->members[i];
    return NULL;
}

bool weft_view_remove(weft_view *view, weft_actor_id id)
{
    const weft_view_member *m = weft_view_find(view, id);
    if (!m) return false;
    size_t at = (size_t)(m - view->members);
    view->member_count--;
    memmove(&view->members[at], &view->members[at + 1],
            (view->member_count - at) * sizeof(*view->members));
    return true;
}

int weft_view_count(const weft_view *view, weft_member_role role)
{
    int count = 0;
    for (size_t i = 0; i < view->member_count; i++) count += view->members[i].role == role;
    return count;
}

uint64_t weft_view_sum(const weft_view *view)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < view->member_count; i++)
        sum += weft_mix(view->member_count, view->members[i].id);
    return sum | 1;
}

/* --- out --- */

/* A message for each member and range, in one piece of memory. */
typedef struct sheet {
    Weft__Member *members;
    Weft__Member **member_list;
    Weft__Figures *figures;
    Weft__Keeper *keepers;
    Weft__Keeper **keeper_list;
} sheet;

static void free_sheet(sheet *s)
{
    free(s->members);
    free(s->member_list);
    free(s->figures);
    free(s->keepers);
    free(s->keeper_list);
}

static weft_status new_sheet(const weft_view *v, sheet *s)
{
    size_t members = WEFT_MAX(v->member_count, 1), ranges = (size_t)WEFT_MAX(v->range_count, 1);
    WEFT_TRY(WEFT_NEW(&s->members, members));
    WEFT_TRY(WEFT_NEW(&s->member_list, members));
    WEFT_TRY(WEFT_NEW(&s->figures, members));
    WEFT_TRY(WEFT_NEW(&s->keepers, ranges));
    return WEFT_NEW(&s->keeper_list, ranges);
}

static void fill_member(const weft_view_member *from, Weft__Member *m, Weft__Figures *f)
{
    weft__figures__init(f);
    f->clock = from->figures.clock;
    f->loss = from->figures.loss;
    f->rate = from->figures.rate;
    f->staleness = from->figures.staleness;
    weft__member__init(m);
    m->id = from->id;
    m->role = (uint32_t)from->role;
    m->slot = (uint32_t)from->slot;
    m->address = (char *)(uintptr_t)from->address;
    m->figures = f;
    m->silent = from->silent;
    m->dismissed = from->dismissed;
    m->lacks_state = from->lacks_state;
}

static weft_status pack(const weft_view *v, sheet *s, weft_blob **out)
{
    Weft__View m;
    weft__view__init(&m);
    for (size_t i = 0; i < v->member_count; i++) {
        fill_member(&v->members[i], &s->members[i], &s->figures[i]);
        s->member_list[i] = &s->members[i];
    }
    for (int i = 0; i < v->range_count; i++) {
        weft__keeper__init(&s->keepers[i]);
        s->keepers[i].primary = v->ranges[i].primary;
        s->keepers[i].replica = v->ranges[i].replica;
        s->keepers[i].ready = v->ranges[i].ready;
        s->keeper_list[i] = &s->keepers[i];
    }
    m.run = v->run;
    m.number = v->number;
    m.running = v->running;
    m.over = v->over;
    m.silence = v->silence;
    if (v->fault) m.fault = v->fault;
    m.members = s->member_list;
    m.n_members = v->member_count;
    m.ranges = s->keeper_list;
    m.n_ranges = (size_t)v->range_count;
    WEFT_TRY(weft_blob_new(weft__view__get_packed_size(&m), out));
    weft__view__pack(&m, (*out)->data);
    return WEFT_OK;
}

weft_status weft_view_pack(const weft_view *view, weft_blob **out)
{
    sheet s = {.members = NULL};
    weft_status status = new_sheet(view, &s);
    if (status == WEFT_OK) status = pack(view, &s, out);
    free_sheet(&s);
    return status;
}

/* --- in --- */

static weft_status take_member(const Weft__Member *m, weft_view_member *out)
{
    if (m->id == WEFT_NOBODY || m->role >= WEFT_MEMBER_ROLES || m->slot > INT32_MAX ||
        strlen(m->address) >= WEFT_ADDRESS)
        return weft_fail(WEFT_ERR_FORMAT, "a view with a member that cannot be");
    *out = (weft_view_member){.id = m->id,
                              .role = (weft_member_role)m->role,
                              .slot = (int)m->slot,
                              .silent = m->silent,
                              .dismissed = m->dismissed,
                              .lacks_state = m->lacks_state};
    (void)snprintf(out->address, sizeof(out->address), "%s", m->address);
    if (m->figures)
        out->figures = (weft_member_figures){m->figures->clock, m->figures->loss, m->figures->rate,
                                             m->figures->staleness};
    return WEFT_OK;
}

static weft_status take(const Weft__View *m, weft_view *v)
{
    if (m->n_members > WEFT_MOST_MEMBERS || m->n_ranges > WEFT_MOST_RANGES || m->number < 0)
        return weft_fail(WEFT_ERR_FORMAT, "a view of %zu members and %zu ranges", m->n_members,
                         m->n_ranges);
    v->run = m->run;
    v->number = m->number;
    v->running = m->running;
    v->over = m->over;
    v->silence = m->silence;
    if (*m->fault) WEFT_TRY(weft_strdup(m->fault, &v->fault));
    WEFT_TRY(WEFT_NEW(&v->members, WEFT_MAX(m->n_members, 1)));
    WEFT_TRY(WEFT_NEW(&v->ranges, WEFT_MAX(m->n_ranges, 1)));
    v->member_capacity = WEFT_MAX(m->n_members, 1);
    for (size_t i = 0; i < m->n_members; i++)
        WEFT_TRY(take_member(m->members[i], &v->members[v->member_count++]));
    for (size_t i = 0; i < m->n_ranges; i++)
        v->ranges[v->range_count++] =
            (weft_keeper){m->ranges[i]->primary, m->ranges[i]->replica, m->ranges[i]->ready};
    return WEFT_OK;
}

/* Nothing that is larger can be one within its limits. */
static const size_t MOST_BYTES =
    (size_t)WEFT_MOST_MEMBERS * (WEFT_ADDRESS + 80) + (size_t)WEFT_MOST_RANGES * 24 + 4096;

weft_status weft_view_unpack(const weft_blob *blob, weft_view *out)
{
    weft_view v = {.number = 0};
    Weft__View *m = NULL;
    if (blob && blob->bytes <= MOST_BYTES) m = weft__view__unpack(NULL, blob->bytes, blob->data);
    if (!m) return weft_fail(WEFT_ERR_FORMAT, "a view that is none");
    weft_status status = take(m, &v);
    weft_wire_free(m);
    if (status != WEFT_OK) {
        weft_view_free(&v);
        return status;
    }
    weft_view_free(out);
    *out = v;
    return WEFT_OK;
}
