/* Translates transfer nodes (ops/transfer.c) to operations of a communicator, and to the copies
 * that pack and unpack parts of tensors. */
#include "program/transfer_bind.h"
#include "program/walk.h"

/* A copy of positions [begin, end) of a dimension from a tensor to a dense block (`out`), or
 * back. */
copy weft_transfer_rows(const transfer *t, around a, int64_t begin, int64_t end,
                        weft_address tensor, weft_address block, bool out)
{
    size_t size = weft_dtype_size(t->of->dtype), row = (size_t)a.inner * size;
    size_t whole = (size_t)a.size * row, part = (size_t)(end - begin) * row;
    weft_address at = weft_beyond(tensor, (size_t)begin * row);
    copy c = {.count = a.outer, .bytes = part};
    c.from = out ? at : block;
    c.to = out ? block : at;
    c.from_step = out ? whole : part;
    c.to_step = out ? part : whole;
    return c;
}

/* The axes of its communicator; negative: the learner's. */
static int axes_of(const transfer *t)
{
    if (!weft_node_attr(t->of->node, "axes")) return -1;
    return (int)attr(t, "axes") % WEFT_MESH_MASKS;
}

/* Prepares the operation, on the device if its operands are there. */
static void *pointer_of(const transfer *t, weft_address address)
{
    weft_pointer_kind kind;
    return address.memory ? t->of->schema->devices[0]->ops->pointer(address, &kind) : NULL;
}

/* Adds what the operation of a planned transfer takes to the staging memory. */
static weft_status add_operation(transfer *t, weft_transfer what)
{
    const schema *s = t->of->schema;
    what.dtype = t->of->dtype;
    what.what = t->of->node->name;
    what.send = s; /* addresses that are not read */
    what.receive = (void *)t;
    if (s->engine && t->of->space == SPACE_HOST)
        t->room_bytes +=
            weft_comm_room_bytes(s->context, s->engine, &what, WEFT_MAX(t->of->ranks, 2));
    return WEFT_OK;
}

weft_status weft_transfer_prepare(transfer *t, weft_transfer what, weft_address send,
                                  weft_address receive)
{
    if (!t->comm) return add_operation(t, what);
    what.dtype = t->of->dtype;
    what.what = t->of->node->name;
    what.send = weft_host(send);
    what.receive = weft_host(receive);
    if (t->of->way == REACH_ADDRESS) {
        what.send = pointer_of(t, send);
        what.receive = pointer_of(t, receive);
        WEFT_TRY(weft_comm_prepare(t->comm, &what, &t->operation));
        t->operation->by_address = true;
        return WEFT_OK;
    }
    if (t->of->space == SPACE_HOST) return weft_comm_prepare(t->comm, &what, &t->operation);
    weft_collective *by = NULL;
    if (t->of->way == REACH_LIBRARY)
        WEFT_TRY(weft_collectives_open(t->of->schema->reach->library, t->comm, axes_of(t), &by));
    WEFT_TRY(weft_far_open(t->instance, &what, weft_comm_size(t->comm), weft_comm_rank(t->comm),
                           send, receive, by, &t->far));
    return weft_comm_prepare_far(t->comm, &what, weft_far_head(t->far), &t->operation);
}

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Allocates a staging buffer; without a communicator, in planning, it is only counted. */
weft_status weft_transfer_make_room(transfer *t, size_t bytes, weft_memory **out)
{
    t->room_bytes += rounded(bytes);
    return !t->comm ? WEFT_OK : weft_space_memory(t->of->schema, t->of->space, bytes, out);
}

static bool before(weft_address a, weft_address b)
{
    return a.memory == b.memory ? a.offset < b.offset : (char *)weft_host(a) < (char *)weft_host(b);
}

static bool same(weft_address a, weft_address b)
{
    return a.memory == b.memory && a.offset == b.offset;
}

/* Sorts values by address. Ranks with the same graph get the same order. */
static void by_address(const weft_address *in, int n, int *order)
{
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && before(in[i], in[order[at - 1]]); at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Gathers a number from all ranks, and sets `differs` if the numbers are not equal. */
static weft_status compare(transfer *t, uint64_t mine)
{
    uint64_t *all;
    int ranks = t->of->ranks;
    if (!t->comm) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&all, ranks));
    weft_status status = weft_comm_run(
        t->comm, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = t->of->node->name,
                               .send = &mine, .receive = all, .count = sizeof(mine)));
    for (int r = 0; r < ranks; r++) *t->differs = *t->differs || all[r] != all[0];
    free(all);
    return status;
}

/* Compares the layouts of a sum's operands between ranks. Layouts may differ if ranks have parts of
 * different shapes or different machines, and then the sum would add different elements. together:
 * the values are reduced as one range, in the order of their addresses instead of operands. */
static weft_status compare_layouts(transfer *t, const int *order, int n, int parts, bool together)
{
    uint64_t mine = together;
    for (int i = 0; i < n; i++) {
        const weft_layout *layout = t->of->head.in[order[i] * parts];
        mine = weft_mix(mine, weft_hash_text(layout->text));
        mine = weft_mix(mine, (uint64_t)layout->bytes + (uint64_t)order[i] * 7919);
    }
    return compare(t, mine);
}

/* Compares between ranks the element order of ranges that an all-gather joins. */
static weft_status compare_order(transfer *t)
{
    weft_value like = (weft_value)weft_node_int(t->of->node, "like", 0, WEFT_NO_VALUE);
    const weft_layout *order;
    if (like == WEFT_NO_VALUE) return WEFT_OK;
    int entry = weft_schema_find(t->of->schema, t->of->graph->values[like].name);
    if (entry < 0) return WEFT_OK;
    WEFT_TRY(weft_schema_order(t->of->schema, entry, &order));
    return compare(t, weft_hash_text(order->text));
}

/* Prepares an all-reduce. Values that are adjacent in memory, as gradients are, are reduced in
 * place as one range; others are packed. With virtual workers, the first subtree sums of all values
 * are packed first, then the second ones, and so on. */
static weft_status bind_all_reduce(transfer *t, const weft_address *in, const weft_address *out)
{
    int parts = (int)weft_node_int(t->of->node, "parts", 0, 1), n = t->of->node->in_count / parts;
    size_t total = 0, size = weft_dtype_size(t->of->dtype);
    int order[WEFT_GROUP_VALUES] = {0};
    bool together = parts == 1 && !attr(t, "plain");
    by_address(in, n, order);
    for (int i = 0; i < n; i++) {
        int k = order[i];
        together = together && same(in[k], weft_beyond(in[order[0]], total)) && same(in[k], out[k]);
        total += rounded(t->of->head.in[parts == 1 ? k : i * parts]->bytes);
    }
    weft_transfer what = {
        .kind = WEFT_ALL_REDUCE, .parts = parts, .leaves = (int)attr(t, "leaves")};
    if (n == 1) total = t->of->head.in[0]->bytes;
    what.count = (int64_t)(total / size);
    together = together || (n == 1 && parts == 1);
    if (attr(t, "compare")) WEFT_TRY(compare_layouts(t, order, n, parts, together));
    if (together) return weft_transfer_prepare(t, what, in[order[0]], out[order[0]]);
    WEFT_TRY(weft_transfer_make_room(t, total * (size_t)parts, &t->send_room));
    WEFT_TRY(weft_transfer_make_room(t, total, &t->receive_room));
    if (!t->comm) return add_operation(t, what);
    WEFT_TRY(WEFT_NEW(&t->before, n * parts));
    WEFT_TRY(WEFT_NEW(&t->after, n));
    for (int p = 0; p < parts; p++) {
        size_t at = 0;
        for (int i = 0; i < n; i++) {
            size_t bytes = t->of->head.in[i * parts]->bytes;
            t->before[t->before_count++] = (copy){.count = 1,
                                                  .bytes = bytes,
                                                  .from = in[i * parts + p],
                                                  .to = {t->send_room, (size_t)p * total + at}};
            if (p == 0)
                t->after[t->after_count++] =
                    (copy){.count = 1, .bytes = bytes, .from = {t->receive_room, at}, .to = out[i]};
            at += n == 1 ? total : rounded(bytes);
        }
    }
    return weft_transfer_prepare(t, what, (weft_address){t->send_room, 0},
                                 (weft_address){t->receive_room, 0});
}

/* Prepares kernels on the device between a tensor and its parts; from: the tensor is read. */
weft_status weft_transfer_pack(transfer *t, around a, const part_list *p, weft_address tensor,
                               bool from, pack_opener *make, packing *out)
{
    const far_rows rows = {t->of->dtype, a.outer, a.size, a.inner};
    if (p->count == 0) return WEFT_OK;
    out->at[from ? 0 : p->count] = tensor;
    for (int i = 0; i < p->count; i++) out->at[i + from] = p->block[i];
    return make(t->of->schema->devices[0], &rows, p->range, p->count, &out->graph);
}

/* Prepares the copies that split dimension `dim` of a tensor into one block for each rank (`out`),
 * or join the blocks. *room: the blocks in rank order; the tensor itself if they are contiguous in
 * it. */
static weft_status part_copies(transfer *t, const weft_shape *shape, int64_t dim,
                               weft_address tensor, bool out, int64_t *counts, weft_address *room)
{
    int n = t->of->ranks;
    around a = around_dim(shape, dim);
    size_t at = 0, size = weft_dtype_size(t->of->dtype);
    copy *list;
    for (int r = 0; r < n; r++)
        counts[r] =
            a.outer * a.inner * (weft_part_start(a.size, r + 1, n) - weft_part_start(a.size, r, n));
    *room = tensor;
    if (a.outer == 1) return WEFT_OK;
    WEFT_TRY(weft_transfer_make_room(t, (size_t)weft_shape_elements(shape) * size,
                                     out ? &t->send_room : &t->receive_room));
    if (!t->comm) return WEFT_OK;
    *room = (weft_address){out ? t->send_room : t->receive_room, 0};
    if (t->of->space == SPACE_DEVICE) {
        part_list p = {.count = 0};
        for (int r = 0; r < n; r++) {
            add_part(&p, weft_part_start(a.size, r, n), weft_part_start(a.size, r + 1, n),
                     weft_beyond(*room, at));
            at += (size_t)counts[r] * size;
        }
        return weft_transfer_pack(t, a, &p, tensor, out, out ? weft_far_split : weft_far_join,
                                  out ? &t->pack : &t->unpack);
    }
    WEFT_TRY(WEFT_NEW(&list, n));
    for (int r = 0; r < n; r++) {
        list[r] = weft_transfer_rows(t, a, weft_part_start(a.size, r, n),
                                     weft_part_start(a.size, r + 1, n), tensor,
                                     weft_beyond(*room, at), out);
        at += (size_t)counts[r] * size;
    }
    *(out ? &t->before : &t->after) = list;
    *(out ? &t->before_count : &t->after_count) = n;
    return WEFT_OK;
}

static weft_status bind_reduce_scatter(transfer *t, const weft_address *in, const weft_address *out)
{
    int64_t *counts = t->counts;
    weft_address room;
    if (attr(t, "compare")) WEFT_TRY(compare_layouts(t, (const int[]){0}, 1, 1, true));
    WEFT_TRY(part_copies(t, &weft_in(t->of->graph, t->of->node, 0)->shape, attr(t, "dim"), in[0],
                         true, counts, &room));
    return weft_transfer_prepare(t,
                                 (weft_transfer){.kind = WEFT_REDUCE_SCATTER,
                                                 .counts = counts,
                                                 .leaves = (int)attr(t, "leaves")},
                                 room, out[0]);
}

static weft_status bind_all_gather(transfer *t, const weft_address *in, const weft_address *out)
{
    int64_t *counts = t->counts;
    weft_address room;
    WEFT_TRY(compare_order(t));
    WEFT_TRY(part_copies(t, &weft_out(t->of->graph, t->of->node, 0)->shape, attr(t, "dim"), out[0],
                         false, counts, &room));
    return weft_transfer_prepare(t, (weft_transfer){.kind = WEFT_ALL_GATHER, .counts = counts},
                                 in[0], room);
}

static weft_status bind_all_to_all(transfer *t, const weft_address *in, const weft_address *out)
{
    int64_t *counts = t->counts, *receive_counts = t->counts + t->of->ranks;
    weft_address send, receive;
    WEFT_TRY(part_copies(t, &weft_in(t->of->graph, t->of->node, 0)->shape, attr(t, "dim"), in[0],
                         true, counts, &send));
    WEFT_TRY(part_copies(t, &weft_out(t->of->graph, t->of->node, 0)->shape, attr(t, "from"), out[0],
                         false, receive_counts, &receive));
    return weft_transfer_prepare(t,
                                 (weft_transfer){.kind = WEFT_ALL_TO_ALL,
                                                 .counts = counts,
                                                 .receive_counts = receive_counts},
                                 send, receive);
}

static weft_status bind_send(transfer *t, const weft_address *in, const weft_address *out)
{
    (void)out;
    return weft_transfer_prepare(
        t,
        (weft_transfer){.kind = WEFT_SEND,
                        .count = weft_shape_elements(&weft_in(t->of->graph, t->of->node, 0)->shape),
                        .peer = (int)attr(t, "peer"),
                        .tag = (int)attr(t, "tag")},
        in[0], (weft_address){0});
}

static weft_status bind_receive(transfer *t, const weft_address *in, const weft_address *out)
{
    (void)in;
    return weft_transfer_prepare(
        t,
        (weft_transfer){.kind = WEFT_RECEIVE,
                        .count =
                            weft_shape_elements(&weft_out(t->of->graph, t->of->node, 0)->shape),
                        .peer = (int)attr(t, "peer"),
                        .tag = (int)attr(t, "tag")},
        (weft_address){0}, out[0]);
}

static const struct kind {
    const char *op;
    weft_status (*bind)(transfer *t, const weft_address *in, const weft_address *out);
    weft_transfer_kind kind; /* of the communicator */
} kinds[] = {
    {"all_reduce", bind_all_reduce, WEFT_ALL_REDUCE},
    {"reduce_scatter", bind_reduce_scatter, WEFT_REDUCE_SCATTER},
    {"all_gather", bind_all_gather, WEFT_ALL_GATHER},
    {"all_to_all", bind_all_to_all, WEFT_ALL_TO_ALL},
    {"halo", weft_transfer_halo, WEFT_ALL_TO_ALL},
    {"halo_add", weft_transfer_halo, WEFT_ALL_TO_ALL},
    {"send", bind_send, WEFT_SEND},
    {"receive", bind_receive, WEFT_RECEIVE},
};

static const struct kind *find_kind(const weft_node *node)
{
    for (size_t i = 0; i < WEFT_COUNT(kinds); i++)
        if (strcmp(kinds[i].op, node->op->name) == 0) return &kinds[i];
    return NULL;
}

weft_transfer_kind weft_transfer_kind_of(const weft_node *node)
{
    const struct kind *kind = find_kind(node);
    return kind ? kind->kind : WEFT_BARRIER;
}

weft_status weft_transfer_place(transfer *t, const weft_address *in, const weft_address *out)
{
    const struct kind *kind = find_kind(t->of->node);
    if (!kind) return weft_node_fail(t->of->node, "cannot be transferred");
    WEFT_TRY(WEFT_NEW(&t->counts, 2 * (size_t)t->of->ranks));
    weft_status status = kind->bind(t, in, out);
    free(t->counts); /* the operation has copied them */
    t->counts = NULL;
    return status;
}
