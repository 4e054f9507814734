/* Parameter averaging. The exchange `average` replaces the learners' parameters after every H steps
 * by their mean (local SGD, Stich 2018), or moves them towards the mean by an outer optimizer
 * (Nesterov momentum; DiLoCo, Douillard et al. 2023). The exchange `oneshot` averages them once, at
 * the end (Zinkevich et al. 2010).
 *
 * With D = w_prev - mean and a velocity u = momentum u + D, an outer step is w = w_prev - lr (D +
 * momentum u). The code computes mean - (lr - 1) D - lr momentum u, so that lr 1 without momentum
 * gives the mean bit for bit. */
#include <math.h>

#include "base/spec.h"
#include "exchange/exchange.h"

/* The treatment of optimizer state when parameters are averaged. */
typedef struct state_option {
    bool averages, resets;
} state_option;
static const char state_names[] = "keep,average,reset";
static const state_option state_options[] = {{false, false}, {true, false}, {false, true}};

typedef struct average {
    weft_exchange head;
    int64_t every; /* steps between two averages; 0: only at the end */
    bool outer;
    double lr, momentum;
    const state_option *state;
    /* Laid out like the parameters: the parameters after the last average, if an outer optimizer
     * steps or changes cross ranks in bf16; and the velocity of the outer optimizer. Or NULL. */
    void *before, *velocity;
    int64_t last_average; /* step of the last average */
} average;

/* state: NULL, that of the first option. */
static weft_status parse_state(const char *text, const state_option **out)
{
    int i = 0;
    if (text) WEFT_TRY(weft_choose("exchange average: state", text, state_names, NULL, &i));
    *out = &state_options[i];
    return WEFT_OK;
}

/* Arrays like the parameters, `before` and `velocity`. */
static bool keeps_before(const average *a, bool bf16_sums)
{
    return a->outer || bf16_sums;
}

static weft_status make_ranges(average *a)
{
    if (keeps_before(a, a->head.setup.bf16_sums))
        WEFT_TRY(weft_exchange_keep(&a->head, "outer",
                                    a->outer ? "the last mean of outer=nesterov"
                                             : "the last mean, for --sum-dtype bf16",
                                    &a->before));
    if (!a->outer) return WEFT_OK;
    return weft_exchange_keep(&a->head, "velocity", "the momentum of outer=nesterov", &a->velocity);
}

static weft_status average_open(weft_exchange *exchange, const char *arguments,
                                const weft_exchange_setup *setup)
{
    average *a = (average *)exchange;
    double every = 1, lr = NAN, momentum = NAN; /* not given */
    char *outer = NULL, *state = NULL;
    weft_spec_key keys[] = {
        {.name = "every", .number = &every, .low = 1, .high = 1e9, .integer = true},
        {.name = "outer", .text = &outer},
        {.name = "lr", .number = &lr, .low = 0, .high = 100},
        {.name = "momentum", .number = &momentum, .low = 0, .high = 0.999999},
        {.name = "state", .text = &state},
        {.name = NULL}};
    weft_status status =
        *arguments ? weft_spec_parse("exchange average", arguments, keys) : WEFT_OK;
    if (status == WEFT_OK) status = parse_state(state, &a->state);
    int which = 0;
    if (status == WEFT_OK && outer)
        status = weft_choose("exchange average: outer", outer, "none,nesterov", NULL, &which);
    a->every = (int64_t)every;
    a->outer = which > 0;
    if (status == WEFT_OK && !a->outer && !(isnan(lr) && isnan(momentum)))
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "exchange average: %s is an option of the outer optimizer, and "
                           "outer=none; give outer=nesterov too, or leave %s out",
                           isnan(lr) ? "momentum" : "lr", isnan(lr) ? "momentum" : "lr");
    a->lr = isnan(lr) ? 0.7 : lr;
    a->momentum = isnan(momentum) ? 0.9 : momentum;
    if (status == WEFT_OK && setup) status = make_ranges(a);
    free(outer);
    free(state);
    return status;
}

static weft_status oneshot_open(weft_exchange *exchange, const char *arguments,
                                const weft_exchange_setup *setup)
{
    (void)setup;
    if (*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT, "exchange oneshot takes no options, not '%s'",
                         arguments);
    ((average *)exchange)->state = state_options;
    return WEFT_OK;
}

static void outer_numbers(average *a, weft_dtype dtype, void *data, size_t bytes)
{
    int64_t count = (int64_t)(bytes / weft_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++) {
        double m = weft_number_get(dtype, data, i), d = weft_number_get(dtype, a->before, i) - m;
        weft_number_put(dtype, a->velocity, i,
                        a->momentum * weft_number_get(dtype, a->velocity, i) + d);
        double w =
            m - (a->lr - 1) * d - a->lr * a->momentum * weft_number_get(dtype, a->velocity, i);
        weft_number_put(dtype, data, i, w);
    }
}

static weft_status outer_step(average *a)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(a->head.setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    outer_numbers(a, dtype, data, bytes);
    return weft_store_unmap(a->head.setup.store, WEFT_ALL_PARAMETERS, data);
}

/* Records the parameters, which are equal in all learners. */
static weft_status remember(average *a)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(a->head.setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    memcpy(a->before, data, bytes);
    weft_store_unmap_read(a->head.setup.store, data);
    return WEFT_OK;
}

/* Sets tensor i to zero. */
static weft_status clear(weft_store *store, int i)
{
    weft_dtype dtype;
    void *data;
    size_t bytes;
    WEFT_TRY(weft_store_map(store, i, &dtype, &data, &bytes));
    memset(data, 0, bytes);
    return weft_store_unmap(store, i, data);
}

/* Averages the learners. began: they have begun with the parameters `before`, from which the outer
 * optimizer takes its step. */
static weft_status average_learners(average *a, bool began)
{
    weft_store *store = a->head.setup.store;
    bool changes = began && a->head.setup.bf16_sums;
    WEFT_TRY(weft_exchange_average_from(&a->head, a->state->averages, changes ? a->before : NULL));
    if (began && a->outer) WEFT_TRY(outer_step(a));
    if (began && a->before) WEFT_TRY(remember(a));
    for (int i = 0; i < weft_store_count(store) && a->state->resets; i++)
        if (weft_store_role(store, i) == WEFT_ROLE_OPTIMIZER) WEFT_TRY(clear(store, i));
    return WEFT_OK;
}

static weft_status average_after(weft_exchange *exchange, weft_step_result *result)
{
    average *a = (average *)exchange;
    result->met = result->last || (a->every > 0 && result->step % a->every == 0);
    if (!result->met || a->last_average == result->step) return WEFT_OK;
    a->last_average = result->step;
    return average_learners(a, true);
}

/* The parameters after an average that leaves `before`, the velocity and the optimizers as they
 * are.
 */
static weft_status average_preview(weft_exchange *exchange, int64_t step)
{
    average *a = (average *)exchange;
    weft_store *store = exchange->setup.store;
    weft_dtype dtype;
    size_t bytes;
    int64_t count;
    void *velocity;
    if (a->last_average == step) return WEFT_OK;
    WEFT_TRY(
        weft_exchange_average_from(exchange, false, exchange->setup.bf16_sums ? a->before : NULL));
    if (!a->outer) return WEFT_OK;
    WEFT_TRY(weft_exchange_parameters(store, &dtype, &count, &bytes));
    WEFT_TRY(weft_new_bytes(&velocity, 1, bytes));
    memcpy(velocity, a->velocity, bytes);
    weft_status status = outer_step(a);
    memcpy(a->velocity, velocity, bytes);
    free(velocity);
    return status;
}

/* The outer optimizer and changes in bf16 begin with parameters that are equal in all learners. */
static weft_status average_begin(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    bool differ;
    if (!a->before || exchange->restored) return WEFT_OK;
    WEFT_TRY(weft_exchange_learners_differ(exchange, &differ));
    if (differ) WEFT_TRY(average_learners(a, false));
    return remember(a);
}

/* Averages learners that differ although no step is left to take: those of a checkpoint between two
 * averages. */
static weft_status average_end(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    if (!exchange->finished || a->last_average > 0) return WEFT_OK;
    WEFT_TRY(weft_exchange_learners_differ(exchange, &exchange->changed));
    return exchange->changed ? average_learners(a, true) : WEFT_OK;
}

static int64_t average_meetings(const weft_exchange *exchange, bool *state)
{
    const average *a = (const average *)exchange;
    *state = a->state->averages;
    return a->every;
}

/* The sum becomes the mean in place. The outer optimizer reads the mean, the last mean and the
 * velocity, and writes two of these; then the parameters are copied. */
static void average_passes(const weft_exchange *exchange, double *parameters, double *state)
{
    const average *a = (const average *)exchange;
    *parameters = a->outer ? 2 + 5 + 2 : 2;
    *state = a->state->averages ? 2 : a->state->resets ? 1 : 0;
}

/* Worth trying: see weft_exchange_life. */
static const char *average_offered(int i)
{
    static const char *const offers[] = {"", "every=4", "every=16", "every=64"};
    return i < (int)WEFT_COUNT(offers) ? offers[i] : NULL;
}

static weft_status average_memory(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                                  weft_exchange_memory *out)
{
    const average *a = (const average *)exchange;
    double bytes = (double)sizes->count * (double)weft_dtype_size(sizes->dtype);
    out->learner = bytes * (keeps_before(a, sizes->bf16_sums) + a->outer);
    if (sizes->bf16_sums) out->moment = (double)weft_exchange_changes_bytes(sizes->count);
    return WEFT_OK;
}

static const weft_exchange_ops average_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .size = sizeof(average),
    .name = "average",
    .lockstep = true,
    .open = average_open,
    .step = {.after = average_after, .preview = average_preview},
    .life = {.offered = average_offered,
             .begin = average_begin,
             .end = average_end,
             .meetings = average_meetings,
             .passes = average_passes,
             .memory = average_memory},
};

const weft_entry weft_exchange_average = {
    .kind = WEFT_KIND_EXCHANGE,
    .name = "average",
    .form = "average[:every=1,state=keep|average|reset,outer=nesterov[,lr=0.7,momentum=0.9]]",
    .summary = "local SGD: every `every` steps the parameters of all learners are "
               "averaged; with outer=, an outer optimizer takes a step towards the "
               "average",
    .ops = &average_ops,
};

static const weft_exchange_ops oneshot_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .size = sizeof(average),
    .name = "oneshot",
    .lockstep = true,
    .open = oneshot_open,
    .step = {.after = average_after, .preview = average_preview},
    .life = {.begin = average_begin,
             .end = average_end,
             .meetings = average_meetings,
             .passes = average_passes,
             .memory = average_memory},
};

const weft_entry weft_exchange_oneshot = {
    .kind = WEFT_KIND_EXCHANGE,
    .name = "oneshot",
    .form = "oneshot",
    .summary = "learners train independently; their parameters are averaged once, at "
               "the end",
    .ops = &oneshot_ops,
};
