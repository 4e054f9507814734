/* The waiting requests of a batch queue. Requests of one kind (equal `batch_key`) are in a heap by
 * priority and arrival, and in a list by arrival. The kinds are in binary heaps: all kinds and the
 * due kinds by their first request, the other kinds by the age of their oldest request. An
 * operation costs O(log n); only a change of min_rows or max_delay visits all kinds. */
#include <math.h>

#include "serve/batch/batch_internal.h"

static bool is_before(const void *things, int a, int b)
{
    const weft_queued_request *x = (const weft_queued_request *)things + a,
                              *y = (const weft_queued_request *)things + b;
    if (x->request.priority != y->request.priority)
        return x->request.priority > y->request.priority;
    return x->number < y->number;
}

static int *order_index(void *things, int thing)
{
    return &((weft_queued_request *)things)[thing].order_index;
}

static bool has_earlier_deadline(const void *things, int a, int b)
{
    const weft_queued_request *all = things;
    return all[a].deadline < all[b].deadline;
}

static int *deadline_index(void *things, int thing)
{
    return &((weft_queued_request *)things)[thing].deadline_index;
}

static const weft_heap_order by_priority = {.before = is_before, .place = order_index};
static const weft_heap_order by_deadline = {.before = has_earlier_deadline,
                                            .place = deadline_index};

/* The orders of kinds in the heaps; `things` is the whole queue. */

static bool kind_is_before(const void *things, int a, int b)
{
    const weft_request_queue *q = things;
    return is_before(q->slots, q->kinds[a].order.item[0], q->kinds[b].order.item[0]);
}

static int *all_index(void *things, int thing)
{
    return &((weft_request_queue *)things)->kinds[thing].all_index;
}

static bool is_older(const void *things, int a, int b)
{
    const weft_request_queue *q = things;
    return q->slots[q->kinds[a].oldest].arrived < q->slots[q->kinds[b].oldest].arrived;
}

static int *due_index(void *things, int thing)
{
    return &((weft_request_queue *)things)->kinds[thing].due_index;
}

static const weft_heap_order all_by_priority = {.before = kind_is_before, .place = all_index};
static const weft_heap_order due_by_priority = {.before = kind_is_before, .place = due_index};
static const weft_heap_order not_due_by_age = {.before = is_older, .place = due_index};

void weft_request_queue_init(weft_request_queue *q)
{
    q->free = q->free_kind = -1;
}

void weft_request_queue_free(weft_request_queue *q)
{
    for (int k = 0; k < q->kinds_used; k++) free(q->kinds[k].order.item);
    free(q->kinds);
    free(q->buckets);
    free(q->all.item);
    free(q->due.item);
    free(q->not_due.item);
    free(q->deadlines.item);
    free(q->slots);
    *q = (weft_request_queue){.free = -1, .free_kind = -1};
}

/* --- hash table of kinds --- */

static int *bucket_of(const weft_request_queue *q, uint64_t batch_key)
{
    batch_key = (batch_key ^ batch_key >> 32) * 0x9e3779b97f4a7c15u;
    return &q->buckets[(batch_key >> 32) & (uint64_t)(q->bucket_count - 1)];
}

/* Grows the hash table, so that there are at least as many buckets as kinds. */
static weft_status grow_buckets(weft_request_queue *q)
{
    int *named, chains = WEFT_MAX(2 * q->bucket_count, 16);
    if (q->all.count < q->bucket_count) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&named, chains));
    free(q->buckets);
    q->buckets = named;
    q->bucket_count = chains;
    for (int i = 0; i < chains; i++) named[i] = -1;
    for (int i = 0; i < q->all.count; i++) {
        weft_request_kind *k = &q->kinds[q->all.item[i]];
        int *chain = bucket_of(q, k->batch_key);
        k->next = *chain;
        *chain = q->all.item[i];
    }
    return WEFT_OK;
}

int weft_request_queue_kind(const weft_request_queue *q, uint64_t batch_key)
{
    int kind = q->bucket_count > 0 ? *bucket_of(q, batch_key) : -1;
    while (kind >= 0 && q->kinds[kind].batch_key != batch_key) kind = q->kinds[kind].next;
    return kind;
}

/* The index of the kind with this `batch_key`, or of a free kind if there is none. */
static weft_status find_kind(weft_request_queue *q, uint64_t batch_key, int *out)
{
    WEFT_TRY(grow_buckets(q));
    *out = weft_request_queue_kind(q, batch_key);
    if (*out >= 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&q->all.item, &q->all.capacity, q->all.count));
    WEFT_TRY(WEFT_GROW(&q->due.item, &q->due.capacity, q->all.count));
    WEFT_TRY(WEFT_GROW(&q->not_due.item, &q->not_due.capacity, q->all.count));
    *out = q->free_kind;
    if (*out >= 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&q->kinds, &q->kind_capacity, q->kinds_used));
    q->free_kind = *out = q->kinds_used++;
    q->kinds[*out] = (weft_request_kind){.oldest = -1, .youngest = -1, .next = -1};
    return WEFT_OK;
}

/* Moves a kind between the heaps after a change of its requests. was_queued, is_queued: whether it
 * had and has requests. */
static void move_kind(weft_request_queue *q, int kind, bool was_queued, bool is_queued)
{
    weft_request_kind *k = &q->kinds[kind];
    if (was_queued) {
        weft_heap_drop(&q->all, &all_by_priority, q, kind);
        weft_heap_drop(k->is_due ? &q->due : &q->not_due,
                       k->is_due ? &due_by_priority : &not_due_by_age, q, kind);
    }
    if (!is_queued) return;
    k->is_due = k->rows >= q->min_rows || q->slots[k->oldest].arrived + q->max_delay <= q->now;
    weft_heap_put(&q->all, &all_by_priority, q, kind);
    weft_heap_put(k->is_due ? &q->due : &q->not_due, k->is_due ? &due_by_priority : &not_due_by_age,
                  q, kind);
}

static void begin_kind(weft_request_queue *q, int kind, uint64_t batch_key)
{
    weft_request_kind *k = &q->kinds[kind];
    int *chain = bucket_of(q, batch_key);
    q->free_kind = k->next;
    k->batch_key = batch_key;
    k->next = *chain;
    *chain = kind;
}

static void end_kind(weft_request_queue *q, int kind)
{
    weft_request_kind *k = &q->kinds[kind];
    int *link = bucket_of(q, k->batch_key);
    while (*link != kind) link = &q->kinds[*link].next;
    *link = k->next;
    k->next = q->free_kind;
    q->free_kind = kind;
}

/* --- requests --- */

/* Makes room for one more request of this kind, and chooses its slot. A failure changes nothing. */
static weft_status reserve(weft_request_queue *q, uint64_t batch_key, int *kind, int *slot)
{
    WEFT_TRY(find_kind(q, batch_key, kind));
    WEFT_TRY(weft_heap_reserve(&q->kinds[*kind].order));
    WEFT_TRY(weft_heap_reserve(&q->deadlines));
    *slot = q->free;
    if (*slot >= 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&q->slots, &q->capacity, q->slots_used));
    q->free = *slot = q->slots_used++;
    q->slots[*slot] = (weft_queued_request){.kind = -1, .older = -1};
    return WEFT_OK;
}

static void link_request(weft_request_queue *q, int slot, int kind)
{
    weft_request_kind *k = &q->kinds[kind];
    weft_queued_request *w = &q->slots[slot];
    bool was_queued = k->oldest >= 0;
    if (!was_queued) begin_kind(q, kind, w->request.batch_key);
    w->older = k->youngest;
    w->younger = -1;
    *(was_queued ? &q->slots[k->youngest].younger : &k->oldest) = slot;
    k->youngest = slot;
    k->rows += w->request.rows;
    weft_heap_put(&k->order, &by_priority, q->slots, slot);
    move_kind(q, kind, was_queued, true);
    if (!isinf(w->deadline)) weft_heap_put(&q->deadlines, &by_deadline, q->slots, slot);
}

weft_status weft_request_queue_add(weft_request_queue *q, const weft_request *request, double now,
                                   uint64_t *ticket)
{
    int slot, kind;
    WEFT_TRY(reserve(q, request->batch_key, &kind, &slot));
    weft_queued_request *w = &q->slots[slot];
    q->free = w->older;
    *w = (weft_queued_request){.request = *request,
                               .arrived = now,
                               .generation = w->generation + 1,
                               .number = q->number++,
                               .kind = kind,
                               .deadline = request->queue_timeout > 0 ? now + request->queue_timeout
                                                                      : INFINITY};
    link_request(q, slot, kind);
    q->count++;
    q->rows += request->rows;
    if (ticket) *ticket = (uint64_t)w->generation << 32 | (uint32_t)slot;
    return WEFT_OK;
}

int weft_request_queue_find(const weft_request_queue *q, uint64_t ticket)
{
    uint32_t slot = (uint32_t)ticket;
    if (slot >= (uint32_t)q->slots_used) return -1;
    const weft_queued_request *w = &q->slots[slot];
    return w->kind >= 0 && w->generation == (uint32_t)(ticket >> 32) ? (int)slot : -1;
}

static void unlink_request(weft_request_queue *q, int slot)
{
    weft_queued_request *w = &q->slots[slot];
    weft_request_kind *k = &q->kinds[w->kind];
    /* The kind leaves its heaps first, since their order compares its first request, which is still
     * there. */
    move_kind(q, w->kind, true, false);
    weft_heap_drop(&k->order, &by_priority, q->slots, slot);
    if (!isinf(w->deadline)) weft_heap_drop(&q->deadlines, &by_deadline, q->slots, slot);
    *(w->older >= 0 ? &q->slots[w->older].younger : &k->oldest) = w->younger;
    *(w->younger >= 0 ? &q->slots[w->younger].older : &k->youngest) = w->older;
    k->rows -= w->request.rows;
    if (k->oldest >= 0)
        move_kind(q, w->kind, false, true);
    else
        end_kind(q, w->kind);
}

void weft_request_queue_remove(weft_request_queue *q, int slot)
{
    weft_queued_request *w = &q->slots[slot];
    unlink_request(q, slot);
    q->count--;
    q->rows -= w->request.rows;
    w->kind = -1;
    w->older = q->free;
    q->free = slot;
}

/* Divides all kinds anew into `due` and `not_due` after a change of min_rows or max_delay. */
static void sort_kinds(weft_request_queue *q, int64_t min_rows, double max_delay)
{
    q->min_rows = min_rows;
    q->max_delay = max_delay;
    q->due.count = q->not_due.count = 0;
    for (int i = 0; i < q->all.count; i++) {
        weft_request_kind *k = &q->kinds[q->all.item[i]];
        k->is_due = k->rows >= min_rows;
        weft_heap_put(k->is_due ? &q->due : &q->not_due,
                      k->is_due ? &due_by_priority : &not_due_by_age, q, q->all.item[i]);
    }
}

int weft_request_queue_due(weft_request_queue *q, int64_t min_rows, double max_delay, double now,
                           double *when)
{
    *when = INFINITY;
    if (max_delay <= 0 || min_rows <= 1) return q->all.count > 0 ? q->all.item[0] : -1;
    if (min_rows != q->min_rows || max_delay != q->max_delay) sort_kinds(q, min_rows, max_delay);
    q->now = now;
    while (q->not_due.count > 0) {
        int kind = q->not_due.item[0];
        double at = q->slots[q->kinds[kind].oldest].arrived + max_delay;
        if (at > now) {
            *when = at;
            break;
        }
        weft_heap_drop(&q->not_due, &not_due_by_age, q, kind);
        weft_heap_put(&q->due, &due_by_priority, q, kind);
        q->kinds[kind].is_due = true;
    }
    return q->due.count > 0 ? q->due.item[0] : -1;
}

int weft_request_queue_head(const weft_request_queue *q, int kind)
{
    const weft_heap *turns = &q->kinds[kind].order;
    return turns->count > 0 ? turns->item[0] : -1;
}

int weft_request_queue_first(const weft_request_queue *q)
{
    return q->all.count > 0 ? weft_request_queue_head(q, q->all.item[0]) : -1;
}

int weft_request_queue_next_deadline(const weft_request_queue *q)
{
    return q->deadlines.count > 0 ? q->deadlines.item[0] : -1;
}
