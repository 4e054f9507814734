/* Checks that the stores of all ranks in lock step contain only finite numbers. A finite loss does
 * not show this: the loss of a step is computed before that step's update, and a kernel's relu may
 * turn a NaN into 0. */
#include <stdio.h>

#include "learner/learner_internal.h"

typedef struct blemish {
    char name[200]; /* of this rank's first tensor that is not finite; empty: all are finite */
} blemish;

static weft_status find_nonfinite(const weft_rank *r, blemish *out)
{
    for (int i = 0; i < weft_store_count(r->store) && !out->name[0]; i++) {
        void *data;
        size_t bytes;
        weft_dtype dtype;
        WEFT_TRY(weft_store_map(r->store, i, &dtype, &data, &bytes));
        if (!weft_all_finite(dtype, data, bytes))
            (void)snprintf(out->name, sizeof(out->name), "%s", weft_store_name(r->store, i));
        weft_store_unmap_read(r->store, data);
    }
    return WEFT_OK;
}

weft_status weft_rank_check_finite(weft_rank *r)
{
    blemish mine = {""}, *all;
    int n = weft_comm_size(r->together), first = 0;
    WEFT_TRY(find_nonfinite(r, &mine));
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = weft_comm_run(
        r->together, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                   .what = "values that are not finite", .send = &mine,
                                   .receive = all, .count = (int64_t)sizeof(mine)));
    while (first < n && !all[first].name[0]) first++;
    if (status == WEFT_OK && first < n) {
        char rank[32] = "";
        if (n > 1) (void)snprintf(rank, sizeof(rank), " of rank %d", first);
        status =
            weft_fail(WEFT_ERR_NUMERIC,
                      "after step %lld '%s'%s holds a number that is not finite; nothing of it "
                      "is kept. A smaller --lr, --clip-norm or --warmup may help",
                      (long long)r->position.step, all[first].name, rank);
    }
    free(all);
    return status;
}
