/* The memory of an exchange with servers, for estimates: what its learners and its servers keep of
 * a shard of the model, and the messages under way; and what they do in a step, at least. */
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
    bool has;
    if (sizes->count == 0) return WEFT_OK;
    WEFT_TRY(of_ranges(x, sizes, &ranges, &state));
    WEFT_TRY(weft_codec_bytes(plan->context, codec, sizes->dtype, sizes->count, &out->learner));
    /* Gradients, the push of all ranges until it is acknowledged, and between processes the answer
     * to a pull, whose room the process keeps for the next one. */
    bool apart = plan->here == 1 && plan->learners > 1;
    out->learner += (2 + apart) * bytes;
    /* Beside the ranges, the answers to pulls, of a version more than are made in a step. */
    double versions = weft_policy_versions(&x->options.policy, plan->learners, &has);
    out->server = ranges * (1 + plan->replicas) + (apart ? 2 : 1 + versions) * bytes;
    /* For a checkpoint the first learner pulls the state of the servers, too. Ranges are answered
     * one after the other, and one is read while the next one comes, in the room of the answers of
     * steps. */
    double pieces = weft_server_ranges(sizes->count, sizes->dtype, WEFT_MAX(plan->servers, 1));
    if (sizes->saves) out->shared = state;
    if (sizes->saves) out->end = (bytes + state) * WEFT_MIN(2 / pieces, 1.0) - apart * bytes;
    /* Threads share messages. A process that serves has the pushes that make a version, or the
     * state that goes, which its queue has as a whole. Where a learner serves, its own push is
     * shared, and the next one has the room of its answers. */
    double pushes = plan->learners / WEFT_MAX(versions, 1);
    if (!plan->hosted)
        out->server += WEFT_MAX(pushes * bytes, bytes + (sizes->saves ? state : 0));
    else if (apart)
        out->server += WEFT_MAX(pushes - 2, 0.0) * bytes;
    return WEFT_OK;
}

/* The figures are those that the handlers of client/ and server/ report. A learner that goes on
 * alone between two pulls (local SGD) gets all parameters from the servers, others those that are
 * newer than theirs. The pulls of elastic updates are left out: a lower bound may lack them. */
void weft_ps_exchange_least(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                            weft_exchange_least *out)
{
    const weft_ps_options *o = &((const weft_ps_exchange *)exchange)->options;
    int learners = sizes->plan->learners, servers = WEFT_MAX(sizes->plan->servers, 1);
    double push = (double)WEFT_MAX(o->push, 1), fetch = (double)WEFT_MAX(o->fetch, 1);
    bool alone = !o->draw && fetch > 1, has;
    double versions = weft_policy_versions(&o->policy, learners, &has);
    out->pushes = o->draw ? 1 / fetch : 1 / push;
    if (!o->draw) out->pulls = alone ? 1 / fetch : has ? WEFT_MIN(1 / fetch, 1 / push) : 0;
    out->learner = (weft_handled){.encoded = 2 * out->pushes, .back = 2 * out->pulls};
    if (!o->draw && push > 1) out->learner.passed += 3;
    if (o->draw) out->learner.passed += 6 / fetch;
    if (alone) out->learner.passed += 7 * (1 - 1 / fetch);
    out->servers.decoded = 2 * out->pushes * learners;
    out->servers.passed = 3 * out->pushes * versions;
    out->pieces = weft_server_ranges(sizes->count, sizes->dtype, servers);
    out->host = weft_ps_host_of;
}
