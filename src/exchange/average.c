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
#include "formats/safetensors.h"

/* The treatment of optimizer state when parameters are averaged. */
typedef struct state_option {
    const char *name;
    bool averages, resets;
} state_option;
static const state_option state_options[] = {
    {"keep", false, false}, {"average", true, false}, {"reset", false, true}};

typedef struct average {
    weft_exchange head;
    int64_t every; /* steps between two averages; 0: only at the end */
    bool outer;
    double lr, momentum;
    const state_option *state;
    /* State of the outer optimizer, laid out like the parameters: the parameters after its last
     * step, and the velocity; NULL: no outer optimizer. */
    void *before, *velocity;
    size_t bytes;         /* size of `before`, and of `velocity` */
    int64_t last_average; /* step of the last average */
    bool plain; /* learners have different memory layouts: tensors are averaged in the plain one */
} average;

static weft_status parse_state(const char *text, const state_option **out)
{
    for (size_t i = 0; i < WEFT_COUNT(state_options); i++)
        if (!text || strcmp(state_options[i].name, text) == 0) {
            *out = &state_options[i];
            return WEFT_OK;
        }
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "exchange average: there is no state=%s; the optimizer state can be kept, "
                     "averaged or reset: state=keep, average or reset",
                     text);
}

static void average_close(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    free(a->before);
    free(a->velocity);
    free(a);
}

static weft_status make_ranges(average *a, weft_store *store)
{
    void *data;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &a->bytes));
    weft_store_unmap_read(store, data);
    WEFT_TRY(weft_new_aligned(a->bytes, &a->before));
    return weft_new_aligned(a->bytes, &a->velocity);
}

static weft_status average_open(const weft_context *context, const char *arguments,
                                const weft_exchange_setup *setup, weft_exchange **out)
{
    (void)context;
    average *a;
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
    if (status == WEFT_OK) status = WEFT_NEW(&a, 1);
    if (status == WEFT_OK) {
        status = parse_state(state, &a->state);
        if (status == WEFT_OK && outer && strcmp(outer, "nesterov") != 0 &&
            strcmp(outer, "none") != 0)
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "exchange average: there is no outer=%s; it can be none or nesterov",
                               outer);
        a->every = (int64_t)every;
        a->outer = outer && strcmp(outer, "nesterov") == 0;
        if (status == WEFT_OK && !a->outer && !(isnan(lr) && isnan(momentum)))
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "exchange average: %s is an option of the outer optimizer, and "
                               "outer=none; give outer=nesterov too, or leave %s out",
                               isnan(lr) ? "momentum" : "lr", isnan(lr) ? "momentum" : "lr");
        a->lr = isnan(lr) ? 0.7 : lr;
        a->momentum = isnan(momentum) ? 0.9 : momentum;
        if (status == WEFT_OK && a->outer && setup) status = make_ranges(a, setup->store);
        if (status == WEFT_OK)
            *out = &a->head;
        else
            average_close(&a->head);
    }
    free(outer);
    free(state);
    return status;
}

static weft_status oneshot_open(const weft_context *context, const char *arguments,
                                const weft_exchange_setup *setup, weft_exchange **out)
{
    (void)context;
    average *a;
    (void)setup;
    if (*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT, "exchange oneshot takes no options, not '%s'",
                         arguments);
    WEFT_TRY(WEFT_NEW(&a, 1));
    a->state = state_options;
    *out = &a->head;
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
    memcpy(a->before, data, bytes);
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

/* Records the initial parameters, from which the first outer step is measured. */
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

/* Whether tensor i of the store is averaged with the parameters. Statistics are, whatever the
 * option `state` is, since they belong to the averaged weights; optimizer state is with
 * state=average. Counters are equal in all learners, and sums begin anew, so they are not. */
static bool is_averaged(const average *a, int i)
{
    weft_role role = weft_store_role(a->head.setup.store, i);
    bool own = role == WEFT_ROLE_OPTIMIZER && a->state->averages;
    return weft_dtype_is_float(weft_store_type(a->head.setup.store, i).dtype) &&
           (role == WEFT_ROLE_STATISTIC || own);
}

static bool resets(const average *a, int i)
{
    return weft_store_role(a->head.setup.store, i) == WEFT_ROLE_OPTIMIZER && a->state->resets;
}

/* Averages tensor i over the learners in its memory layout, or with `zero` sets it to zero. */
static weft_status average_tensor(average *a, int i, bool zero)
{
    weft_store *store = a->head.setup.store;
    weft_status status = WEFT_OK;
    weft_dtype dtype;
    void *data;
    size_t bytes;
    WEFT_TRY(weft_store_map(store, i, &dtype, &data, &bytes));
    const char *what =
        i == WEFT_ALL_PARAMETERS ? "parameters of the learners" : weft_store_name(store, i);
    if (zero)
        memset(data, 0, bytes);
    else
        status = weft_exchange_mean(&a->head, what, dtype, data,
                                    (int64_t)(bytes / weft_dtype_size(dtype)));
    weft_status back = weft_store_unmap(store, i, data);
    return status == WEFT_OK ? back : status;
}

/* Averages tensor i over the learners in the plain (row-major) layout, for learners whose memory
 * layouts differ. */
static weft_status meet_plain(average *a, int i)
{
    weft_store *store = a->head.setup.store;
    weft_type type = weft_store_type(store, i);
    void *data;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &data));
    weft_status status = weft_store_read(store, i, data);
    if (status == WEFT_OK)
        status = weft_exchange_mean(&a->head, weft_store_name(store, i), type.dtype, data,
                                    weft_shape_elements(&type.shape));
    if (status == WEFT_OK) status = weft_store_write(store, i, data);
    free(data);
    return status;
}

static weft_status meet_parameters(average *a)
{
    weft_store *store = a->head.setup.store;
    weft_status status = WEFT_OK;
    if (!a->plain) return average_tensor(a, WEFT_ALL_PARAMETERS, false);
    for (int i = 0; i < weft_store_count(store) && status == WEFT_OK; i++)
        if (weft_store_kind(store, i) == WEFT_VALUE_PARAM) status = meet_plain(a, i);
    return status;
}

/* Averages the learners, with the outer optimizer's step if `outer`. */
static weft_status average_learners(average *a, bool outer)
{
    weft_store *store = a->head.setup.store;
    WEFT_TRY(meet_parameters(a));
    if (outer) WEFT_TRY(outer_step(a));
    for (int i = 0; i < weft_store_count(store); i++) {
        if (is_averaged(a, i)) WEFT_TRY(a->plain ? meet_plain(a, i) : average_tensor(a, i, false));
        if (resets(a, i)) WEFT_TRY(average_tensor(a, i, true));
    }
    return WEFT_OK;
}

static weft_status average_after(weft_exchange *exchange, weft_step_result *result)
{
    average *a = (average *)exchange;
    result->met = result->last || (a->every > 0 && result->step % a->every == 0);
    if (!result->met || a->last_average == result->step) return WEFT_OK;
    a->last_average = result->step;
    return average_learners(a, a->outer);
}

/* Checks that every averaged tensor can be read in the plain layout. A tensor that ZeRO shards into
 * ranges cannot. */
static weft_status check_plain(const average *a)
{
    weft_store *store = a->head.setup.store;
    for (int i = 0; i < weft_store_count(store); i++) {
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM && !is_averaged(a, i)) continue;
        weft_type type = weft_store_type(store, i);
        void *data;
        WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &data));
        weft_status status = weft_store_read(store, i, data);
        free(data);
        if (status == WEFT_ERR_UNSUPPORTED)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "exchange %s: the devices of the learners have different memory "
                             "layouts for '%s', so its ranges cannot be averaged; give all "
                             "learners the same --device, or --zero 0",
                             a->head.ops->name, weft_store_name(store, i));
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* Whether the ranks that hold this shard in the learners have different numbers. */
static weft_status compare(average *a, const char *what, uint64_t mine, bool *differ)
{
    uint64_t *all;
    int n = a->head.setup.endpoint->learners;
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = weft_learner_group_run(
        a->head.setup.endpoint,
        WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = what, .send = &mine,
                      .receive = all, .count = sizeof(mine)));
    *differ = false;
    for (int r = 0; r < n; r++) *differ = *differ || all[r] != all[0];
    free(all);
    return status;
}

/* Adds tensor i of the store to a checksum that does not depend on the memory layout. */
static weft_status add_plain(const weft_store *store, int i, uint64_t *sum)
{
    weft_type type = weft_store_type(store, i);
    void *data;
    WEFT_TRY(weft_new_aligned(weft_type_bytes(&type), &data));
    weft_status status = weft_store_read(store, i, data);
    if (status == WEFT_OK) *sum = weft_mix(*sum, weft_crc32(data, weft_type_bytes(&type)));
    free(data);
    return status;
}

/* Whether the parameters of the learners differ, as they may in a resumed run. All ranks of all
 * learners get the same answer. */
static weft_status compare_parameters(average *a, bool *differ)
{
    weft_store *store = a->head.setup.store;
    weft_dtype dtype;
    void *data;
    size_t bytes;
    uint64_t sum = 0;
    double count;
    if (a->plain) {
        for (int i = 0; i < weft_store_count(store); i++)
            if (weft_store_kind(store, i) == WEFT_VALUE_PARAM) WEFT_TRY(add_plain(store, i, &sum));
    } else {
        WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
        sum = weft_crc32(data, bytes);
        weft_store_unmap_read(store, data);
    }
    WEFT_TRY(compare(a, "checksums of the parameters", sum, differ));
    count = *differ;
    WEFT_TRY(weft_comm_run(a->head.setup.learner,
                           WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64,
                                         .what = "whether learners differ", .send = &count,
                                         .receive = &count, .count = 1)));
    *differ = count > 0;
    return WEFT_OK;
}

/* The outer optimizer measures its first step from parameters that are equal in all learners. */
static weft_status average_begin(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    bool differ;
    WEFT_TRY(compare(a, "parameter layouts", weft_store_form(exchange->setup.store), &a->plain));
    if (a->plain) WEFT_TRY(check_plain(a));
    if (!a->outer || exchange->restored) return WEFT_OK;
    WEFT_TRY(compare_parameters(a, &differ));
    if (differ) WEFT_TRY(average_learners(a, false));
    return remember(a);
}

/* Averages learners that differ although no step is left to take: those of a checkpoint between two
 * averages. */
static weft_status average_end(weft_exchange *exchange)
{
    average *a = (average *)exchange;
    if (!exchange->finished || a->last_average > 0) return WEFT_OK;
    WEFT_TRY(compare_parameters(a, &exchange->changed));
    return exchange->changed ? average_learners(a, a->outer) : WEFT_OK;
}

static bool average_state(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    average *a = (average *)exchange;
    static const char *const names[] = {"outer", "velocity"};
    static const char *const what[] = {"the last mean of outer=nesterov",
                                       "the momentum of outer=nesterov"};
    void *const ranges[] = {a->before, a->velocity};
    if (i > 1 || !ranges[i]) return false;
    *out = (weft_exchange_state){.name = names[i],
                                 .what = what[i],
                                 .like_parameters = true,
                                 .alike = true,
                                 .data = ranges[i],
                                 .bytes = a->bytes};
    return true;
}

const weft_exchange_ops weft_exchange_average = {
    .struct_size = sizeof(weft_exchange_ops),
    .name = "average",
    .form = "average[:every=1,state=keep|average|reset,outer=nesterov[,lr=0.7,momentum=0.9]]",
    .help = "local SGD: every `every` steps the parameters of all learners are "
            "averaged; with outer=, an outer optimizer takes a step towards the "
            "average",
    .lockstep = true,
    .open = average_open,
    .close = average_close,
    .step = {.after = average_after},
    .life = {.begin = average_begin, .state = average_state, .end = average_end},
};

const weft_exchange_ops weft_exchange_oneshot = {
    .struct_size = sizeof(weft_exchange_ops),
    .name = "oneshot",
    .form = "oneshot",
    .help = "learners train independently; their parameters are averaged once, at "
            "the end",
    .lockstep = true,
    .open = oneshot_open,
    .close = average_close,
    .step = {.after = average_after},
    .life = {.begin = average_begin, .end = average_end},
};
