/* Makes the consistency policy of a range (bsp, ssp, softsync, async) from its options, and gives
 * the learning rate of a stale update. */
#include <math.h>

#include "exchange/ps/range/range.h"

/* No run has more steps, so a larger bound counts as none. */
static const double MOST_STEPS = 1e15;

static const struct {
    const char *name;
    bool counts, bounds;
    weft_policy policy;
} policies[] = {
    {"bsp", false, false, {.count = 0, .bound = 0}},
    {"async", false, false, {.count = 1, .bound = WEFT_NO_BOUND}},
    {"softsync", true, false, {.count = 1, .bound = WEFT_NO_BOUND}},
    {"ssp", false, true, {.count = 1, .bound = 0}},
};
static const char *const scales[] = {
    [WEFT_SCALE_NONE] = "none", [WEFT_SCALE_INVERSE] = "inverse", [WEFT_SCALE_EXP] = "exp"};

static const char *policy_name(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(policies) ? policies[i].name : NULL;
}

static weft_status find_policy(const char *name, size_t *out)
{
    char near[256];
    for (size_t i = 0; i < WEFT_COUNT(policies); i++)
        if (strcmp(policies[i].name, name) == 0) {
            *out = i;
            return WEFT_OK;
        }
    return weft_fail(WEFT_ERR_ARGUMENT, "there is no policy=%s%s", name,
                     weft_suggest(near, sizeof(near), name, policy_name, NULL));
}

static weft_status set_scale(const char *name, double beta, weft_policy *out)
{
    size_t i = 0;
    while (i < WEFT_COUNT(scales) && strcmp(scales[i], name) != 0) i++;
    if (i == WEFT_COUNT(scales))
        return weft_fail(WEFT_ERR_ARGUMENT, "there is no scale=%s; it can be none, inverse or exp",
                         name);
    if (beta >= 0 && i != WEFT_SCALE_EXP)
        return weft_fail(WEFT_ERR_ARGUMENT, "beta is an option of scale=exp, not of scale=%s",
                         name);
    out->scale = (weft_scale)i;
    out->beta = beta < 0 ? 0.5 : beta;
    return WEFT_OK;
}

weft_status weft_policy_make(const char *name, double count, double bound, const char *scale,
                             double beta, weft_policy *out)
{
    size_t i;
    WEFT_TRY(find_policy(name, &i));
    *out = policies[i].policy;
    if (policies[i].counts != (count >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         count >= 0
                             ? "policy=%s has no c; softsync has one"
                             : "policy=%s needs c=, the number of updates that make a version",
                         name);
    if (policies[i].bounds != (bound >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         bound >= 0 ? "policy=%s has no bound; ssp has one"
                                    : "policy=%s needs bound=, the number of steps that a learner "
                                      "may be ahead of the slowest",
                         name);
    if (count >= 0) out->count = (int)count;
    if (bound >= 0) out->bound = bound > MOST_STEPS ? WEFT_NO_BOUND : (int64_t)bound;
    if (bound == 0) out->count = 0; /* as bsp: a version has one update of each learner */
    return set_scale(scale ? scale : "none", beta, out);
}

double weft_policy_rate(const weft_policy *p, int64_t staleness)
{
    if (staleness <= 0 || p->scale == WEFT_SCALE_NONE) return 1;
    if (p->scale == WEFT_SCALE_INVERSE) return 1 / (double)staleness;
    return exp(-p->beta * (double)staleness);
}
