/* Carries the state of servers, of their optimizers and downlinks, through a learner: a pull brings
 * it into the learner's checkpoint, and the initialization of a range sends it from a loaded
 * checkpoint to the server. */
#include <stdio.h>

#include "exchange/flat_optimizer.h"
#include "exchange/ps/ps_exchange.h"

/* Whether a state of an optimizer for `count` parameters has a number for each parameter. */
static bool belongs_to_each(const weft_exchange_state *s, int64_t count)
{
    return s->type.shape.rank == 1 && s->type.shape.dim[0] == count;
}

/* Adds a state. All numbers of it have at first the value of a sample. Memory that begins as zeros
 * and is not written, as in a run without checkpoints, is not resident. */
static weft_status add_state(weft_ps_exchange *x, const weft_ps_exchange_state *like,
                             const void *sample, size_t sample_bytes)
{
    weft_ps_exchange_state *s = &x->states[x->state_count];
    *s = *like;
    s->bytes = s->like_parameters ? (size_t)x->count * weft_dtype_size(s->type.dtype)
                                  : weft_type_bytes(&s->type);
    WEFT_TRY(weft_new_bytes(&s->data, s->bytes, 1));
    x->state_count++;
    bool zero = s->bytes < sample_bytes || memcmp(s->data, sample, sample_bytes) == 0;
    for (size_t at = 0; !zero && at < s->bytes; at += sample_bytes)
        memcpy((char *)s->data + at, sample, sample_bytes);
    return WEFT_OK;
}

static weft_status list_optimizer(weft_ps_exchange *x, weft_flat_optimizer *sample, int64_t count)
{
    weft_exchange_state s;
    for (int i = 0; weft_flat_optimizer_state(sample, i, &s); i++) {
        weft_ps_exchange_state mine = {.what = "the optimizer state of the servers",
                                       .like_parameters = belongs_to_each(&s, count),
                                       .type = s.type};
        (void)snprintf(mine.name, sizeof(mine.name), "%s", s.name);
        WEFT_TRY(add_state(x, &mine, s.data,
                           mine.like_parameters ? weft_dtype_size(s.type.dtype) : s.bytes));
    }
    return WEFT_OK;
}

/* Adds the state of a downlink: the reference parameters, then what its codec keeps. */
static weft_status list_downlink(weft_ps_exchange *x, weft_codec *sample)
{
    weft_codec_state s;
    const double zero = 0;
    const weft_ps_exchange_state known = {.name = "known",
                                          .what = "the parameters that learners know of servers",
                                          .like_parameters = true,
                                          .downlink = true,
                                          .known = true,
                                          .type = {.dtype = x->dtype}};
    WEFT_TRY(add_state(x, &known, &zero, weft_dtype_size(x->dtype)));
    for (int i = 0; weft_downlink_codec_state(sample, i, &s); i++) {
        const bool each = s.extent == WEFT_CODEC_EACH, range = s.extent == WEFT_CODEC_RANGE;
        weft_ps_exchange_state mine = {.like_parameters = each || range,
                                       .of_range = range,
                                       .downlink = true,
                                       .type = {.dtype = each || range ? x->dtype : WEFT_F64}};
        uint64_t initial = 0;
        if (range) mine.initial = *(const double *)s.data;
        if (range)
            weft_number_put(x->dtype, &initial, 0, mine.initial);
        else if (!each)
            memcpy(&initial, s.data, sizeof(initial));
        weft_codec_state_name(mine.name, sizeof(mine.name), "downlink_", sample->ops->name, s.name);
        (void)snprintf(mine.what, sizeof(mine.what), "%s of the downlink's %s", s.what,
                       sample->ops->name);
        WEFT_TRY(add_state(x, &mine, &initial, weft_dtype_size(mine.type.dtype)));
    }
    return WEFT_OK;
}

weft_status weft_ps_exchange_list_states(weft_ps_exchange *x, weft_context *context,
                                         const weft_store *store,
                                         const weft_optimizer_options *optimizer)
{
    weft_flat_optimizer *sample;
    weft_codec *codec = NULL;
    weft_exchange_state s;
    const int64_t two = 2;
    int n = 0;
    WEFT_TRY(weft_flat_optimizer_open(context, store, optimizer, x->dtype, two,
                                      (weft_segment_list){0}, 0, &sample));
    while (weft_flat_optimizer_state(sample, n, &s)) n++;
    weft_status status = WEFT_NEW(&x->states, n + 1 + WEFT_CODEC_STATES);
    if (status == WEFT_OK) status = list_optimizer(x, sample, two);
    weft_flat_optimizer_close(&sample);
    if (status != WEFT_OK || weft_codec_is_plain(context, x->back)) return status;
    WEFT_TRY(weft_codec_open_back(context, x->back, x->dtype, 1, &codec));
    status = list_downlink(x, codec);
    weft_codec_close(&codec);
    return status;
}

/* Address and size of the part of a state that belongs to a range; of a number of the range, NULL
 * and the size of a double. */
static struct iovec part_of(const weft_ps_exchange *x, const weft_ps_exchange_state *s, int range)
{
    const weft_server_range *r = &x->ranges[range];
    size_t size = weft_dtype_size(s->type.dtype);
    if (s->of_range) return (struct iovec){NULL, sizeof(double)};
    if (!s->like_parameters) return (struct iovec){s->data, s->bytes};
    return (struct iovec){(char *)s->data + (size_t)r->begin * size, (size_t)r->count * size};
}

/* Gives all parameters of a range the number of the range. */
static void take_number(const weft_ps_exchange *x, const weft_ps_exchange_state *s, int range,
                        const void *from)
{
    const weft_server_range *r = &x->ranges[range];
    double number;
    memcpy(&number, from, sizeof(number));
    for (int64_t n = r->begin; n < r->begin + r->count; n++)
        weft_number_put(s->type.dtype, s->data, n, number);
}

/* The number of a range; a range of padding alone has that of a new codec. */
static double number_of(const weft_ps_exchange *x, const weft_ps_exchange_state *s, int range)
{
    const weft_server_range *r = &x->ranges[range];
    int64_t first = weft_codec_checkpoint_first(x->codec_states, r->begin);
    return first < r->begin + r->count ? weft_number_get(s->type.dtype, s->data, first)
                                       : s->initial;
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
        const weft_ps_exchange_state *s = &x->states[i];
        struct iovec part = part_of(x, s, range);
        if (s->of_range)
            take_number(x, s, range, from);
        else if (s->like_parameters || range == 0)
            memcpy(part.iov_base, from, part.iov_len);
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
        const double number = s->of_range ? number_of(x, s, range) : 0;
        const char *from = s->of_range ? (const char *)&number : part.iov_base;
        /* Without reference parameters from a checkpoint, the parameters are the first
         * reference. */
        if (s->known && !s->found)
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
    weft_ps_exchange_state *s = &x->states[i];
    *out = (weft_exchange_state){.name = s->name,
                                 .what = s->what,
                                 .like_parameters = s->like_parameters,
                                 .alike = true,
                                 .found = s->downlink ? &s->found : NULL,
                                 .type = s->type,
                                 .data = s->data,
                                 .bytes = s->bytes};
    return true;
}
