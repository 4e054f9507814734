/* The learning rate and the warm-up of a run with more learners or a larger batch, by the rules of
 * the field. */
#include <math.h>

#include "base/registry.h"
#include "optim/rule.h"
#include "train/sim/target.h"
#include "weft/rate_ops.h"

/* The learners whose samples an update has. Where the exchange applies the mean of several updates,
 * these are their learners. Learners that average their parameters after every step take the step
 * of all their samples, and those that never meet one of their own: with H steps between two
 * meetings an update counts as one of a learner and an H-th of each other. */
static weft_status learners_as_one(weft_context *context, const char *exchange, int learners,
                                   double *out)
{
    weft_meetings m;
    *out = 1;
    if (!exchange || learners < 2) return WEFT_OK;
    WEFT_TRY(weft_exchange_averages(context, exchange, learners, out));
    WEFT_TRY(weft_exchange_meetings(context, exchange, &m));
    if (m.period > 0) *out = 1 + (learners - 1) / (double)m.period;
    return WEFT_OK;
}

static weft_status exponent_of(const weft_context *context, const char *optimizer,
                               weft_rate_rule rule, double *out)
{
    const weft_entry *entry;
    *out = rule == WEFT_RATE_ROOT ? 0.5 : rule == WEFT_RATE_KEPT ? 0 : 1;
    if (rule != WEFT_RATE_USUAL) return WEFT_OK;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_OPTIMIZER, optimizer, strcspn(optimizer, ":"),
                                &entry));
    if (((const weft_optimizer *)entry->ops)->adaptive) *out = 0.5;
    return WEFT_OK;
}

/* Whether the learning rate begins low by the schedule or a warm-up that was given. */
static weft_status has_warmup(const weft_context *context, const weft_update_choice *u, bool *out)
{
    const weft_entry *entry;
    const char *name = u->lr_schedule;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_RATE, name, strcspn(name, ":"), &entry));
    *out = u->warmup > 0 || ((const weft_rate_ops *)entry->ops)->rises;
    return WEFT_OK;
}

/* The steps of five epochs (Goyal et al. 2017, of 90), but at most a tenth of the run. */
static weft_status find_warmup(weft_context *context, const weft_train_options *o, int64_t *out)
{
    enum { EPOCHS = 5 };
    weft_trainer *t;
    WEFT_TRY(weft_trainer_prepare(context, o, NULL, &t));
    int64_t all = o->length.batch * t->learners, epoch = (t->samples + all - 1) / all;
    *out = WEFT_MIN(EPOCHS * epoch, t->total_steps / 10);
    weft_trainer_destroy(&t);
    return WEFT_OK;
}

weft_status weft_batch_rule(weft_context *context, const weft_finalist *finalist, int learners,
                            double base, weft_rate_rule rule, double *batch, weft_train_options *o)
{
    const double MOST = 2; /* a factor without a warm-up */
    double as_one, exponent;
    bool warm;
    WEFT_TRY(learners_as_one(context, o->parallel.exchange, learners, &as_one));
    WEFT_TRY(exponent_of(context, o->update.optimizer, rule, &exponent));
    *batch = as_one * (double)o->length.batch;
    if (finalist->own_rate) return WEFT_OK;
    double factor = pow(*batch / (base > 0 ? base : (double)o->length.batch), exponent);
    o->update.lr *= factor;
    WEFT_TRY(has_warmup(context, &o->update, &warm));
    return factor > MOST && !warm ? find_warmup(context, o, &o->update.warmup) : WEFT_OK;
}
