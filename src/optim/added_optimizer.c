/* Makes optimizers of those that programs and plug-ins add (weft/optim_ops.h), and checks schedules
 * of the learning rate (weft/rate_ops.h). */
#include <math.h>
#include <stddef.h>

#include "base/registry.h"
#include "optim/rule.h"
#include "weft/rate_ops.h"

/* The optimizer of an entry, and the struct that it was made of. */
typedef struct added_optimizer {
    weft_optimizer optimizer;
    const weft_optimizer_ops *ops;
} added_optimizer;

static void update(weft_rule *r)
{
    const added_optimizer *added = (const added_optimizer *)(const void *)r->optimizer;
    const weft_rule_values values = {.graph = r->graph,
                                     .parameter = r->w,
                                     .gradient = r->gradient,
                                     .learning_rate = r->lr,
                                     .keys = r->keys,
                                     .weight_decay = r->options->weight_decay,
                                     .momentum = r->options->momentum};
    weft_value moved = r->graph->values[r->w].assigned;
    added->ops->update(r, &values);
    if (weft_graph_status(r->graph) == WEFT_OK && r->graph->values[r->w].assigned == moved)
        (void)weft_graph_stick(
            r->graph, weft_fail(WEFT_ERR_INTERNAL,
                                "optimizer %s: its function 'update' gives '%s' no next value "
                                "(services->rule_move)",
                                added->optimizer.name, r->graph->values[r->w].name));
}

static weft_status check_key(const char *name, double initial, double low, double high, int index,
                             int most)
{
    if (index >= most) return weft_fail(WEFT_ERR_ARGUMENT, "it has more than %d keys", most);
    if (!*name || strpbrk(name, "=,: "))
        return weft_fail(WEFT_ERR_ARGUMENT, "its key '%s' has characters of lists", name);
    if (isfinite(low) && isfinite(high) && initial >= low && initial <= high) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "its key '%s' is %g at first, must be from %g to %g", name,
                     initial, low, high);
}

static weft_status accept_optimizer(weft_context *context, const weft_entry *entry,
                                    const void *given, void **made)
{
    const weft_optimizer_ops *ops = given;
    added_optimizer *added;
    (void)context;
    WEFT_TRY(weft_entry_need(entry, "update", ops->update));
    if ((unsigned)ops->need > WEFT_NEEDS_MATRIX)
        return weft_fail(WEFT_ERR_ARGUMENT, "its need is %d, must be from 0 to %d", (int)ops->need,
                         WEFT_NEEDS_MATRIX);
    for (int k = 0; ops->keys && ops->keys[k].name; k++) {
        const weft_rule_key *key = &ops->keys[k];
        WEFT_TRY(check_key(key->name, key->initial, key->low, key->high, k, WEFT_MOST_RULE_KEYS));
    }
    WEFT_TRY(WEFT_NEW(&added, 1));
    added->ops = ops;
    added->optimizer = (weft_optimizer){.name = entry->name,
                                        .summary = entry->summary,
                                        .form = entry->form,
                                        .reads = entry->reads,
                                        .keys = ops->keys,
                                        .need = ops->need,
                                        .update = update};
    *made = added;
    return WEFT_OK;
}

const weft_extension weft_optimizers_extension = {.kind = WEFT_KIND_OPTIMIZER,
                                                  .type = "weft_optimizer_ops",
                                                  .size = sizeof(weft_optimizer_ops),
                                                  .least = sizeof(weft_optimizer_ops),
                                                  .accept = accept_optimizer};

static weft_status accept_rate(weft_context *context, const weft_entry *entry, const void *given,
                               void **made)
{
    const weft_rate_ops *ops = given;
    (void)context;
    (void)made;
    WEFT_TRY(weft_entry_need(entry, "rate", ops->rate));
    for (int k = 0; ops->keys && ops->keys[k].name; k++) {
        const weft_rate_key *key = &ops->keys[k];
        WEFT_TRY(check_key(key->name, key->initial, key->low, key->high, k, WEFT_MOST_RATE_KEYS));
    }
    if (ops->measures < 0 || ops->measures > WEFT_MOST_MEASURES)
        return weft_fail(WEFT_ERR_ARGUMENT, "its state has %d numbers, must have from 0 to %d",
                         ops->measures, WEFT_MOST_MEASURES);
    return ops->measures > 0 ? weft_entry_need(entry, "measure", ops->measure) : WEFT_OK;
}

const weft_extension weft_rates_extension = {.kind = WEFT_KIND_RATE,
                                             .type = "weft_rate_ops",
                                             .size = sizeof(weft_rate_ops),
                                             .least = offsetof(weft_rate_ops, rises),
                                             .accept = accept_rate};
