/* Exchanges with state of every kind that a checkpoint stores, with states that must be refused,
 * and one whose hooks fail. */
#include "base/spec.h"
#include "fake_exchanges.h"
#include "program/program.h"

/* --- keep: state of every kind --- */

typedef struct keep {
    weft_exchange head;
    int32_t clock;    /* own state: step of the learner, times (learner + 1) */
    double common[3]; /* alike in all learners: the step, 0, and minus the step */
    char *mine;       /* own state, like the parameters: learner + step in each element */
    char *ours;       /* alike, like the parameters: the step in each element */
    size_t bytes;
    weft_dtype dtype;
} keep;

static void keep_close(weft_exchange *exchange)
{
    keep *k = (keep *)exchange;
    free(k->mine);
    free(k->ours);
}

static weft_status keep_open(weft_exchange *exchange, const char *arguments,
                             const weft_exchange_setup *setup)
{
    keep *k = (keep *)exchange;
    WEFT_TRY(take_nothing("keep", arguments));
    weft_status status = setup ? count_parameters(setup->store, &k->dtype, &k->bytes) : WEFT_OK;
    if (status == WEFT_OK) status = weft_new_aligned(k->bytes, &k->mine);
    if (status == WEFT_OK) status = weft_new_aligned(k->bytes, &k->ours);
    return status;
}

static bool keep_state(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    keep *k = (keep *)exchange;
    const weft_exchange_state all[] = {
        {.name = "clock", .type = {WEFT_I32, {0}}, .data = &k->clock, .bytes = 4},
        {.name = "common",
         .alike = true,
         .type = {WEFT_F64, weft_shape_of(1, (int64_t[]){3})},
         .data = k->common,
         .bytes = 24},
        {.name = "mine", .like_parameters = true, .data = k->mine, .bytes = k->bytes},
        {.name = "ours",
         .like_parameters = true,
         .alike = true,
         .data = k->ours,
         .bytes = k->bytes},
    };
    if (i >= (int)WEFT_COUNT(all)) return false;
    *out = all[i];
    return true;
}

/* Whether all elements of `data` that belong to parameters, and not to padding, are `number`. */
static bool is_all(keep *k, const char *data, double number)
{
    weft_store *store = k->head.setup.store;
    bool same = true;
    /* Mapped copies do not tell where a parameter lies, so nothing is checked. */
    if (!weft_device_shares(store->schema->devices[0])) return true;
    for (int i = 0; i < weft_store_count(store); i++) {
        size_t at, bytes;
        weft_dtype dtype;
        void *all, *one;
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM) continue;
        if (weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &all, &bytes) != WEFT_OK)
            return false;
        weft_store_unmap_read(store, all);
        if (weft_store_map(store, i, &dtype, &one, &at) != WEFT_OK) return false;
        weft_store_unmap_read(store, one);
        size_t begin = (size_t)((uintptr_t)one - (uintptr_t)all);
        weft_type type = weft_store_type(store, i);
        for (int64_t e = 0; e < weft_shape_elements(&type.shape); e++)
            same = same && weft_number_get(dtype, data + begin, e) == number;
    }
    return same;
}

static weft_status keep_begin(weft_exchange *exchange)
{
    keep *k = (keep *)exchange;
    int learner = exchange->setup.endpoint->learner;
    if (!exchange->restored) return WEFT_OK;
    double step = k->common[0];
    bool fresh = k->clock == 0; /* the checkpoint does not know this learner */
    bool own =
        fresh ? is_all(k, k->mine, 0)
              : k->clock == (int32_t)step * (learner + 1) && is_all(k, k->mine, learner + step);
    bool right = own && step > 0 && k->common[2] == -step && is_all(k, k->ours, step);
    if (fresh) atomic_fetch_add(&seen.fresh, 1);
    atomic_fetch_add(right ? &seen.restored : &seen.wrong, 1);
    return WEFT_OK;
}

static weft_status keep_after(weft_exchange *exchange, weft_step_result *result)
{
    keep *k = (keep *)exchange;
    int learner = exchange->setup.endpoint->learner;
    int64_t step = result->step;
    k->clock = (int32_t)step * (learner + 1);
    k->common[0] = (double)step;
    k->common[2] = -(double)step;
    for (size_t i = 0; i < k->bytes / weft_dtype_size(k->dtype); i++) {
        weft_number_put(k->dtype, k->mine, (int64_t)i, (double)(learner + step));
        weft_number_put(k->dtype, k->ours, (int64_t)i, (double)step);
    }
    result->met = true;
    return WEFT_OK;
}

const weft_exchange_ops exchange_keep = {
    .struct_size = sizeof(exchange_keep),
    .size = sizeof(keep),
    .name = "keep",
    .lockstep = true,
    .open = keep_open,
    .close = keep_close,
    .step = {.after = keep_after},
    .life = {.state = keep_state, .begin = keep_begin},
};

/* --- odd: states that are not valid, or differ from another run's --- */

typedef struct odd {
    weft_exchange head;
    char *what;
    double data[3];
} odd;

static void odd_close(weft_exchange *exchange)
{
    free(((odd *)exchange)->what);
}

static weft_status odd_open(weft_exchange *exchange, const char *arguments,
                            const weft_exchange_setup *setup)
{
    weft_spec_key keys[] = {{.name = "what", .text = &((odd *)exchange)->what}, {.name = NULL}};
    (void)setup;
    return *arguments ? weft_spec_parse("exchange odd", arguments, keys) : WEFT_OK;
}

static bool is_about(const weft_exchange *exchange, const char *what)
{
    const odd *o = (const odd *)exchange;
    return o->what && strcmp(o->what, what) == 0;
}

static bool odd_state(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    bool data = !is_about(exchange, "data"), half = is_about(exchange, "half");
    *out = (weft_exchange_state){.name = is_about(exchange, "name") ? "a/b"
                                         : half && i > 0            ? "other"
                                                                    : "one",
                                 .alike = true,
                                 .type = {WEFT_F64, {0}},
                                 .data = data ? ((odd *)exchange)->data : NULL,
                                 .bytes = is_about(exchange, "bytes") ? 5 : 8};
    if (is_about(exchange, "wide")) {
        out->type.shape = weft_shape_of(1, (int64_t[]){3});
        out->bytes = 24;
    }
    return is_about(exchange, "twice") || half ? i < 2 : ((odd *)exchange)->what && i < 1;
}

static weft_status odd_after(weft_exchange *exchange, weft_step_result *result)
{
    (void)exchange;
    result->met = true;
    return WEFT_OK;
}

static const weft_exchange_ops odd_ops = {
    .struct_size = sizeof(odd_ops),
    .size = sizeof(odd),
    .name = "odd",
    .lockstep = true,
    .open = odd_open,
    .close = odd_close,
    .step = {.after = odd_after},
    .life = {.state = odd_state},
};

/* --- fail: learner 1 fails in one hook --- */

typedef struct failing {
    weft_exchange head;
    int64_t at;
    char *moment;
    int64_t step;
} failing;

static void fail_close(weft_exchange *exchange)
{
    free(((failing *)exchange)->moment);
}

static weft_status fail_open(weft_exchange *exchange, const char *arguments,
                             const weft_exchange_setup *setup)
{
    failing *f = (failing *)exchange;
    double at = 1;
    weft_spec_key keys[] = {{.name = "at", .number = &at, .low = 1, .high = 1e9, .integer = true},
                            {.name = "moment", .text = &f->moment},
                            {.name = NULL}};
    (void)setup;
    weft_status status = *arguments ? weft_spec_parse("exchange fail", arguments, keys) : WEFT_OK;
    f->at = (int64_t)at;
    return status;
}

static weft_status fail_now(weft_exchange *exchange, const char *moment, int64_t step)
{
    failing *f = (failing *)exchange;
    bool now = f->moment && strcmp(f->moment, moment) == 0 && step == f->at;
    if (!now || exchange->setup.endpoint->learner != 1) return WEFT_OK;
    return weft_fail(WEFT_ERR_IO, "learner 1 failed in %s of step %lld", moment, (long long)step);
}

static weft_status fail_begin(weft_exchange *exchange)
{
    return fail_now(exchange, "begin", ((failing *)exchange)->at);
}
static weft_status fail_before(weft_exchange *exchange, int64_t step)
{
    ((failing *)exchange)->step = step;
    return fail_now(exchange, "before", step);
}
static weft_status fail_ready(weft_exchange *exchange, const weft_gradient *gradient)
{
    return gradient->index == 0 ? fail_now(exchange, "ready", ((failing *)exchange)->step)
                                : WEFT_OK;
}
static weft_status fail_poll(weft_exchange *exchange)
{
    return fail_now(exchange, "poll", ((failing *)exchange)->step);
}
static weft_status fail_end(weft_exchange *exchange)
{
    return fail_now(exchange, "end", ((failing *)exchange)->at);
}
static weft_status fail_after(weft_exchange *exchange, weft_step_result *result)
{
    double one = 1;
    result->met = true;
    WEFT_TRY(fail_now(exchange, "after", result->step));
    return weft_exchange_sum(exchange, "who is there", &one);
}

const weft_exchange_ops exchange_fail = {
    .struct_size = sizeof(exchange_fail),
    .size = sizeof(failing),
    .name = "fail",
    .lockstep = true,
    .open = fail_open,
    .close = fail_close,
    .step = {.before = fail_before, .ready = fail_ready, .poll = fail_poll, .after = fail_after},
    .life = {.begin = fail_begin, .end = fail_end},
};

weft_status exchanges_register_odd(weft_context *context)
{
    return exchange_register(context, &odd_ops);
}
