/* Exchanges messages between ranks that are threads, through the mailboxes of a hub. */
#include <sched.h>

#include "comm/threads.h"

void threads_mail(weft_operation *o)
{
    pending *p = o->state;
    mailbox *box = &hub_of(o)->boxes[o->t.peer];
    p->message = (message){.operation = o, .source = o->comm->rank};
    pthread_mutex_lock(&box->lock);
    message **at = &box->sends;
    while (*at) at = &(*at)->next;
    *at = &p->message;
    pthread_mutex_unlock(&box->lock);
}

void threads_withdraw(weft_operation *o)
{
    pending *p = o->state;
    if (!p->message.operation) return; /* never sent */
    mailbox *box = &hub_of(o)->boxes[o->t.peer];
    bool found = false;
    pthread_mutex_lock(&box->lock);
    for (message **at = &box->sends; *at && !found; at = &(*at)->next)
        if (*at == &p->message) {
            *at = p->message.next;
            found = true;
            break;
        }
    pthread_mutex_unlock(&box->lock);
    /* If the send is not in the mailbox, a receiver has taken it and finishes its copy, also if the
     * job has been ended. */
    while (!found && !atomic_load_explicit(&p->message.taken, memory_order_acquire)) sched_yield();
}

static message *take_message(weft_operation *o)
{
    mailbox *box = &hub_of(o)->boxes[o->comm->rank];
    message *found = NULL;
    pthread_mutex_lock(&box->lock);
    for (message **at = &box->sends; *at && !found; at = &(*at)->next)
        if ((*at)->source == o->t.peer && (*at)->operation->t.tag == o->t.tag) {
            found = *at;
            *at = found->next;
            break;
        }
    pthread_mutex_unlock(&box->lock);
    return found;
}

weft_status threads_advance_send(weft_operation *o)
{
    message *m = &((pending *)o->state)->message, *by;
    weft_status status = WEFT_OK;
    bool taken = atomic_load_explicit(&m->taken, memory_order_acquire) != 0;
    o->done = taken && !o->far;
    if (!taken || !o->far || !threads_enter(hub_of(o), o->comm->rank)) return WEFT_OK;
    by = m->partner; /* NULL: the receiver has refused it */
    o->done = !by;
    if (by) status = o->far->ops->follow(o->far, by->operation->far, WEFT_FAR_READ);
    if (by && status == WEFT_OK) status = o->far->ops->mark(o->far, WEFT_FAR_DONE);
    if (by && status == WEFT_OK) {
        o->done = true;
        m->partner = by->partner = NULL;
        /* From here on the receiver may free its message, its operation and its marks. */
        atomic_store_explicit(&by->taken, 1, memory_order_release);
    }
    threads_leave(hub_of(o), o->comm->rank);
    return status;
}

static weft_status check_message(const weft_operation *o, const message *m)
{
    const weft_transfer *sent = &m->operation->t;
    if (sent->count == o->t.count && sent->dtype == o->t.dtype && !m->operation->far == !o->far)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER, "rank %d sent %lld %s as %s%s, rank %d expects %lld %s of %s",
                     o->t.peer, (long long)sent->count, weft_dtype_name(sent->dtype),
                     m->operation->what, m->operation->far ? " on its device" : "", o->comm->rank,
                     (long long)o->t.count, weft_dtype_name(o->t.dtype), o->what);
}

/* Queues the copy of a message in memory of a device. */
static weft_status take_far(weft_operation *o, message *m, size_t bytes)
{
    const weft_far *from = m->operation->far;
    weft_far *far = o->far;
    WEFT_TRY(far->ops->follow(far, far, WEFT_FAR_READY));
    WEFT_TRY(far->ops->follow(far, from, WEFT_FAR_READY));
    WEFT_TRY(far->ops->copy(far, from, false, 0, 0, bytes));
    WEFT_TRY(far->ops->mark(far, WEFT_FAR_READ));
    WEFT_TRY(far->ops->mark(far, WEFT_FAR_DONE));
    pending *p = o->state;
    p->stage = POSTED;
    p->message.partner = m;
    m->partner = &p->message;
    return WEFT_OK;
}

weft_status threads_advance_receive(weft_operation *o)
{
    const pending *p = o->state;
    message *m;
    o->done = atomic_load_explicit(&p->message.taken, memory_order_acquire) != 0;
    if (o->done || p->stage == POSTED || !(m = take_message(o))) return WEFT_OK;
    size_t bytes = (size_t)o->t.count * weft_dtype_size(o->t.dtype);
    weft_status status = check_message(o, m);
    if (status == WEFT_OK && o->far)
        status = take_far(o, m, bytes);
    else if (status == WEFT_OK && bytes > 0)
        memcpy(o->t.receive, m->operation->t.send, bytes);
    o->done = !o->far || status != WEFT_OK;
    /* From here on the sender may free the message, its operation and its buffer. */
    atomic_store_explicit(&m->taken, 1, memory_order_release);
    return status;
}

/* --- operations in memory of a device that end before they are done --- */

static void part_message(message *m)
{
    message *other = m->partner;
    if (!other) return;
    other->operation->far->ops->settle(other->operation->far);
    m->partner = other->partner = NULL;
}

/* Ranks that are not done have not freed their buffers, or have hidden them here. */
static void part_collective(const weft_operation *o)
{
    for (int r = 0; r < o->comm->size && !threads_all_reached(o, o->sequence, GONE); r++) {
        const cell *c = cell_of(o, r);
        bool here = atomic_load(&c->progress) / STAGES == o->sequence;
        if (here && c->far) c->far->ops->settle(c->far);
    }
    cell_of(o, o->comm->rank)->far = NULL;
}

void threads_part_far(weft_operation *o)
{
    hub *root = hub_of(o)->root;
    pthread_mutex_lock(&root->lock);
    o->far->ops->settle(o->far);
    if (weft_is_collective(o->t.kind))
        part_collective(o);
    else
        part_message(&((pending *)o->state)->message);
    pthread_mutex_unlock(&root->lock);
}
