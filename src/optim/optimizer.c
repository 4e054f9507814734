#include "weft/optim.h"

#include <math.h>
#include <stdio.h>

#include "base/registry.h"
#include "optim/optim.h"

/* The optimiser's part of a training graph under construction. */
typedef struct builder {
    weft_graph *graph;
    const weft_optimizer_options *options;
    weft_value lr, age; /* age: step count of the moments, or WEFT_NO_VALUE without moments */
} builder;

/* An optimiser. `update` adds the nodes that update one parameter. */
typedef struct optimizer {
    const char *name, *reads; /* reads: see weft_entry */
    void (*update)(builder *b, weft_value w, weft_value gradient);
} optimizer;

static weft_value node_of(const builder *b, weft_value w, const char *suffix, const char *op,
                          const weft_value *in, int count, const weft_attr *attrs, int attr_count)
{
    char *name = weft_graph_format(b->graph, "%s/%s", b->graph->values[w].name, suffix);
    weft_value out = weft_graph_node(b->graph, op, name, in, count, attrs, attr_count);
    free(name);
    return out;
}

static weft_value state_of(const builder *b, weft_value w, const char *suffix, weft_role role)
{
    weft_type type = *weft_value_type(b->graph, w);
    char *name = weft_graph_format(b->graph, "%s/%s", b->graph->values[w].name, suffix);
    weft_value state = weft_graph_own_leaf(b->graph, NULL, name, &type, role, w);
    free(name);
    return state;
}

static weft_value moment(const builder *b, weft_value w, const char *suffix)
{
    return state_of(b, w, suffix, WEFT_ROLE_OPTIMIZER);
}

/* Adds a counter of steps, which begins at 0. */
static weft_value count_of(weft_graph *g, const char *name, weft_role role)
{
    const weft_type scalar = {WEFT_I32, {0}};
    return weft_graph_own_leaf(g, NULL, name, &scalar, role, WEFT_NO_VALUE);
}

static void sgd_update(builder *b, weft_value w, weft_value gradient)
{
    const weft_optimizer_options *o = b->options;
    weft_attr attrs[] = {WEFT_ATTR_REAL("momentum", o->momentum),
                         WEFT_ATTR_REAL("decay", o->weight_decay),
                         WEFT_ATTR_INT("nesterov", o->nesterov)};
    if (o->momentum == 0) {
        weft_value in[] = {w, gradient, b->lr};
        weft_value next = node_of(b, w, "update", "sgd", in, 3, attrs, 3);
        weft_graph_assign(b->graph, w, next);
        return;
    }
    weft_value m = moment(b, w, "momentum"), in[] = {w, gradient, m, b->lr};
    weft_value next = node_of(b, w, "update", "sgd", in, 4, attrs, 3);
    weft_graph_assign(b->graph, w, next);
    weft_graph_assign(b->graph, m, next + 1);
}

/* The number of steps that the moments have seen, for their bias correction (Adam). When learners
 * synchronise and clear the moments, this count restarts, while the step of the run continues. */
static weft_value age_of_moments(builder *b)
{
    if (b->age == WEFT_NO_VALUE) b->age = count_of(b->graph, "moments/age", WEFT_ROLE_OPTIMIZER);
    return b->age;
}

static void adam_kind(builder *b, weft_value w, weft_value gradient, int kind)
{
    const weft_optimizer_options *o = b->options;
    weft_value m = moment(b, w, "m"), v = moment(b, w, "v");
    weft_value in[] = {w, gradient, m, v, b->lr, age_of_moments(b)};
    weft_attr attrs[] = {WEFT_ATTR_INT("kind", kind), WEFT_ATTR_REAL("beta1", o->beta1),
                         WEFT_ATTR_REAL("beta2", o->beta2), WEFT_ATTR_REAL("epsilon", o->epsilon),
                         WEFT_ATTR_REAL("decay", o->weight_decay)};
    weft_value next = node_of(b, w, "update", "adam", in, 6, attrs, 5);
    weft_graph_assign(b->graph, w, next);
    weft_graph_assign(b->graph, m, next + 1);
    weft_graph_assign(b->graph, v, next + 2);
}

static void adam_update(builder *b, weft_value w, weft_value g)
{
    adam_kind(b, w, g, 0);
}
static void adamw_update(builder *b, weft_value w, weft_value g)
{
    adam_kind(b, w, g, 1);
}

static const optimizer optimizers[] = {
    {"sgd", "momentum,nesterov", sgd_update},
    {"adam", "beta1,beta2,epsilon", adam_update},
    {"adamw", "beta1,beta2,epsilon", adamw_update},
};

static const struct {
    const char *name, *reads;
    weft_schedule_kind kind;
} rates[] = {
    {"constant", NULL, WEFT_SCHEDULE_CONSTANT},
    {"step", "decay-every,gamma", WEFT_SCHEDULE_STEP},
    {"cosine", "lr-floor", WEFT_SCHEDULE_COSINE},
};

weft_status weft_schedule_kind_of(const weft_context *context, const char *name,
                                  weft_schedule_kind *out)
{
    const weft_entry *entry;
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_RATE, name, strlen(name), &entry));
    *out = *(const weft_schedule_kind *)entry->ops;
    return WEFT_OK;
}

static weft_status rates_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(rates)];
    for (size_t i = 0; i < WEFT_COUNT(rates); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_RATE,
                                  .name = rates[i].name,
                                  .reads = rates[i].reads,
                                  .ops = &rates[i].kind};
    return weft_context_register(context, entries, WEFT_COUNT(rates));
}

weft_status weft_optimizers_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(optimizers)];
    for (size_t i = 0; i < WEFT_COUNT(optimizers); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_OPTIMIZER,
                                  .name = optimizers[i].name,
                                  .reads = optimizers[i].reads,
                                  .ops = &optimizers[i]};
    WEFT_TRY(rates_register(context));
    return weft_context_register(context, entries, WEFT_COUNT(optimizers));
}

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
    };
    weft_give_struct(options, size, &ours, sizeof(ours));
}

static weft_status check_range(const char *name, double value, bool legal, const char *range)
{
    if (legal && isfinite(value)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s is %g, must be %s", name, value, range);
}

static weft_status check_options(const weft_optimizer_options *o)
{
    if (!o->name || !*o->name)
        return weft_fail(WEFT_ERR_ARGUMENT, "the optimizer is %s, must be a name",
                         o->name ? "empty" : "NULL");
    if ((unsigned)o->schedule > WEFT_SCHEDULE_COSINE)
        return weft_fail(WEFT_ERR_ARGUMENT, "the schedule is %d, must be from 0 to %d",
                         (int)o->schedule, WEFT_SCHEDULE_COSINE);
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
    WEFT_TRY(check_range("total", (double)o->total,
                         o->schedule != WEFT_SCHEDULE_COSINE || o->total > 0,
                         "at least 1 step with the schedule cosine, which ends there"));
    WEFT_TRY(check_range("clock.step", (double)o->clock.step, o->clock.step >= 0, "at least 0"));
    WEFT_TRY(check_range("clock.at", o->clock.at, o->clock.at >= 0, "at least 0"));
    WEFT_TRY(check_range("clock.pace", o->clock.pace, o->clock.pace > 0, "above 0"));
    WEFT_TRY(check_range("every", (double)o->every, o->every >= 1, "at least 1 step"));
    WEFT_TRY(check_range("accumulate", (double)o->accumulate, o->accumulate >= 1, "at least 1"));
    if (o->nesterov && o->momentum == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "Nesterov's method needs a momentum above 0");
    return WEFT_OK;
}

weft_value weft_graph_step(weft_graph *g)
{
    WEFT_NEED_ELSE_AS(WEFT_NO_VALUE, "graph", g);
    if (g->error.status != WEFT_OK) return WEFT_NO_VALUE;
    if (g->step == WEFT_NO_VALUE) g->step = count_of(g, "step", WEFT_ROLE_COUNTER);
    return g->step;
}

static weft_value add_schedule(builder *b)
{
    const weft_optimizer_options *o = b->options;
    weft_attr attrs[] = {WEFT_ATTR_INT("kind", o->schedule), WEFT_ATTR_REAL("base", o->lr),
                         WEFT_ATTR_INT("warmup", o->warmup), WEFT_ATTR_INT("total", o->total),
                         WEFT_ATTR_INT("every", o->every),   WEFT_ATTR_REAL("gamma", o->gamma),
                         WEFT_ATTR_REAL("floor", o->floor),  WEFT_ATTR_INT("step", o->clock.step),
                         WEFT_ATTR_REAL("at", o->clock.at),  WEFT_ATTR_REAL("pace", o->clock.pace)};
    weft_value lr = weft_graph_node(b->graph, "schedule", "learning_rate", &b->graph->step, 1,
                                    attrs, WEFT_COUNT(attrs));
    if (b->graph->rate == WEFT_NO_VALUE) return lr;
    return weft_graph_node(b->graph, "mul", "scaled_rate", (weft_value[]){lr, b->graph->rate}, 2,
                           NULL, 0);
}

/* Adds the accumulation of a gradient over the micro-batches of a step, and returns the sum, which
 * the update reads. `keep` is 0 in the first micro-batch, and clears the sum. */
static weft_value accumulate(builder *b, weft_value w, weft_value gradient, weft_value keep)
{
    weft_value sum = state_of(b, w, "gradient_sum", WEFT_ROLE_SUM);
    weft_value in[] = {sum, gradient, keep};
    weft_graph_set_phase(b->graph, WEFT_PHASE_BACKWARD);
    weft_value next = node_of(b, w, "accumulate", "accumulate", in, 3, NULL, 0);
    weft_graph_assign(b->graph, sum, next);
    weft_graph_set_phase(b->graph, WEFT_PHASE_UPDATE);
    return next;
}

static weft_value clip_factor(builder *b, const weft_value *gradients, int count)
{
    weft_value total = WEFT_NO_VALUE;
    for (int i = 0; i < count; i++) {
        weft_value square = weft_graph_unary(b->graph, "sum_squares", "clip/square", gradients[i]);
        total = i == 0 ? square
                       : weft_graph_node(b->graph, "add_exact", "clip/sum",
                                         (weft_value[]){total, square}, 2, NULL, 0);
    }
    weft_attr norm = WEFT_ATTR_REAL("max_norm", b->options->clip_norm);
    return weft_graph_node(b->graph, "clip_factor", "clip/factor", &total, 1, &norm, 1);
}

static void update_all(builder *b, const optimizer *how, const weft_value *params,
                       weft_value *gradients, int count, weft_value keep)
{
    if (keep != WEFT_NO_VALUE)
        for (int i = 0; i < count; i++) gradients[i] = accumulate(b, params[i], gradients[i], keep);
    if (b->options->clip_norm > 0 && count > 0) {
        weft_value factor = clip_factor(b, gradients, count);
        for (int i = 0; i < count; i++)
            gradients[i] = weft_graph_node(b->graph, "scale_by", "clip/scaled",
                                           (weft_value[]){gradients[i], factor}, 2, NULL, 0);
    }
    for (int i = 0; i < count && b->options->update != WEFT_UPDATE_HERE; i++)
        weft_graph_export_gradient(b->graph, params[i], gradients[i]);
    for (int i = 0; i < count && b->options->update != WEFT_UPDATE_ELSEWHERE; i++)
        how->update(b, params[i], gradients[i]);
}

weft_status weft_optimizer_build(weft_graph *g, const weft_optimizer_options *given,
                                 weft_optimizer_values *out)
{
    WEFT_NEED_AS("graph, options, out", g, given, out);
    const weft_entry *how;
    weft_optimizer_options own, *options = &own;
    weft_optimizer_options_init(&own);
    WEFT_TAKE(weft_optimizer_options, given, lr, &own);
    WEFT_TRY(weft_graph_status(g));
    WEFT_TRY(check_options(options));
    if (!g->differentiated)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the graph has no gradients, so nothing would be trained; call "
                         "weft_graph_differentiate first");
    WEFT_TRY(weft_registry_find(g->context, WEFT_KIND_OPTIMIZER, options->name,
                                strlen(options->name), &how));
    weft_value *params, *gradients, keep = WEFT_NO_VALUE;
    int count = 0, values = weft_graph_value_count(g);
    const weft_type scalar = {g->real, {0}};
    WEFT_TRY(WEFT_NEW(&params, 2 * values));
    gradients = params + values;
    for (weft_value v = 0; v < values; v++) {
        if (g->values[v].kind != WEFT_VALUE_PARAM || g->values[v].gradient == WEFT_NO_VALUE)
            continue;
        params[count] = v;
        gradients[count++] = g->values[v].gradient;
    }
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    builder b = {.graph = g, .options = options, .age = WEFT_NO_VALUE};
    weft_value step = weft_graph_step(g);
    if (options->accumulate > 1)
        keep = g->micro =
            weft_graph_own_leaf(g, NULL, "keep", &scalar, WEFT_ROLE_DATA, WEFT_NO_VALUE);
    b.lr = add_schedule(&b);
    update_all(&b, how->ops, params, gradients, count, keep);
    weft_graph_assign(g, step, weft_graph_unary(g, "counter", "step/next", step));
    if (b.age != WEFT_NO_VALUE)
        weft_graph_assign(g, b.age, weft_graph_unary(g, "counter", "moments/age/next", b.age));
    weft_graph_set_phase(g, WEFT_PHASE_FORWARD);
    free(params);
    *out = (weft_optimizer_values){.step = step, .learning_rate = b.lr, .keep = keep};
    return weft_graph_status(g);
}
