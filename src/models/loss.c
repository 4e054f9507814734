/* The losses, by name: what is minimised, and what a target must be for it. */
#include "models/models.h"

static const weft_loss losses[] = {
    {"cross_entropy", "of classes: minus the logarithm of the true one's probability", true,
     "softmax_xent"},
    {"mse", "of numbers: the mean squared error", false, "mse"},
};

const char *weft_loss_name(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(losses) ? losses[i].name : NULL;
}

const char *weft_loss_summary(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(losses) ? losses[i].summary : NULL;
}

static const char *candidate(const void *user, int i)
{
    (void)user;
    return weft_loss_name(i);
}

/* The first that learns such targets. */
static const weft_loss *usual(bool classes)
{
    size_t i = 0;
    while (losses[i].classes != classes) i++;
    return &losses[i];
}

weft_status weft_net_set_loss(weft_net *net, const char *name)
{
    char near[256];
    bool classes = net->options->classes > 0;
    if (!name) {
        net->loss = usual(classes);
        return WEFT_OK;
    }
    for (size_t i = 0; i < WEFT_COUNT(losses); i++) {
        if (strcmp(losses[i].name, name) != 0) continue;
        net->loss = &losses[i];
        if (losses[i].classes == classes) return WEFT_OK;
        return weft_fail(WEFT_ERR_ARGUMENT,
                         classes
                             ? "loss '%s' needs a target of numbers, and these data have classes; "
                               "give the numbers of a table or array as target=, or 'loss: %s'"
                             : "loss '%s' needs classes, and the target of these data is numbers; "
                               "give the classes of a table as label=, or 'loss: %s'",
                         name, usual(classes)->name);
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "no loss is named '%s'%s", name,
                     weft_suggest(near, sizeof(near), name, candidate, NULL));
}
