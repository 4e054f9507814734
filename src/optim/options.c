/* The defaults of optimizer options, and the checks of their numbers. */
#include <math.h>

#include "base/learning_rate.h"
#include "optim/rule.h"
#include "weft/registry.h"

void weft_optimizer_options_init_size(weft_optimizer_options *options, size_t size)
{
    const weft_optimizer_options ours = {
        .struct_size = sizeof(weft_optimizer_options),
        .name = "adam",
        .lr = 0.001,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .clock = {.pace = 1},
        .every = 1,
        .gamma = 0.1,
        .accumulate = 1,
        .schedule_keys = {10, 1e-4, 0, 0},
    };
    weft_give_struct(options, size, &ours, sizeof(ours));
}

static weft_status check_range(const char *name, double value, bool legal, const char *range)
{
    if (legal && isfinite(value)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s is %g, must be %s", name, value, range);
}

weft_status weft_optimizer_options_check(const weft_context *context,
                                         const weft_optimizer_options *o)
{
    const weft_rate_ops *schedule = weft_rate_schedule_at(context, o->schedule);
    if (!o->name || !*o->name)
        return weft_fail(WEFT_ERR_ARGUMENT, "the optimizer is %s, must be a name",
                         o->name ? "empty" : "NULL");
    if (!schedule)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the schedule is %d, must be from 0 to %d or the number of one that was "
                         "added",
                         o->schedule, weft_rate_schedule_count - 1);
    if ((unsigned)o->update > WEFT_UPDATE_ELSEWHERE)
        return weft_fail(WEFT_ERR_ARGUMENT, "the update is %d, must be from 0 to %d",
                         (int)o->update, WEFT_UPDATE_ELSEWHERE);
    WEFT_TRY(check_range("total", (double)o->total, o->total >= 0, "at least 0 steps"));
    WEFT_TRY(check_range("learning rate", o->lr, o->lr > 0, "a finite number above 0"));
    WEFT_TRY(check_range("momentum", o->momentum, o->momentum >= 0 && o->momentum < 1,
                         "from 0 up to but not including 1"));
    WEFT_TRY(check_range("weight decay", o->weight_decay, o->weight_decay >= 0, "at least 0"));
    WEFT_TRY(check_range("beta1", o->beta1, o->beta1 >= 0 && o->beta1 < 1,
                         "from 0 up to but not including 1"));
    WEFT_TRY(check_range("beta2", o->beta2, o->beta2 >= 0 && o->beta2 < 1,
                         "from 0 up to but not including 1"));
    WEFT_TRY(check_range("epsilon", o->epsilon, o->epsilon > 0, "above 0"));
    WEFT_TRY(
        check_range("clip norm", o->clip_norm, o->clip_norm >= 0, "at least 0 (0: no clipping)"));
    WEFT_TRY(check_range("gamma", o->gamma, o->gamma > 0, "above 0"));
    WEFT_TRY(check_range("floor", o->floor, o->floor >= 0, "at least 0"));
    WEFT_TRY(check_range("warmup", (double)o->warmup, o->warmup >= 0, "at least 0 steps"));
    if (schedule->rises && o->warmup > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "warmup is %lld, but the schedule '%s' rises by itself; leave warmup out, "
                         "or give another schedule",
                         (long long)o->warmup,
                         weft_context_name(context, WEFT_KIND_RATE, o->schedule));
    WEFT_TRY(check_range("total", (double)o->total, !schedule->ends || o->total > 0,
                         "at least 1 step with a schedule that ends there, such as cosine"));
    WEFT_TRY(check_range("clock.step", (double)o->clock.step, o->clock.step >= 0, "at least 0"));
    WEFT_TRY(check_range("clock.at", o->clock.at, o->clock.at >= 0, "at least 0"));
    WEFT_TRY(check_range("clock.pace", o->clock.pace, o->clock.pace > 0, "above 0"));
    WEFT_TRY(check_range("every", (double)o->every, o->every >= 1, "at least 1 step"));
    WEFT_TRY(check_range("average decay", o->average_decay,
                         o->average_decay >= 0 && o->average_decay < 1,
                         "from 0 up to but not including 1"));
    WEFT_TRY(check_range("accumulate", (double)o->accumulate, o->accumulate >= 1, "at least 1"));
    if (o->nesterov && o->momentum == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "Nesterov's method needs a momentum above 0");
    return WEFT_OK;
}
