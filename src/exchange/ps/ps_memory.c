/* The memory of an exchange with servers, for estimates: what its learners and its servers keep of
 * a shard of the model, and the messages under way. */
#include "exchange/flat_optimizer.h"
#include "exchange/ps/ps_exchange.h"

/* The bytes that servers keep of all ranges, once: the update with its moments (*state), or without
 * an optimizer parameters and gradients, and the downlink. */
static weft_status of_ranges(const weft_ps_exchange *x, const weft_exchange_sizes *sizes,
                             double *out, double *state)
{
    weft_context *context = sizes->plan->context;
    double bytes = (double)sizes->count * (double)weft_dtype_size(sizes->dtype), codec;
    const char *back =
        weft_range_factory_back(x->options.adds, sizes->plan->codec, sizes->plan->back);
    weft_optimizer_options plain = *sizes->optimizer;
    *state = 0;
    plain.clip_norm = 0;
    plain.accumulate = 1;
    plain.update = WEFT_UPDATE_HERE;
    plain.multipliers =
        NULL; /* in their place ranges have segments, and copies of what they join */
    if (x->options.adds)
        *out = 2 * bytes;
    else
        WEFT_TRY(weft_flat_optimizer_memory(context, sizes->store, &plain, sizes->dtype,
                                            sizes->count, out, state));
    if (!x->options.adds && sizes->optimizer->multipliers) *out += 2 * bytes;
    if (weft_codec_is_plain(context, back)) return WEFT_OK;
    WEFT_TRY(weft_codec_bytes(context, back, sizes->dtype, sizes->count, &codec));
    *out += codec + (double)weft_downlink_bytes(sizes->dtype, sizes->count);
    return WEFT_OK;
}

weft_status weft_ps_exchange_memory(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                                    weft_exchange_memory *out)
{
    const weft_ps_exchange *x = (const weft_ps_exchange *)exchange;
    const weft_exchange_plan *plan = sizes->plan;
    const char *codec = plan->codec && *plan->codec ? plan->codec : "none";
    double bytes = (double)sizes->count * (double)weft_dtype_size(sizes->dtype), ranges, state;
    if (sizes->count == 0) return WEFT_OK;
    WEFT_TRY(of_ranges(x, sizes, &ranges, &state));
    WEFT_TRY(weft_codec_bytes(plan->context, codec, sizes->dtype, sizes->count, &out->learner));
    /* Gradients, and the push of all ranges until it is acknowledged. */
    out->learner += 2 * bytes;
    /* Beside the ranges, the answers to pulls of two versions. */
    out->server = ranges * (1 + plan->replicas) + 2 * bytes;
    /* At the end the first learner pulls the state of the servers, too. */
    out->shared = state;
    out->end = bytes + state;
    return WEFT_OK;
}
