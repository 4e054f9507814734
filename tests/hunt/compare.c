/* Compares two runs of a case, tensor by tensor and number by number. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "judge.h"

static const double limits[] = {[EXACT] = 0, [CLOSE] = 1e-9, [PRINTED] = 1e-8, [ROUGH] = 1e-3};

void set_text(char *to, size_t room, const char *text)
{
    (void)snprintf(to, room, "%s", text);
}

void found(trial *t, fault f, const char *form, ...)
{
    char text[2048];
    va_list arguments;
    if (t->v->fault != CLEAN) return;
    va_start(arguments, form);
    (void)vsnprintf(text, sizeof(text), form, arguments);
    va_end(arguments);
    set_text(t->v->text, sizeof(t->v->text), text);
    t->v->fault = f;
}

bool is_f64(const hunt_case *c)
{
    return c->options[DTYPE] == F64;
}

bool is_narrow(const hunt_case *c)
{
    return c->options[DTYPE] == BF16 || c->options[SUM_DTYPE] == NARROW;
}

/* The largest absolute difference that rounding may make in a network: 1e-10, times 316 for each
 * norm beyond the second. Some values are zero but for rounding, such as the gradient of a bias
 * that a norm behind it subtracts again. A norm whose input does not vary divides them by the root
 * of its epsilon, that is, multiplies them by up to 316, and earlier layers receive the result. */
static double rounding(const hunt_case *c)
{
    double noise = 1e-10;
    int norms = 0;
    for (int i = 0; i < c->layer_count; i++)
        norms += c->layers[i].kind == BATCH_NORM || c->layers[i].kind == LAYER_NORM;
    for (; norms > 2; norms--) noise *= 316;
    return noise;
}

/* Some cases amplify the smallest difference, such as a norm over two samples that are nearly
 * equal. A second run with a learning rate that is off by the factor 1 + OFF measures by how much.
 * The second run is made only after a difference has been found, since it costs a run. */
static const double OFF = 1e-10;

static bool sway(trial *t)
{
    verdict before = *t->v;
    hunt_case c = *t->c;
    way one = plain_way();
    if (t->has_swayed) return t->swayed.status == WEFT_OK;
    t->has_swayed = true;
    t->swayed.status = WEFT_ERR_ARGUMENT;
    c.options[LR] *= 1 + OFF;
    bool fine = train(t, "a learning rate that is slightly off", &c, &one, &t->swayed);
    if (!fine) t->swayed.status = WEFT_ERR_ARGUMENT;
    before.runs = t->v->runs;
    *t->v = before;
    return fine;
}

static double sway_of_tensor(trial *t, const char *name)
{
    double off = 0;
    const tensor *a = tensors_find(&t->base.tensors, name);
    const tensor *b = a && sway(t) ? tensors_find(&t->swayed.tensors, name) : NULL;
    for (int64_t i = 0; b && i < a->count && i < b->count; i++)
        off = fmax(off, fabs(tensor_at(a, i) - tensor_at(b, i)));
    return off;
}

static double sway_of_losses(trial *t)
{
    if (!sway(t)) return 0;
    double off = fabs(t->base.test_loss - t->swayed.test_loss);
    for (int i = 0; i < t->base.steps; i++)
        off = fmax(off, fabs(t->base.losses[i] - t->swayed.losses[i]));
    return off;
}

bool same_tensor(trial *t, const tensor *a, const tensor *b, closeness how)
{
    double off = 0, largest = 0;
    int64_t where = 0;
    if (!b) {
        found(t, VALUES, "'%s' is missing", a->name);
        return false;
    }
    if (a->count != b->count || strcmp(a->dtype, b->dtype) != 0) {
        found(t, VALUES, "'%s' has %lld numbers of %s, not %lld of %s", a->name,
              (long long)b->count, b->dtype, (long long)a->count, a->dtype);
        return false;
    }
    for (int64_t i = 0; i < a->count; i++) largest = fmax(largest, fabs(tensor_at(a, i)));
    double allowed = how == EXACT ? 0 : fmax(limits[how] * largest, rounding(t->c));
    for (int64_t i = 0; i < a->count; i++) {
        double x = tensor_at(a, i), y = tensor_at(b, i), d = x == y ? 0 : fabs(x - y);
        if (d > off || isnan(d)) {
            off = isnan(d) ? INFINITY : d;
            where = i;
        }
    }
    if (off <= allowed) return true;
    if (how == CLOSE && off <= sway_of_tensor(t, a->name)) return true;
    found(t, how == EXACT ? BITS : VALUES, "'%s'[%lld] is %.17g, should be %.17g", a->name,
          (long long)where, tensor_at(b, where), tensor_at(a, where));
    return false;
}

void compare_numbers(trial *t, const char *what, double a, double b, closeness how)
{
    /* Both runs may have diverged in their last step. */
    if (a == b || (isnan(a) && isnan(b))) return;
    double allowed = limits[how] * fmax(1, fabs(a));
    if (how != EXACT) allowed = fmax(allowed, rounding(t->c));
    if (fabs(a - b) <= allowed) return;
    if ((how == CLOSE || how == PRINTED) && fabs(a - b) <= sway_of_losses(t)) return;
    found(t, how == EXACT ? BITS : VALUES, "%s is %.17g, should be %.17g", what, b, a);
}

void compare_tensors(trial *t, const tensors *a, const tensors *b, closeness how)
{
    for (int i = 0; i < a->count; i++)
        if (!same_tensor(t, &a->list[i], tensors_find(b, a->list[i].name), how)) return;
    if (a->count != b->count)
        found(t, VALUES, "the checkpoint has %d tensors, should have %d", b->count, a->count);
}

void compare(trial *t, const char *stage, const result *a, const result *b, closeness how,
             bool losses_too)
{
    char what[64];
    if (t->v->fault != CLEAN || (how != EXACT && is_narrow(t->c))) return;
    set_text(t->v->stage, sizeof(t->v->stage), stage);
    set_text(t->v->command, sizeof(t->v->command), b->command);
    if (how == ROUGH) {
        compare_numbers(t, "the loss of step 1", a->losses[0], b->losses[0], how);
        return;
    }
    if (a->steps != b->steps)
        found(t, VALUES, "the run ends after %d steps, should after %d", b->steps, a->steps);
    compare_tensors(t, &a->tensors, &b->tensors, how);
    compare_tensors(t, &a->best, &b->best, how);
    if (how == EXACT && !losses_too) how = is_f64(t->c) ? CLOSE : ROUGH;
    for (int i = 0; i < a->steps; i++) {
        (void)snprintf(what, sizeof(what), "the loss of step %d", i + 1);
        compare_numbers(t, what, a->losses[i], b->losses[i], how);
    }
    compare_numbers(t, "the loss of the test part", a->test_loss, b->test_loss, how);
    compare_numbers(t, "accuracy or R2 of the test part", a->figure, b->figure, CLOSE);
}
