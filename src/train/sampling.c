/* Draws a token from logits: temperature, the k most probable tokens, and nucleus sampling
 * (Holtzman et al. 2020). */
#include "train/sampling.h"

#include <math.h>

weft_status weft_sampler_open(int tokens, weft_sampler *out)
{
    *out = (weft_sampler){.tokens = tokens};
    return WEFT_NEW(&out->candidates, tokens);
}

void weft_sampler_close(weft_sampler *sampler)
{
    free(sampler->candidates);
    sampler->candidates = NULL;
}

weft_status weft_sampling_check(const weft_sampling *s)
{
    WEFT_CHECK_ROOM("weft_sampling", s);
    if (!(s->temperature >= 0) || isinf(s->temperature))
        return weft_fail(WEFT_ERR_ARGUMENT, "the temperature is %g, must be 0 or more",
                         s->temperature);
    if (s->top_k < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "top-k is %lld, must be 0 or more",
                         (long long)s->top_k);
    if (!(s->top_p > 0) || s->top_p > 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "top-p is %g, must be above 0 and at most 1", s->top_p);
    return WEFT_OK;
}

/* The more probable one first; of equal ones the smaller token. */
static int by_probability(const void *a, const void *b)
{
    const weft_token_share *x = a, *y = b;
    if (x->probability != y->probability) return x->probability < y->probability ? 1 : -1;
    return x->token < y->token ? -1 : 1;
}

/* Fills the candidates with exp((logit - largest logit) / temperature), the most probable first.
 * temperature 0: the largest logits alone have a probability. */
static weft_status weigh(weft_sampler *d, const weft_sampling *s, const double *logits)
{
    double most = -INFINITY;
    for (int i = 0; i < d->tokens; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return weft_fail(WEFT_ERR_NUMERIC,
                             "the logit of token %d is %g; the model has diverged", i, logits[i]);
        most = fmax(most, logits[i]);
    }
    if (most == -INFINITY)
        return weft_fail(WEFT_ERR_NUMERIC,
                         "the logits of all tokens are -inf; the model has diverged");
    for (int i = 0; i < d->tokens; i++) {
        double below = logits[i] - most;
        double p = s->temperature > 0 ? exp(below / s->temperature) : below == 0;
        d->candidates[i] = (weft_token_share){.probability = p, .token = i};
    }
    qsort(d->candidates, (size_t)d->tokens, sizeof(*d->candidates), by_probability);
    return WEFT_OK;
}

weft_status weft_sampler_sample(weft_sampler *sampler, const weft_sampling *sampling,
                                const double *logits, int32_t *token)
{
    weft_sampler *d = sampler;
    WEFT_TRY(weft_sampling_check(sampling));
    WEFT_TRY(weigh(d, sampling, logits));
    if (!d->begun || d->seed != sampling->seed)
        weft_random_start(&d->random, (uint64_t)sampling->seed, 0);
    d->begun = true;
    d->seed = sampling->seed;
    int count = d->tokens;
    if (sampling->temperature == 0) count = 1;
    if (sampling->top_k > 0) count = (int)WEFT_MIN((int64_t)count, sampling->top_k);
    double all = 0, kept = 0;
    for (int i = 0; i < count; i++) all += d->candidates[i].probability;
    for (int i = 0; i < count; i++) {
        kept += d->candidates[i].probability;
        if (kept >= sampling->top_p * all) count = i + 1;
    }
    double at = weft_random_unit(&d->random) * kept;
    int i = 0;
    while (i < count - 1 && at >= d->candidates[i].probability)
        at -= d->candidates[i++].probability;
    *token = d->candidates[i].token;
    return WEFT_OK;
}
