/* Opens the ranges of a server, each with its update (the run's optimizer, or addition), its
 * optimizer state, and its downlink. */
#include "exchange/ps/host/range_factory.h"

#include "base/tree_sum.h"
#include "exchange/codec_checkpoint.h"
#include "exchange/flat_optimizer.h"

typedef struct made_range {
    weft_range *range;              /* belongs to the server; NULL: not open */
    weft_flat_optimizer *optimizer; /* NULL: updates are added */
    weft_dtype dtype;
    int64_t count;
    struct iovec *states;
    int state_count;
} made_range;

struct weft_range_factory {
    weft_range_factory_options options;
    made_range made[];
};

weft_status weft_range_factory_create(const weft_range_factory_options *options,
                                      weft_range_factory **out)
{
    size_t bytes = sizeof(**out) + (size_t)options->range_count * sizeof(*(*out)->made);
    WEFT_TRY(weft_new_bytes(out, 1, bytes));
    (*out)->options = *options;
    return WEFT_OK;
}

weft_range *weft_range_factory_range(const weft_range_factory *f, int number)
{
    return f->made[number].range;
}

const struct iovec *weft_range_factory_states(const weft_range_factory *f, int number, int *count)
{
    *count = f->made[number].state_count;
    return f->made[number].states;
}

const char *weft_range_factory_back(bool adds, const char *codec, const char *back)
{
    return adds ? "none" : weft_codec_back(codec, back);
}

/* --- updates --- */

static weft_status optimize(void *user, void *parameters, const void *mean, double rate)
{
    weft_flat_optimizer *optimizer = ((made_range *)user)->optimizer;
    (void)parameters; /* the optimizer's own memory */
    weft_flat_optimizer_scale_rate(optimizer, rate);
    return weft_flat_optimizer_run(optimizer, mean);
}

static void set_step(void *user, int64_t step)
{
    weft_flat_optimizer_set_step(((made_range *)user)->optimizer, step);
}

/* Additions have no learning rate; their policy does not scale. */
static weft_status add(void *user, void *parameters, const void *mean, double rate)
{
    const made_range *r = user;
    (void)rate;
    weft_tree_add(r->dtype, parameters, mean, parameters, r->count);
    return WEFT_OK;
}

static weft_status open_update(const weft_range_factory_options *o, int64_t begin, made_range *r,
                               weft_range_options *range, double *bytes)
{
    *r = (made_range){.dtype = range->dtype, .count = range->count};
    range->update = o->options.adds ? add : optimize;
    range->user = r;
    *bytes = 3 * (double)r->count * (double)weft_dtype_size(r->dtype);
    if (o->options.adds) return WEFT_OK;
    WEFT_TRY(weft_flat_optimizer_open(o->context, o->store, o->optimizer, r->dtype, r->count,
                                      o->segments, begin, &r->optimizer));
    WEFT_TRY(weft_flat_optimizer_bytes(r->optimizer, bytes));
    range->at = set_step;
    weft_flat_optimizer_buffers(r->optimizer, &range->parameters, &range->gradient);
    return WEFT_OK;
}

/* --- downlink and state --- */

/* Opens the downlink of a range; *out is NULL without a downlink codec. */
static weft_status open_downlink(const weft_range_factory_options *o, int64_t count, int64_t begin,
                                 weft_downlink **out)
{
    const char *back = weft_range_factory_back(o->options.adds, o->codec, o->back);
    weft_codec *codec;
    *out = NULL;
    if (weft_codec_is_plain(o->context, back)) return WEFT_OK;
    WEFT_TRY(weft_codec_open_back(o->context, back, o->dtype, count, &codec));
    weft_status status = weft_gaps_skip(o->gaps, codec, begin);
    if (status == WEFT_OK) return weft_downlink_open(codec, out);
    weft_codec_close(&codec);
    return status;
}

/* Lists the state of a range for pulls and snapshots: that of the optimizer, then that of the
 * downlink, in the order in which learners expect it (server_state.c). */
static weft_status list_states(made_range *r, weft_served *out)
{
    weft_exchange_state s;
    int n = 0;
    for (int i = 0; r->optimizer && weft_flat_optimizer_state(r->optimizer, i, &s); i++)
        n += weft_flat_optimizer_parts(r->optimizer, i, NULL);
    if (out->published) n += weft_downlink_parts(out->published, NULL);
    WEFT_TRY(WEFT_NEW(&r->states, WEFT_MAX(n, 1)));
    n = 0;
    for (int i = 0; r->optimizer && weft_flat_optimizer_state(r->optimizer, i, &s); i++)
        n += weft_flat_optimizer_parts(r->optimizer, i, &r->states[n]);
    if (out->published) n += weft_downlink_parts(out->published, &r->states[n]);
    out->states = r->states;
    out->state_count = r->state_count = n;
    return WEFT_OK;
}

/* --- ranges --- */

weft_status weft_range_factory_open(void *factory, int number, weft_served *out)
{
    weft_range_factory *f = factory;
    const weft_range_factory_options *o = &f->options;
    if (number >= o->range_count) return weft_fail(WEFT_ERR_FORMAT, "there is no range %d", number);
    made_range *r = &f->made[number];
    int64_t begin = weft_segments_cut(o->segments, o->count, number, o->range_count);
    int64_t end = weft_segments_cut(o->segments, o->count, number + 1, o->range_count);
    weft_range_options options = {.struct_size = sizeof(options),
                                  .policy = o->options.policy,
                                  .dtype = o->dtype,
                                  .count = end - begin};
    weft_status status =
        weft_codec_find(o->context, weft_codec_back(o->codec, NULL), &options.codec);
    if (status == WEFT_OK) status = open_update(o, begin, r, &options, &out->update_bytes);
    if (status == WEFT_OK) status = open_downlink(o, options.count, begin, &out->published);
    if (status == WEFT_OK) status = list_states(r, out);
    if (status == WEFT_OK) status = weft_range_create(&options, &r->range);
    out->range = r->range;
    out->frozen = weft_segments_frozen(o->segments, begin, end);
    if (status == WEFT_OK) out->codec = options.codec->name;
    if (status == WEFT_OK) return WEFT_OK;
    weft_downlink_close(&out->published);
    weft_range_factory_close(f, number);
    return status;
}

void weft_range_factory_close(void *factory, int number)
{
    made_range *r = &((weft_range_factory *)factory)->made[number];
    weft_flat_optimizer_close(&r->optimizer);
    free(r->states);
    *r = (made_range){0};
}
