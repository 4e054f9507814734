/* Prepares halos: rows that windows of other ranks read, and the sums of their gradients. */
#include "program/transfer_bind.h"

/* The rows [*begin, *end) of the part of rank `owner` that windows of rank `reader` read; none if
 * *end is *begin. */
static void shared_rows(const transfer *t, int owner, int reader, int64_t *begin, int64_t *end)
{
    int64_t rows = attr(t, "whole");
    int n = (int)attr(t, "ranks");
    weft_halo_rows(t->of->node, reader, begin, end);
    *begin = WEFT_MAX(*begin, weft_part_start(rows, owner, n));
    *end = WEFT_MIN(*end, weft_part_start(rows, owner + 1, n));
    if (*end < *begin) *end = *begin;
}

/* A copy of `rows` rows from row `from` of one tensor to row `to` of the other. */
static copy own_rows(const transfer *t, around x, around y, int64_t from, int64_t to, int64_t rows,
                     weft_address in, weft_address out)
{
    size_t size = weft_dtype_size(t->of->dtype);
    return (copy){.count = x.outer,
                  .bytes = (size_t)(rows * x.inner) * size,
                  .from = weft_beyond(in, (size_t)(from * x.inner) * size),
                  .to = weft_beyond(out, (size_t)(to * y.inner) * size),
                  .from_step = (size_t)(x.size * x.inner) * size,
                  .to_step = (size_t)(y.size * y.inner) * size};
}

/* As on the host, the rank's own part is added before those that come from others. */
static void own_first(part_list *p, const weft_memory *own)
{
    for (int i = 1; i < p->count; i++) {
        if (p->block[i].memory != own) continue;
        far_range range = p->range[i];
        weft_address block = p->block[i];
        memmove(&p->range[1], &p->range[0], (size_t)i * sizeof(range));
        memmove(&p->block[1], &p->block[0], (size_t)i * sizeof(block));
        p->range[0] = range;
        p->block[0] = block;
    }
}

/* A halo between ranks whose devices have the rows: kernels pack the rows of each rank, and join
 * what comes with the rank's own rows, or add it to them. */
static weft_status bind_far_halo(transfer *t, const weft_address *in, const weft_address *out)
{
    int n = t->of->ranks, me = (int)attr(t, "index");
    int64_t *counts = t->counts, *receive_counts = t->counts + n, dim = attr(t, "dim"), unused;
    bool adds = t->of->node->op->transfer->adds;
    around x = around_dim(&weft_in(t->of->graph, t->of->node, 0)->shape, dim);
    around y = around_dim(&weft_out(t->of->graph, t->of->node, 0)->shape, dim);
    int64_t mine = weft_part_start(attr(t, "whole"), me, n), touched;
    weft_halo_rows(t->of->node, me, &touched, &unused);
    int64_t x_first = adds ? touched : mine, y_first = adds ? mine : touched;
    size_t size = weft_dtype_size(t->of->dtype);
    part_list sends, receives;
    for (int pass = 0; pass < 2; pass++) {
        size_t sent = 0, received = 0, own = 0;
        sends.count = receives.count = 0;
        for (int r = 0; r < n; r++) {
            int64_t b, e, rb, re;
            shared_rows(t, adds ? r : me, adds ? me : r, &b, &e);
            shared_rows(t, adds ? me : r, adds ? r : me, &rb, &re);
            weft_memory *to = r == me ? t->own_room : t->send_room;
            weft_memory *from = r == me ? t->own_room : t->receive_room;
            add_part(&sends, b - x_first, e - x_first, (weft_address){to, r == me ? 0 : sent});
            add_part(&receives, rb - y_first, re - y_first,
                     (weft_address){from, r == me ? 0 : received});
            counts[r] = r == me ? 0 : x.outer * x.inner * (e - b);
            receive_counts[r] = r == me ? 0 : y.outer * y.inner * (re - rb);
            if (r == me) own = (size_t)(x.outer * x.inner * (e - b)) * size;
            sent += (size_t)counts[r] * size;
            received += (size_t)receive_counts[r] * size;
        }
        if (pass > 0) break;
        WEFT_TRY(weft_transfer_make_room(t, sent, &t->send_room));
        WEFT_TRY(weft_transfer_make_room(t, received, &t->receive_room));
        WEFT_TRY(weft_transfer_make_room(t, own, &t->own_room));
        if (!t->comm) return WEFT_OK;
    }
    if (adds) own_first(&receives, t->own_room);
    WEFT_TRY(weft_transfer_pack(t, x, &sends, in[0], true, weft_far_split, &t->pack));
    WEFT_TRY(weft_transfer_pack(t, y, &receives, out[0], false,
                                adds ? weft_far_add_rows : weft_far_join, &t->unpack));
    return weft_transfer_prepare(
        t,
        (weft_transfer){
            .kind = WEFT_ALL_TO_ALL, .counts = counts, .receive_counts = receive_counts},
        (weft_address){t->send_room, 0}, (weft_address){t->receive_room, 0});
}

/* Prepares a halo or halo_add as an all-to-all: halo sends rows to the ranks whose windows read
 * them, halo_add sends the gradients of such rows back to their owners, which add them. */
weft_status weft_transfer_halo(transfer *t, const weft_address *in, const weft_address *out)
{
    if (t->of->space == SPACE_DEVICE) return bind_far_halo(t, in, out);
    int n = t->of->ranks, me = (int)attr(t, "index");
    int64_t *counts = t->counts, *receive_counts = t->counts + n, dim = attr(t, "dim");
    bool adds = t->of->node->op->transfer->adds;
    around x = around_dim(&weft_in(t->of->graph, t->of->node, 0)->shape, dim);
    around y = around_dim(&weft_out(t->of->graph, t->of->node, 0)->shape, dim);
    int64_t mine = weft_part_start(attr(t, "whole"), me, n), touched, unused;
    weft_halo_rows(t->of->node, me, &touched, &unused);
    int64_t x_first = adds ? touched : mine, y_first = adds ? mine : touched;
    size_t size = weft_dtype_size(t->of->dtype), sent = 0, received = 0;
    WEFT_TRY(WEFT_NEW(&t->before, n));
    WEFT_TRY(WEFT_NEW(&t->after, n));
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            WEFT_TRY(weft_transfer_make_room(t, sent, &t->send_room));
            WEFT_TRY(weft_transfer_make_room(t, received, &t->receive_room));
            if (!t->comm) return WEFT_OK;
            sent = received = 0;
        }
        for (int r = 0; r < n; r++) {
            int64_t b, e, rb, re;
            shared_rows(t, adds ? r : me, adds ? me : r, &b, &e);
            shared_rows(t, adds ? me : r, adds ? r : me, &rb, &re);
            if (r == me) {
                t->own = own_rows(t, x, y, b - x_first, b - y_first, e - b, in[0], out[0]);
                t->own.add = adds;
                e = b;
                re = rb;
            }
            counts[r] = x.outer * x.inner * (e - b);
            receive_counts[r] = y.outer * y.inner * (re - rb);
            if (pass == 1) {
                t->before[r] = weft_transfer_rows(t, x, b - x_first, e - x_first, in[0],
                                                  (weft_address){t->send_room, sent}, true);
                t->after[r] = weft_transfer_rows(t, y, rb - y_first, re - y_first, out[0],
                                                 (weft_address){t->receive_room, received}, false);
                t->after[r].add = adds;
            }
            sent += (size_t)counts[r] * size;
            received += (size_t)receive_counts[r] * size;
        }
    }
    t->before_count = t->after_count = n;
    t->zero = adds ? weft_host(out[0]) : NULL;
    t->zero_bytes = (size_t)(y.outer * y.size * y.inner) * size;
    return weft_transfer_prepare(
        t,
        (weft_transfer){
            .kind = WEFT_ALL_TO_ALL, .counts = counts, .receive_counts = receive_counts},
        (weft_address){t->send_room, 0}, (weft_address){t->receive_room, 0});
}
