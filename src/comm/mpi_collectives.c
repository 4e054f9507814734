/* Plans the MPI operations that do not sum, as rounds of messages: log2(P) rounds for all-gather
 * (recursive doubling) and barrier (dissemination), at most two for broadcast (binomial tree), one
 * for gather, all-to-all, send and receive. MPI's own collectives are not used, since a rank that
 * aborts must be able to cancel its messages, and counts may exceed an int. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include "comm/mpi.h"

static size_t size_of(const weft_operation *o)
{
    return weft_dtype_size(o->t.dtype);
}

static mpi_vector as_vector(const void *data)
{
    mpi_vector v = {.parts = 1};
    memcpy(&v.base, &data, sizeof(data)); /* drops const; nothing writes to a sent vector */
    return v;
}

/* Adds a message of `count` contiguous elements, to or from a peer; no message if count is 0. */
static weft_status move(weft_operation *o, mpi_message like, const void *data, int64_t start,
                        int64_t count)
{
    mpi_pending *p = o->state;
    if (count == 0) return WEFT_OK;
    like.at = as_vector(data);
    like.first_range = p->range_count;
    WEFT_TRY(mpi_add_range(p, start, count));
    return mpi_add_message(o, like);
}

/* Copies the part that stays on this rank. */
static void copy(weft_operation *o, int64_t from, int64_t to, int64_t count)
{
    mpi_pending *p = o->state;
    p->copy_from = (const char *)o->t.send + (size_t)from * size_of(o);
    p->copy_to = (char *)o->t.receive + (size_t)to * size_of(o);
    p->copy_bytes = count * (int64_t)size_of(o);
}

/* Adds a message with the elements of the block of 2^level ranks around a slot, which are
 * contiguous in `receive`. */
static weft_status move_block(weft_operation *o, const mpi_slots *s, mpi_message like, int slot,
                              int level)
{
    int begin, end;
    if (!mpi_slot_block(s, slot, level, &begin, &end)) return WEFT_OK;
    int64_t start = weft_counts_before(o->counts, begin);
    like.second = slot >= s->ranks;
    return move(o, like, o->t.receive, start, weft_counts_before(o->counts, end) - start);
}

/* All-gather by recursive doubling: in round l two slots that differ in bit l exchange the elements
 * of their blocks of 2^l ranks. */
static weft_status all_gather(weft_operation *o)
{
    mpi_slots s = mpi_slots_of(o);
    copy(o, 0, weft_counts_before(o->counts, s.me), o->counts[s.me]);
    for (int level = 0; level < s.levels; level++) {
        WEFT_TRY(mpi_add_round(o->state));
        for (int which = 0; which < s.count; which++) {
            int slot = s.mine[which], partner = slot ^ 1 << level;
            int owner = mpi_slot_owner(&s, partner);
            if (owner == s.me) continue;
            WEFT_TRY(move_block(o, &s, (mpi_message){.peer = owner, .out = true}, slot, level));
            WEFT_TRY(move_block(o, &s, (mpi_message){.peer = owner}, partner, level));
        }
    }
    return WEFT_OK;
}

/* Gather in one round: the root receives the elements of each rank directly at their place. */
static weft_status gather(weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank, root = o->t.peer;
    WEFT_TRY(mpi_add_round(o->state));
    if (me != root)
        return move(o, (mpi_message){.peer = root, .out = true}, o->t.send, 0, o->counts[me]);
    copy(o, 0, weft_counts_before(o->counts, me), o->counts[me]);
    for (int i = 1; i < n; i++) {
        int from = (me + i) % n;
        WEFT_TRY(move(o, (mpi_message){.peer = from}, o->t.receive,
                      weft_counts_before(o->counts, from), o->counts[from]));
    }
    return WEFT_OK;
}

static weft_status all_to_all(weft_operation *o)
{
    int n = o->comm->size, me = o->comm->rank;
    const int64_t *out = o->counts, *in = o->counts + n;
    copy(o, weft_counts_before(out, me), weft_counts_before(in, me), WEFT_MIN(out[me], in[me]));
    WEFT_TRY(mpi_add_round(o->state));
    for (int i = 1; i < n; i++) {
        int to = (me + i) % n, from = (me + n - i) % n;
        WEFT_TRY(move(o, (mpi_message){.peer = from}, o->t.receive, weft_counts_before(in, from),
                      in[from]));
        WEFT_TRY(move(o, (mpi_message){.peer = to, .out = true}, o->t.send,
                      weft_counts_before(out, to), out[to]));
    }
    return WEFT_OK;
}

/* Broadcast over a binomial tree. With ranks counted from the root, rank v receives from rank v
 * without its lowest set bit, and then sends to v plus each lower bit. */
static weft_status broadcast(weft_operation *o)
{
    int n = o->comm->size, root = o->t.peer, v = (o->comm->rank - root + n) % n, bit = 1;
    while (bit < n && !(v & bit)) bit *= 2;
    WEFT_TRY(mpi_add_round(o->state));
    if (v != 0) {
        WEFT_TRY(move(o, (mpi_message){.peer = (v - bit + root) % n}, o->t.receive, 0, o->t.count));
        WEFT_TRY(mpi_add_round(o->state));
    }
    while ((bit /= 2) > 0)
        if (v + bit < n)
            WEFT_TRY(move(o, (mpi_message){.peer = (v + bit + root) % n, .out = true}, o->t.receive,
                          0, o->t.count));
    return WEFT_OK;
}

/* Dissemination barrier: in round l each rank receives from the rank 2^l before it, which by then
 * has heard, directly or not, from the 2^l - 1 ranks before that. */
static weft_status barrier(weft_operation *o)
{
    mpi_pending *p = o->state;
    int n = o->comm->size, me = o->comm->rank;
    for (int far = 1; far < n; far *= 2) {
        mpi_message in = {.peer = (me - far + n) % n, .at.parts = 1, .first_range = p->range_count};
        mpi_message out = {
            .peer = (me + far) % n, .out = true, .at.parts = 1, .first_range = p->range_count};
        WEFT_TRY(mpi_add_round(p));
        WEFT_TRY(mpi_add_message(o, in));
        WEFT_TRY(mpi_add_message(o, out));
    }
    return WEFT_OK;
}

/* Send or receive. A send without elements is sent, too: the receiver may expect elements, and then
 * reports the mismatch. */
static weft_status one(weft_operation *o)
{
    mpi_pending *p = o->state;
    bool out = o->t.kind == WEFT_SEND;
    WEFT_TRY(mpi_add_round(p));
    WEFT_TRY(mpi_add_range(p, 0, o->t.count));
    return mpi_add_message(o, (mpi_message){.peer = o->t.peer,
                                            .out = out,
                                            .bounded = true,
                                            .at = as_vector(out ? o->t.send : o->t.receive)});
}

weft_status mpi_plan_move(weft_operation *o)
{
    switch (o->t.kind) {
    case WEFT_SEND:
    case WEFT_RECEIVE: return one(o);
    case WEFT_BROADCAST: return broadcast(o);
    case WEFT_ALL_GATHER: return all_gather(o);
    case WEFT_GATHER: return gather(o);
    case WEFT_ALL_TO_ALL: return all_to_all(o);
    case WEFT_BARRIER: return barrier(o);
    default: return weft_fail(WEFT_ERR_INTERNAL, "%s is no move", weft_transfer_name(o->t.kind));
    }
}

#else
typedef int weft_no_mpi_moves; /* a file must not be empty */
#endif
