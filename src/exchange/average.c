/* Averaging of parameters. average: after every H steps the learners' parameters are replaced by
 * their mean (Stich 2018), or moved towards it by an outer optimiser (Douillard et al. 2023).
 * oneshot: once, at the end (Zinkevich et al. 2010).
 *
 * With D = w_prev - mean and a velocity u = momentum u + D, an outer step is
 * w = w_prev - lr (D + momentum u), written as mean - (lr - 1) D - lr momentum u, so that lr 1
 * without momentum is the mean bit for bit. */
#include <math.h>

#include "base/spec.h"
#include "exchange/exchange.h"

typedef enum keep { KEEP_OWN, KEEP_MEAN, KEEP_NOTHING } keep;

typedef struct average {
    weft_exchange head;
    int64_t every; /* 0: only at the end */
    bool outer;
    double lr, momentum;
    keep state;
    void *before, *velocity; /* of the outer optimiser, like the parameters; else NULL */
    int64_t met;             /* step of the last meeting */
} average;

static weft_status parse_state(const char *text, keep *out)
{
    static const char *const names[] = {"keep", "average", "reset"};
    *out = KEEP_OWN;
    if (!text) return WEFT_OK;
    for (size_t i = 0; i < WEFT_COUNT(names); i++)
        if (strcmp(names[i], text) == 0) {
            *out = (keep)i;
            return WEFT_OK;
        }
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "exchange average: state=%s; optimiser state can be kept, averaged or reset: "
                     "state=keep, average or reset",
                     text);
}

static void average_close(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    free(a->before);
    free(a->velocity);
    free(a);
}

static weft_status make_ranges(average *a)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(a->head.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    weft_store_unmap_read(a->head.store, data);
    WEFT_TRY(weft_new_aligned(bytes, &a->before));
    return weft_new_aligned(bytes, &a->velocity);
}

static weft_status average_open(const char *arguments, weft_comm *between, weft_store *store,
                                weft_exchange **out)
{
    average *a;
    double every = 1, lr = 0.7, momentum = 0.9;
    char *outer = NULL, *state = NULL;
    weft_spec_key keys[] = {
        {.name = "every", .number = &every, .low = 1, .high = 1e9, .whole = true},
        {.name = "outer", .text = &outer},
        {.name = "lr", .number = &lr, .low = 0, .high = 100},
        {.name = "momentum", .number = &momentum, .low = 0, .high = 0.999999},
        {.name = "state", .text = &state},
        {.name = NULL}};
    weft_status status =
        *arguments ? weft_spec_parse("exchange average", arguments, keys) : WEFT_OK;
    if (status == WEFT_OK) status = WEFT_NEW(&a, 1);
    if (status == WEFT_OK) {
        status = parse_state(state, &a->state);
        if (status == WEFT_OK && outer && strcmp(outer, "nesterov") != 0 &&
            strcmp(outer, "none") != 0)
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "exchange average: outer=%s; there are none and nesterov", outer);
        a->every = (int64_t)every;
        a->outer = outer && strcmp(outer, "nesterov") == 0;
        a->lr = lr;
        a->momentum = momentum;
        a->head.store = store;
        if (status == WEFT_OK && a->outer && between) status = make_ranges(a);
        if (status == WEFT_OK)
            *out = &a->head;
        else
            average_close(&a->head);
    }
    free(outer);
    free(state);
    return status;
}

static weft_status oneshot_open(const char *arguments, weft_comm *between, weft_store *store,
                                weft_exchange **out)
{
    average *a;
    (void)between;
    (void)store;
    if (*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT, "exchange oneshot takes no options, not '%s'",
                         arguments);
    WEFT_TRY(WEFT_NEW(&a, 1));
    *out = &a->head;
    return WEFT_OK;
}

/* The mean of a range over the learners, in place. */
static weft_status mean(average *a, const char *what, weft_dtype dtype, void *data, size_t bytes)
{
    int64_t count = (int64_t)(bytes / weft_dtype_size(dtype));
    int n = weft_comm_size(a->head.between);
    WEFT_TRY(weft_comm_run(a->head.between, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                             .dtype = dtype,
                                                             .what = what,
                                                             .send = data,
                                                             .receive = data,
                                                             .count = count,
                                                             .reproducible = true}));
    for (int64_t i = 0; i < count; i++)
        weft_number_put(dtype, data, i, weft_number_get(dtype, data, i) / n);
    return WEFT_OK;
}

static weft_status outer_step(average *a, weft_dtype dtype, void *data, size_t bytes)
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
    memcpy(a->before, data, bytes);
    return WEFT_OK;
}

/* Where all learners began is where the outer optimiser begins. */
static weft_status remember(average *a)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(a->head.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    memcpy(a->before, data, bytes);
    weft_store_unmap_read(a->head.store, data);
    return WEFT_OK;
}

/* Statistics belong to the weights that are averaged, so they are too, whatever becomes of the
 * optimiser's state. Counts are alike in all learners, and sums begin anew. */
static weft_status meet_one(average *a, int i)
{
    weft_store *store = a->head.store;
    weft_role role = weft_store_role(store, i);
    weft_dtype dtype = weft_store_type(store, i).dtype;
    bool own = role == WEFT_ROLE_OPTIMIZER, numbers = weft_dtype_is_float(dtype);
    bool meets = numbers && (role == WEFT_ROLE_STATISTIC || (own && a->state == KEEP_MEAN));
    bool resets = !meets && own && a->state == KEEP_NOTHING;
    void *data;
    size_t bytes;
    if (!meets && !resets) return WEFT_OK;
    WEFT_TRY(weft_store_map(store, i, &dtype, &data, &bytes));
    weft_status status = WEFT_OK;
    if (meets) status = mean(a, weft_store_name(store, i), dtype, data, bytes);
    if (resets) memset(data, 0, bytes);
    weft_status back = weft_store_unmap(store, i, data);
    return status == WEFT_OK ? back : status;
}

static weft_status average_step(weft_exchange *exchange, int64_t step, bool last, bool *met)
{
    average *a = (average *)exchange;
    void *data;
    size_t bytes;
    weft_dtype dtype;
    *met = last || (a->every > 0 && step % a->every == 0);
    if (!*met || a->met == step) return WEFT_OK;
    a->met = step;
    WEFT_TRY(weft_store_map(exchange->store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    weft_status status = mean(a, "parameters of the learners", dtype, data, bytes);
    if (status == WEFT_OK && a->outer) status = outer_step(a, dtype, data, bytes);
    weft_status back = weft_store_unmap(exchange->store, WEFT_ALL_PARAMETERS, data);
    if (status == WEFT_OK) status = back;
    for (int i = 0; i < weft_store_count(exchange->store) && status == WEFT_OK; i++)
        status = meet_one(a, i);
    return status;
}

static weft_status average_begin(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    return a->outer && !exchange->restored ? remember(a) : WEFT_OK;
}

static void *average_range(weft_exchange *exchange, int i, const char **name)
{
    average *a = (average *)exchange;
    static const char *const names[] = {"outer", "velocity"};
    void *const ranges[] = {a->before, a->velocity};
    if (i < 0 || i > 1 || !ranges[i]) return NULL;
    *name = names[i];
    return ranges[i];
}

const weft_exchange_ops weft_exchange_average = {
    .name = "average",
    .form = "average:every=H[,outer=nesterov,lr=X,momentum=X][,state=keep|average|reset]",
    .help = "parameters become their mean every H steps, or follow an outer optimiser",
    .open = average_open,
    .close = average_close,
    .begin = average_begin,
    .step = average_step,
    .range = average_range,
};

const weft_exchange_ops weft_exchange_oneshot = {
    .name = "oneshot",
    .form = "oneshot",
    .help = "learners train alone; their parameters are averaged once, at the end",
    .open = oneshot_open,
    .close = average_close,
    .begin = average_begin,
    .step = average_step,
};
