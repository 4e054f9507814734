/* Serializes a range for a snapshot, and restores it on a replica. Numbers have the byte order of
 * this machine, since both servers must be machines of one kind to compute the same bits. */
#include "exchange/ps/range/range_internal.h"

/* Header of a serialized range; the fields count, begun and last are as in weft_range. */
typedef struct header {
    uint64_t mark; /* MARK, which names this format */
    int64_t count, version, begun, last;
    uint64_t members, staleness;
    uint64_t dtype;
} header;
static const uint64_t MARK = 0x34656e6172746677; /* "wftrane4" */

/* Added to dtype if `late` and perhaps a residual follow the header. */
static const uint64_t LATE = UINT64_C(1) << 32, RESIDUAL = UINT64_C(1) << 33;

/* A serialized learner. */
typedef struct member_card {
    int64_t id, slot, here, clock, sequence, met, stale;
} member_card;

static size_t padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static char *put(char *at, const void *data, size_t bytes)
{
    memcpy(at, data, bytes);
    return at + padded(bytes);
}

static size_t size_of(const weft_range *r)
{
    size_t late = (r->options.policy.rule->late ? sizeof(r->made) : 0) +
                  (r->residual ? padded(weft_range_bytes(r)) : 0);
    return sizeof(header) + late + padded(weft_range_bytes(r)) +
           r->member_count * sizeof(member_card) + r->staleness_count * sizeof(*r->staleness);
}

weft_status weft_range_save(const weft_range *r, weft_buffer **out)
{
    header h = {.mark = MARK,
                .count = r->options.count,
                .version = r->version,
                .begun = r->begun,
                .last = r->last,
                .members = r->member_count,
                .staleness = r->staleness_count,
                .dtype = (uint64_t)r->options.dtype | (r->options.policy.rule->late ? LATE : 0) |
                         (r->residual ? RESIDUAL : 0)};
    WEFT_TRY(weft_buffer_new(size_of(r), out));
    char *at = put((*out)->data, &h, sizeof(h));
    if (h.dtype & LATE) at = put(at, &r->made, sizeof(r->made));
    if (h.dtype & RESIDUAL) at = put(at, r->residual, weft_range_bytes(r));
    at = put(at, r->parameters, weft_range_bytes(r));
    for (size_t i = 0; i < r->member_count; i++) {
        const member *m = &r->members[i];
        member_card c = {m->id, m->slot, m->here, m->clock, m->sequence, m->met, m->stale};
        at = put(at, &c, sizeof(c));
    }
    for (size_t i = 0; i < r->staleness_count; i++)
        at = put(at, &r->staleness[i], sizeof(*r->staleness));
    return WEFT_OK;
}

/* Bytes that are still to be read. */
typedef struct rest {
    const char *at;
    size_t bytes;
} rest;

static bool get(rest *from, void *out, size_t bytes)
{
    if (from->bytes < padded(bytes)) return false;
    memcpy(out, from->at, bytes);
    from->at += padded(bytes);
    from->bytes -= padded(bytes);
    return true;
}

static weft_status fail_read(void)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "the snapshot of a range is truncated, or is of another range");
}

/* Reads `count` learners into a range that has none yet. */
static weft_status read_members(weft_range *r, rest *from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        member_card c;
        if (!get(from, &c, sizeof(c)) || c.id < 0 || c.id > UINT32_MAX || c.slot < 0 ||
            c.slot > INT32_MAX || c.clock < 0 || c.sequence < 0 || c.met < 0 || c.stale < 0 ||
            c.met > c.sequence)
            return fail_read();
        if (weft_range_find(r, (weft_actor_id)c.id)) return fail_read();
        WEFT_TRY(weft_range_add(r, &(member){.id = (weft_actor_id)c.id,
                                             .slot = (int)c.slot,
                                             .here = c.here != 0,
                                             .clock = c.clock,
                                             .sequence = c.sequence,
                                             .met = c.met,
                                             .stale = c.stale,
                                             .unknown = c.met}));
    }
    return WEFT_OK;
}

static weft_status read_rest(weft_range *r, const header *h, rest *from)
{
    r->version = h->version;
    r->begun = h->begun;
    r->last = h->last;
    if (h->staleness > WEFT_MOST_STALE + 1) return fail_read();
    WEFT_TRY(read_members(r, from, h->members));
    for (uint64_t i = 0; i < h->staleness; i++) {
        int64_t n;
        if (!get(from, &n, sizeof(n))) return fail_read();
        WEFT_TRY(WEFT_GROW(&r->staleness, &r->staleness_capacity, r->staleness_count));
        r->staleness[r->staleness_count++] = n;
    }
    return WEFT_OK;
}

/* Reads what follows the header of a range whose updates may be late. */
static weft_status read_late(weft_range *r, const header *h, rest *from)
{
    size_t bytes = weft_range_bytes(r);
    if (!(h->dtype & LATE) != !r->options.policy.rule->late) return fail_read();
    if (h->dtype & LATE && (!get(from, &r->made, sizeof(r->made)) || r->made < 0))
        return fail_read();
    if (!(h->dtype & RESIDUAL)) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(bytes, &r->residual));
    return get(from, r->residual, bytes) ? WEFT_OK : fail_read();
}

/* Swaps versions, clocks and lists of two ranges; each range keeps its buffers of parameters and
 * gradients. */
static void swap_lists(weft_range *a, weft_range *b)
{
    weft_range c = *a;
    a->version = b->version, b->version = c.version;
    a->begun = b->begun, b->begun = c.begun;
    a->made = b->made, b->made = c.made;
    a->residual = b->residual, b->residual = c.residual;
    a->last = b->last, b->last = c.last;
    a->members = b->members, b->members = c.members;
    a->member_count = b->member_count, b->member_count = c.member_count;
    a->member_capacity = b->member_capacity, b->member_capacity = c.member_capacity;
    a->places = b->places, b->places = c.places;
    a->waiting = b->waiting, b->waiting = c.waiting;
    a->waiting_count = b->waiting_count, b->waiting_count = c.waiting_count;
    a->waiting_capacity = b->waiting_capacity, b->waiting_capacity = c.waiting_capacity;
    a->staleness = b->staleness, b->staleness = c.staleness;
    a->staleness_count = b->staleness_count, b->staleness_count = c.staleness_count;
    a->staleness_capacity = b->staleness_capacity, b->staleness_capacity = c.staleness_capacity;
}

weft_status weft_range_load(weft_range *r, const void *data, size_t bytes, size_t *used)
{
    rest from = {data, bytes};
    weft_range_options options = r->options;
    weft_range *other;
    header h;
    size_t size = weft_range_bytes(r);
    if (!get(&from, &h, sizeof(h)) || h.mark != MARK || h.count != r->options.count ||
        (h.dtype & ~(LATE | RESIDUAL)) != (uint64_t)r->options.dtype || h.version < 0 ||
        h.begun < 0)
        return fail_read();
    options.parameters = options.gradient = r->parameters; /* never written: it makes no version */
    WEFT_TRY(weft_range_create(&options, &other));
    weft_status status = read_late(other, &h, &from);
    const char *parameters = from.at;
    if (status == WEFT_OK && from.bytes < padded(size)) status = fail_read();
    if (status == WEFT_OK) {
        from.at += padded(size);
        from.bytes -= padded(size);
        status = read_rest(other, &h, &from);
    }
    if (status == WEFT_OK) {
        swap_lists(r, other);
        memcpy(r->parameters, parameters, size);
        *used = bytes - from.bytes;
    }
    weft_range_destroy(&other);
    return status;
}
