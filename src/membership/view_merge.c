/* Installs views, and merges views of other members while the coordinator is unreachable (view
 * merge after a partition). */
#include "membership/member_internal.h"

#include "actor/rpc.h"

/* --- tombstones --- */

bool weft_member_was_removed(const weft_member *m, weft_actor_id id)
{
    return weft_id_index_find(&m->tombstone_places, id) != WEFT_NO_PLACE;
}

static void keep_tombstone(weft_member *m, weft_actor_id id)
{
    if (weft_id_index_put(&m->tombstone_places, id, 0) == WEFT_OK)
        m->tombstones[m->tombstone_count++] = id;
}

/* Adds the id of a removed member, for which make_room has reserved memory, and closes the
 * connection to it. */
static void add_tombstone(weft_member *m, weft_actor_id id)
{
    if (!weft_member_was_removed(m, id)) keep_tombstone(m, id);
    weft_actor_forget(m->actor, id);
}

static weft_status make_room(weft_member *m, const weft_view *view)
{
    while (m->tombstone_capacity < m->tombstone_count + m->view.member_count + view->member_count)
        WEFT_TRY(WEFT_GROW(&m->tombstones, &m->tombstone_capacity, m->tombstone_capacity));
    return WEFT_OK;
}

/* Called before `view` is installed: removes the tombstones of its members, and adds tombstones for
 * members of the present view that it lacks. */
static void note_next(weft_member *m, const weft_view *view)
{
    size_t left = 0, count = m->tombstone_count;
    for (size_t i = 0; i < count; i++)
        if (!weft_view_find(view, m->tombstones[i])) m->tombstones[left++] = m->tombstones[i];
    m->tombstone_count = 0;
    if (left < count) weft_id_index_clear(&m->tombstone_places);
    for (size_t i = 0; i < left; i++) keep_tombstone(m, m->tombstones[i]);
    for (size_t i = 0; i < m->view.member_count; i++)
        if (!weft_view_find(view, m->view.members[i].id)) add_tombstone(m, m->view.members[i].id);
}

/* --- views --- */

weft_status weft_member_adopt(weft_member *m, weft_view *view, weft_member_news *news)
{
    const weft_view_member *me = weft_view_find(view, m->actor->id);
    bool first = m->view.number == 0;
    weft_status status = make_room(m, view);
    if (status != WEFT_OK || !me || me->role != m->options.role || !view->running ||
        view->number <= m->view.number ||
        (!first && (view->run != m->run || view->range_count != m->view.range_count))) {
        weft_view_free(view);
        return status;
    }
    note_next(m, view);
    m->slot = me->slot;
    weft_member_name(me->role, me->slot, m->actor->name);
    m->run = view->run;
    m->dismissed = m->dismissed || me->dismissed;
    weft_view_free(&m->view);
    m->view = *view;
    m->from_coordinator = false;
    free(m->waits);
    m->waits = NULL;
    *news = WEFT_NEWS_VIEW;
    for (size_t i = 0; i < m->view.member_count; i++) {
        const weft_view_member *o = &m->view.members[i];
        if (o->id != m->actor->id && *o->address)
            WEFT_TRY(weft_actor_know(m->actor, o->id, o->address));
    }
    return WEFT_OK;
}

/* Ends the tombstone of a member that is back. */
static void drop_tombstone(weft_member *m, weft_actor_id id)
{
    size_t left = 0;
    if (!weft_member_was_removed(m, id)) return;
    for (size_t i = 0; i < m->tombstone_count; i++)
        if (m->tombstones[i] != id) m->tombstones[left++] = m->tombstones[i];
    m->tombstone_count = left;
    weft_id_index_remove(&m->tombstone_places, id);
}

/* Takes what is not about members from a view, which keeps the old of it. */
static void take_rest(weft_view *to, weft_view *from)
{
    weft_view old = *to;
    to->number = from->number;
    to->over = from->over;
    to->failure_timeout = from->failure_timeout;
    to->about = from->about;
    to->fault = from->fault, from->fault = old.fault;
    to->ranges = from->ranges, from->ranges = old.ranges;
    to->events = from->events, from->events = old.events;
    to->event_count = from->event_count, to->event_capacity = from->event_capacity;
}

static weft_status change_members(weft_member *m, const weft_view *changes)
{
    WEFT_TRY(make_room(m, changes));
    for (size_t i = 0; i < changes->removed_count; i++)
        if (weft_view_remove(&m->view, changes->removed[i])) add_tombstone(m, changes->removed[i]);
    for (size_t i = 0; i < changes->member_count; i++) {
        const weft_view_member *o = &changes->members[i];
        weft_view_member *mine = weft_view_find(&m->view, o->id);
        drop_tombstone(m, o->id);
        if (mine)
            *mine = *o;
        else
            WEFT_TRY(weft_view_add(&m->view, o));
        if (o->id == m->actor->id)
            m->dismissed = m->dismissed || o->dismissed;
        else if (*o->address)
            WEFT_TRY(weft_actor_know(m->actor, o->id, o->address));
    }
    return WEFT_OK;
}

weft_status weft_member_change(weft_member *m, weft_view *changes, weft_member_news *news,
                               bool *missed)
{
    const weft_view *v = &m->view;
    bool next = v->number > 0 && changes->run == m->run && changes->number > v->number;
    bool fits = next && m->from_coordinator && changes->base == v->number && changes->running &&
                changes->range_count == v->range_count;
    for (size_t i = 0; i < changes->removed_count; i++)
        fits = fits && changes->removed[i] != m->actor->id;
    *missed = next && !fits;
    weft_status status = fits ? change_members(m, changes) : WEFT_OK;
    if (fits && status == WEFT_OK) {
        take_rest(&m->view, changes);
        *news = WEFT_NEWS_VIEW;
    }
    weft_view_free(changes);
    return status;
}

weft_status weft_member_read(const weft_member *m, const weft_message *message, weft_view *view)
{
    *view = (weft_view){.number = 0};
    weft_status status = weft_view_unpack(message->payload, weft_actor_now(m->actor), view);
    return status == WEFT_ERR_FORMAT ? WEFT_OK : status;
}

weft_status weft_member_send_view(const weft_member *m, weft_actor_id to)
{
    weft_buffer *blob;
    if (m->view.number == 0) return WEFT_OK;
    WEFT_TRY(weft_view_pack(&m->view, NULL, weft_actor_now(m->actor), &blob));
    weft_status status = weft_actor_send(
        m->actor, to, &(weft_message){.type = WEFT_RPC_VIEW, .head = "", .payload = blob});
    weft_buffer_unref(&blob);
    return status;
}

/* --- without a coordinator --- */

bool weft_member_coordinator_unreachable(const weft_member *m)
{
    return m->view.number > 0 &&
           weft_actor_now(m->actor) - m->last_message > 2 * m->view.failure_timeout;
}

bool weft_member_remove(weft_member *m, weft_actor_id id)
{
    if (id == m->actor->id || !weft_view_remove(&m->view, id)) return false;
    add_tombstone(m, id);
    m->view.number++;
    m->from_coordinator = false;
    return true;
}

/* Two members have removed different members under the same view number: installs the intersection
 * of both views under the next number. false: the views have the same members. */
static bool lose_all(weft_member *m, const weft_view *view)
{
    int64_t number = m->view.number;
    for (size_t i = m->view.member_count; i-- > 0;)
        if (!weft_view_find(view, m->view.members[i].id))
            (void)weft_member_remove(m, m->view.members[i].id);
    if (m->view.number == number && view->member_count == m->view.member_count) return false;
    m->view.number = number + 1;
    m->from_coordinator = false;
    return true;
}

/* Adds to `view` the members that only this member's view has. *fits: no two have the same slot. */
static weft_status add_own(const weft_member *m, weft_view *view, bool *more, bool *fits)
{
    *fits = true;
    for (size_t i = 0; i < m->view.member_count; i++) {
        const weft_view_member *mine = &m->view.members[i];
        if (weft_view_find(view, mine->id)) continue;
        for (size_t k = 0; k < view->member_count; k++)
            *fits = *fits &&
                    !(view->members[k].role == mine->role && view->members[k].slot == mine->slot);
        if (!*fits) return WEFT_OK;
        WEFT_TRY(weft_view_add(view, mine));
        *more = true;
    }
    return WEFT_OK;
}

/* Handles a view from an unknown member, which has joined before the coordinator became unreachable
 * from here: the next view is the union of both views, less the members that this one has
 * removed. */
static weft_status merge_unknown_view(weft_member *m, weft_view *view, weft_actor_id from,
                                      weft_member_news *news)
{
    bool other = view->number <= m->view.number, fits;
    if (!weft_view_find(view, m->actor->id) || !weft_view_find(view, from) ||
        weft_member_was_removed(m, from)) {
        weft_view_free(view);
        return WEFT_OK;
    }
    for (size_t i = 0; i < m->tombstone_count; i++)
        other = weft_view_remove(view, m->tombstones[i]) || other;
    weft_status status = add_own(m, view, &other, &fits);
    if (status != WEFT_OK || !fits) {
        weft_view_free(view);
        return status == WEFT_OK ? weft_member_send_view(m, from) : status;
    }
    if (other) view->number = WEFT_MAX(view->number, m->view.number) + 1;
    return weft_member_adopt(m, view, news);
}

/* Takes over what only the coordinator decides: a view of another member says who is there, and not
 * that the run is over or has a fault. */
static weft_status keep_decisions(const weft_member *m, weft_view *view)
{
    free(view->fault);
    view->fault = NULL;
    view->over = m->view.over;
    view->failure_timeout = m->view.failure_timeout;
    for (size_t i = 0; i < view->member_count; i++) {
        const weft_view_member *mine = weft_view_find(&m->view, view->members[i].id);
        if (mine) view->members[i].dismissed = mine->dismissed;
    }
    return m->view.fault ? weft_strdup(m->view.fault, &view->fault) : WEFT_OK;
}

/* Handles the view of another member while the coordinator is unreachable. */
static weft_status receive_alone(weft_member *m, weft_view *view, weft_actor_id from,
                                 weft_member_news *news)
{
    weft_status status = keep_decisions(m, view);
    if (status != WEFT_OK) {
        weft_view_free(view);
        return status;
    }
    if (!weft_view_find(&m->view, from)) return merge_unknown_view(m, view, from, news);
    if (!weft_view_find(view, m->actor->id)) {
        weft_view_free(view);
        m->left = m->leaving; /* the other members have removed a leaving member */
        if (m->left) return WEFT_OK;
        weft_member_note_removed(m);
        return weft_fail(WEFT_ERR_PEER,
                         "the other members received no heartbeat from this process for more than "
                         "%g s and removed it from the run; start it again",
                         m->view.failure_timeout);
    }
    if (view->number != m->view.number) return weft_member_adopt(m, view, news);
    if (lose_all(m, view)) *news = WEFT_NEWS_VIEW;
    weft_view_free(view);
    return WEFT_OK;
}

/* Whether a newer view has all members of this one's and no more events than its new members
 * explain, so that the coordinator's next views are newer still. */
static bool only_adds(const weft_member *m, const weft_view *view)
{
    enum { OTHER_EVENTS = 8 };
    int64_t added = (int64_t)view->member_count - (int64_t)m->view.member_count;
    if (view->number - m->view.number > added + OTHER_EVENTS) return false;
    for (size_t i = 0; i < m->view.member_count; i++)
        if (!weft_view_find(view, m->view.members[i].id)) return false;
    return true;
}

weft_status weft_member_receive_view(weft_member *m, const weft_message *message,
                                     weft_member_news *news)
{
    weft_view view;
    *news = WEFT_NEWS_HANDLED;
    if (m->view.number == 0) return WEFT_OK;
    WEFT_TRY(weft_member_read(m, message, &view));
    if (view.number > 0 && view.base == 0 && view.run == m->run &&
        weft_member_coordinator_unreachable(m))
        return receive_alone(m, &view, message->from, news);
    /* As long as the coordinator can be asked, it alone removes members: it answers a heartbeat
     * with its view if that is newer. A view that only adds members is taken over, since the
     * coordinator may not live to confirm it. */
    bool newer = view.run == m->run && view.number > m->view.number;
    if (newer && view.base == 0 && only_adds(m, &view)) {
        weft_status status = keep_decisions(m, &view);
        if (status == WEFT_OK) return weft_member_adopt(m, &view, news);
        weft_view_free(&view);
        return status;
    }
    weft_view_free(&view);
    return newer ? weft_member_heartbeat(m) : WEFT_OK;
}
