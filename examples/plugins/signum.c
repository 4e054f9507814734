/* An optimizer and a schedule as a plug-in. signum (Bernstein et al. 2018) moves each parameter by
 * the sign of a momentum, which is what lion does with one decay rate and without weight decay;
 * sawtooth lets the learning rate fall along a line and begin anew, `decay-every` steps a tooth:
 *
 *   weft train --plugin ./libsignum.so --optimizer signum:beta=0.8 --lr 1e-3 \
 *     --lr-schedule sawtooth --decay-every 100 */
#include <math.h>
#include <stddef.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

/* --- optimizer --- */

enum { BETA };
static const weft_rule_key keys[] = {{"beta", 0.9, 0, 0.999999, false}, {.name = NULL}};

/* m = beta m + (1 - beta) gradient; w = w - rate sign(m) */
static void signum_update(weft_rule *rule, const weft_rule_values *v)
{
    weft_value m = weft->rule_moment(rule, "m");
    weft_value next = weft->rule_average(rule, m, v->gradient, v->keys[BETA]);
    weft_value sign = weft->rule_node(rule, "sign", &next, 1, NULL, 0);
    weft->rule_move(rule, weft->rule_shrunk(rule), sign);
    weft->assign(v->graph, m, next);
}

static const weft_optimizer_ops signum = {
    .struct_size = sizeof(weft_optimizer_ops), .keys = keys, .update = signum_update};

/* --- schedule --- */

static double sawtooth_rate(const weft_rate_options *options, double step, double done)
{
    double every = (double)options->every;
    (void)done;
    return options->lr * (1 - fmod(step - (double)options->warmup, every) / every);
}

static const weft_rate_ops sawtooth = {.struct_size = sizeof(weft_rate_ops), .rate = sawtooth_rate};

static const weft_entry entries[] = {{.kind = WEFT_KIND_OPTIMIZER,
                                      .name = "signum",
                                      .form = "signum[:beta=0.9]",
                                      .summary = "steps of one size by the sign of a momentum",
                                      .reads = "weight-decay",
                                      .ops = &signum},
                                     {.kind = WEFT_KIND_RATE,
                                      .name = "sawtooth",
                                      .summary = "falls along a line, again and again",
                                      .reads = "decay-every",
                                      .ops = &sawtooth},
                                     {.name = NULL}};

WEFT_PLUGIN(weft, entries);
