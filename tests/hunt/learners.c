/* Checks the exchanges average and oneshot. Their first average must be the mean of learners that
 * have not averaged yet, as computed here. An average after each step must equal data parallelism
 * where that is the same computation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

static bool is_state(const char *name, const char *const *endings)
{
    const char *slash = strrchr(name, '/');
    for (int i = 0; slash && endings[i]; i++)
        if (strcmp(slash + 1, endings[i]) == 0) return true;
    return false;
}

static bool is_moment(const char *name)
{
    return is_state(name, (const char *const[]){"momentum", "m", "v", NULL});
}
static bool is_statistic(const char *name)
{
    return is_state(name, (const char *const[]){"mean", "variance", NULL});
}

/* Tensor `name` of learner k. */
static const tensor *of_learner(const tensors *all, int k, const char *name)
{
    char full[TEXT + 32];
    if (k == 0) return tensors_find(all, name);
    (void)snprintf(full, sizeof(full), "learner %d/%s", k, name);
    return tensors_find(all, full);
}

typedef struct meeting_of {
    const exchange *e;
    const tensors *apart; /* tensors of all learners just before the average */
    const tensors *start; /* initial parameters */
} meeting_of;

static double mean_of(const meeting_of *m, const char *name, int64_t i)
{
    double sum = 0;
    for (int k = 0; k < m->e->learners; k++) sum += tensor_at(of_learner(m->apart, k, name), i);
    return sum / m->e->learners;
}

/* The value that element i of a tensor of learner k must have after the first average. */
static double after_meeting(const meeting_of *m, int k, const char *name, int64_t i)
{
    const exchange *e = m->e;
    double mean = mean_of(m, name, i), own = tensor_at(of_learner(m->apart, k, name), i);
    if (is_statistic(name)) return mean;
    if (is_moment(name))
        return e->kind == ONESHOT || e->state == 0 ? own : e->state == 1 ? mean : 0;
    if (e->kind == ONESHOT || !e->outer) return mean;
    double w = tensor_at(tensors_find(m->start, name), i), d = w - mean;
    return w - e->lr * (d + e->momentum * d);
}

/* How far rounding to bf16 may take the mean: the sum of N changes is rounded where each leaves its
 * learner and at each level of the tree. */
static double rounding(const hunt_case *c, const meeting_of *m, const char *name, int64_t i)
{
    const exchange *e = m->e;
    const tensor *start = tensors_find(m->start, name);
    double sum = 0, levels = 1 + ceil(log2(e->learners));
    if (c->options[SUM_DTYPE] != NARROW) return 0;
    for (int k = 0; k < e->learners; k++)
        sum +=
            fabs(tensor_at(of_learner(m->apart, k, name), i) - (start ? tensor_at(start, i) : 0));
    return sum / e->learners * levels / 256 * (e->outer ? e->lr * (1 + e->momentum) : 1);
}

static void check_tensor(trial *t, const meeting_of *m, const result *met, const tensor *like)
{
    char name[TEXT + 64];
    for (int k = 0; k < m->e->learners && t->v->fault == CLEAN; k++) {
        const tensor *have = of_learner(&met->tensors, k, like->name);
        (void)snprintf(name, sizeof(name), "%s of learner %d", like->name, k);
        if (!have || !of_learner(m->apart, k, like->name)) {
            found(t, VALUES, "'%s' is missing", name);
            return;
        }
        for (int64_t i = 0; i < have->count; i++) {
            double want = after_meeting(m, k, like->name, i), is = tensor_at(have, i);
            double may = 1e-9 * fmax(1, fabs(want)) + rounding(t->c, m, like->name, i);
            if (fabs(is - want) <= may) continue;
            found(t, VALUES, "'%s'[%lld] is %.17g, should be %.17g after they met", name,
                  (long long)i, is, want);
            return;
        }
    }
}

static bool is_real(const tensor *t)
{
    return t->dtype[0] == 'F' && strncmp(t->name, "learner ", 8) != 0 &&
           strncmp(t->name, "exchange ", 9) != 0;
}

bool find_start(trial *t, const hunt_case *c, result *out)
{
    way one = plain_way();
    hunt_case still = *c;
    still.exchange = (exchange){0};
    still.options[STEPS] = 1;
    still.options[LR] = 1e-30;
    still.options[LR_FLOOR] = 0;
    return train(t, "where weights begin", &still, &one, out);
}

/* Checks the first average, which follows step `last`. One run ends with it. Another run takes one
 * more step, averages only at its end, and its checkpoint after step `last` has the tensors before
 * the average. */
static void check_first_meeting(trial *t)
{
    hunt_case c = *t->c, alone;
    way one = plain_way();
    result met, apart, start;
    int last = (int)c.options[STEPS];
    if (c.exchange.kind == AVERAGE && c.exchange.every < last) last = c.exchange.every;
    c.options[LR_SCHEDULE] = 0;
    c.options[STEPS] = last;
    alone = c;
    alone.exchange.kind = ONESHOT;
    alone.options[STEPS] = last + 1;
    alone.options[CHECKPOINT_EVERY] = last;
    if (!find_start(t, &c, &start)) return;
    if (train(t, "learners before they meet", &alone, &one, &apart)) {
        tensors before;
        char folder[64];
        (void)snprintf(folder, sizeof(folder), "out%d/step-%d", t->folders - 1, last);
        if (!tensors_read(folder, &before)) found(t, VALUES, "%s is no checkpoint", folder);
        if (train(t, "learners that met once", &c, &one, &met)) {
            meeting_of m = {&c.exchange, &before, &start.tensors};
            for (int i = 0; i < met.tensors.count && t->v->fault == CLEAN; i++)
                if (is_real(&met.tensors.list[i])) check_tensor(t, &m, &met, &met.tensors.list[i]);
            result_free(&met);
        }
        tensors_free(&before);
        result_free(&apart);
    }
    result_free(&start);
}

bool is_one_batch(const hunt_case *c)
{
    int learners = c->exchange.learners, all = (int)c->options[BATCH] * learners;
    if (c->samples.weights || c->options[CLIP_NORM] != 0) return false;
    for (int i = 0; i < c->layer_count; i++)
        if (c->layers[i].kind == BATCH_NORM || c->layers[i].kind == DROPOUT) return false;
    return c->samples.train % all % learners == 0 && all <= c->samples.train;
}

/* Whether an average after each step equals data parallelism with the batches of all learners. The
 * steps must be linear in the gradients, and all batches of equal weight: otherwise the mean of the
 * learners' means is not the mean over all samples. */
static bool is_data_parallel(const hunt_case *c)
{
    const double *o = c->options;
    const exchange *e = &c->exchange;
    if (e->kind != AVERAGE || e->every != 1 || (e->outer && (e->lr != 1 || e->momentum != 0)))
        return false;
    return o[OPTIMIZER] == SGD && o[MOMENTUM] == 0 && is_one_batch(c);
}

static void check_data_parallel(trial *t)
{
    hunt_case c = *t->c;
    way one = plain_way();
    result r;
    c.exchange = (exchange){0};
    c.options[BATCH] *= t->c->exchange.learners;
    if (!train(t, "data parallelism in place of learners", &c, &one, &r)) return;
    set_text(t->v->stage, sizeof(t->v->stage), "meeting after each step against data parallelism");
    for (int i = 0; i < r.tensors.count; i++)
        if (!same_tensor(t, &r.tensors.list[i],
                         tensors_find(&t->base.tensors, r.tensors.list[i].name), CLOSE))
            break;
    result_free(&r);
}

void check_learners(trial *t)
{
    if (!is_f64(t->c)) return;
    check_first_meeting(t);
    if (t->v->fault == CLEAN && is_data_parallel(t->c)) check_data_parallel(t);
}
