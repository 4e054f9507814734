/* Installs views, and merges views of other members while the coordinator is unreachable (view
 * merge after a partition). */
#include "membership/member_internal.h"

#include "actor/rpc.h"

/* --- tombstones --- */

bool weft_member_was_removed(const weft_member *m, weft_actor_id id)
{
    for (size_t i = 0; i < m->tombstone_count; i++)
        if (m->tombstones[i] == id) return true;
    return false;
}

/* Adds the id of a removed member, for which make_room has reserved memory, and closes the
 * connection to it. */
static void add_tombstone(weft_member *m, weft_actor_id id)
{
    if (!weft_member_was_removed(m, id)) m->tombstones[m->tombstone_count++] = id;
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
    size_t left = 0;
    for (size_t i = 0; i < m->tombstone_count; i++)
        if (!weft_view_find(view, m->tombstones[i])) m->tombstones[left++] = m->tombstones[i];
    m->tombstone_count = left;
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
    WEFT_TRY(weft_view_pack(&m->view, weft_actor_now(m->actor), &blob));
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

/* Adds to `view` the members that only this member's view has; false: two members have the same
 * slot. */
static bool add_own(const weft_member *m, weft_view *view, bool *more)
{
    for (size_t i = 0; i < m->view.member_count; i++) {
        const weft_view_member *mine = &m->view.members[i];
        if (weft_view_find(view, mine->id)) continue;
        for (size_t k = 0; k < view->member_count; k++)
            if (view->members[k].role == mine->role && view->members[k].slot == mine->slot)
                return false;
        view->members[view->member_count++] = *mine;
        *more = true;
    }
    return true;
}

/* Handles a view from an unknown member, which has joined while the coordinator was unreachable
 * from here. If the coordinator is reachable, a newer view is installed. If not (`alone`), the next
 * view is the union of both views, less the members that this one has removed. */
static weft_status merge_unknown_view(weft_member *m, weft_view *view, weft_actor_id from,
                                      bool alone, weft_member_news *news)
{
    bool other = view->number <= m->view.number, fits = alone || !other;
    size_t most = m->view.member_count + view->member_count;
    weft_status status = WEFT_OK;
    fits = fits && weft_view_find(view, m->actor->id) && weft_view_find(view, from) &&
           !weft_member_was_removed(m, from);
    while (fits && status == WEFT_OK && view->member_capacity < most)
        status = WEFT_GROW(&view->members, &view->member_capacity, view->member_capacity);
    if (!fits || status != WEFT_OK) {
        weft_view_free(view);
        return status;
    }
    for (size_t i = 0; i < m->tombstone_count && alone; i++)
        other = weft_view_remove(view, m->tombstones[i]) || other;
    if (alone && !add_own(m, view, &other)) {
        weft_view_free(view);
        return weft_member_send_view(m, from);
    }
    if (other) view->number = WEFT_MAX(view->number, m->view.number) + 1;
    return weft_member_adopt(m, view, news);
}

weft_status weft_member_receive_view(weft_member *m, const weft_message *message,
                                     weft_member_news *news)
{
    weft_view view;
    *news = WEFT_NEWS_HANDLED;
    if (m->view.number == 0) return WEFT_OK;
    WEFT_TRY(weft_member_read(m, message, &view));
    bool here = weft_view_find(&view, m->actor->id), alone = weft_member_coordinator_unreachable(m);
    bool known = weft_view_find(&m->view, message->from);
    if (view.number == 0 || view.run != m->run || (known && !here && !alone)) {
        weft_view_free(&view);
        return WEFT_OK;
    }
    if (!known) return merge_unknown_view(m, &view, message->from, alone, news);
    if (!here) {
        weft_view_free(&view);
        m->left = m->leaving; /* the other members have removed a leaving member */
        if (m->left) return WEFT_OK;
        weft_member_note_removed(m);
        return weft_fail(WEFT_ERR_PEER,
                         "the other members received no heartbeat from this process for more than "
                         "%g s and removed it from the run; start it again",
                         m->view.failure_timeout);
    }
    if (view.number != m->view.number) return weft_member_adopt(m, &view, news);
    if (alone && lose_all(m, &view)) *news = WEFT_NEWS_VIEW;
    weft_view_free(&view);
    return WEFT_OK;
}
