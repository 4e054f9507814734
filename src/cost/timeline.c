/* Builds timelines and runs them: discrete events, the earliest rank first. */
#include <math.h>

#include "cost/timeline_internal.h"

/* --- building --- */

weft_status weft_timeline_new(int ranks, const int *machine, int machines, const weft_wire *wires,
                              weft_timeline **out)
{
    weft_timeline *t;
    WEFT_TRY(WEFT_NEW(&t, 1));
    *out = t;
    t->ranks = ranks;
    t->machines = machines;
    weft_status status = WEFT_NEW(&t->rank, ranks);
    if (status == WEFT_OK) status = WEFT_NEW(&t->link, machines);
    for (int r = 0; r < ranks && status == WEFT_OK; r++) {
        t->rank[r].machine = machine[r];
        t->rank[r].leader = r;
        t->rank[r].speed = 1;
        t->rank[r].mark = SIZE_MAX;
    }
    for (int m = 0; m < machines && status == WEFT_OK; m++) t->link[m].wire = wires[m];
    if (status != WEFT_OK) weft_timeline_free(out);
    return status;
}

static void free_transfer(line_transfer *x)
{
    free(x->member);
    free(x->carrier);
    free(x->cost);
    free(x->reached);
}

void weft_timeline_free(weft_timeline **timeline)
{
    weft_timeline *t = *timeline;
    *timeline = NULL;
    if (!t) return;
    for (int r = 0; t->rank && r < t->ranks; r++) {
        free(t->rank[r].tasks);
        free(t->rank[r].parts);
        free(t->rank[r].active);
    }
    for (size_t i = 0; i < t->transfer_count; i++) free_transfer(&t->transfers[i]);
    free(t->transfers);
    free(t->rank);
    free(t->link);
    free(t->heap);
    free(t->keys.entries);
    free(t);
}

void weft_timeline_follow(weft_timeline *t, int rank, int leader)
{
    t->rank[rank].leader = t->rank[leader].leader;
}

void weft_timeline_speed(weft_timeline *t, int rank, double speed)
{
    t->rank[rank].speed = speed;
}

static weft_status add_task(weft_timeline *t, int rank, line_task task)
{
    line_rank *r = &t->rank[rank];
    if (r->leader != rank)
        return weft_fail(WEFT_ERR_INTERNAL, "rank %d has the tasks of rank %d", rank, r->leader);
    WEFT_TRY(WEFT_GROW(&r->tasks, &r->task_capacity, r->task_count));
    task.label = r->label;
    r->tasks[r->task_count++] = task;
    return WEFT_OK;
}

weft_status weft_timeline_compute(weft_timeline *t, int rank, double seconds, bool polls)
{
    return add_task(t, rank, (line_task){.kind = LINE_COMPUTE, .seconds = seconds, .polls = polls});
}

/* The entry of a key in the table (open addressing, at most half full), which it adds. */
static weft_status find_key(line_keys *k, uint64_t key, int **out)
{
    key = key ? key : 1;
    if (2 * (k->count + 1) > k->capacity) {
        line_keys larger = {.capacity = WEFT_MAX(2 * k->capacity, (size_t)64), .count = k->count};
        WEFT_TRY(WEFT_NEW(&larger.entries, larger.capacity));
        for (size_t i = 0; i < k->capacity; i++) {
            if (!k->entries[i].key) continue;
            size_t at = (size_t)weft_mix(k->entries[i].key, 0) & (larger.capacity - 1);
            while (larger.entries[at].key) at = (at + 1) & (larger.capacity - 1);
            larger.entries[at] = k->entries[i];
        }
        free(k->entries);
        *k = larger;
    }
    size_t at = (size_t)weft_mix(key, 0) & (k->capacity - 1);
    while (k->entries[at].key && k->entries[at].key != key) at = (at + 1) & (k->capacity - 1);
    if (!k->entries[at].key) {
        k->entries[at] = (line_entry){.key = key, .number = 0};
        k->count++;
    }
    *out = &k->entries[at].number;
    return WEFT_OK;
}

static weft_status new_transfer(weft_timeline *t, weft_meeting meeting, const int *members,
                                int count, int *out)
{
    WEFT_TRY(WEFT_GROW(&t->transfers, &t->transfer_capacity, t->transfer_count));
    line_transfer *x = &t->transfers[t->transfer_count];
    *x = (line_transfer){.meeting = meeting, .count = count};
    weft_status status = WEFT_NEW(&x->member, count);
    if (status == WEFT_OK) status = WEFT_NEW(&x->cost, count);
    if (status == WEFT_OK) status = WEFT_NEW(&x->reached, (size_t)count * LINE_STAGES);
    if (status != WEFT_OK) {
        free_transfer(x);
        return status;
    }
    memcpy(x->member, members, (size_t)count * sizeof(*members));
    *out = (int)t->transfer_count++;
    return WEFT_OK;
}

weft_status weft_timeline_start(weft_timeline *t, int rank, uint64_t key, weft_meeting meeting,
                                const int *members, int count, const weft_part_cost *cost, int *out)
{
    int *seen, *number, me = 0;
    line_rank *r = &t->rank[rank];
    while (me < count && members[me] != rank) me++;
    if (me == count)
        return weft_fail(WEFT_ERR_INTERNAL, "rank %d begins a transfer of other ranks", rank);
    WEFT_TRY(find_key(&t->keys, weft_mix(key, 2 * (uint64_t)rank + 1), &seen));
    int sequence = (*seen)++;
    WEFT_TRY(find_key(&t->keys, weft_mix(key, 2 * (uint64_t)sequence), &number));
    int at = *number - 1;
    if (at < 0) {
        WEFT_TRY(new_transfer(t, meeting, members, count, &at));
        *number = at + 1;
    }
    t->transfers[at].cost[me] = *cost;
    *out = (int)r->part_count;
    WEFT_TRY(WEFT_GROW(&r->parts, &r->part_capacity, r->part_count));
    r->parts[r->part_count++] = (line_part){.transfer = at, .member = me, .label = r->label};
    if (r->leader != rank) return WEFT_OK;
    return add_task(t, rank, (line_task){.kind = LINE_START, .start = *out});
}

weft_status weft_timeline_carriers(weft_timeline *t, int rank, int transfer, const int *carriers,
                                   int count)
{
    line_transfer *x = &t->transfers[t->rank[rank].parts[transfer].transfer];
    if (x->carrier) return WEFT_OK; /* another rank has given them */
    WEFT_TRY(WEFT_NEW(&x->carrier, count + 1));
    x->carriers = count;
    for (int i = 0; i < count; i++) {
        while (x->carrier[i] < x->count && x->member[x->carrier[i]] != carriers[i]) x->carrier[i]++;
        if (x->carrier[i] == x->count)
            return weft_fail(WEFT_ERR_INTERNAL, "rank %d carries a transfer of other ranks",
                             carriers[i]);
    }
    return WEFT_OK;
}

weft_status weft_timeline_finish(weft_timeline *t, int rank, int transfer)
{
    return add_task(t, rank, (line_task){.kind = LINE_FINISH, .start = transfer});
}

void weft_timeline_label(weft_timeline *t, int rank, int label)
{
    t->rank[rank].label = label;
}

void weft_timeline_watch(weft_timeline *t, weft_line_fn fn, void *user)
{
    t->fn = fn;
    t->user = user;
}

void weft_timeline_mark(weft_timeline *t, int rank)
{
    t->rank[rank].mark = t->rank[rank].task_count;
}

size_t weft_timeline_tasks(const weft_timeline *t)
{
    size_t sum = 0;
    for (int r = 0; r < t->ranks; r++) sum += t->rank[r].task_count;
    return sum;
}

double weft_timeline_events(const weft_timeline *t)
{
    double sum = 0;
    for (int r = 0; r < t->ranks; r++) sum += (double)t->rank[t->rank[r].leader].task_count;
    return sum;
}

weft_rank_times weft_timeline_rank(const weft_timeline *t, int rank)
{
    return t->rank[rank].times;
}

weft_part_times weft_timeline_part(const weft_timeline *t, int rank, int transfer)
{
    return t->rank[rank].parts[transfer].times;
}

void weft_timeline_link(const weft_timeline *t, int machine, double *bytes, double *busy)
{
    *bytes = t->link[machine].bytes;
    *busy = t->link[machine].busy[0];
}
