/* The learning rate of a run with more learners or a larger batch, by the rules of the field. */
#include <math.h>

#include "base/registry.h"
#include "optim/rule.h"
#include "train/sim/target.h"

/* The learners whose updates count as one of a larger batch: those of whose updates the exchange
 * applies the mean, or which meet to average their parameters within the run. */
static weft_status learners_as_one(weft_context *context, const char *exchange, int learners,
                                   double *out)
{
    weft_meetings m;
    *out = 1;
    if (!exchange || learners < 2) return WEFT_OK;
    WEFT_TRY(weft_exchange_averages(context, exchange, learners, out));
    WEFT_TRY(weft_exchange_meetings(context, exchange, &m));
    if (m.period > 0) *out = learners;
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

weft_status weft_batch_rule(weft_context *context, const weft_train_options *o, int learners,
                            double base, weft_rate_rule rule, double *batch, double *factor)
{
    double as_one, exponent;
    WEFT_TRY(learners_as_one(context, o->parallel.exchange, learners, &as_one));
    WEFT_TRY(exponent_of(context, o->update.optimizer, rule, &exponent));
    *batch = as_one * (double)o->length.batch;
    *factor = pow(*batch / (base > 0 ? base : (double)o->length.batch), exponent);
    return WEFT_OK;
}
