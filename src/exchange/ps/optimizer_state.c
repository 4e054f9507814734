/* Carries the optimizer state of servers through a learner: a pull brings it into the learner's
 * checkpoint, and the initialization of a range sends it from a loaded checkpoint to the server. */
#include <stdio.h>

#include "exchange/flat_optimizer.h"
#include "exchange/ps/ps_exchange.h"

/* Whether a state of an optimizer for `count` parameters has a number for each parameter. */
static bool belongs_to_each(const weft_exchange_state *s, int64_t count)
{
    return s->type.shape.rank == 1 && s->type.shape.dim[0] == count;
}

static weft_status list(weft_ps_exchange *x, weft_flat_optimizer *sample, int64_t count)
{
    weft_exchange_state s;
    int n = 0;
    while (weft_flat_optimizer_state(sample, n, &s)) n++;
    WEFT_TRY(WEFT_NEW(&x->states, n + 1));
    for (; x->state_count < n; x->state_count++) {
        weft_ps_exchange_state *mine = &x->states[x->state_count];
        (void)weft_flat_optimizer_state(sample, x->state_count, &s);
        (void)snprintf(mine->name, sizeof(mine->name), "%s", s.name);
        mine->like_parameters = belongs_to_each(&s, count);
        mine->type = s.type;
        mine->bytes =
            mine->like_parameters ? (size_t)x->count * weft_dtype_size(s.type.dtype) : s.bytes;
        WEFT_TRY(weft_new_aligned(mine->bytes, &mine->data));
        /* All numbers of a state have the same initial value, that of the sample. */
        size_t one = mine->like_parameters ? weft_dtype_size(s.type.dtype) : s.bytes;
        for (size_t at = 0; at < mine->bytes; at += one)
            memcpy((char *)mine->data + at, s.data, one);
    }
    return WEFT_OK;
}

/* Adds the reference parameters of a compressed downlink as the last state. */
static weft_status list_known(weft_ps_exchange *x, const weft_context *context)
{
    weft_ps_exchange_state *known = &x->states[x->state_count];
    if (weft_codec_is_plain(context, x->back)) return WEFT_OK;
    *known = (weft_ps_exchange_state){.name = "known",
                                      .like_parameters = true,
                                      .type = {.dtype = x->dtype},
                                      .bytes = (size_t)x->count * weft_dtype_size(x->dtype),
                                      .known = true};
    WEFT_TRY(weft_new_aligned(known->bytes, &known->data));
    x->state_count++;
    return WEFT_OK;
}

weft_status weft_ps_exchange_list_states(weft_ps_exchange *x, weft_context *context,
                                         const weft_store *store,
                                         const weft_optimizer_options *optimizer)
{
    weft_flat_optimizer *sample;
    const int64_t two = 2;
    WEFT_TRY(weft_flat_optimizer_open(context, store, optimizer, x->dtype, two,
                                      (weft_segment_list){0}, 0, &sample));
    weft_status status = list(x, sample, two);
    weft_flat_optimizer_close(&sample);
    return status == WEFT_OK ? list_known(x, context) : status;
}

/* Address and size of the part of a state that belongs to a range. */
static struct iovec part_of(const weft_ps_exchange *x, const weft_ps_exchange_state *s, int range)
{
    const weft_server_range *r = &x->ranges[range];
    size_t size = weft_dtype_size(s->type.dtype);
    if (!s->like_parameters) return (struct iovec){s->data, s->bytes};
    return (struct iovec){(char *)s->data + (size_t)r->begin * size, (size_t)r->count * size};
}

weft_status weft_ps_exchange_take_state(void *ps, int range, const void *data, size_t bytes)
{
    weft_ps_exchange *x = ps;
    const char *from = data;
    size_t want = weft_ps_exchange_state_bytes(ps, range);
    if (bytes != want)
        return weft_fail(WEFT_ERR_FORMAT, "the state of range %d has %zu bytes, should have %zu",
                         range, bytes, want);
    for (int i = 0; i < x->state_count; i++) {
        struct iovec part = part_of(x, &x->states[i], range);
        if (x->states[i].like_parameters || range == 0) memcpy(part.iov_base, from, part.iov_len);
        from += part.iov_len;
    }
    return WEFT_OK;
}

size_t weft_ps_exchange_state_bytes(void *ps, int range)
{
    const weft_ps_exchange *x = ps;
    size_t bytes = 0;
    for (int i = 0; i < x->state_count; i++) bytes += part_of(x, &x->states[i], range).iov_len;
    return bytes;
}

weft_status weft_ps_exchange_give_state(void *ps, int range, void *data, size_t bytes)
{
    const weft_ps_exchange *x = ps;
    char *to = data;
    if (bytes != weft_ps_exchange_state_bytes(ps, range))
        return weft_fail(WEFT_ERR_INTERNAL, "room of %zu bytes for a state", bytes);
    for (int i = 0; i < x->state_count; i++) {
        const weft_ps_exchange_state *s = &x->states[i];
        struct iovec part = part_of(x, s, range);
        const char *from = part.iov_base;
        /* Without reference parameters from a checkpoint, the parameters are the first
         * reference. */
        if (s->known && !x->resumed_known)
            from = (const char *)x->parameters + (from - (const char *)s->data);
        memcpy(to, from, part.iov_len);
        to += part.iov_len;
    }
    return WEFT_OK;
}

void weft_ps_exchange_know(const weft_ps_exchange *x)
{
    for (int i = 0; i < x->state_count; i++)
        if (x->states[i].known) memcpy(x->parameters, x->states[i].data, x->states[i].bytes);
}

bool weft_ps_exchange_state_at(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    if (i >= x->state_count)
        return weft_codec_checkpoint_state(x->codec_states, i - x->state_count, out);
    const weft_ps_exchange_state *s = &x->states[i];
    *out = (weft_exchange_state){.name = s->name,
                                 .what = s->known ? "the parameters that learners know of servers"
                                                  : "the optimizer state of the servers",
                                 .like_parameters = s->like_parameters,
                                 .alike = true,
                                 .found = s->known ? &x->resumed_known : NULL,
                                 .type = s->type,
                                 .data = s->data,
                                 .bytes = s->bytes};
    return true;
}
