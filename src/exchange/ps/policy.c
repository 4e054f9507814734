/* Makes the consistency policy of a range (bsp, ssp, softsync, async) from its options, and gives
 * the learning rate of a stale update. */
#include <math.h>

#include "exchange/ps/range/range.h"

/* No run has more steps, so a larger bound counts as none. */
static const double MOST_STEPS = 1e15;

/* A version has an update of each learner: none is slower than its clock. */
static int whole_round(const weft_policy *p, const weft_pending *w)
{
    (void)p;
    return w->learners == 0 || w->slowest >= w->clock ? w->of_clock : 0;
}

/* A version has the first `count` updates, of fewer learners as many as there are learners. */
static int first_updates(const weft_policy *p, const weft_pending *w)
{
    int count = w->learners ? WEFT_MIN(p->count, w->learners) : 1;
    return w->updates >= count ? count : 0;
}

/* Not slowest + bound, which may overflow: a clock in a forged message may be any number. */
static bool within_bound(const weft_policy *p, int64_t slowest, int64_t made, int64_t clock)
{
    (void)made;
    return p->bound == WEFT_NO_BOUND || clock <= p->bound || clock - p->bound <= slowest;
}

static const weft_policy_rule rules[] = {
    {"bsp", false, false, true, whole_round, within_bound, NULL},
    {"async", false, false, false, first_updates, within_bound, NULL},
    {"softsync", true, false, false, first_updates, within_bound, NULL},
    {"ssp", false, true, false, first_updates, within_bound, NULL},
};
/* The rule with a bound of 0, where no learner is ahead of another. */
static const weft_policy_rule *const lockstep = &rules[0];
static const char *const scales[] = {
    [WEFT_SCALE_NONE] = "none", [WEFT_SCALE_INVERSE] = "inverse", [WEFT_SCALE_EXP] = "exp"};

static const char *policy_name(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(rules) ? rules[i].name : NULL;
}

static weft_status find_rule(const char *name, const weft_policy_rule **out)
{
    char near[256];
    for (size_t i = 0; i < WEFT_COUNT(rules); i++)
        if (strcmp(rules[i].name, name) == 0) {
            *out = &rules[i];
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
    const weft_policy_rule *rule;
    WEFT_TRY(find_rule(name, &rule));
    /* Without late updates no learner is ahead of a round. */
    bool together = rule->rounds && !rule->late;
    *out = (weft_policy){
        .rule = rule, .count = rule->rounds ? 0 : 1, .bound = together ? 0 : WEFT_NO_BOUND};
    if (rule->counts != (count >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         count >= 0
                             ? "policy=%s has no c; softsync has one"
                             : "policy=%s needs c=, the number of updates that make a version",
                         name);
    if (rule->bounds != (bound >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         bound >= 0 ? "policy=%s has no bound; ssp has one"
                                    : "policy=%s needs bound=, the number of steps that a learner "
                                      "may be ahead of the slowest",
                         name);
    if (count >= 0) out->count = (int)count;
    if (bound >= 0) out->bound = bound > MOST_STEPS ? WEFT_NO_BOUND : (int64_t)bound;
    if (bound == 0) {
        out->rule = lockstep;
        out->count = 0;
    }
    return set_scale(scale ? scale : "none", beta, out);
}

double weft_policy_rate(const weft_policy *p, int64_t staleness)
{
    if (staleness <= 0 || p->scale == WEFT_SCALE_NONE) return 1;
    if (p->scale == WEFT_SCALE_INVERSE) return 1 / (double)staleness;
    return exp(-p->beta * (double)staleness);
}
