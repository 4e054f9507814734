/* Plans reductions over MPI processes, as messages of Weft's own, since MPI promises no order of
 * additions. Every algorithm sums over the fixed tree, so all of them give the same bits.
 *
 * Recursive doubling, for few bytes (weft_sum_way_of): in round l two slots that differ in bit l
 * exchange all elements of their sums, each over a block of 2^l ranks. This takes `levels` rounds.
 *
 * Recursive halving, for many bytes: in round l the two slots exchange halves. Each slot keeps one
 * half of the elements that it still has, and sends its sums of the other half, so that in the end
 * each slot has the total of its own part. An all-reduce then goes back through the same rounds
 * with an all-gather (recursive doubling). This takes 2 levels rounds, and a rank sends about twice
 * the vector in bytes (Rabenseifner 2004).
 *
 * Direct, if parts are large, ranks are few, and halving would send more bytes than necessary (N is
 * no power of two) or copy them (the parts of a reduce-scatter are not contiguous): each rank
 * receives its part from all other ranks and sums it. In an all-reduce it then sends the result to
 * all. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include "comm/mpi.h"

enum { CHUNK = 512 << 10 }; /* bytes summed at a time */

/* A reduction while its rounds are planned. */
typedef struct sum {
    weft_operation *o;
    mpi_slots slots;
    bool halving;
    int64_t whole;         /* elements */
    int64_t *start, *size; /* [P] the elements of each slot's part */
    int *order;            /* [P] slots in the order of their parts */
    mpi_vector have[2];    /* of each slot of this rank: the sum over its block */
    mpi_vector result;
} sum;

static int leaves_before(const weft_operation *o, int rank)
{
    int n = o->comm->size;
    return (int)weft_part_start(o->t.leaves ? o->t.leaves : n, rank, n);
}

static int parts_of(const weft_operation *o, int begin, int end)
{
    return weft_tree_parts(o->t.leaves ? o->t.leaves : o->comm->size, leaves_before(o, begin),
                           leaves_before(o, end));
}

/* Divides the elements into one part for each slot. In a reduce-scatter the counts give the parts.
 * In an all-reduce the parts are equal and lie in bit-reversed order of the slots, so that the
 * parts that a slot keeps in a round are contiguous. */
static void lay_parts(sum *s)
{
    int p = s->slots.slots;
    bool given = s->o->t.kind == WEFT_REDUCE_SCATTER;
    int64_t at = 0;
    for (int i = 0; i < p; i++) {
        int slot = 0;
        for (int bit = 0; bit < s->slots.levels; bit++)
            slot |= (i >> bit & 1) << (s->slots.levels - 1 - bit);
        if (given) slot = i;
        s->order[i] = slot;
        s->start[slot] = at;
        if (given)
            s->size[slot] = slot < s->slots.ranks ? s->o->counts[slot] : 0;
        else
            s->size[slot] = weft_part_start(s->whole, i + 1, p) - weft_part_start(s->whole, i, p);
        at += s->size[slot];
    }
}

/* Adds the ranges of the parts of all slots that agree with `slot` in the lowest `level` bits;
 * contiguous parts become one range. *first is the index of the first range. */
static weft_status add_ranges(const sum *s, int slot, int level, size_t *first)
{
    mpi_pending *p = s->o->state;
    int64_t begin = 0, end = 0;
    *first = p->range_count;
    if (!s->halving) return mpi_add_range(p, 0, s->whole);
    for (int i = 0; i < s->slots.slots; i++) {
        int q = s->order[i];
        if ((q ^ slot) & ((1 << level) - 1) || s->size[q] == 0) continue;
        if (s->start[q] != end) {
            WEFT_TRY(mpi_add_range(p, begin, end - begin));
            begin = s->start[q];
        }
        end = s->start[q] + s->size[q];
    }
    return mpi_add_range(p, begin, end - begin);
}

static bool none(const sum *s, size_t first_range)
{
    const mpi_pending *p = s->o->state;
    return p->range_count == first_range;
}

/* Adds a merge that sums the slot's own elements and the partner's, for the part that the slot
 * keeps. The partner's come by `message` or, if this rank has both slots, from `theirs`. */
static weft_status add_up(sum *s, int which, int level, int64_t message, const mpi_vector *theirs,
                          size_t ranges, bool last)
{
    const weft_operation *o = s->o;
    const mpi_pending *p = o->state;
    int slot = s->slots.mine[which], partner = slot ^ 1 << level, begin, end, count = 0;
    mpi_source own = {.message = -1, .at = s->have[which]}, other = {.message = message}, all[2];
    if (theirs) other.at = *theirs;
    bool have = mpi_slot_block(&s->slots, slot, level, &begin, &end);
    own.first = leaves_before(o, begin);
    own.last = leaves_before(o, WEFT_MAX(begin, end));
    (void)mpi_slot_block(&s->slots, partner, level, &begin, &end);
    other.first = leaves_before(o, begin);
    other.last = leaves_before(o, end);
    if (partner < slot) all[count++] = other;
    if (have) all[count++] = own;
    if (partner > slot) all[count++] = other;
    (void)mpi_slot_block(&s->slots, slot, level + 1, &begin, &end);
    mpi_vector to = last ? s->result : (mpi_vector){.base = p->kept[which], .stride = s->whole};
    to.parts = parts_of(o, begin, end);
    return mpi_add_merge(
        s->o,
        (mpi_merge){.to = to, .first_range = ranges, .at_most = CHUNK, .after_sends = !s->halving},
        all, count);
}

/* Plans one slot of this rank in one round: the slot sends the part that the partner keeps, and
 * sums the part that it keeps itself. */
static weft_status plan_round(sum *s, int which, int level)
{
    mpi_pending *p = s->o->state;
    const mpi_slots *c = &s->slots;
    int slot = c->mine[which], partner = slot ^ 1 << level, begin, end;
    int owner = mpi_slot_owner(c, partner);
    bool last = level == c->levels - 1;
    const mpi_vector *beside = NULL; /* the partner's sum, if this rank has both slots */
    size_t ranges;
    int64_t message = -1;
    if (owner == c->me) beside = &s->have[!which];
    if (beside && !s->halving && which == 1) return WEFT_OK; /* the first slot has the result */
    if (!beside && mpi_slot_block(c, slot, level, &begin, &end)) {
        WEFT_TRY(add_ranges(s, partner, level + 1, &ranges));
        if (!none(s, ranges))
            WEFT_TRY(mpi_add_message(s->o, (mpi_message){.peer = owner,
                                                         .out = true,
                                                         .second = which == 1,
                                                         .at = s->have[which],
                                                         .first_range = ranges,
                                                         .at_most = CHUNK}));
    }
    if (!mpi_slot_block(c, partner, level, &begin, &end)) return WEFT_OK;
    WEFT_TRY(add_ranges(s, slot, level + 1, &ranges));
    if (none(s, ranges)) return WEFT_OK;
    if (!beside) {
        message = (int64_t)p->message_count;
        WEFT_TRY(mpi_add_message(s->o, (mpi_message){.peer = owner,
                                                     .second = partner >= c->ranks,
                                                     .merged = true,
                                                     .at.parts = parts_of(s->o, begin, end),
                                                     .first_range = ranges,
                                                     .at_most = CHUNK}));
    }
    return add_up(s, which, level, message, beside, ranges, last);
}

/* Records the sum that a slot has after a round with a partner: it is over a block twice as
 * large. */
static void record_sum(sum *s, int which, int level)
{
    const mpi_pending *p = s->o->state;
    int slot = s->slots.mine[which], begin, end;
    if (!mpi_slot_block(&s->slots, slot ^ 1 << level, level, &begin, &end)) return;
    (void)mpi_slot_block(&s->slots, slot, level + 1, &begin, &end);
    s->have[which] = (mpi_vector){
        .base = p->kept[which], .stride = s->whole, .parts = parts_of(s->o, begin, end)};
}

/* Plans one round of the all-gather that ends an all-reduce. A slot without a rank of its own
 * receives nothing, since its rank gets the same elements for its first slot. */
static weft_status bring_back(sum *s, int level)
{
    const mpi_slots *c = &s->slots;
    size_t ranges;
    for (int which = 0; which < c->count; which++) {
        int partner = c->mine[which] ^ 1 << level;
        if (partner >= c->ranks || partner == c->me) continue;
        WEFT_TRY(add_ranges(s, c->mine[which], level + 1, &ranges));
        if (!none(s, ranges))
            WEFT_TRY(mpi_add_message(s->o, (mpi_message){.peer = partner,
                                                         .out = true,
                                                         .second = which == 1,
                                                         .at = s->result,
                                                         .first_range = ranges}));
    }
    int partner = c->me ^ 1 << level, owner = mpi_slot_owner(c, partner);
    if (owner == c->me) return WEFT_OK;
    WEFT_TRY(add_ranges(s, partner, level + 1, &ranges));
    if (none(s, ranges)) return WEFT_OK;
    return mpi_add_message(s->o, (mpi_message){.peer = owner,
                                               .second = partner >= c->ranks,
                                               .at = s->result,
                                               .first_range = ranges});
}

static weft_status by_levels(sum *s)
{
    mpi_pending *p = s->o->state;
    for (int level = 0; level < s->slots.levels; level++) {
        WEFT_TRY(mpi_add_round(p));
        for (int which = 0; which < s->slots.count; which++) WEFT_TRY(plan_round(s, which, level));
        for (int which = 0; which < s->slots.count; which++) record_sum(s, which, level);
    }
    if (s->o->t.kind != WEFT_ALL_REDUCE || !s->halving) return WEFT_OK;
    for (int level = s->slots.levels; level-- > 0;) {
        WEFT_TRY(mpi_add_round(p));
        WEFT_TRY(bring_back(s, level));
    }
    return WEFT_OK;
}

/* --- direct --- */

static int64_t part_start(const sum *s, int r)
{
    if (s->o->t.kind == WEFT_REDUCE_SCATTER) return weft_counts_before(s->o->counts, r);
    return weft_part_start(s->whole, r, s->slots.ranks);
}

static weft_status exchange_parts(sum *s)
{
    mpi_pending *p = s->o->state;
    int n = s->slots.ranks, me = s->slots.me;
    mpi_source sources[WEFT_DIRECT_RANKS];
    int64_t chunk = CHUNK / n, mine = part_start(s, me + 1) - part_start(s, me);
    WEFT_TRY(mpi_add_round(p));
    size_t ranges = p->range_count;
    for (int r = 0; r < n; r++)
        sources[r] = (mpi_source){.message = -1,
                                  .at = s->have[0],
                                  .first = leaves_before(s->o, r),
                                  .last = leaves_before(s->o, r + 1)};
    for (int i = 1; i < n && mine > 0; i++) {
        int q = (me + i) % n;
        ranges = p->range_count;
        WEFT_TRY(mpi_add_range(p, part_start(s, me), mine));
        sources[q].message = (int64_t)p->message_count;
        WEFT_TRY(mpi_add_message(s->o, (mpi_message){.peer = q,
                                                     .merged = true,
                                                     .at.parts = parts_of(s->o, q, q + 1),
                                                     .first_range = ranges,
                                                     .at_most = chunk}));
    }
    if (mine > 0)
        WEFT_TRY(mpi_add_merge(
            s->o, (mpi_merge){.to = s->result, .first_range = ranges, .at_most = chunk}, sources,
            n));
    for (int i = 1; i < n; i++) {
        int q = (me + i) % n;
        ranges = p->range_count;
        WEFT_TRY(mpi_add_range(p, part_start(s, q), part_start(s, q + 1) - part_start(s, q)));
        if (!none(s, ranges))
            WEFT_TRY(mpi_add_message(s->o, (mpi_message){.peer = q,
                                                         .out = true,
                                                         .at = s->have[0],
                                                         .first_range = ranges,
                                                         .at_most = chunk}));
    }
    return WEFT_OK;
}

static weft_status exchange_results(sum *s)
{
    mpi_pending *p = s->o->state;
    int n = s->slots.ranks, me = s->slots.me;
    WEFT_TRY(mpi_add_round(p));
    for (int i = 1; i < n; i++)
        for (int out = 0; out < 2; out++) {
            int q = (me + i) % n, whose = out ? me : q;
            size_t ranges = p->range_count;
            WEFT_TRY(mpi_add_range(p, part_start(s, whose),
                                   part_start(s, whose + 1) - part_start(s, whose)));
            if (!none(s, ranges))
                WEFT_TRY(mpi_add_message(
                    s->o,
                    (mpi_message){.peer = q, .out = out, .at = s->result, .first_range = ranges}));
        }
    return WEFT_OK;
}

/* --- choice of the algorithm --- */

/* Allocates memory for partial sums. An all-reduce whose partial sums are single subtrees keeps
 * those of its first slot in `receive`. */
static weft_status make_room(sum *s)
{
    mpi_pending *p = s->o->state;
    int most = 1, begin, end;
    size_t bytes = (size_t)s->whole * weft_dtype_size(s->o->t.dtype);
    for (int which = 0; which < s->slots.count; which++)
        for (int level = 1; level < s->slots.levels; level++)
            if (mpi_slot_block(&s->slots, s->slots.mine[which], level, &begin, &end))
                most = WEFT_MAX(most, parts_of(s->o, begin, end));
    if (s->o->t.kind == WEFT_ALL_REDUCE && most == 1)
        p->kept[0] = s->o->t.receive;
    else if (s->slots.levels > 1)
        WEFT_TRY(mpi_new(p, (size_t)most * bytes, &p->kept[0]));
    return s->slots.count > 1 ? mpi_new(p, (size_t)most * bytes, &p->kept[1]) : WEFT_OK;
}

static weft_status choose(sum *s)
{
    const weft_transfer *t = &s->o->t;
    int64_t bytes = s->whole * (int64_t)weft_dtype_size(t->dtype);
    bool gives = t->kind == WEFT_REDUCE_SCATTER;
    weft_sum_way way = weft_sum_way_of(gives, s->slots.ranks, bytes, mpi_one_machine());
    s->halving = way == WEFT_SUM_HALVING;
    if (way == WEFT_SUM_DIRECT) {
        WEFT_TRY(exchange_parts(s));
        return gives ? WEFT_OK : exchange_results(s);
    }
    lay_parts(s);
    WEFT_TRY(make_room(s));
    return by_levels(s);
}

weft_status mpi_plan_sum(weft_operation *o)
{
    const weft_transfer *t = &o->t;
    mpi_pending *p = o->state;
    sum s = {.o = o, .slots = mpi_slots_of(o)};
    size_t slots = (size_t)s.slots.slots;
    int me = o->comm->rank;
    s.whole =
        t->kind == WEFT_REDUCE_SCATTER ? weft_counts_before(o->counts, o->comm->size) : t->count;
    if (o->comm->size == 1) { /* all leaves are one subtree */
        p->copy_from = t->send;
        p->copy_to = t->receive;
        p->copy_bytes = s.whole * (int64_t)weft_dtype_size(t->dtype);
        return WEFT_OK;
    }
    /* The cast drops const, but `send` is only read: results go elsewhere, or over elements of
     * `send` that are not sent any more. */
    memcpy(&s.have[0].base, &t->send, sizeof(t->send));
    s.have[0].stride = s.whole;
    s.have[0].parts = parts_of(o, me, me + 1);
    s.result = (mpi_vector){.base = t->receive, .stride = s.whole, .parts = 1};
    if (t->kind == WEFT_REDUCE_SCATTER) s.result.origin = weft_counts_before(o->counts, me);
    weft_status status = WEFT_NEW(&s.start, 2 * slots);
    s.size = s.start + slots;
    if (status == WEFT_OK) status = WEFT_NEW(&s.order, slots);
    if (status == WEFT_OK) status = choose(&s);
    free(s.start);
    free(s.order);
    return status;
}

#else
typedef int weft_no_mpi_sums; /* a file must not be empty */
#endif
