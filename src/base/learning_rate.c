/* The schedules of the learning rate; a new one is a function and a row. */
#include "base/learning_rate.h"

#include <math.h>

#include "base/base.h"
#include "weft/registry.h"

static const double PI = 3.14159265358979323846;

static double between(double from, double to, double share)
{
    return to + (from - to) * 0.5 * (1 + cos(PI * share));
}

/* Defines a schedule that follows from the step alone, by a formula that devices compile, too. The
 * formula is an expression in lr, factor (gamma), least (the floor), warmup, every, step and done,
 * with `between` and the functions of C. */
#define RATE(name, formula)                                                                        \
    static double name(const weft_rate_options *r, double step, double done)                       \
    {                                                                                              \
        const double lr = r->lr, factor = r->gamma, least = r->floor;                              \
        const double warmup = (double)r->warmup, every = (double)r->every;                         \
        (void)factor;                                                                              \
        (void)least;                                                                               \
        (void)warmup;                                                                              \
        (void)every;                                                                               \
        (void)step;                                                                                \
        (void)done;                                                                                \
        return formula;                                                                            \
    }                                                                                              \
    static const char name##_text[] = #formula;

RATE(constant, lr)
RATE(by_steps, lr *pow(factor, floor((step - warmup) / every)))
RATE(cosine, least + (lr - least) * 0.5 * (1 + cos(PI * done)))
RATE(linear, lr + (least - lr) * done)
/* Vaswani et al. 2017: from the end of the warm-up on with the inverse square root of the step. */
RATE(inverse_sqrt, lr *sqrt((warmup > 0 ? warmup : 1) / (step + 1)))
/* Smith and Topin 2018, with the defaults of PyTorch's OneCycleLR: for 30 % of the steps up from a
 * 25th of the rate, then down to a 10,000th of that, each along half a cosine. */
RATE(one_cycle, done < 0.3 ? between(lr / 25, lr, done / 0.3)
                           : between(lr, lr / 25 / 1e4, (done - 0.3) / (1 - 0.3)))

/* Smith 2015, the range test; without a floor over eight decades. The last of T steps has the rate
 * lr: done is step / T, and the exponent step / (T - 1). */
RATE(range_test, (least > 0 ? least : lr / 1e8) *
                     pow(lr / (least > 0 ? least : lr / 1e8), step <= 0 ? 0.0
                                                              : step * done < (step - done)
                                                                  ? step * done / (step - done)
                                                                  : 1.0))

/* --- plateau: PyTorch's ReduceLROnPlateau, in its modes min and rel --- */

enum { PATIENCE, THRESHOLD, COOLDOWN };
static const weft_rate_key plateau_keys[] = {{"patience", 10, 0, 1e9, true},
                                             {"threshold", 1e-4, 0, 1, false},
                                             {"cooldown", 0, 0, 1e9, true},
                                             {.name = NULL}};

/* State: reductions; the smallest loss, and whether there is one; measurements without a smaller
 * one, in a row; measurements that do not count. */
enum { REDUCTIONS, BEST, KNOWN, BAD, COOLING, PLATEAU_STATE };

static double plateau(const weft_rate_options *r, double step, double done)
{
    (void)step;
    (void)done;
    double reductions = r->measured ? r->measured[REDUCTIONS] : 0;
    double rate = r->lr * pow(r->gamma, reductions);
    return rate < r->floor ? r->floor : rate;
}

static void measure_plateau(const weft_rate_options *r, double loss, double *state)
{
    bool better =
        isfinite(loss) && (state[KNOWN] == 0 || loss < state[BEST] * (1 - r->keys[THRESHOLD]));
    state[BAD] = better ? 0 : state[BAD] + 1;
    if (better) {
        state[BEST] = loss;
        state[KNOWN] = 1;
    }
    if (state[COOLING] > 0) {
        state[COOLING]--;
        state[BAD] = 0;
    }
    if (state[BAD] <= r->keys[PATIENCE]) return;
    state[REDUCTIONS]++;
    state[COOLING] = r->keys[COOLDOWN];
    state[BAD] = 0;
}

#define OPS(ends_, rate_)                                                                          \
    {                                                                                              \
        .struct_size = sizeof(weft_rate_ops), .ends = (ends_), .rate = (rate_)                     \
    }
const weft_rate_schedule weft_rate_schedules[] = {
    {"constant", "the same rate in every step", NULL, NULL, OPS(false, constant), constant_text},
    {"step", "drops by a factor every so many steps", "decay-every,gamma", NULL,
     OPS(false, by_steps), by_steps_text},
    {"cosine", "falls along half a cosine", "lr-floor", NULL, OPS(true, cosine), cosine_text},
    {"linear", "falls along a line", "lr-floor", NULL, OPS(true, linear), linear_text},
    {"inverse-sqrt", "falls with the root of the step", NULL, NULL, OPS(false, inverse_sqrt),
     inverse_sqrt_text},
    {"one-cycle",
     "rises for 30 % of the steps, then falls almost to 0",
     NULL,
     NULL,
     {.struct_size = sizeof(weft_rate_ops), .ends = true, .rate = one_cycle, .rises = true},
     one_cycle_text},
    {"plateau",
     "drops by a factor when the loss of an epoch, on the test data if there are any, has not "
     "fallen for more than `patience` epochs",
     "gamma,lr-floor",
     "plateau[:patience=10,threshold=1e-4,cooldown=0]",
     {.struct_size = sizeof(weft_rate_ops),
      .rate = plateau,
      .keys = plateau_keys,
      .measures = PLATEAU_STATE,
      .measure = measure_plateau},
     NULL},
    {"range-test",
     "rises exponentially from --lr-floor to --lr, to find a learning rate (weft find-lr)",
     "lr-floor",
     NULL,
     {.struct_size = sizeof(weft_rate_ops), .ends = true, .rate = range_test, .rises = true},
     range_test_text},
};
const int weft_rate_schedule_count = WEFT_COUNT(weft_rate_schedules);

double weft_learning_rate_step(const weft_learning_rate *r, int64_t step)
{
    double s = r->at + r->pace * (double)(step - r->step), whole = round(s);
    return fabs(s - whole) < 1e-6 ? whole : s;
}

double weft_learning_rate_at(const weft_learning_rate *r, int64_t step)
{
    const weft_rate_options *of = &r->of;
    double s = weft_learning_rate_step(r, step), warmup = (double)of->warmup, done = 1;
    if (s < warmup) return of->lr * fmin((s + 1) / warmup, 1);
    if (of->total > of->warmup) done = fmin((s - warmup) / ((double)of->total - warmup), 1);
    return r->schedule->rate(of, s, done);
}

const weft_rate_ops *weft_rate_schedule_at(const weft_context *context, int i)
{
    const weft_entry *entry = weft_context_entry(context, WEFT_KIND_RATE, i);
    return entry ? entry->ops : NULL;
}

const char *weft_rate_text(const weft_context *context, int i)
{
    const weft_rate_ops *ops = weft_rate_schedule_at(context, i);
    for (int s = 0; s < weft_rate_schedule_count; s++)
        if (ops == &weft_rate_schedules[s].ops) return weft_rate_schedules[s].text;
    return NULL;
}
