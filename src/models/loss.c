/* Registers the losses (cross_entropy, mse), and checks that a loss fits the kind of target,
 * classes or numbers. */
#include "base/registry.h"
#include "models/models.h"

static const weft_loss losses[] = {
    {"cross_entropy", "of classes: minus the logarithm of the true one's probability", true,
     "softmax_xent"},
    {"mse", "of numbers: the mean squared error", false, "mse"},
};

weft_status weft_losses_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(losses)];
    weft_context_extend(context, &weft_losses_extension);
    for (size_t i = 0; i < WEFT_COUNT(losses); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_LOSS,
                                  .name = losses[i].name,
                                  .summary = losses[i].summary,
                                  .ops = &losses[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(losses));
}

/* The default loss for a kind of target: the first registered one. */
static const weft_loss *usual(const weft_context *context, bool classes)
{
    const weft_entry *entry;
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_LOSS, i)); i++)
        if (((const weft_loss *)entry->ops)->classes == classes) return entry->ops;
    return NULL;
}

bool weft_loss_is_usual(const weft_context *context, const char *name)
{
    const weft_entry *entry;
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_LOSS, i)); i++)
        if (strcmp(entry->name, name) == 0)
            return usual(context, ((const weft_loss *)entry->ops)->classes) == entry->ops;
    return false;
}

weft_status weft_model_builder_set_loss(weft_model_builder *net, const char *name)
{
    const weft_context *context = net->graph->context;
    bool classes = net->options->classes > 0;
    const weft_entry *entry;
    net->loss = usual(context, classes);
    if (!name) return WEFT_OK;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_LOSS, name, strlen(name), &entry));
    const weft_loss *loss = entry->ops;
    if (loss->classes != classes)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         classes
                             ? "loss '%s' needs a target of numbers, and these data have classes; "
                               "give the numbers of a table or array as target=, or 'loss: %s'"
                             : "loss '%s' needs classes, and the target of these data is numbers; "
                               "give the classes of a table as label=, or 'loss: %s'",
                         name, net->loss->name);
    net->loss = loss;
    return WEFT_OK;
}
