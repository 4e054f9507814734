/* Implements reference-counted buffers. */
#include "actor/actor.h"

weft_status weft_buffer_new(size_t bytes, weft_buffer **out)
{
    weft_buffer *blob;
    WEFT_TRY(WEFT_NEW(&blob, 1));
    weft_status status = weft_new_aligned(bytes, &blob->data);
    if (status != WEFT_OK) {
        free(blob);
        return status;
    }
    blob->bytes = blob->room = bytes;
    atomic_init(&blob->holders, 1);
    *out = blob;
    return WEFT_OK;
}

bool weft_buffer_is_shared(const weft_buffer *blob)
{
    return blob && atomic_load_explicit(&blob->holders, memory_order_acquire) > 1;
}

weft_status weft_buffer_reuse(size_t bytes, weft_buffer **blob)
{
    weft_buffer *b = *blob;
    if (b && b->room >= bytes && !weft_buffer_is_shared(b)) {
        b->bytes = bytes;
        b->fixed = 0;
        return WEFT_OK;
    }
    weft_buffer_unref(blob);
    return weft_buffer_new(bytes, blob);
}

weft_status weft_buffer_wrap(void *data, size_t bytes, void (*release)(void *of, void *data),
                             void *of, weft_buffer **out)
{
    weft_status status = WEFT_NEW(out, 1);
    if (status != WEFT_OK) {
        release(of, data);
        return status;
    }
    (*out)->data = data;
    (*out)->bytes = bytes;
    (*out)->release = release;
    (*out)->of = of;
    atomic_init(&(*out)->holders, 1);
    return WEFT_OK;
}

weft_buffer *weft_buffer_ref(weft_buffer *blob)
{
    if (blob) atomic_fetch_add_explicit(&blob->holders, 1, memory_order_relaxed);
    return blob;
}

/* Whether a buffer holds much more memory than its contents need. Small foreign memory may be part
 * of a larger read from a socket, all of which stays allocated. */
static bool is_loose(const weft_buffer *blob)
{
    enum { READ_AT_ONCE = 16384 };
    return blob->room ? blob->room - blob->bytes > blob->bytes / 8 + 64
                      : blob->bytes < READ_AT_ONCE;
}

weft_status weft_buffer_compact(weft_buffer *blob, weft_buffer **out)
{
    if (!is_loose(blob)) {
        *out = weft_buffer_ref(blob);
        return WEFT_OK;
    }
    WEFT_TRY(weft_buffer_new(blob->bytes, out));
    if (blob->bytes > 0) memcpy((*out)->data, blob->data, blob->bytes);
    (*out)->fixed = blob->fixed;
    return WEFT_OK;
}

void weft_buffer_unref(weft_buffer **blob)
{
    weft_buffer *b = *blob;
    *blob = NULL;
    if (!b || atomic_fetch_sub_explicit(&b->holders, 1, memory_order_acq_rel) > 1) return;
    if (b->release)
        b->release(b->of, b->data);
    else
        free(b->data);
    free(b);
}
