/* Arrays like all parameters that the library allocates for an exchange, frees, and keeps in
 * checkpoints. */
#include "exchange/exchange.h"

typedef struct weft_kept_state {
    struct weft_kept_state *next;
    const char *name, *what;
    void *data;
    size_t bytes;
} weft_kept_state;

weft_status weft_exchange_parameters(const weft_store *store, weft_dtype *dtype, int64_t *count,
                                     size_t *bytes)
{
    void *data;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, dtype, &data, bytes));
    weft_store_unmap_read(store, data);
    *count = (int64_t)(*bytes / weft_dtype_size(*dtype));
    return WEFT_OK;
}

weft_status weft_exchange_keep(weft_exchange *e, const char *name, const char *what, void *out)
{
    weft_kept_state *kept, **end = &e->kept;
    weft_dtype dtype;
    int64_t count;
    WEFT_TRY(WEFT_NEW(&kept, 1));
    while (*end) end = &(*end)->next;
    *end = kept;
    kept->name = name;
    kept->what = what;
    WEFT_TRY(weft_exchange_parameters(e->setup.store, &dtype, &count, &kept->bytes));
    WEFT_TRY(weft_new_aligned(kept->bytes, &kept->data));
    memcpy(out, &kept->data, sizeof(kept->data));
    return WEFT_OK;
}

bool weft_exchange_kept_at(const weft_exchange *e, int *i, weft_exchange_state *out)
{
    for (const weft_kept_state *kept = e->kept; kept; kept = kept->next)
        if ((*i)-- == 0) {
            *out = (weft_exchange_state){.name = kept->name,
                                         .what = kept->what,
                                         .like_parameters = true,
                                         .alike = true,
                                         .data = kept->data,
                                         .bytes = kept->bytes};
            return true;
        }
    return false;
}

void weft_exchange_free_kept(weft_exchange *e)
{
    for (weft_kept_state *next, *kept = e->kept; kept; kept = next) {
        next = kept->next;
        free(kept->data);
        free(kept);
    }
}
