/* Names transfers, checks their arguments, and computes the number of elements that they send. */
#include "base/tree_sum.h"
#include "comm/comm.h"

const char *weft_transfer_name(weft_transfer_kind kind)
{
    static const char *const names[] = {"send",       "receive",        "broadcast",
                                        "all-reduce", "reduce-scatter", "all-gather",
                                        "gather",     "all-to-all",     "barrier"};
    return (unsigned)kind < WEFT_COUNT(names) ? names[kind] : NULL;
}

int64_t weft_counts_before(const int64_t *counts, int r)
{
    int64_t sum = 0;
    for (int i = 0; i < r; i++) sum += counts[i];
    return sum;
}

int weft_split_place(const int32_t *splits, int n, int me, int *size, int *first)
{
    int rank = 0, best = -1;
    *size = 0;
    for (int r = 0; r < n; r++) {
        const int32_t *other = &splits[(size_t)2 * r], *mine = &splits[(size_t)2 * me];
        if (other[0] != mine[0]) continue;
        (*size)++;
        if (other[1] < mine[1] || (other[1] == mine[1] && r < me)) rank++;
        if (best < 0 || other[1] < splits[(size_t)2 * best + 1]) best = r;
    }
    *first = best;
    return rank;
}

/* Checks that `send` has as many subtrees as this rank's leaves make up, since other ranks read all
 * of them. */
static weft_status check_leaves(const weft_comm *c, const weft_transfer *t)
{
    int have = t->parts ? t->parts : 1, want = 1;
    if (t->leaves > 0)
        want = weft_tree_parts(t->leaves, (int)weft_part_start(t->leaves, c->rank, c->size),
                               (int)weft_part_start(t->leaves, c->rank + 1, c->size));
    if (have == want) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s of %s in a tree of %d leaves: rank %d of %d sends the sums of %d subtrees "
                     "(parts of weft_transfer), must send %d",
                     weft_transfer_name(t->kind), t->what ? t->what : "a value", t->leaves, c->rank,
                     c->size, have, want);
}

/* of_rank is the count of rank r, and of_all the sum of the counts of all ranks. */
static int64_t of_rank(const weft_transfer *t, const int64_t *counts, int r)
{
    return counts ? counts[r] : t->count;
}
static int64_t of_all(const weft_comm *c, const weft_transfer *t, const int64_t *counts)
{
    return counts ? weft_counts_before(counts, c->size) : c->size * t->count;
}

/* The number of elements that this rank reads from `send` and writes to `receive`. */
static void extents(const weft_comm *c, const weft_transfer *t, int64_t *sent, int64_t *received)
{
    *sent = *received = 0;
    switch (t->kind) {
    case WEFT_SEND: *sent = t->count; break;
    case WEFT_RECEIVE:
    case WEFT_BROADCAST: *received = t->count; break;
    case WEFT_ALL_REDUCE: *sent = *received = t->count; break;
    case WEFT_REDUCE_SCATTER:
        *sent = of_all(c, t, t->counts);
        *received = of_rank(t, t->counts, c->rank);
        break;
    case WEFT_ALL_GATHER:
        *sent = of_rank(t, t->counts, c->rank);
        *received = of_all(c, t, t->counts);
        break;
    case WEFT_GATHER:
        *sent = of_rank(t, t->counts, c->rank);
        *received = t->peer == c->rank ? of_all(c, t, t->counts) : 0;
        break;
    case WEFT_ALL_TO_ALL:
        *sent = of_all(c, t, t->counts);
        *received = of_all(c, t, t->receive_counts);
        break;
    case WEFT_BARRIER: break;
    }
}

static weft_status check_buffers(const weft_comm *c, const weft_transfer *t)
{
    int64_t sent, received;
    extents(c, t, &sent, &received);
    if ((sent > 0 && !t->send) || (received > 0 && !t->receive))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s of %s: no memory for %lld elements to %s",
                         weft_transfer_name(t->kind), t->what ? t->what : "a value",
                         (long long)(sent > 0 && !t->send ? sent : received),
                         sent > 0 && !t->send ? "send" : "receive");
    return WEFT_OK;
}

/* Most elements of a transfer, as of a tensor, so that sums of counts do not overflow. */
static const int64_t MOST_ELEMENTS = (int64_t)1 << 40;

weft_status weft_transfer_check(const weft_comm *c, const weft_transfer *t)
{
    const char *name = weft_transfer_name(t->kind);
    bool sums = weft_is_sum(t->kind);
    bool one = !weft_is_collective(t->kind) || weft_has_root(t->kind);
    bool many = weft_has_counts(t->kind) || t->kind == WEFT_ALL_TO_ALL;
    WEFT_CHECK_ROOM("weft_transfer", t);
    if (!name)
        return weft_fail(WEFT_ERR_ARGUMENT, "the kind of a transfer is %d, must be from 0 to %d",
                         (int)t->kind, WEFT_BARRIER);
    if (!weft_dtype_known(t->dtype))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s of the type %d, must be from 0 to %d", name,
                         (int)t->dtype, WEFT_DTYPE_COUNT - 1);
    if (t->count < 0 || t->count > MOST_ELEMENTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s of %lld elements, must be from 0 to 2^40", name,
                         (long long)t->count);
    if (one && (t->peer < 0 || t->peer >= c->size))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s with rank %d, the ranks are 0 to %d", name, t->peer,
                         c->size - 1);
    if (t->tag < 0 || t->tag > 30000)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s with tag %d, must be from 0 to 30000", name,
                         t->tag);
    if (sums && (t->dtype == WEFT_U8 || t->dtype == WEFT_BOOL))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s of %s: sums are of f32, f64, bf16 or i32", name,
                         weft_dtype_name(t->dtype));
    if (t->leaves != 0 && (!sums || t->leaves < c->size || t->leaves > 1 << 20))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s over %d leaves with %d ranks", name, t->leaves,
                         c->size);
    bool both = t->kind == WEFT_ALL_TO_ALL;
    if (many && t->count == 0 && (!t->counts || (both && !t->receive_counts)))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s needs a count for each rank, or one for all", name);
    for (int r = 0; many && r < c->size; r++)
        if (of_rank(t, t->counts, r) < 0 || of_rank(t, t->counts, r) > MOST_ELEMENTS ||
            (both && (of_rank(t, t->receive_counts, r) < 0 ||
                      of_rank(t, t->receive_counts, r) > MOST_ELEMENTS)))
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: the count of rank %d must be from 0 to 2^40",
                             name, r);
    WEFT_TRY(check_leaves(c, t));
    return check_buffers(c, t);
}

int64_t weft_transfer_sends(const weft_operation *o)
{
    const weft_comm *c = o->comm;
    const weft_transfer *t = &o->t;
    int64_t others = c->size - 1, part;
    switch (t->kind) {
    case WEFT_SEND: return t->count;
    case WEFT_BROADCAST: return t->peer == c->rank ? t->count * others : 0;
    case WEFT_ALL_REDUCE:
        part = weft_part_start(t->count, c->rank + 1, c->size) -
               weft_part_start(t->count, c->rank, c->size);
        return t->count - part + part * others;
    case WEFT_REDUCE_SCATTER: return weft_counts_before(o->counts, c->size) - o->counts[c->rank];
    case WEFT_ALL_GATHER: return o->counts[c->rank] * others;
    case WEFT_GATHER: return t->peer == c->rank ? 0 : o->counts[c->rank];
    case WEFT_ALL_TO_ALL: return weft_counts_before(o->counts, c->size) - o->counts[c->rank];
    case WEFT_RECEIVE:
    case WEFT_BARRIER: break;
    }
    return 0;
}

int weft_tree_parts(int leaves, int first, int last)
{
    if (leaves < 1 || first < 0 || first > last || last > leaves) return 0;
    int parts = 0;
    for (; first < last; parts++) first = weft_tree_next(leaves, first, last);
    return parts;
}

static void list_ranks(const weft_operation *o, const int *world,
                       bool (*arrived)(const weft_operation *o, int rank), bool come,
                       weft_text *text)
{
    const char *between = "";
    for (int r = 0; r < o->comm->size; r++) {
        if (arrived(o, r) != come) continue;
        weft_text_add(text, "%s%d", between, world[r]);
        between = ", ";
    }
    if (!*between) weft_text_add(text, "none");
}

void weft_describe_ranks(const weft_operation *o, const int *world,
                         bool (*arrived)(const weft_operation *o, int rank), weft_text *text)
{
    if (!weft_is_collective(o->t.kind)) {
        weft_text_add(text, ": rank %d did not %s it", world[o->t.peer],
                      o->t.kind == WEFT_SEND ? "receive" : "send");
        return;
    }
    weft_text_add(text, " (collective %lld): ranks that are in it: ", (long long)o->sequence);
    list_ranks(o, world, arrived, true, text);
    weft_text_add(text, "; missing: ");
    list_ranks(o, world, arrived, false, text);
}
