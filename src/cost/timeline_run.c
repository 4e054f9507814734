/* Runs a timeline. The rank with the earliest next event goes on: it computes, begins a transfer,
 * works on its part of one that is ready, or waits. Its work can change only later events of
 * other ranks, so each event is final when it is taken. In an event a rank either begins a transfer
 * or works on each of its transfers once, and what follows at the same time comes a turn later: so
 * ranks that are equal stay equal, whichever of them goes first. */
#include <math.h>

#include "cost/timeline_internal.h"

/* --- the heap of events --- */

static bool earlier(const line_event *a, const line_event *b)
{
    if (a->at != b->at) return a->at < b->at;
    return a->turn != b->turn ? a->turn < b->turn : a->rank < b->rank;
}

static void swap(line_event *a, line_event *b)
{
    line_event kept = *a;
    *a = *b;
    *b = kept;
}

static weft_status plan(weft_timeline *t, int rank, double at)
{
    WEFT_TRY(WEFT_GROW(&t->heap, &t->heap_capacity, t->heap_count));
    t->rank[rank].stamp = ++t->stamps;
    line_event *h = t->heap;
    size_t i = t->heap_count++;
    h[i] = (line_event){
        .at = at, .stamp = t->stamps, .turn = at == t->now ? t->turn + 1 : 0, .rank = rank};
    for (; i > 0 && earlier(&h[i], &h[(i - 1) / 2]); i = (i - 1) / 2) swap(&h[i], &h[(i - 1) / 2]);
    return WEFT_OK;
}

static line_event take(weft_timeline *t)
{
    line_event first = t->heap[0], *h = t->heap;
    h[0] = h[--t->heap_count];
    for (size_t i = 0, next; (next = 2 * i + 1) < t->heap_count; i = next) {
        if (next + 1 < t->heap_count && earlier(&h[next + 1], &h[next])) next++;
        if (!earlier(&h[next], &h[i])) break;
        swap(&h[i], &h[next]);
    }
    return first;
}

/* Tells what a rank or a link does. */
static void tell(const weft_timeline *t, weft_line_act act, int where, int label, double start,
                 double end)
{
    if (t->fn && end > start) t->fn(t->user, act, where, label, start, end);
}

/* --- links --- */

/* Carries a member's bytes of a stage, from time `at`; returns when they have arrived. */
static double carry(weft_timeline *t, int machine, int way, const weft_part_cost *cost, double at)
{
    line_link *l = &t->link[machine];
    double bytes = cost->bytes[way], rounds = cost->rounds > 0 ? cost->rounds : 1;
    if (bytes <= 0) return at;
    double begin = WEFT_MAX(at, l->until[way]);
    double takes = l->wire.bandwidth > 0 ? bytes / l->wire.bandwidth : 0;
    l->until[way] = begin + takes;
    l->busy[way] += takes;
    if (way == 0) l->bytes += bytes;
    tell(t, way == 0 ? WEFT_LINE_SENDS : WEFT_LINE_RECEIVES, machine, 0, begin, begin + takes);
    return l->until[way] + rounds * l->wire.latency;
}

/* All members have reached a stage: their data cross the network. */
static void make_ready(weft_timeline *t, line_transfer *x, int stage)
{
    double at = 0, ready;
    for (int i = 0; i < x->count; i++)
        if (x->meeting != WEFT_MEET_PASS || i == 0)
            at = WEFT_MAX(at, x->reached[i * LINE_STAGES + stage]);
    ready = x->met[stage] = at;
    for (int k = 0; k < (x->carrier ? x->carriers : x->count); k++)
        for (int way = 0, i = x->carrier ? x->carrier[k] : k; way < 2; way++) {
            int machine = t->rank[x->member[i]].machine;
            double there = carry(t, machine, way, &x->cost[i], at);
            ready = WEFT_MAX(ready, there);
        }
    x->ready[stage] = ready;
}

/* --- transfers --- */

static int last_stage(const line_transfer *x)
{
    return x->meeting == WEFT_MEET_TWICE ? LINE_SECOND : LINE_FIRST;
}

/* When a member can do its next part, or its end is known; INFINITY: not yet known. */
static double next_time(const line_transfer *x, const line_active *a)
{
    if (x->meeting != WEFT_MEET_PASS) return x->ready[a->stage];
    if (a->member == 1) return a->stage == LINE_BEGUN ? x->ready[LINE_BEGUN] : 0;
    return x->reached[LINE_STAGES + LINE_FIRST]; /* the receiver has copied the message */
}

static bool is_done(const line_transfer *x, const line_active *a)
{
    if (x->meeting == WEFT_MEET_PASS)
        return a->member == 1 ? a->stage == LINE_FIRST
                              : !isinf(x->reached[LINE_STAGES + LINE_FIRST]);
    return a->stage == last_stage(x) && !isinf(x->ready[a->stage]);
}

static double wake_time(const weft_timeline *t, const line_rank *r)
{
    double at = INFINITY;
    for (size_t i = 0; i < r->active_count; i++) {
        const line_active *a = &r->active[i];
        at = WEFT_MIN(at, next_time(&t->transfers[a->transfer], a));
    }
    return WEFT_MAX(at, r->clock);
}

/* A member has reached a stage; ranks that wait may go on. */
static weft_status reach(weft_timeline *t, line_transfer *x, int member, int stage, double at)
{
    bool last = ++x->in[stage] == x->count;
    x->reached[member * LINE_STAGES + stage] = at;
    bool sent = x->meeting == WEFT_MEET_PASS && stage == LINE_BEGUN && member == 0;
    bool met = x->meeting != WEFT_MEET_PASS && last;
    /* The last stage moves no data: it ends the transfer. */
    if (sent || (met && stage < last_stage(x))) make_ready(t, x, stage);
    if (met && stage == last_stage(x)) {
        double end = 0;
        for (int i = 0; i < x->count; i++) end = WEFT_MAX(end, x->reached[i * LINE_STAGES + stage]);
        x->ready[stage] = x->met[stage] = end;
    }
    if (!sent && !met && !(x->meeting == WEFT_MEET_PASS && stage == LINE_FIRST)) return WEFT_OK;
    for (int i = 0; i < x->count; i++) {
        const line_rank *other = &t->rank[x->member[i]];
        if (i != member && other->waits >= 0) WEFT_TRY(plan(t, x->member[i], wake_time(t, other)));
    }
    return WEFT_OK;
}

static void drop(line_rank *r, size_t i)
{
    r->active_count--;
    memmove(&r->active[i], &r->active[i + 1], (r->active_count - i) * sizeof(*r->active));
}

/* The rank works on all parts that are ready at its clock, and on one of each transfer. */
static weft_status poll(weft_timeline *t, line_rank *r)
{
    for (size_t i = 0; i < r->active_count;) {
        line_active *a = &r->active[i];
        line_transfer *x = &t->transfers[a->transfer];
        bool works = !is_done(x, a) && a->stage < last_stage(x) && next_time(x, a) <= r->clock &&
                     !(x->meeting == WEFT_MEET_PASS && a->member == 0);
        if (works) {
            double before = r->clock;
            r->clock += x->cost[a->member].work;
            tell(t, WEFT_LINE_TRANSFERS, (int)(r - t->rank), r->parts[a->part].label, before,
                 r->clock);
            r->times.transferred += x->cost[a->member].work;
            r->parts[a->part].times.worked += x->cost[a->member].work;
            a->stage++;
            WEFT_TRY(reach(t, x, a->member, a->stage, r->clock));
            i++;
        } else if (is_done(x, a) && next_time(x, a) <= r->clock) {
            drop(r, i);
        } else {
            i++;
        }
    }
    return WEFT_OK;
}

static bool has_active(const line_rank *r, int part)
{
    for (size_t i = 0; i < r->active_count; i++)
        if (r->active[i].part == part) return true;
    return false;
}

/* The rank has waited from its clock until a time at which it can go on with one of its transfers:
 * for the link since the ranks of that one have met, and for them before. */
static void count_wait(const weft_timeline *t, line_rank *r, double until)
{
    double waited = until - r->clock, met = until;
    int part = r->waits;
    r->times.waited += waited;
    if (part < 0) return;
    for (size_t i = r->active_count; i-- > 0;) {
        const line_active *a = &r->active[i];
        const line_transfer *x = &t->transfers[a->transfer];
        bool sends = x->meeting == WEFT_MEET_PASS && a->member == 0;
        if (next_time(x, a) > until) continue;
        part = a->part;
        met = sends ? until : x->met[a->stage];
    }
    double linked = WEFT_MIN(until - met, waited);
    r->parts[part].times.linked += linked;
    r->parts[part].times.waited += waited - linked;
}

/* --- ranks --- */

static weft_status begin_transfer(weft_timeline *t, line_rank *r, int number)
{
    const line_part *part = &r->parts[number];
    WEFT_TRY(WEFT_GROW(&r->active, &r->active_capacity, r->active_count));
    r->active[r->active_count++] = (line_active){
        .transfer = part->transfer, .member = part->member, .part = number, .stage = LINE_BEGUN};
    r->waits = POLLS;
    return reach(t, &t->transfers[part->transfer], part->member, LINE_BEGUN, r->clock);
}

/* Takes the next task of a rank; a rank that waits polls instead. */
static weft_status go_on(weft_timeline *t, int rank, double at)
{
    line_rank *r = &t->rank[rank];
    if (r->waits != WAITS_NOT) {
        WEFT_TRY(poll(t, r));
        if (r->waits >= 0 && has_active(r, r->waits)) {
            double next = wake_time(t, r);
            return isinf(next) ? WEFT_OK : plan(t, rank, next);
        }
        r->waits = WAITS_NOT;
        if (r->clock > at) return plan(t, rank, r->clock);
    }
    if (r->next == r->end) {
        r->times.end = r->clock;
        return WEFT_OK;
    }
    const line_task *task = &t->rank[r->leader].tasks[r->next++];
    if (task->kind == LINE_COMPUTE) {
        double seconds = task->seconds / r->speed * r->factor;
        tell(t, WEFT_LINE_COMPUTES, rank, task->label, r->clock, r->clock + seconds);
        r->clock += seconds;
        r->times.computed += seconds;
        /* The rank polls when others have had their turn until then. */
        if (task->polls && r->active_count > 0) r->waits = POLLS;
    } else if (task->kind == LINE_START) {
        WEFT_TRY(begin_transfer(t, r, task->start));
    } else if (has_active(r, task->start)) {
        r->waits = task->start;
    }
    return plan(t, rank, r->clock);
}

static weft_status check_links(const weft_timeline *t, double end)
{
    for (int m = 0; m < t->machines; m++)
        for (int way = 0; way < 2; way++)
            if (t->link[m].busy[way] > end * (1 + 1e-9) + 1e-12)
                return weft_fail(WEFT_ERR_INTERNAL,
                                 "the link of machine %d is busy for %.17g of %.17g seconds", m,
                                 t->link[m].busy[way], end);
    return WEFT_OK;
}

/* Back to time 0. */
static void rewind(weft_timeline *t, bool whole, const double *factors)
{
    t->heap_count = 0;
    t->now = -1;
    t->turn = 0;
    for (int r = 0; r < t->ranks; r++) {
        line_rank *rank = &t->rank[r];
        rank->next = rank->active_count = 0;
        const line_rank *leader = &t->rank[rank->leader];
        rank->end = whole ? leader->task_count : WEFT_MIN(leader->mark, leader->task_count);
        rank->waits = WAITS_NOT;
        rank->clock = 0;
        rank->factor = factors ? factors[r] : 1;
        rank->times = (weft_rank_times){.end = 0};
        for (size_t p = 0; p < rank->part_count; p++)
            rank->parts[p].times = (weft_part_times){.worked = 0};
    }
    for (int m = 0; m < t->machines; m++) t->link[m] = (line_link){.wire = t->link[m].wire};
    for (size_t i = 0; i < t->transfer_count; i++) {
        line_transfer *x = &t->transfers[i];
        for (int k = 0; k < x->count * LINE_STAGES; k++) x->reached[k] = INFINITY;
        for (int s = 0; s < LINE_STAGES; s++) x->ready[s] = INFINITY, x->in[s] = 0;
    }
}

weft_status weft_timeline_run(weft_timeline *t, bool whole, const double *factors)
{
    double end = 0;
    rewind(t, whole, factors);
    for (int r = 0; r < t->ranks; r++) WEFT_TRY(plan(t, r, 0));
    while (t->heap_count > 0) {
        line_event e = take(t);
        line_rank *r = &t->rank[e.rank];
        if (e.stamp != r->stamp) continue;
        t->now = e.at;
        t->turn = e.turn;
        if (e.at > r->clock) {
            tell(t, WEFT_LINE_WAITS, e.rank, 0, r->clock, e.at);
            count_wait(t, r, e.at);
            r->clock = e.at;
        }
        WEFT_TRY(go_on(t, e.rank, e.at));
    }
    for (int r = 0; r < t->ranks; r++) {
        if (t->rank[r].next < t->rank[r].end || t->rank[r].waits >= 0)
            return weft_fail(WEFT_ERR_INTERNAL, "rank %d of a timeline waits for ever", r);
        end = WEFT_MAX(end, t->rank[r].clock);
    }
    for (int r = 0; r < t->ranks; r++) tell(t, WEFT_LINE_WAITS, r, 0, t->rank[r].clock, end);
    return check_links(t, end);
}
