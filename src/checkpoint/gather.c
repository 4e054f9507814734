/* What rank 0 gathers from the others: tensors of which each holds a part. */
#include "checkpoint/folder.h"

enum { PART_NUMBERS = 1 + 2 * WEFT_MAX_RANK }; /* has it; start; size */

typedef struct part {
    double numbers[PART_NUMBERS];
} part;

static weft_status gather_parts(weft_comm *ranks, const weft_store *store, int entry,
                                const char *name, part *all)
{
    int64_t counts[WEFT_MAX_RANKS], start[WEFT_MAX_RANK];
    part mine = {{0}};
    if (entry >= 0) {
        weft_shape whole;
        weft_type type = weft_store_type(store, entry);
        weft_store_part(store, entry, &whole, start);
        mine.numbers[0] = 1;
        for (int d = 0; d < whole.rank; d++) {
            mine.numbers[1 + d] = (double)start[d];
            mine.numbers[1 + WEFT_MAX_RANK + d] = (double)type.shape.dim[d];
        }
    }
    for (int r = 0; r < weft_comm_size(ranks); r++) counts[r] = PART_NUMBERS;
    return weft_comm_run(ranks, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                 .dtype = WEFT_F64,
                                                 .what = name,
                                                 .send = mine.numbers,
                                                 .receive = all,
                                                 .counts = counts});
}

/* Of ranks that hold the same part only the first gives it. */
static bool gives(const part *all, int rank)
{
    if (all[rank].numbers[0] == 0) return false;
    for (int r = 0; r < rank; r++) {
        bool same = true;
        for (int i = 0; i < PART_NUMBERS; i++)
            same = same && all[r].numbers[i] == all[rank].numbers[i];
        if (same) return false;
    }
    return true;
}

static weft_status take(weft_comm *ranks, const void *mine, const char *name,
                        const weft_type *whole, const part *all, int rank, void *data)
{
    int64_t start[WEFT_MAX_RANK];
    weft_shape shape = {.rank = whole->shape.rank};
    void *room;
    for (int d = 0; d < shape.rank; d++) {
        start[d] = (int64_t)all[rank].numbers[1 + d];
        shape.dim[d] = (int64_t)all[rank].numbers[1 + WEFT_MAX_RANK + d];
    }
    weft_type type = {whole->dtype, shape};
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &room));
    weft_status status = WEFT_OK;
    if (rank == weft_comm_rank(ranks))
        memcpy(room, mine, weft_type_bytes(&type));
    else
        status = weft_comm_run(ranks, &(weft_transfer){.kind = WEFT_RECEIVE,
                                                       .dtype = WEFT_U8,
                                                       .what = name,
                                                       .receive = room,
                                                       .count = (int64_t)weft_type_bytes(&type),
                                                       .peer = rank});
    if (status == WEFT_OK) weft_copy_part(whole, start, &shape, data, room, false);
    free(room);
    return status;
}

static weft_status give(weft_comm *ranks, const void *mine, int64_t bytes, const char *name)
{
    return weft_comm_run(
        ranks,
        &(weft_transfer){
            .kind = WEFT_SEND, .dtype = WEFT_U8, .what = name, .send = mine, .count = bytes});
}

/* What this rank has of it, or NULL. Where the data axis holds a range each, all of it take part.
 */
static weft_status read_part(const weft_store *store, int entry, weft_comm *data_axis,
                             weft_type *type, void **out)
{
    *out = NULL;
    if (entry < 0) return WEFT_OK;
    *type = weft_store_type(store, entry);
    WEFT_TRY(weft_new_aligned(weft_type_bytes(type), out));
    return weft_store_gather(store, entry, data_axis, *out);
}

weft_status weft_gather_tensor(const weft_comms *comms, const weft_store *store, const char *name,
                               const weft_type *whole, void *data)
{
    weft_comm *ranks = comms->learner;
    part *all;
    void *mine = NULL;
    weft_type type = {0};
    int n = weft_comm_size(ranks), me = weft_comm_rank(ranks), entry = weft_store_find(store, name);
    int64_t covered = 0;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = gather_parts(ranks, store, entry, name, all);
    if (status == WEFT_OK) status = read_part(store, entry, comms->axes[1], &type, &mine);
    for (int r = 0; r < n && status == WEFT_OK; r++) {
        int64_t count = 1;
        if (!gives(all, r)) continue;
        for (int d = 0; d < whole->shape.rank; d++)
            count *= (int64_t)all[r].numbers[1 + WEFT_MAX_RANK + d];
        covered += count;
        if (me == 0) status = take(ranks, mine, name, whole, all, r, data);
        if (me != 0 && r == me) status = give(ranks, mine, (int64_t)weft_type_bytes(&type), name);
    }
    free(mine);
    free(all);
    if (status == WEFT_OK && covered != weft_shape_elements(&whole->shape))
        return weft_fail(WEFT_ERR_INTERNAL, "the ranks hold %lld of the %lld elements of '%s'",
                         (long long)covered, (long long)weft_shape_elements(&whole->shape), name);
    return status;
}
