/* The queue of a line. Requests of a kind (equal `like`) are in a heap by priority, then arrival,
 * and in a list by arrival; kinds are in heaps by their next request (all of them, and those that
 * are due) and by age (those that are not due). An operation costs O(log n); only a change of need
 * or wait visits all kinds. */
#include <math.h>

#include "serve/batch/batch_internal.h"

static bool has_turn(const void *things, int a, int b)
{
    const weft_waiting *x = (const weft_waiting *)things + a, *y = (const weft_waiting *)things + b;
    if (x->request.priority != y->request.priority)
        return x->request.priority > y->request.priority;
    return x->number < y->number;
}

static int *turn_place(void *things, int thing)
{
    return &((weft_waiting *)things)[thing].turn_place;
}

static bool is_late_first(const void *things, int a, int b)
{
    const weft_waiting *all = things;
    return all[a].until < all[b].until;
}

static int *late_place(void *things, int thing)
{
    return &((weft_waiting *)things)[thing].late_place;
}

static const weft_heap_order by_turn = {.before = has_turn, .place = turn_place};
static const weft_heap_order by_time = {.before = is_late_first, .place = late_place};

/* Orders of kinds; `things` is the whole queue. */

static bool kind_has_turn(const void *things, int a, int b)
{
    const weft_queue *q = things;
    return has_turn(q->slots, q->kinds[a].turns.item[0], q->kinds[b].turns.item[0]);
}

static int *there_place(void *things, int thing)
{
    return &((weft_queue *)things)->kinds[thing].there_place;
}

static bool is_older(const void *things, int a, int b)
{
    const weft_queue *q = things;
    return q->slots[q->kinds[a].oldest].came < q->slots[q->kinds[b].oldest].came;
}

static int *due_place(void *things, int thing)
{
    return &((weft_queue *)things)->kinds[thing].due_place;
}

static const weft_heap_order there_by_turn = {.before = kind_has_turn, .place = there_place};
static const weft_heap_order due_by_turn = {.before = kind_has_turn, .place = due_place};
static const weft_heap_order not_due_by_age = {.before = is_older, .place = due_place};

void weft_queue_start(weft_queue *q)
{
    q->free = q->free_kind = -1;
}

void weft_queue_free(weft_queue *q)
{
    for (int k = 0; k < q->made_kinds; k++) free(q->kinds[k].turns.item);
    free(q->kinds);
    free(q->named);
    free(q->there.item);
    free(q->due.item);
    free(q->not_due.item);
    free(q->late.item);
    free(q->slots);
    *q = (weft_queue){.free = -1, .free_kind = -1};
}

/* --- hash table of kinds --- */

static int *chain_of(const weft_queue *q, uint64_t like)
{
    like = (like ^ like >> 32) * 0x9e3779b97f4a7c15u;
    return &q->named[(like >> 32) & (uint64_t)(q->chains - 1)];
}

/* Keeps at least as many chains as kinds. */
static weft_status grow_chains(weft_queue *q)
{
    int *named, chains = WEFT_MAX(2 * q->chains, 16);
    if (q->there.count < q->chains) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&named, chains));
    free(q->named);
    q->named = named;
    q->chains = chains;
    for (int i = 0; i < chains; i++) named[i] = -1;
    for (int i = 0; i < q->there.count; i++) {
        weft_alike *k = &q->kinds[q->there.item[i]];
        int *chain = chain_of(q, k->like);
        k->next = *chain;
        *chain = q->there.item[i];
    }
    return WEFT_OK;
}

/* The kind with this `like`, or a free one. */
static weft_status find_kind(weft_queue *q, uint64_t like, int *out)
{
    WEFT_TRY(grow_chains(q));
    for (*out = *chain_of(q, like); *out >= 0; *out = q->kinds[*out].next)
        if (q->kinds[*out].like == like) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&q->there.item, &q->there.capacity, q->there.count));
    WEFT_TRY(WEFT_GROW(&q->due.item, &q->due.capacity, q->there.count));
    WEFT_TRY(WEFT_GROW(&q->not_due.item, &q->not_due.capacity, q->there.count));
    *out = q->free_kind;
    if (*out >= 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&q->kinds, &q->kind_capacity, q->made_kinds));
    q->free_kind = *out = q->made_kinds++;
    q->kinds[*out] = (weft_alike){.oldest = -1, .youngest = -1, .next = -1};
    return WEFT_OK;
}

/* Removes a kind from the heaps that it was in, and adds it to those that it belongs to now. */
static void place(weft_queue *q, int kind, bool was_there, bool is_there)
{
    weft_alike *k = &q->kinds[kind];
    if (was_there) {
        weft_heap_drop(&q->there, &there_by_turn, q, kind);
        weft_heap_drop(k->is_due ? &q->due : &q->not_due,
                       k->is_due ? &due_by_turn : &not_due_by_age, q, kind);
    }
    if (!is_there) return;
    k->is_due = k->rows >= q->need || q->slots[k->oldest].came + q->wait <= q->now;
    weft_heap_put(&q->there, &there_by_turn, q, kind);
    weft_heap_put(k->is_due ? &q->due : &q->not_due, k->is_due ? &due_by_turn : &not_due_by_age, q,
                  kind);
}

static void begin_kind(weft_queue *q, int kind, uint64_t like)
{
    weft_alike *k = &q->kinds[kind];
    int *chain = chain_of(q, like);
    q->free_kind = k->next;
    k->like = like;
    k->next = *chain;
    *chain = kind;
}

static void end_kind(weft_queue *q, int kind)
{
    weft_alike *k = &q->kinds[kind];
    int *link = chain_of(q, k->like);
    while (*link != kind) link = &q->kinds[*link].next;
    *link = k->next;
    k->next = q->free_kind;
    q->free_kind = kind;
}

/* --- requests --- */

/* Makes room for one more request of this kind, and chooses its slot. Nothing has changed if it
 * fails. */
static weft_status reserve(weft_queue *q, uint64_t like, int *kind, int *slot)
{
    WEFT_TRY(find_kind(q, like, kind));
    WEFT_TRY(weft_heap_reserve(&q->kinds[*kind].turns));
    WEFT_TRY(weft_heap_reserve(&q->late));
    *slot = q->free;
    if (*slot >= 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&q->slots, &q->capacity, q->made));
    q->free = *slot = q->made++;
    q->slots[*slot] = (weft_waiting){.kind = -1, .older = -1};
    return WEFT_OK;
}

static void enter(weft_queue *q, int slot, int kind)
{
    weft_alike *k = &q->kinds[kind];
    weft_waiting *w = &q->slots[slot];
    bool was_there = k->oldest >= 0;
    if (!was_there) begin_kind(q, kind, w->request.like);
    w->older = k->youngest;
    w->younger = -1;
    *(was_there ? &q->slots[k->youngest].younger : &k->oldest) = slot;
    k->youngest = slot;
    k->rows += w->request.rows;
    weft_heap_put(&k->turns, &by_turn, q->slots, slot);
    place(q, kind, was_there, true);
    if (!isinf(w->until)) weft_heap_put(&q->late, &by_time, q->slots, slot);
}

weft_status weft_queue_put(weft_queue *q, const weft_request *request, double now, uint64_t *ticket)
{
    int slot, kind;
    WEFT_TRY(reserve(q, request->like, &kind, &slot));
    weft_waiting *w = &q->slots[slot];
    q->free = w->older;
    *w = (weft_waiting){.request = *request,
                        .came = now,
                        .turn = w->turn + 1,
                        .number = q->number++,
                        .kind = kind,
                        .until = request->patience > 0 ? now + request->patience : INFINITY};
    enter(q, slot, kind);
    q->count++;
    q->rows += request->rows;
    if (ticket) *ticket = (uint64_t)w->turn << 32 | (uint32_t)slot;
    return WEFT_OK;
}

int weft_queue_find(const weft_queue *q, uint64_t ticket)
{
    uint32_t slot = (uint32_t)ticket;
    if (slot >= (uint32_t)q->made) return -1;
    const weft_waiting *w = &q->slots[slot];
    return w->kind >= 0 && w->turn == (uint32_t)(ticket >> 32) ? (int)slot : -1;
}

static void leave(weft_queue *q, int slot)
{
    weft_waiting *w = &q->slots[slot];
    weft_alike *k = &q->kinds[w->kind];
    /* The kind leaves its heaps first, while it still has a first request to be compared by. */
    place(q, w->kind, true, false);
    weft_heap_drop(&k->turns, &by_turn, q->slots, slot);
    if (!isinf(w->until)) weft_heap_drop(&q->late, &by_time, q->slots, slot);
    *(w->older >= 0 ? &q->slots[w->older].younger : &k->oldest) = w->younger;
    *(w->younger >= 0 ? &q->slots[w->younger].older : &k->youngest) = w->older;
    k->rows -= w->request.rows;
    if (k->oldest >= 0)
        place(q, w->kind, false, true);
    else
        end_kind(q, w->kind);
}

void weft_queue_drop(weft_queue *q, int slot)
{
    weft_waiting *w = &q->slots[slot];
    leave(q, slot);
    q->count--;
    q->rows -= w->request.rows;
    w->kind = -1;
    w->older = q->free;
    q->free = slot;
}

/* Sorts all kinds anew after a change of need or wait. */
static void set(weft_queue *q, int64_t need, double wait)
{
    q->need = need;
    q->wait = wait;
    q->due.count = q->not_due.count = 0;
    for (int i = 0; i < q->there.count; i++) {
        weft_alike *k = &q->kinds[q->there.item[i]];
        k->is_due = k->rows >= need;
        weft_heap_put(k->is_due ? &q->due : &q->not_due, k->is_due ? &due_by_turn : &not_due_by_age,
                      q, q->there.item[i]);
    }
}

int weft_queue_due(weft_queue *q, int64_t need, double wait, double now, double *when)
{
    *when = INFINITY;
    if (wait <= 0 || need <= 1) return q->there.count > 0 ? q->there.item[0] : -1;
    if (need != q->need || wait != q->wait) set(q, need, wait);
    q->now = now;
    while (q->not_due.count > 0) {
        int kind = q->not_due.item[0];
        double at = q->slots[q->kinds[kind].oldest].came + wait;
        if (at > now) {
            *when = at;
            break;
        }
        weft_heap_drop(&q->not_due, &not_due_by_age, q, kind);
        weft_heap_put(&q->due, &due_by_turn, q, kind);
        q->kinds[kind].is_due = true;
    }
    return q->due.count > 0 ? q->due.item[0] : -1;
}

int weft_queue_head(const weft_queue *q, int kind)
{
    const weft_heap *turns = &q->kinds[kind].turns;
    return turns->count > 0 ? turns->item[0] : -1;
}

int weft_queue_any(const weft_queue *q)
{
    return q->there.count > 0 ? weft_queue_head(q, q->there.item[0]) : -1;
}

int weft_queue_latest(const weft_queue *q)
{
    return q->late.count > 0 ? q->late.item[0] : -1;
}
