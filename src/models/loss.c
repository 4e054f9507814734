/* Registers the losses, one row of the table each, builds those that are made of nodes, and checks
 * that a loss fits the kind of target, classes or numbers. */
#include "base/registry.h"
#include "base/spec.h"
#include "models/models.h"

static weft_value pair(weft_graph *g, const char *op, weft_value a, weft_value b)
{
    return weft_graph_node(g, op, NULL, (weft_value[]){a, b}, 2, NULL, 0);
}

static weft_value times(weft_graph *g, weft_value x, double factor)
{
    const weft_attr attr = WEFT_ATTR_REAL("factor", factor);
    return weft_graph_node(g, "scale", NULL, &x, 1, &attr, 1);
}

static weft_value clip(weft_graph *g, weft_value x, double bound)
{
    const weft_attr attrs[] = {WEFT_ATTR_REAL("min", -bound), WEFT_ATTR_REAL("max", bound)};
    return weft_graph_node(g, "clip", NULL, &x, 1, attrs, 2);
}

static weft_value number(weft_graph *g, double value)
{
    const weft_attr attr = WEFT_ATTR_REAL("value", value);
    return weft_graph_node(g, "constant", NULL, NULL, 0, &attr, 1);
}

static weft_value one(weft_graph *g, const char *op, weft_value x)
{
    return weft_graph_node(g, op, NULL, &x, 1, NULL, 0);
}

/* Reduces the last dimension; keep: to size 1. */
static weft_value over_last(weft_graph *g, const char *op, weft_value x, bool keep)
{
    if (weft_graph_status(g) != WEFT_OK) return WEFT_NO_VALUE;
    const weft_attr attrs[] = {WEFT_ATTR_INT("axes", weft_value_type(g, x)->shape.rank - 1),
                               WEFT_ATTR_INT("keep", 1)};
    return weft_graph_node(g, op, NULL, &x, 1, attrs, 1 + keep);
}

/* Whether each class is the label: [..., classes], for labels [...]. */
static weft_value is_label(weft_graph *g, weft_value labels, int64_t classes)
{
    const weft_type type = {WEFT_I32, weft_shape_of(1, &classes)};
    weft_attr shape = {.name = "shape"};
    int32_t *all;
    if (weft_graph_status(g) != WEFT_OK) return WEFT_NO_VALUE;
    weft_status status = WEFT_NEW(&all, classes);
    if (status != WEFT_OK) return weft_graph_stick(g, status);
    for (int64_t c = 0; c < classes; c++) all[c] = (int32_t)c;
    const weft_shape *s = &weft_value_type(g, labels)->shape;
    for (; shape.count < s->rank; shape.count++) shape.ints[shape.count] = s->dim[shape.count];
    shape.ints[shape.count++] = 1;
    const weft_attr data = weft_attr_tensor("data", &type, all);
    weft_value numbers = weft_graph_node(g, "constant", NULL, NULL, 0, &data, 1);
    free(all);
    return pair(g, "equal", weft_graph_node(g, "reshape", NULL, &labels, 1, &shape, 1), numbers);
}

/* -(1 - p)^gamma log p, for the probability p of the true class (Lin et al. 2017). */
static weft_value focal(weft_graph *g, weft_value logits, weft_value labels, double gamma)
{
    if (weft_graph_status(g) != WEFT_OK) return WEFT_NO_VALUE;
    const weft_shape *s = &weft_value_type(g, logits)->shape;
    weft_value truth = is_label(g, labels, s->dim[s->rank - 1]);
    weft_value moved = pair(g, "sub", logits, over_last(g, "reduce_max", logits, true));
    weft_value sum = one(g, "log", over_last(g, "reduce_sum", one(g, "exp", moved), true));
    weft_value in[] = {truth, pair(g, "sub", moved, sum), number(g, 0)};
    weft_value log_p = weft_graph_node(g, "where", NULL, in, 3, NULL, 0);
    log_p = over_last(g, "reduce_sum", log_p, false);
    weft_value rest = pair(g, "sub", number(g, 1), one(g, "exp", log_p));
    return times(g, pair(g, "mul", pair(g, "pow", rest, number(g, gamma)), log_p), -1);
}

/* |e| */
static weft_value l1(weft_graph *g, weft_value x, weft_value target, double unused)
{
    weft_value error = pair(g, "sub", x, target);
    (void)unused;
    return weft_graph_node(g, "abs", NULL, &error, 1, NULL, 0);
}

/* e^2 / 2 where |e| < delta, else delta (|e| - delta / 2): c (e - c / 2), where c is e, clipped. */
static weft_value huber(weft_graph *g, weft_value x, weft_value target, double delta)
{
    weft_value error = pair(g, "sub", x, target), c = clip(g, error, delta);
    return pair(g, "mul", c, pair(g, "sub", error, times(g, c, 0.5)));
}

/* q e where the target is above the prediction by e, else (q - 1) e (Koenker and Bassett 1978). */
static weft_value quantile(weft_graph *g, weft_value x, weft_value target, double q)
{
    weft_value above = pair(g, "sub", target, x);
    return pair(g, "maximum", times(g, above, q), times(g, above, q - 1));
}

/* The binary cross entropy of a logit, max(x, 0) - x t + log(1 + exp(-|x|)), which overflows
 * nowhere; -|x| is x - 2 max(x, 0), so that the slope is right at 0, too. */
static weft_value bce(weft_graph *g, weft_value x, weft_value target, double unused)
{
    weft_value most = one(g, "relu", x);
    weft_value below = one(g, "exp", pair(g, "sub", x, times(g, most, 2)));
    weft_value rest = one(g, "log", pair(g, "add", below, number(g, 1)));
    (void)unused;
    return pair(g, "add", pair(g, "sub", most, pair(g, "mul", x, target)), rest);
}

static const weft_loss losses[] = {
    {.name = "cross_entropy",
     .summary = "of classes: minus the logarithm of the true one's probability",
     .classes = true,
     .op = "softmax_xent"},
    {.name = "focal",
     .summary = "of classes: cross_entropy times (1 - p)^gamma for the true one's probability p",
     .classes = true,
     .build = focal,
     .form = "focal[:gamma=2]",
     .key = "gamma",
     .usual = 2,
     .low = 1,
     .high = 10},
    {.name = "mse", .summary = "of numbers: the mean squared error", .op = "mse"},
    {.name = "l1", .summary = "of numbers: the mean absolute error", .build = l1},
    {.name = "huber",
     .summary = "of numbers: half the squared error up to an error of delta, in units of the "
                "training deviation, and beyond that a line",
     .build = huber,
     .form = "huber[:delta=1]",
     .key = "delta",
     .usual = 1,
     .low = 1e-6,
     .high = 1e6},
    {.name = "quantile",
     .summary = "of numbers: least where the share q of the targets is below the prediction",
     .build = quantile,
     .form = "quantile[:q=0.5]",
     .key = "q",
     .usual = 0.5,
     .low = 0.001,
     .high = 0.999},
    {.name = "bce",
     .summary = "of several labels, each 0 or 1: the mean of their binary cross entropies",
     .binary = true,
     .build = bce},
};

weft_status weft_losses_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(losses)];
    weft_context_extend(context, &weft_losses_extension);
    for (size_t i = 0; i < WEFT_COUNT(losses); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_LOSS,
                                  .name = losses[i].name,
                                  .form = losses[i].form,
                                  .summary = losses[i].summary,
                                  .ops = &losses[i]};
    return weft_registry_add(context, entries, WEFT_COUNT(losses));
}

static bool same_kind(const weft_loss *loss, bool classes, bool binary)
{
    return loss->classes == classes && loss->binary == binary;
}

/* The default loss for a kind of target: the first registered one. */
static const weft_loss *usual(const weft_context *context, bool classes, bool binary)
{
    const weft_entry *entry;
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_LOSS, i)); i++)
        if (same_kind(entry->ops, classes, binary)) return entry->ops;
    return NULL;
}

bool weft_loss_is_usual(const weft_context *context, const char *name)
{
    const weft_entry *entry;
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_LOSS, i)); i++)
        if (strcmp(entry->name, name) == 0) {
            const weft_loss *loss = entry->ops;
            return usual(context, loss->classes, loss->binary) == loss;
        }
    return false;
}

weft_status weft_model_builder_set_loss(weft_model_builder *net, const char *name)
{
    const weft_context *context = net->graph->context;
    bool classes = net->options->classes > 0, binary = net->options->binary;
    const weft_entry *entry;
    net->loss = usual(context, classes, binary);
    if (net->options->loss) name = net->options->loss;
    if (!name) return WEFT_OK;
    size_t size = strcspn(name, ":");
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_LOSS, name, size, &entry));
    const weft_loss *loss = entry->ops;
    const weft_spec_key keys[] = {
        {.name = loss->key, .number = &net->loss_key, .low = loss->low, .high = loss->high},
        {.name = NULL}};
    net->loss_key = loss->usual;
    WEFT_TRY(weft_spec_parse_any(loss->name, name[size] ? name + size + 1 : "", keys));
    if (loss->binary != binary)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         binary ? "loss '%s' is not of labels of 0 and 1, as the targets of these "
                                  "data are; give 'loss: %s'"
                                : "loss '%s' needs several labels, each 0 or 1, as a table gives "
                                  "them by label=A+B; give 'loss: %s'",
                         name, net->loss->name);
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

weft_status weft_model_builder_build_loss(weft_model_builder *net, const weft_value in[3],
                                          weft_value *loss, weft_value *prediction)
{
    weft_graph *g = net->graph;
    weft_value each = net->loss->build(g, in[0], in[1], net->loss_key);
    WEFT_TRY(weft_graph_status(g));
    int rank = weft_value_type(g, each)->shape.rank;
    /* The loss of a sample of numbers is the mean over them; each label has one of its own. */
    bool classes = net->loss->classes;
    weft_attr own = {.name = "axes"}, all = {.name = "axes"};
    for (int i = 1; i < rank; i++) own.ints[own.count++] = i;
    for (int i = 0; i < (classes ? rank : 1); i++) all.ints[all.count++] = i;
    if (!classes) each = weft_graph_node(g, "reduce_mean", NULL, &each, 1, &own, 1);
    weft_value weighed = pair(g, "mul", each, in[2]);
    *loss = weft_graph_node(g, "reduce_sum", "loss", &weighed, 1, &all, 1);
    /* Both operators give whole predictions: none is a partial sum, nor cut along its numbers. */
    const weft_shape shape = weft_value_type(g, in[0])->shape;
    const weft_attr numbers[] = {WEFT_ATTR_INT("axis", shape.rank - 1), WEFT_ATTR_INT("start", 0),
                                 WEFT_ATTR_INT("stop", shape.dim[shape.rank - 1])};
    bool binary = net->loss->binary;
    *prediction =
        classes ? weft_graph_node(g, "softmax", "prediction", &in[0], 1, NULL, 0)
                : weft_graph_node(g, "slice", binary ? NULL : "prediction", &in[0], 1, numbers, 3);
    if (binary) *prediction = weft_graph_node(g, "sigmoid", "prediction", prediction, 1, NULL, 0);
    return weft_graph_status(g);
}
