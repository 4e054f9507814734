#include "weft/optim.h"

#include <stdio.h>

#include "base/learning_rate.h"
#include "base/registry.h"
#include "base/spec.h"
#include "optim/rule.h"

static const weft_optimizer *const optimizers[] = {
    &weft_optimizer_sgd,     &weft_optimizer_adam,      &weft_optimizer_adamw,
    &weft_optimizer_rmsprop, &weft_optimizer_adagrad,   &weft_optimizer_adadelta,
    &weft_optimizer_nadam,   &weft_optimizer_lion,      &weft_optimizer_lars,
    &weft_optimizer_lamb,    &weft_optimizer_adafactor, &weft_optimizer_muon,
};

/* Parses the keys of an entry NAME[:key=value,...], of which `arguments` are behind the colon;
 * NULL: none are given. what: the kind of the entry, for messages. */
static weft_status parse_keys(const char *what, const char *name, const char *arguments,
                              const weft_spec_key *keys)
{
    char *kind;
    if (!arguments) return WEFT_OK;
    WEFT_TRY(weft_format(&kind, "%s %s", what, name));
    weft_status status = weft_spec_parse(kind, arguments, keys);
    free(kind);
    return status;
}

/* The part of a specification behind its colon; NULL: it has none. */
static const char *arguments_of(const char *text)
{
    const char *colon = strchr(text, ':');
    return colon ? colon + 1 : NULL;
}

weft_status weft_optimizer_set_schedule(const weft_context *context, const char *text,
                                        weft_optimizer_options *options)
{
    WEFT_NEED(context, text, options);
    const weft_entry *entry;
    weft_spec_key all[WEFT_MOST_RATE_KEYS + 1] = {{.name = NULL}};
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_RATE, text, strcspn(text, ":"), &entry));
    const weft_rate_ops *s = entry->ops;
    int i = 0;
    while (weft_context_entry(context, WEFT_KIND_RATE, i) != entry) i++;
    options->schedule = i;
    for (int k = 0; s->keys && s->keys[k].name; k++) {
        options->schedule_keys[k] = s->keys[k].initial;
        all[k] = (weft_spec_key){.name = s->keys[k].name,
                                 .number = &options->schedule_keys[k],
                                 .low = s->keys[k].low,
                                 .high = s->keys[k].high,
                                 .integer = s->keys[k].integer};
    }
    return parse_keys("learning-rate schedule", entry->name, arguments_of(text), all);
}

static weft_status rates_register(weft_context *context)
{
    for (int i = 0; i < weft_rate_schedule_count; i++) {
        const weft_rate_schedule *s = &weft_rate_schedules[i];
        const weft_entry entry = {.kind = WEFT_KIND_RATE,
                                  .name = s->name,
                                  .form = s->form,
                                  .summary = s->summary,
                                  .reads = s->reads,
                                  .ops = &s->ops};
        WEFT_TRY(weft_registry_add(context, &entry, 1));
    }
    return WEFT_OK;
}

weft_status weft_optimizers_register(weft_context *context)
{
    weft_entry entries[WEFT_COUNT(optimizers)];
    for (size_t i = 0; i < WEFT_COUNT(optimizers); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_OPTIMIZER,
                                  .name = optimizers[i]->name,
                                  .form = optimizers[i]->form,
                                  .summary = optimizers[i]->summary,
                                  .reads = optimizers[i]->reads,
                                  .ops = optimizers[i]};
    weft_context_extend(context, &weft_optimizers_extension);
    weft_context_extend(context, &weft_rates_extension);
    WEFT_TRY(rates_register(context));
    return weft_registry_add(context, entries, WEFT_COUNT(optimizers));
}

/* Sets the optimizer and its keys from a text NAME[:key=value,...]. */
static weft_status find_optimizer(const weft_context *context, const char *text,
                                  const weft_optimizer **out, double keys[WEFT_MOST_RULE_KEYS])
{
    const weft_entry *entry;
    weft_spec_key all[WEFT_MOST_RULE_KEYS + 1] = {{.name = NULL}};
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_OPTIMIZER, text, strcspn(text, ":"), &entry));
    *out = entry->ops;
    for (int k = 0; (*out)->keys && (*out)->keys[k].name; k++) {
        const weft_rule_key *key = &(*out)->keys[k];
        keys[k] = key->initial;
        all[k] = (weft_spec_key){.name = key->name,
                                 .number = &keys[k],
                                 .low = key->low,
                                 .high = key->high,
                                 .integer = key->integer};
    }
    return parse_keys("optimizer", (*out)->name, arguments_of(text), all);
}

weft_status weft_optimizer_check(const weft_context *context, const char *text,
                                 weft_tensor_need *need)
{
    const weft_optimizer *found;
    double keys[WEFT_MOST_RULE_KEYS];
    WEFT_TRY(find_optimizer(context, text, &found, keys));
    *need = found->need;
    return WEFT_OK;
}

/* Adds a counter of steps, which begins at 0. */
static weft_value count_of(weft_graph *g, const char *name, weft_role role)
{
    const weft_type scalar = {WEFT_I32, {0}};
    return weft_graph_own_leaf(g, NULL, name, &scalar, role, WEFT_NO_VALUE);
}

weft_value weft_graph_step(weft_graph *g)
{
    WEFT_NEED_ELSE_AS(WEFT_NO_VALUE, "graph", g);
    if (g->error.status != WEFT_OK) return WEFT_NO_VALUE;
    if (g->step == WEFT_NO_VALUE) g->step = count_of(g, "step", WEFT_ROLE_COUNTER);
    return g->step;
}

/* Adds the learning rate. *measured: the state of a schedule by measurements. */
static weft_value add_schedule(const weft_rule *b, weft_value *measured)
{
    weft_value in[2] = {b->graph->step};
    const weft_optimizer_options *o = b->options;
    const weft_rate_ops *schedule = weft_rate_schedule_at(b->graph->context, o->schedule);
    int measures = schedule->measures;
    *measured = WEFT_NO_VALUE;
    if (measures > 0) {
        const weft_type state = {WEFT_F64, {1, {measures + WEFT_MEASURED}}};
        in[1] = *measured = weft_graph_own_leaf(b->graph, NULL, "measured", &state,
                                                WEFT_ROLE_SCHEDULE, WEFT_NO_VALUE);
    }
    weft_attr attrs[] = {WEFT_ATTR_INT("kind", o->schedule),
                         WEFT_ATTR_REAL("base", o->lr),
                         WEFT_ATTR_INT("warmup", o->warmup),
                         WEFT_ATTR_INT("total", o->total),
                         WEFT_ATTR_INT("every", o->every),
                         WEFT_ATTR_REAL("gamma", o->gamma),
                         WEFT_ATTR_REAL("floor", o->floor),
                         WEFT_ATTR_INT("step", o->clock.step),
                         WEFT_ATTR_REAL("at", o->clock.at),
                         WEFT_ATTR_REAL("pace", o->clock.pace),
                         WEFT_ATTR_REAL("key0", o->schedule_keys[0]),
                         WEFT_ATTR_REAL("key1", o->schedule_keys[1]),
                         WEFT_ATTR_REAL("key2", o->schedule_keys[2]),
                         WEFT_ATTR_REAL("key3", o->schedule_keys[3])};
    int count = (int)WEFT_COUNT(attrs) - (schedule->keys ? 0 : WEFT_MOST_RATE_KEYS);
    weft_value lr = weft_graph_node(b->graph, "schedule", "learning_rate", in, measures > 0 ? 2 : 1,
                                    attrs, count);
    if (measures > 0) {
        const weft_attr real = WEFT_ATTR_INT("dtype", b->graph->real);
        weft_graph_assign(b->graph, *measured, lr + 1);
        lr = weft_graph_node(b->graph, "cast", "rounded_rate", &lr, 1, &real, 1);
    }
    if (b->graph->rate == WEFT_NO_VALUE) return lr;
    return weft_graph_node(b->graph, "mul", "scaled_rate", (weft_value[]){lr, b->graph->rate}, 2,
                           NULL, 0);
}

/* Adds the accumulation of a gradient over the micro-batches of a step, and returns the sum, which
 * the update reads. `keep` is 0 in the first micro-batch, and clears the sum. A program that
 * measures the noise scale may keep another part of the sum than the run's, in the same store. */
static weft_value accumulate(const weft_rule *b, weft_value w, weft_value gradient, weft_value keep)
{
    weft_type type = *weft_value_type(b->graph, w);
    char *name = weft_graph_format(b->graph, "%s/%s", b->graph->values[w].name,
                                   b->graph->measures_noise ? "noise_sum" : "gradient_sum");
    char *node = weft_graph_format(b->graph, "%s/accumulate", b->graph->values[w].name);
    weft_value sum = weft_graph_own_leaf(b->graph, NULL, name, &type, WEFT_ROLE_SUM, w);
    weft_value in[] = {sum, gradient, keep};
    weft_graph_set_phase(b->graph, WEFT_PHASE_BACKWARD);
    weft_value next = weft_graph_node(b->graph, "accumulate", node, in, 3, NULL, 0);
    weft_graph_assign(b->graph, sum, next);
    weft_graph_set_phase(b->graph, WEFT_PHASE_UPDATE);
    free(name);
    free(node);
    return next;
}

/* The parameters that have a gradient. */
typedef struct trained {
    weft_value *params, *gradients; /* [count] */
    const char **names;
    double *factors; /* of the learning rate; 0: the parameter stays as it is */
    int count;
} trained;

static void free_trained(trained *t)
{
    free(t->params);
    free(t->gradients);
    free((void *)t->names);
    free(t->factors);
}

static weft_status find_trained(const weft_graph *g, trained *t)
{
    int values = weft_graph_value_count(g);
    WEFT_TRY(WEFT_NEW(&t->params, values));
    WEFT_TRY(WEFT_NEW(&t->gradients, values));
    WEFT_TRY(weft_new_bytes((void *)&t->names, (size_t)values, sizeof(*t->names)));
    WEFT_TRY(WEFT_NEW(&t->factors, values));
    for (weft_value v = 0; v < values; v++) {
        if (g->values[v].kind != WEFT_VALUE_PARAM || g->values[v].gradient == WEFT_NO_VALUE)
            continue;
        t->params[t->count] = v;
        t->names[t->count] = g->values[v].name;
        t->gradients[t->count++] = g->values[v].gradient;
    }
    return WEFT_OK;
}

/* The exact sum of the squares of the gradients of the parameters that move; WEFT_NO_VALUE: none
 * does. op: sum_squares, or addend_squares. */
static weft_value add_squares(const weft_rule *b, const trained *t, const char *op,
                              const char *square_name, const char *sum_name)
{
    weft_value total = WEFT_NO_VALUE;
    for (int i = 0; i < t->count; i++) {
        if (t->factors[i] == 0) continue;
        weft_value square = weft_graph_unary(b->graph, op, square_name, t->gradients[i]);
        total = total == WEFT_NO_VALUE ? square
                                       : weft_graph_node(b->graph, "add_exact", sum_name,
                                                         (weft_value[]){total, square}, 2, NULL, 0);
    }
    return total;
}

/* Adds the sum of squares of each part's gradients, whose digits are summed over micro-batches
 * without rounding. */
static void measure_parts(const weft_rule *b, const trained *t, weft_value keep)
{
    weft_graph *g = b->graph;
    if (!g->measures_noise) return;
    weft_graph_set_phase(g, WEFT_PHASE_BACKWARD);
    weft_value total = add_squares(b, t, "addend_squares", "noise/square", "noise/sum");
    if (total != WEFT_NO_VALUE && keep != WEFT_NO_VALUE) {
        weft_type type = *weft_value_type(g, total);
        weft_value sum =
            weft_graph_own_leaf(g, NULL, "noise/parts", &type, WEFT_ROLE_SUM, WEFT_NO_VALUE);
        weft_value in[] = {sum, total, keep};
        total = weft_graph_node(g, "accumulate", "noise/accumulate", in, 3, NULL, 0);
        weft_graph_assign(g, sum, total);
    }
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    g->part_norm = total;
}

static void measure_whole(const weft_rule *b, const trained *t)
{
    weft_graph *g = b->graph;
    if (g->part_norm == WEFT_NO_VALUE) return;
    weft_value total = add_squares(b, t, "sum_squares", "noise/square", "noise/sum");
    g->part_norm = weft_graph_unary(g, "exact_sqrt", "noise/part_norm", g->part_norm);
    g->whole_norm = weft_graph_unary(g, "exact_sqrt", "noise/whole_norm", total);
}

/* Scales the gradients of the parameters that move by one factor. */
static void clip(const weft_rule *b, trained *t)
{
    weft_value total = add_squares(b, t, "sum_squares", "clip/square", "clip/sum");
    if (total == WEFT_NO_VALUE) return;
    weft_attr norm = WEFT_ATTR_REAL("max_norm", b->options->clip_norm);
    weft_value factor =
        weft_graph_node(b->graph, "clip_factor", "clip/factor", &total, 1, &norm, 1);
    for (int i = 0; i < t->count; i++)
        if (t->factors[i] != 0)
            t->gradients[i] = weft_graph_node(b->graph, "scale_by", "clip/scaled",
                                              (weft_value[]){t->gradients[i], factor}, 2, NULL, 0);
}

static void update_all(weft_rule *b, const weft_optimizer *how, trained *t, weft_value keep)
{
    const weft_optimizer_options *o = b->options;
    const weft_value lr = b->lr;
    weft_average_values average;
    for (int i = 0; i < t->count && keep != WEFT_NO_VALUE; i++)
        if (t->factors[i] != 0 || o->update != WEFT_UPDATE_HERE)
            t->gradients[i] = accumulate(b, t->params[i], t->gradients[i], keep);
    measure_whole(b, t);
    if (o->clip_norm > 0) clip(b, t);
    for (int i = 0; i < t->count && o->update != WEFT_UPDATE_HERE; i++)
        weft_graph_export_gradient(b->graph, t->params[i], t->gradients[i]);
    weft_average_begin(b, &average);
    for (int i = 0; i < t->count; i++) {
        if (t->factors[i] == 0) continue;
        b->w = t->params[i];
        b->gradient = t->gradients[i];
        b->optimizer = how;
        if (o->update != WEFT_UPDATE_ELSEWHERE) {
            b->lr = t->factors[i] == 1 ? lr : weft_rule_scale(b, lr, t->factors[i]);
            how->update(b);
        }
        weft_average_update(b, &average);
    }
    weft_average_end(b, &average);
    b->lr = lr;
}

static weft_status build(weft_graph *g, const weft_optimizer_options *options, trained *t,
                         weft_optimizer_values *out)
{
    const weft_optimizer *how;
    weft_rule b = {.graph = g,
                   .options = options,
                   .age = WEFT_NO_VALUE,
                   .steps = WEFT_NO_VALUE,
                   .shared = {WEFT_NO_VALUE, WEFT_NO_VALUE}};
    weft_value keep = WEFT_NO_VALUE, measured;
    const weft_type scalar = {g->real, {0}};
    WEFT_TRY(find_optimizer(g->context, options->name, &how, b.keys));
    weft_graph_set_phase(g, WEFT_PHASE_UPDATE);
    weft_value step = weft_graph_step(g);
    if (options->accumulate > 1)
        keep = g->micro =
            weft_graph_own_leaf(g, NULL, "keep", &scalar, WEFT_ROLE_DATA, WEFT_NO_VALUE);
    measure_parts(&b, t, keep); /* before the update, which reads gradients as sums over ranks */
    b.lr = add_schedule(&b, &measured);
    update_all(&b, how, t, keep);
    weft_graph_assign(g, step, weft_graph_unary(g, "counter", "step/next", step));
    if (b.age != WEFT_NO_VALUE)
        weft_graph_assign(g, b.age, weft_graph_unary(g, "counter", "moments/age/next", b.age));
    weft_graph_set_phase(g, WEFT_PHASE_FORWARD);
    *out = (weft_optimizer_values){
        .step = step, .learning_rate = b.lr, .keep = keep, .measured = measured};
    return weft_graph_status(g);
}

weft_status weft_optimizer_build_with(weft_graph *g, const weft_optimizer_options *options,
                                      const double *factors, weft_optimizer_values *out)
{
    trained t = {.count = 0};
    WEFT_TRY(weft_graph_status(g));
    WEFT_TRY(weft_optimizer_options_check(g->context, options));
    if (!g->differentiated)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the graph has no gradients, so nothing would be trained; call "
                         "weft_graph_differentiate first");
    weft_status status = find_trained(g, &t);
    if (status == WEFT_OK && factors)
        memcpy(t.factors, factors, (size_t)t.count * sizeof(*factors));
    else if (status == WEFT_OK)
        status = weft_multipliers(options, t.names, t.count, true, t.factors);
    if (status == WEFT_OK) status = build(g, options, &t, out);
    free_trained(&t);
    return status;
}

weft_status weft_optimizer_build(weft_graph *g, const weft_optimizer_options *given,
                                 weft_optimizer_values *out)
{
    WEFT_NEED_AS("graph, options, out", g, given, out);
    weft_optimizer_options own;
    weft_optimizer_options_init(&own);
    WEFT_TAKE(weft_optimizer_options, given, lr, &own);
    return weft_optimizer_build_with(g, &own, NULL, out);
}
