/* Implements the unsharded parameters of a learner. The first of the ranks that hold the same part
 * of a parameter contributes it. */
#include "learner/unsharded_params.h"

void *weft_unsharded_at(const weft_unsharded_params *params, int i)
{
    return (char *)params->room + (size_t)params->tensors[i].at * weft_dtype_size(params->dtype);
}

/* Each rank writes its parts into a zeroed room, and an all-reduce adds the rooms up. */
weft_status weft_unsharded_gather(const weft_unsharded_params *params, const void *image)
{
    const weft_rank *r = params->rank;
    memset(params->room, 0, (size_t)params->total * weft_dtype_size(params->dtype));
    for (int i = 0; i < params->count; i++) {
        const weft_unsharded_tensor *t = &params->tensors[i];
        if (!t->gives) continue;
        WEFT_TRY(weft_store_gather(r->store, t->entry, image, NULL, 0, params->part));
        weft_copy_part(&t->type, t->start, &t->shape, weft_unsharded_at(params, i), params->part,
                       false);
    }
    return weft_comm_run(r->learner, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = params->dtype,
                                                   .what = "parameter shards of the learners",
                                                   .send = params->room, .receive = params->room,
                                                   .count = params->total));
}

weft_status weft_unsharded_spread(const weft_unsharded_params *params, bool unlimited)
{
    const weft_rank *r = params->rank;
    WEFT_TRY(weft_comm_run(
        r->learner, WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = params->dtype,
                                  .what = "parameters of the learners", .receive = params->room,
                                  .count = params->total, .unlimited = unlimited)));
    for (int i = 0; i < params->count; i++) {
        const weft_unsharded_tensor *t = &params->tensors[i];
        if (t->entry < 0) continue;
        weft_copy_part(&t->type, t->start, &t->shape, weft_unsharded_at(params, i), params->part,
                       true);
        WEFT_TRY(weft_store_write(r->store, t->entry, params->part));
    }
    return WEFT_OK;
}

/* A rank's part of a parameter, as the ranks compare them. */
typedef struct part {
    int64_t has, start[WEFT_MAX_RANK], size[WEFT_MAX_RANK];
} part;

static part part_of(const weft_unsharded_tensor *t)
{
    part mine = {.has = t->entry >= 0};
    for (int d = 0; d < t->shape.rank && mine.has; d++) {
        mine.start[d] = t->start[d];
        mine.size[d] = t->shape.dim[d];
    }
    return mine;
}

static weft_status list_tensors(weft_unsharded_params *params)
{
    const weft_rank *r = params->rank;
    int n = weft_graph_value_count(r->graph);
    WEFT_TRY(WEFT_NEW(&params->tensors, n + 1));
    for (int v = 0; v < n; v++) {
        if (weft_graph_value_kind(r->graph, v) != WEFT_VALUE_PARAM) continue;
        weft_unsharded_tensor *t = &params->tensors[params->count++];
        *t = (weft_unsharded_tensor){.name = weft_graph_value_name(r->graph, v),
                                     .type = weft_graph_value_type(r->graph, v),
                                     .at = params->total};
        params->total += weft_shape_elements(&t->type.shape);
        t->entry = weft_store_find(r->store, t->name);
        if (t->entry < 0) continue;
        weft_shape all;
        weft_store_part(r->store, t->entry, &all, t->start);
        t->shape = weft_store_type(r->store, t->entry).shape;
    }
    return WEFT_OK;
}

static weft_status find_givers(weft_unsharded_params *params)
{
    const weft_rank *r = params->rank;
    int ranks = weft_comm_size(r->learner), me = weft_comm_rank(r->learner);
    part *all;
    weft_status status = WEFT_NEW(&all, ranks);
    for (int i = 0; i < params->count && status == WEFT_OK; i++) {
        weft_unsharded_tensor *t = &params->tensors[i];
        part mine = part_of(t);
        status = weft_comm_run(r->learner,
                               WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                             .what = "parameter shards of the ranks", .send = &mine,
                                             .receive = all, .count = sizeof(mine)));
        t->gives = mine.has;
        for (int k = 0; k < me; k++)
            t->gives = t->gives && memcmp(&all[k], &mine, sizeof(mine)) != 0;
    }
    free(all);
    return status;
}

weft_status weft_unsharded_params_open(weft_unsharded_params *params, const weft_rank *rank)
{
    *params = (weft_unsharded_params){.rank = rank, .dtype = weft_graph_real(rank->graph)};
    WEFT_TRY(list_tensors(params));
    WEFT_TRY(find_givers(params));
    size_t all = (size_t)params->total * weft_dtype_size(params->dtype);
    WEFT_TRY(weft_new_aligned(all, &params->room));
    return weft_new_aligned(all, &params->part);
}

void weft_unsharded_params_close(weft_unsharded_params *params)
{
    free(params->tensors);
    free(params->room);
    free(params->part);
}

weft_status weft_unsharded_is_needed(const weft_rank *r, uint64_t layout, bool *out)
{
    bool first = weft_comm_rank(r->learner) == 0;
    double lacks = first && layout && weft_store_form(r->store) != layout;
    for (int v = 0; v < weft_graph_value_count(r->graph); v++) {
        if (weft_graph_value_kind(r->graph, v) != WEFT_VALUE_PARAM) continue;
        weft_type all = weft_graph_value_type(r->graph, v);
        int entry = weft_store_find(r->store, weft_graph_value_name(r->graph, v));
        weft_type mine = entry < 0 ? all : weft_store_type(r->store, entry);
        lacks += entry < 0 || weft_shape_elements(&mine.shape) != weft_shape_elements(&all.shape);
    }
    WEFT_TRY(weft_sum_over(r->learner, "sharding of the parameters", &lacks, 1));
    *out = lacks > 0;
    return WEFT_OK;
}
