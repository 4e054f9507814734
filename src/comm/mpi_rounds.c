/* Plans and executes operations over MPI as rounds of messages. A large message is sent in chunks,
 * so that a chunk is summed while the next one is in transit, and no chunk is longer than MPI can
 * count. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include "comm/mpi.h"

weft_status mpi_add_round(mpi_pending *p)
{
    WEFT_TRY(WEFT_GROW(&p->rounds, &p->round_room, p->round_count));
    p->rounds[p->round_count++] =
        (mpi_round){.first_message = p->message_count, .first_merge = p->merge_count};
    return WEFT_OK;
}

weft_status mpi_add_range(mpi_pending *p, int64_t start, int64_t size)
{
    if (size == 0) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&p->ranges, &p->range_room, p->range_count));
    p->ranges[p->range_count++] = (mpi_range){start, size};
    return WEFT_OK;
}

static int64_t elements_of(const mpi_pending *p, size_t first, int *count)
{
    int64_t sum = 0;
    *count = (int)(p->range_count - first);
    for (size_t i = first; i < p->range_count; i++) sum += p->ranges[i].size;
    return sum;
}

/* The largest chunk of a short collective on one machine, in bytes. In shared memory most MPI
 * libraries send up to 4 KiB eagerly, and longer messages after a rendezvous, which takes more time
 * than a few short messages. */
enum { AT_ONCE = 3584 };

static int64_t chunk_elements(const weft_operation *o, int64_t elements, int64_t at_most)
{
    int64_t size = (int64_t)weft_dtype_size(o->t.dtype), piece = mpi_process.piece;
    if (at_most > 0) piece = WEFT_MIN(piece, at_most);
    if (mpi_one_machine() && weft_is_collective(o->t.kind) && elements * size <= WINDOW * AT_ONCE)
        piece = WEFT_MIN(piece, (int64_t)AT_ONCE);
    return WEFT_MAX(piece / size, (int64_t)1);
}

weft_status mpi_add_message(weft_operation *o, mpi_message like)
{
    mpi_pending *p = o->state;
    like.elements = elements_of(p, like.first_range, &like.ranges);
    like.each = chunk_elements(o, like.elements, like.at_most);
    like.chunks = like.bounded ? like.elements / like.each + 1
                               : WEFT_MAX((like.elements + like.each - 1) / like.each, (int64_t)1);
    /* A message of one part and one range is sent from its own memory, and needs no workspace. */
    like.roomed = like.merged || (like.out && (like.at.parts > 1 || like.ranges > 1));
    like.each = WEFT_MIN(like.each, WEFT_MAX(like.elements, (int64_t)1));
    for (int i = 0; i < WINDOW; i++) like.requests[i] = MPI_REQUEST_NULL;
    WEFT_TRY(WEFT_GROW(&p->messages, &p->message_room, p->message_count));
    p->messages[p->message_count++] = like;
    p->rounds[p->round_count - 1].messages++;
    return WEFT_OK;
}

weft_status mpi_add_merge(weft_operation *o, mpi_merge like, const mpi_source *sources, int count)
{
    mpi_pending *p = o->state;
    like.elements = elements_of(p, like.first_range, &like.ranges);
    like.each = chunk_elements(o, like.elements, like.at_most);
    like.chunks = WEFT_MAX((like.elements + like.each - 1) / like.each, (int64_t)1);
    like.simple = like.ranges == 1 && count == 2 && like.to.parts == 1;
    for (int i = 0; i < count; i++) {
        mpi_message *from = sources[i].message < 0 ? NULL : &p->messages[sources[i].message];
        like.simple = like.simple && (from ? from->at.parts : sources[i].at.parts) == 1;
    }
    like.first_source = p->source_count;
    like.sources = count;
    for (int i = 0; i < count; i++) {
        WEFT_TRY(WEFT_GROW(&p->sources, &p->source_room, p->source_count));
        p->sources[p->source_count++] = sources[i];
    }
    WEFT_TRY(WEFT_GROW(&p->merges, &p->merge_room, p->merge_count));
    p->merges[p->merge_count++] = like;
    p->rounds[p->round_count - 1].merges++;
    return WEFT_OK;
}

/* MPI surely copies a message of at most so many bytes when it is sent. A longer message may be
 * fetched from the sender's memory only when it is received. */
enum { COPIED = 1024 };

/* Ends the planning: assigns workspace to the chunks of each round, and allocates it. Rounds use
 * the same workspace, since one runs at a time. */
weft_status mpi_end_rounds(weft_operation *o)
{
    mpi_pending *p = o->state;
    size_t size = weft_dtype_size(o->t.dtype);
    for (size_t i = 0; i < p->round_count; i++) {
        const mpi_round *round = &p->rounds[i];
        size_t at = 0;
        for (int k = 0; k < round->messages; k++) {
            mpi_message *m = &p->messages[round->first_message + (size_t)k];
            if (!m->out && m->elements * m->at.parts * (int64_t)size > COPIED) p->fetches = true;
            if (!m->roomed) continue;
            m->room_at = at;
            at += (size_t)(WEFT_MIN(m->chunks, (int64_t)WINDOW) * m->each * m->at.parts) * size;
            at = (at + 63) / 64 * 64;
        }
        p->room_bytes = WEFT_MAX(p->room_bytes, at);
    }
    if (p->room_bytes) WEFT_TRY(mpi_new(p, p->room_bytes, &p->room));
    return mpi_merge_rooms(o);
}

/* --- executing --- */

/* MPI matches the chunks of one message in order. If a round has two messages from one rank to
 * another, they come from the sender's two slots; the tag tells them apart, and collectives from
 * each other. */
static int tag_of(const weft_operation *o, const mpi_message *m)
{
    return weft_is_collective(o->t.kind) ? (int)(o->sequence % 16000) * 2 + m->second : o->t.tag;
}

static weft_status post(const weft_operation *o, mpi_message *m)
{
    const mpi_pending *p = o->state;
    const mpi_comm *c = (const mpi_comm *)o->comm;
    MPI_Comm comm = weft_is_collective(o->t.kind) ? c->collectives : c->comm;
    MPI_Request *request = &m->requests[m->posted % WINDOW];
    int64_t chunk = m->posted;
    int64_t size = (int64_t)weft_dtype_size(o->t.dtype);
    int bytes = (int)(mpi_chunk_size(m->elements, m->each, chunk) * m->at.parts * size);
    char *at = m->at.base;
    if (m->roomed)
        at = mpi_room(o, m, chunk);
    else if (m->ranges > 0)
        at += (p->ranges[m->first_range].start - m->at.origin + chunk * m->each) * size;
    if (m->out && m->roomed) mpi_pack(o, m, chunk);
    if (m->out)
        MPI_TRY(MPI_Isend(at, bytes, MPI_BYTE, m->peer, tag_of(o, m), comm, request));
    else
        MPI_TRY(MPI_Irecv(at, bytes, MPI_BYTE, m->peer, tag_of(o, m), comm, request));
    m->posted++;
    return WEFT_OK;
}

static weft_status check_length(const weft_operation *o, const mpi_message *m,
                                const MPI_Status *status)
{
    int bytes = 0;
    int64_t size = (int64_t)weft_dtype_size(o->t.dtype);
    MPI_TRY(MPI_Get_count(status, MPI_BYTE, &bytes));
    if (bytes == mpi_chunk_size(m->elements, m->each, m->arrived) * m->at.parts * size)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER, "rank %d sent %lld %s, rank %d expects %lld of %s", m->peer,
                     (long long)(m->arrived * m->each + bytes / size), weft_dtype_name(o->t.dtype),
                     o->comm->rank, (long long)m->elements * m->at.parts, o->what);
}

/* Describes a failed receive; MPI reports a message that is longer than expected as truncated. */
static weft_status receive_failed(const weft_operation *o, const mpi_message *m, int code)
{
    int class = MPI_SUCCESS;
    MPI_TRY(MPI_Error_class(code, &class));
    if (class != MPI_ERR_TRUNCATE) return mpi_failed("MPI_Test", code);
    return weft_fail(WEFT_ERR_PEER, "rank %d sent more %s than the %lld that rank %d expects of %s",
                     m->peer, weft_dtype_name(o->t.dtype), (long long)m->elements * m->at.parts,
                     o->comm->rank, o->what);
}

static weft_status advance_message(const weft_operation *o, mpi_message *m)
{
    while (m->arrived < m->chunks) {
        while (m->posted < m->chunks && m->posted < m->freed + WINDOW) WEFT_TRY(post(o, m));
        if (m->arrived == m->posted) return WEFT_OK;
        int there = 0;
        MPI_Status status;
        int code = MPI_Test(&m->requests[m->arrived % WINDOW], &there, &status);
        if (code != MPI_SUCCESS) return receive_failed(o, m, code);
        if (!there) return WEFT_OK;
        if (!m->out) WEFT_TRY(check_length(o, m, &status));
        m->arrived++;
        if (!m->merged) m->freed++;
    }
    return WEFT_OK;
}

static bool have_come(const mpi_pending *p, const mpi_merge *g)
{
    for (int i = 0; i < g->sources; i++) {
        const mpi_source *s = &p->sources[g->first_source + (size_t)i];
        if (s->message >= 0 && p->messages[s->message].arrived <= g->done) return false;
    }
    return true;
}

static void advance_merge(const weft_operation *o, mpi_merge *g)
{
    mpi_pending *p = o->state;
    for (; g->done < g->chunks && have_come(p, g); g->done++) {
        mpi_merge_chunk(o, g, g->done);
        for (int i = 0; i < g->sources; i++) {
            const mpi_source *s = &p->sources[g->first_source + (size_t)i];
            if (s->message >= 0) p->messages[s->message].freed++;
        }
    }
}

static weft_status advance_round(const weft_operation *o, const mpi_round *round, bool *ended)
{
    mpi_pending *p = o->state;
    bool sent = true, all = true;
    for (int i = 0; i < round->messages; i++) {
        mpi_message *m = &p->messages[round->first_message + (size_t)i];
        WEFT_TRY(advance_message(o, m));
        sent = sent && (!m->out || m->arrived == m->chunks);
        all = all && m->arrived == m->chunks;
    }
    for (int i = 0; i < round->merges; i++) {
        mpi_merge *g = &p->merges[round->first_merge + (size_t)i];
        if (sent || !g->after_sends) advance_merge(o, g);
        all = all && g->done == g->chunks;
    }
    *ended = all;
    return WEFT_OK;
}

/* Copies the part that stays on this rank; MPI does so where memory may be a device's, in a message
 * of this rank to itself, with a tag that no other message has. */
static weft_status copy_own(const weft_operation *o)
{
    enum { OWN_TAG = 30001 };
    const mpi_pending *p = o->state;
    MPI_Comm comm = ((const mpi_comm *)o->comm)->comm;
    if (!o->by_address) memcpy(p->copy_to, p->copy_from, (size_t)p->copy_bytes);
    for (int64_t at = 0; o->by_address && at < p->copy_bytes; at += mpi_process.piece) {
        int bytes = (int)WEFT_MIN(mpi_process.piece, p->copy_bytes - at), me = o->comm->rank;
        MPI_TRY(MPI_Sendrecv((const char *)p->copy_from + at, bytes, MPI_BYTE, me, OWN_TAG,
                             (char *)p->copy_to + at, bytes, MPI_BYTE, me, OWN_TAG, comm,
                             MPI_STATUS_IGNORE));
    }
    return WEFT_OK;
}

weft_status mpi_start_rounds(weft_operation *o)
{
    mpi_pending *p = o->state;
    for (size_t i = 0; i < p->message_count; i++)
        p->messages[i].posted = p->messages[i].arrived = p->messages[i].freed = 0;
    for (size_t i = 0; i < p->merge_count; i++) p->merges[i].done = 0;
    p->round = 0;
    if (p->copy_bytes > 0 && p->copy_to != p->copy_from) WEFT_TRY(copy_own(o));
    return mpi_advance_rounds(o);
}

weft_status mpi_advance_rounds(weft_operation *o)
{
    mpi_pending *p = o->state;
    for (; p->round < p->round_count; p->round++) {
        bool ended = false;
        WEFT_TRY(advance_round(o, &p->rounds[p->round], &ended));
        if (!ended) return WEFT_OK;
    }
    o->done = true;
    return WEFT_OK;
}

bool mpi_stop_rounds(weft_operation *o)
{
    mpi_pending *p = o->state;
    bool quiet = true;
    if (p->round >= p->round_count) return true;
    const mpi_round *round = &p->rounds[p->round];
    for (int i = 0; i < round->messages; i++) {
        mpi_message *m = &p->messages[round->first_message + (size_t)i];
        for (int k = 0; k < WINDOW; k++) {
            int there = 0;
            if (m->requests[k] == MPI_REQUEST_NULL) continue;
            if (!m->out) (void)MPI_Cancel(&m->requests[k]);
            (void)MPI_Test(&m->requests[k], &there, MPI_STATUS_IGNORE);
            quiet = quiet && there;
        }
    }
    return quiet;
}

#else
typedef int weft_no_mpi_rounds; /* a file must not be empty */
#endif
