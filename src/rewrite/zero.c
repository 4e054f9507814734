/* ZeRO (Rajbhandari et al. 2020): the ranks of the data axis share out, as ranges of the elements
 * of each tensor, the optimizer's state (stage 1), also the gradients (2), and also the parameters
 * (3). */
#include "rewrite/rewrite.h"

static weft_status check(const weft_plan *p)
{
    int zero = p->options.zero;
    if (zero < 0 || zero > 3)
        return weft_fail(WEFT_ERR_ARGUMENT, "zero is %d, must be 0, 1, 2 or 3", zero);
    if (zero > 0 && p->size[AXIS_DATA] == 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "zero %d splits over the data axis, which has one rank; "
                         "give --mesh data=N",
                         zero);
    return WEFT_OK;
}

static weft_status begin(rewriter *r)
{
    int zero = r->plan->options.zero;
    r->ranges.state = zero >= 1;
    r->ranges.gradients = zero >= 2;
    r->ranges.parameters = zero >= 3;
    return WEFT_OK;
}

static weft_status updated_elsewhere(const weft_plan_options *o, const char *exchange)
{
    if (o->zero == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "zero shards the update over the ranks of a learner, but exchange %s "
                     "makes the update itself; give --zero 0",
                     exchange);
}

const weft_strategy weft_strategy_zero = {
    .check = check, .begin = begin, .updated_elsewhere = updated_elsewhere};
