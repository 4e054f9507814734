/* Gathers sharded tensors on rank 0 of a learner, for checkpoints. A mesh cuts a tensor into parts,
 * and with ZeRO the ranks of a data axis each hold only a range of their part. The first rank of
 * the data axis (the leader) gathers the ranges, whose order it knows, and sends the part to rank
 * 0. A rank whose store lacks the tensor sends nothing. */
#include "checkpoint/folder.h"
#include "program/program.h"

/* The part of a tensor that a rank holds, as all ranks exchange it; has: 0 if it holds none. */
typedef struct weft_part {
    int64_t has, start[WEFT_MAX_RANK], size[WEFT_MAX_RANK];
} weft_part;

weft_status weft_gathering_open(const weft_comms *comms, const weft_store *store,
                                weft_gathering *out)
{
    weft_comm *axis = comms->axes[1];
    int32_t leader = weft_comm_rank(comms->learner);
    int ranks = weft_comm_size(comms->learner);
    *out = (weft_gathering){.comms = comms, .store = store};
    weft_status status = WEFT_NEW(&out->parts, ranks);
    if (status == WEFT_OK && axis)
        status = weft_comm_run(axis, WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_I32,
                                                   .what = "who gathers ranges", .receive = &leader,
                                                   .count = 1));
    out->leader = leader;
    if (status != WEFT_OK) weft_gathering_close(out);
    return status;
}

void weft_gathering_close(weft_gathering *g)
{
    free(g->parts);
    *g = (weft_gathering){0};
}

static weft_status exchange_parts(const weft_gathering *g, int entry, const char *name)
{
    int64_t start[WEFT_MAX_RANK];
    weft_part mine = {0};
    if (entry >= 0) {
        weft_shape whole;
        weft_type type = weft_store_type(g->store, entry);
        weft_store_part(g->store, entry, &whole, start);
        mine.has = 1;
        for (int d = 0; d < whole.rank; d++) {
            mine.start[d] = start[d];
            mine.size[d] = type.shape.dim[d];
        }
    }
    return weft_comm_run(g->comms->learner,
                         WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = name,
                                       .send = &mine, .receive = g->parts, .count = sizeof(mine)));
}

/* Whether this rank sends its part: the first one of the ranks that hold the same part does. */
static bool sends_part(const weft_gathering *g, int rank)
{
    const weft_part *p = &g->parts[rank];
    if (p->has == 0) return false;
    for (int r = 0; r < rank; r++)
        if (memcmp(&g->parts[r], p, sizeof(*p)) == 0) return false;
    return true;
}

static weft_shape part_shape(const weft_part *p, const weft_type *whole, int64_t *start)
{
    weft_shape shape = {.rank = whole->shape.rank};
    for (int d = 0; d < shape.rank; d++) {
        start[d] = p->start[d];
        shape.dim[d] = p->size[d];
    }
    return shape;
}

/* The address of a part within the whole tensor if the part's elements are contiguous there; else
 * NULL. */
static void *place_of(const weft_type *whole, const int64_t *start, const weft_shape *shape,
                      void *data)
{
    int64_t at = 0;
    int d = shape->rank - 1;
    while (d >= 0 && shape->dim[d] == whole->shape.dim[d]) d--;
    for (d--; d >= 0; d--)
        if (shape->dim[d] != 1) return NULL;
    for (d = 0; d < shape->rank; d++) at = at * whole->shape.dim[d] + start[d];
    return (char *)data + (size_t)at * weft_dtype_size(whole->dtype);
}

size_t weft_gather_room(const weft_store *store, const char *name, const weft_type *whole,
                        bool writes)
{
    int entry = weft_store_find(store, name);
    size_t all = writes ? weft_type_bytes(whole) : 0;
    int64_t start[WEFT_MAX_RANK];
    weft_shape shape;
    if (entry < 0) return all;
    weft_type part = weft_store_type(store, entry);
    weft_store_part(store, entry, &shape, start);
    bool placed = writes && place_of(whole, start, &part.shape, &shape);
    return all + (placed ? 0 : weft_type_bytes(&part)) + weft_store_gather_room(store, entry);
}

/* Reads the part of this rank. If the ranks of the data axis hold a range of it each, this is a
 * gather on their leader, in which all of them take part. */
static weft_status read_own(const weft_gathering *g, int entry, const void *image, void *room)
{
    weft_comm *axis = weft_store_is_spread(g->store, entry) ? g->comms->axes[1] : NULL;
    return weft_store_gather(g->store, entry, image, axis, 0, room);
}

static weft_status send_part(const weft_gathering *g, int entry, const void *image,
                             const char *name)
{
    weft_type type = weft_store_type(g->store, entry);
    void *mine;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &mine));
    weft_status status = read_own(g, entry, image, mine);
    if (status == WEFT_OK)
        status =
            weft_comm_run(g->comms->learner,
                          WEFT_TRANSFER(.kind = WEFT_SEND, .dtype = WEFT_U8, .what = name,
                                        .send = mine, .count = (int64_t)weft_type_bytes(&type)));
    free(mine);
    return status;
}

/* On rank 0: receives a rank's part and copies it into the whole tensor, or receives it in place if
 * it is contiguous there. Rank 0 reads its own part from its store. */
static weft_status receive_part(const weft_gathering *g, int rank, int entry, const void *image,
                                const char *name, const weft_type *whole, void *data)
{
    int64_t start[WEFT_MAX_RANK];
    weft_shape shape = part_shape(&g->parts[rank], whole, start);
    weft_type type = {whole->dtype, shape};
    void *place = place_of(whole, start, &shape, data), *room = place;
    weft_status status = WEFT_OK;
    if (!place) WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &room));
    if (rank == 0)
        status = read_own(g, entry, image, room);
    else
        status = weft_comm_run(
            g->comms->learner,
            WEFT_TRANSFER(.kind = WEFT_RECEIVE, .dtype = WEFT_U8, .what = name, .receive = room,
                          .count = (int64_t)weft_type_bytes(&type), .peer = rank));
    if (place) return status;
    if (status == WEFT_OK) weft_copy_part(whole, start, &shape, data, room, false);
    free(room);
    return status;
}

weft_status weft_gather_tensor(const weft_gathering *g, const char *name, const weft_type *whole,
                               const void *image, void *data)
{
    int n = weft_comm_size(g->comms->learner), me = weft_comm_rank(g->comms->learner);
    int entry = weft_store_find(g->store, name);
    int64_t covered = 0, start[WEFT_MAX_RANK];
    WEFT_TRY(exchange_parts(g, entry, name));
    for (int r = 0; r < n; r++) {
        if (!sends_part(g, r)) continue;
        weft_shape shape = part_shape(&g->parts[r], whole, start);
        covered += weft_shape_elements(&shape);
        if (me == 0) WEFT_TRY(receive_part(g, r, entry, image, name, whole, data));
    }
    if (me != 0 && sends_part(g, me)) WEFT_TRY(send_part(g, entry, image, name));
    if (me != g->leader && entry >= 0 && weft_store_is_spread(g->store, entry) &&
        sends_part(g, g->leader))
        WEFT_TRY(read_own(g, entry, image, NULL));
    if (covered == weft_shape_elements(&whole->shape)) return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERNAL, "the ranks hold %lld of the %lld elements of '%s'",
                     (long long)covered, (long long)weft_shape_elements(&whole->shape), name);
}

/* Gathers one parameter on rank 0 of the learner, and calls fn there. */
static weft_status each_parameter(const weft_gathering *g, const weft_graph *graph, weft_value v,
                                  weft_parameter_fn *fn, void *user)
{
    const char *name = weft_graph_value_name(graph, v);
    weft_type type = weft_graph_value_type(graph, v);
    bool first = weft_comm_rank(g->comms->learner) == 0;
    void *data = NULL;
    if (first) WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &data));
    weft_status status = weft_gather_tensor(g, name, &type, NULL, data);
    if (status == WEFT_OK && first) status = fn(user, name, &type, data);
    free(data);
    return status;
}

weft_status weft_gather_parameters(const weft_comms *comms, const weft_store *store,
                                   const weft_graph *graph, weft_parameter_fn *fn, void *user)
{
    weft_gathering g;
    WEFT_TRY(weft_gathering_open(comms, store, &g));
    weft_status status = WEFT_OK;
    for (weft_value v = 0; v < weft_graph_value_count(graph) && status == WEFT_OK; v++)
        if (weft_graph_value_kind(graph, v) == WEFT_VALUE_PARAM)
            status = each_parameter(&g, graph, v, fn, user);
    weft_gathering_close(&g);
    return status;
}
