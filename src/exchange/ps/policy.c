/* The built-in consistency policies of ranges (bsp, ssp, softsync, async), and those that programs
 * and plug-ins add (weft/server_policy_ops.h); the policy of a name and options, and its learning
 * rate of a stale update. */
#include <math.h>

#include "base/registry.h"
#include "exchange/ps/range/range.h"

/* No run has more steps, so a larger bound counts as none. */
static const double MOST_STEPS = 1e15;

/* A version has an update of each learner: none is slower than its clock. */
static int whole_round(const weft_server_pending *w)
{
    return w->learners == 0 || w->slowest >= w->clock ? w->of_clock : 0;
}

/* A version has the first `count` updates, of fewer learners as many as there are learners. */
static int first_updates(const weft_server_pending *w)
{
    int count = w->learners ? WEFT_MIN(w->count, w->learners) : 1;
    return w->updates >= count ? count : 0;
}

/* Not slowest + bound, which may overflow: a clock in a forged message may be any number. */
static bool within_bound(const weft_server_waiting *w)
{
    return w->bound == WEFT_NO_BOUND || w->clock <= w->bound || w->clock - w->bound <= w->slowest;
}

static const weft_server_policy_ops bsp = {.struct_size = sizeof(bsp),
                                           .rounds = true,
                                           .complete = whole_round,
                                           .may_begin = within_bound},
                                    async = {.struct_size = sizeof(async),
                                             .complete = first_updates,
                                             .may_begin = within_bound},
                                    softsync = {.struct_size = sizeof(softsync),
                                                .counts = true,
                                                .complete = first_updates,
                                                .may_begin = within_bound},
                                    ssp = {.struct_size = sizeof(ssp),
                                           .bounds = true,
                                           .complete = first_updates,
                                           .may_begin = within_bound};
/* The rule with a bound of 0, where no learner is ahead of another. */
static const weft_server_policy_ops *const lockstep = &bsp;

static const struct {
    const char *name, *form, *help;
    const weft_server_policy_ops *ops;
} policies[] = {
    {"bsp", NULL, "a version has one update of each learner", &bsp},
    {"async", NULL, "each update makes a version", &async},
    {"softsync", "softsync,c=N", "c updates, of any learners, make a version", &softsync},
    {"ssp", "ssp,bound=N",
     "as async, but a learner waits while it is more than `bound` steps ahead of the slowest",
     &ssp},
};

static weft_status accept(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made)
{
    const weft_server_policy_ops *rule = ops;
    (void)context;
    (void)made;
    WEFT_TRY(weft_entry_need(entry, "complete", rule->complete));
    WEFT_TRY(weft_entry_need(entry, "may_begin", rule->may_begin));
    if (!rule->late || rule->rounds) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "its 'late' is set and 'rounds' is false, but only an update of a round can "
                     "be late; set rounds, or late to NULL");
}

static const weft_extension extension = {.kind = WEFT_KIND_SERVER_POLICY,
                                         .type = "weft_server_policy_ops",
                                         .size = sizeof(weft_server_policy_ops),
                                         .least = sizeof(weft_server_policy_ops),
                                         .accept = accept};

weft_status weft_server_policies_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(policies)];
    weft_context_extend(context, &extension);
    for (size_t i = 0; i < WEFT_COUNT(policies); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_SERVER_POLICY,
                                  .name = policies[i].name,
                                  .form = policies[i].form,
                                  .summary = policies[i].help,
                                  .ops = policies[i].ops};
    return weft_registry_add(context, entries, (int)WEFT_COUNT(policies));
}

static double inverse(double beta, double staleness)
{
    (void)beta;
    return 1 / staleness;
}

static double exponential(double beta, double staleness)
{
    return exp(-beta * staleness);
}

static weft_status set_scale(const char *name, double beta, weft_policy *out)
{
    static const struct {
        double (*factor)(double beta, double staleness);
        bool beta;
    } scales[] = {{NULL, false}, {inverse, false}, {exponential, true}};
    int i;
    WEFT_TRY(weft_choose("scale", name, "none,inverse,exp", NULL, &i));
    if (beta >= 0 && !scales[i].beta)
        return weft_fail(WEFT_ERR_ARGUMENT, "beta is an option of scale=exp, not of scale=%s",
                         name);
    out->scale = scales[i].factor;
    out->beta = beta < 0 ? 0.5 : beta;
    return WEFT_OK;
}

double weft_policy_versions(const weft_policy *policy, int learners, bool *has)
{
    bool round = policy->rule->complete == whole_round;
    bool first = policy->rule->complete == first_updates;
    *has = round || (first && policy->count <= 1);
    return round ? 1 : first ? learners / (double)WEFT_MAX(policy->count, 1) : 0;
}

bool weft_policy_waits(const weft_policy *policy)
{
    return !policy->rule->may_begin(
        &(weft_server_waiting){.clock = INT64_MAX / 2, .bound = policy->bound});
}

weft_status weft_policy_make(const weft_context *context, const char *name, double count,
                             double bound, const char *scale, double beta, weft_policy *out)
{
    const weft_entry *entry;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_SERVER_POLICY, name, strlen(name), &entry));
    const weft_server_policy_ops *rule = entry->ops;
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
    return staleness <= 0 || !p->scale ? 1 : p->scale(p->beta, (double)staleness);
}
