/* Finds out, before programs are made, between which ranks of a learner transfers run on devices:
 * where every rank's device reaches the memory of every other one, or all use a library for
 * collectives. All of them learn the same. */
#include <stdio.h>

#include "program/transfer.h"

/* The message of a rank to the others. */
typedef struct offer {
    weft_device *device; /* of a rank of this process */
    bool adds[WEFT_DTYPE_COUNT], packs[WEFT_DTYPE_COUNT];
    char library[64], hardware[64]; /* for collectives; "" without a library */
    weft_pointer_kind kind;         /* of addresses of its memory; 0: none */
} offer;

static weft_status gather(weft_comm *comm, const void *mine, size_t bytes, void *all)
{
    return weft_comm_run(comm,
                         WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                       .what = "the devices that reach each other's memory",
                                       .send = mine, .receive = all, .count = (int64_t)bytes));
}

/* Sets [i * n + j] of `matrix` to whether the device of rank i reaches that of rank j. */
static weft_status find(weft_comm *comm, const offer *mine, offer *all, bool *matrix)
{
    size_t n = (size_t)weft_comm_size(comm);
    bool *row;
    WEFT_TRY(WEFT_NEW(&row, n));
    weft_status status = gather(comm, mine, sizeof(*mine), all);
    for (size_t r = 0; r < n && status == WEFT_OK && weft_comm_is_far(comm); r++)
        row[r] = weft_device_reaches(mine->device, all[r].device);
    if (status == WEFT_OK) status = gather(comm, row, n * sizeof(*row), matrix);
    free(row);
    return status;
}

/* Whether all ranks use one library, and have a device each: fails if only some do. */
static weft_status agree_on_library(const offer *all, int n, bool *used)
{
    int with = -1, devices = 0;
    for (int r = 0; r < n; r++) {
        bool other = true;
        if (*all[r].library) with = r;
        for (int q = 0; q < r; q++) other = other && strcmp(all[q].hardware, all[r].hardware) != 0;
        devices += other;
    }
    *used = with >= 0;
    for (int r = 0; *used && r < n; r++)
        if (strcmp(all[r].library, all[with].library) != 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the device of rank %d adds up by %s, and that of rank %d by %s; all "
                             "ranks of a learner must do so by the same version of it, or none",
                             with, all[with].library, r,
                             *all[r].library ? all[r].library : "no library");
    if (!*used || devices == n) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s needs a device for each rank, and the %d ranks of a learner have %d; give "
                     "each rank one of its own (--device takes a list), or do without the library",
                     all[with].library, n, devices);
}

/* of: its `peers` and types become what all ranks have; NULL, as `library`: not wanted. */
static weft_status agree(weft_comm *comm, const offer *mine, bool *together, reach *of,
                         bool *library)
{
    size_t n = (size_t)weft_comm_size(comm), me = (size_t)weft_comm_rank(comm);
    offer *all;
    bool *matrix = NULL;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = WEFT_NEW(&matrix, n * n);
    if (status == WEFT_OK) status = find(comm, mine, all, matrix);
    if (status == WEFT_OK && library) status = agree_on_library(all, (int)n, library);
    *together = status == WEFT_OK;
    for (size_t i = 0; i < n * n && *together; i++) *together = matrix[i];
    for (size_t r = 0; r < n && of && status == WEFT_OK; r++) {
        of->peers[r] = matrix[me * n + r] && matrix[r * n + me];
        of->addresses = (r == 0 || of->addresses) && mine->kind && all[r].kind == mine->kind &&
                        comm->ops->reads && comm->ops->reads(mine->kind);
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
            of->adds[d] = of->adds[d] && all[r].adds[d];
            of->packs[d] = of->packs[d] && all[r].packs[d];
        }
    }
    free(matrix);
    free(all);
    return status;
}

static weft_status agree_on_axes(const weft_comms *comms, const offer *mine, reach *r)
{
    for (int mask = 0; mask < WEFT_MESH_MASKS; mask++) {
        weft_comm *comm = comms->axes[mask];
        if (comm && weft_comm_size(comm) > 1)
            WEFT_TRY(agree(comm, mine, &r->axes[mask], NULL, NULL));
    }
    return WEFT_OK;
}

/* Whether devices add up values of a type to the bits of the host, which rounds each sum; in a
 * chain of additions of bf16 they may round the last one alone. */
static bool sums_alike(weft_dtype dtype)
{
    return dtype == WEFT_F32 || dtype == WEFT_F64;
}

/* The part that a rank knows before it has asked the others. */
static weft_status alone(const schema *s, int ranks, reach **out)
{
    reach *r;
    weft_device *device = s->devices[0];
    WEFT_TRY(WEFT_NEW(&r, 1));
    for (int d = 0; d < WEFT_DTYPE_COUNT && !weft_device_shares(device); d++) {
        weft_dtype dtype = (weft_dtype)d;
        r->adds[d] = sums_alike(dtype) && weft_far_adds(device, dtype);
        r->packs[d] = (sums_alike(dtype) || dtype == WEFT_BF16) && weft_far_packs(device, dtype);
    }
    r->by = weft_collectives_library(device);
    weft_status status = WEFT_NEW(&r->peers, ranks);
    if (status == WEFT_OK)
        *out = r;
    else
        weft_reach_free(&r);
    return status;
}

weft_status weft_store_suppose_reach(weft_store *store, const bool *alike, int ranks)
{
    schema *s = store->schema;
    reach *r;
    if (s->reach) return WEFT_OK;
    bool all = weft_device_reaches(s->devices[0], s->devices[0]);
    WEFT_TRY(alone(s, ranks, &r));
    for (int i = 0; i < ranks; i++) {
        r->peers[i] = alike[i] && weft_device_reaches(s->devices[0], s->devices[0]);
        all = all && alike[i];
    }
    r->learner = all;
    for (int mask = 0; mask < WEFT_MESH_MASKS; mask++) r->axes[mask] = all;
    s->reach = r;
    return WEFT_OK;
}

weft_status weft_store_reach(weft_store *store, const weft_comms *comms, bool lasting)
{
    schema *s = store->schema;
    weft_comm *learner = comms->learner;
    weft_device *device = s->devices[0];
    bool library = false;
    if (s->reach || !learner || weft_comm_size(learner) < 2) return WEFT_OK;
    reach *r;
    WEFT_TRY(alone(s, weft_comm_size(learner), &r));
    offer mine = {.device = device};
    memcpy(mine.adds, r->adds, sizeof(mine.adds));
    memcpy(mine.packs, r->packs, sizeof(mine.packs));
    weft_status status = WEFT_OK;
    if (device->ops->memory && device->ops->pointer)
        (void)device->ops->pointer((weft_address){0}, &mine.kind);
    if (!lasting) r->by = NULL;
    if (r->by) {
        (void)snprintf(mine.library, sizeof(mine.library), "%s", r->by);
        status = device->ops->collectives->identify(device, mine.hardware, sizeof(mine.hardware));
    }
    if (status == WEFT_OK) status = agree(learner, &mine, &r->learner, r, &library);
    if (status == WEFT_OK && weft_comm_is_far(learner)) status = agree_on_axes(comms, &mine, r);
    if (status == WEFT_OK && library) status = weft_collectives_new(device, learner, &r->library);
    if (status == WEFT_OK)
        s->reach = r;
    else
        weft_reach_free(&r);
    return status;
}

void weft_reach_free(reach **given)
{
    if (*given) free((*given)->peers);
    if (*given) weft_collectives_free(&(*given)->library);
    free(*given);
    *given = NULL;
}

/* Whether the parts of a dimension lie one after the other. */
static bool contiguous(const weft_shape *s, int64_t dim)
{
    for (int d = 0; d < dim; d++)
        if (s->dim[d] != 1) return false;
    return true;
}

/* Whether the parts of each value that a transfer splits or joins lie one after the other. */
static bool unpacked(const weft_graph *graph, const weft_node *node)
{
    const weft_transfer_traits *traits = node->op->transfer;
    int64_t dim = weft_node_int(node, "dim", 0, 0);
    if (!weft_node_attr(node, "dim")) return true;
    return (traits->whole_in && contiguous(&weft_in(graph, node, 0)->shape, dim)) ||
           (traits->whole_out && contiguous(&weft_out(graph, node, 0)->shape, dim));
}

reach_way weft_reach_transfer(const schema *s, const weft_graph *graph, const weft_node *node,
                              weft_dtype dtype)
{
    const weft_transfer_traits *traits = node->op->transfer;
    const reach *r = s->reach;
    if (!r || s->on_host) return REACH_HOST;
    reach_way by_address = r->addresses && !traits->sums ? REACH_ADDRESS : REACH_HOST;
    if (traits->message)
        return r->peers[weft_node_int(node, "peer", 0, 0)] ? REACH_FAR : by_address;
    bool packs = r->packs[dtype] && weft_node_int(node, "ranks", 0, 0) <= WEFT_MAX_OUTPUTS &&
                 (!traits->adds || r->adds[dtype]);
    if (!unpacked(graph, node) && !packs) return REACH_HOST;
    /* Sums of virtual workers are those of the tree, on any number of ranks. */
    if (r->by && !(traits->sums && weft_node_int(node, "leaves", 0, 0) > 0)) return REACH_LIBRARY;
    bool axes = weft_node_attr(node, "axes");
    int mask = (int)weft_node_int(node, "axes", 0, 0) % WEFT_MESH_MASKS;
    bool all = axes ? r->axes[mask] : r->learner;
    return all && (!traits->sums || r->adds[dtype]) ? REACH_FAR : by_address;
}
