#include "fake_exchanges.h"

#include <pthread.h>

#include "base/registry.h"
#include "exchange/flat_optimizer.h"

exchanges_seen seen;

void exchanges_forget(void)
{
    for (int i = 0; i < 4; i++) free(seen.last[i]);
    for (int i = 0; i < 4; i++) seen.last[i] = NULL;
    atomic_store(&seen.restored, 0);
    atomic_store(&seen.wrong, 0);
    atomic_store(&seen.fresh, 0);
    atomic_store(&seen.early, 0);
    atomic_store(&seen.ready, 0);
    atomic_store(&seen.polls, 0);
}

weft_status take_nothing(const char *name, const char *arguments)
{
    if (!*arguments) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "exchange %s takes no options, not '%s'", name, arguments);
}

/* Gives the type and the bytes of all parameters of the store. */
weft_status count_parameters(weft_store *store, weft_dtype *dtype, size_t *bytes)
{
    void *data;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, dtype, &data, bytes));
    weft_store_unmap_read(store, data);
    return WEFT_OK;
}

/* --- sum --- */

typedef struct sum {
    weft_exchange head;
    char *gradient; /* layout of WEFT_ALL_PARAMETERS */
    size_t bytes;
    int count, begun;
    weft_group_request **passages; /* the all-reduce of each gradient */
    weft_flat_optimizer *optimizer;
} sum;

static void sum_close(weft_exchange *exchange)
{
    sum *s = (sum *)exchange;
    for (int i = 0; i < s->count; i++) weft_group_request_destroy(&s->passages[i]);
    free((void *)s->passages);
    weft_flat_optimizer_close(&s->optimizer);
    free(s->gradient);
}

static weft_status sum_bind(sum *s, const weft_exchange_setup *setup)
{
    weft_gradient g;
    weft_dtype dtype;
    const weft_program *p = weft_instance_program(setup->instance);
    WEFT_TRY(count_parameters(setup->store, &dtype, &s->bytes));
    WEFT_TRY(weft_new_aligned(s->bytes, &s->gradient));
    memset(s->gradient, 0, s->bytes);
    int count = 0;
    while (weft_program_gradient(p, count, &g)) count++;
    if (count == 0) return WEFT_OK;
    WEFT_TRY(weft_new_bytes((void *)&s->passages, (size_t)count, sizeof(weft_group_request *)));
    for (; weft_program_gradient(p, s->count, &g); s->count++) {
        char *at = s->gradient + (size_t)g.begin * weft_dtype_size(dtype);
        WEFT_TRY(weft_learner_group_bind(setup->endpoint,
                                         &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                          .dtype = dtype,
                                                          .what = g.name,
                                                          .send = at,
                                                          .receive = at,
                                                          .count = g.count},
                                         &s->passages[s->count]));
    }
    return weft_flat_optimizer_open(setup->context, setup->store, setup->optimizer, dtype,
                                    (int64_t)(s->bytes / weft_dtype_size(dtype)),
                                    (weft_segment_list){0}, 0, &s->optimizer);
}

static weft_status sum_open(weft_exchange *exchange, const char *arguments,
                            const weft_exchange_setup *setup)
{
    WEFT_TRY(take_nothing("sum", arguments));
    return setup ? sum_bind((sum *)exchange, setup) : WEFT_OK;
}

static weft_status sum_ready(weft_exchange *exchange, const weft_gradient *g)
{
    sum *s = (sum *)exchange;
    const void *data;
    char *to = s->gradient + (size_t)g->begin * weft_dtype_size(g->dtype);
    WEFT_TRY(weft_gradient_map(exchange->setup.instance, g->index, &data));
    for (int64_t i = 0; i < g->count; i++)
        weft_number_put(g->dtype, to, i,
                        weft_number_get(g->dtype, data, i) / exchange->setup.endpoint->learners);
    weft_gradient_unmap(exchange->setup.instance, g->index, data);
    s->begun++;
    atomic_fetch_add(&seen.ready, 1);
    return weft_group_request_start(s->passages[g->index]);
}

/* Counts calls at which some gradients are ready and others are not. `poll` is called while
 * instructions of the pass follow, and while a checkpoint is written. */
static weft_status sum_poll(weft_exchange *exchange)
{
    sum *s = (sum *)exchange;
    bool done;
    atomic_fetch_add(&seen.polls, 1);
    if (s->begun > 0 && s->begun < s->count) atomic_fetch_add(&seen.early, 1);
    return s->begun > 0 ? weft_group_request_test(s->passages[0], &done) : WEFT_OK;
}

static weft_status sum_update(weft_exchange *exchange, int64_t step)
{
    sum *s = (sum *)exchange;
    void *data;
    size_t bytes;
    weft_dtype dtype;
    (void)step;
    if (s->begun != s->count)
        return weft_fail(WEFT_ERR_INTERNAL, "%d of %d gradients were ready", s->begun, s->count);
    s->begun = 0;
    for (int i = 0; i < s->count; i++) WEFT_TRY(weft_group_request_wait(s->passages[i]));
    if (s->count == 0) return WEFT_OK;
    WEFT_TRY(weft_store_map(exchange->setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    weft_status status = weft_flat_optimizer_step(s->optimizer, data, s->gradient);
    weft_status back = weft_store_unmap(exchange->setup.store, WEFT_ALL_PARAMETERS, data);
    return status == WEFT_OK ? back : status;
}

static bool sum_state(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    sum *s = (sum *)exchange;
    if (!s->optimizer || !weft_flat_optimizer_state(s->optimizer, i, out)) return false;
    out->alike = true;
    out->like_parameters = out->type.shape.rank == 1;
    return true;
}

static weft_status sum_after(weft_exchange *exchange, weft_step_result *result)
{
    (void)exchange;
    result->met = true;
    return WEFT_OK;
}

static const weft_exchange_ops sum_ops = {
    .struct_size = sizeof(sum_ops),
    .size = sizeof(sum),
    .name = "sum",
    .lockstep = true,
    .owns_update = true,
    .open = sum_open,
    .close = sum_close,
    .step = {.ready = sum_ready, .poll = sum_poll, .update = sum_update, .after = sum_after},
    .life = {.state = sum_state},
};

/* --- pull and apart --- */

typedef struct pull {
    weft_exchange head;
    void *data;
    weft_dtype dtype;
    size_t bytes;
    weft_group_request *passage;
    bool under_way;
} pull;

static void pull_close(weft_exchange *exchange)
{
    pull *p = (pull *)exchange;
    weft_group_request_destroy(&p->passage);
    free(p->data);
}

static weft_status pull_bind(pull *p, const weft_exchange_setup *setup)
{
    WEFT_TRY(count_parameters(setup->store, &p->dtype, &p->bytes));
    WEFT_TRY(weft_new_aligned(p->bytes, &p->data));
    return weft_learner_group_bind(
        setup->endpoint,
        &(weft_transfer){.kind = WEFT_BROADCAST,
                         .dtype = p->dtype,
                         .what = "the parameters of learner 0",
                         .receive = p->data,
                         .count = (int64_t)(p->bytes / weft_dtype_size(p->dtype))},
        &p->passage);
}

static weft_status pull_open(weft_exchange *exchange, const char *arguments,
                             const weft_exchange_setup *setup)
{
    WEFT_TRY(take_nothing("pull", arguments));
    return setup ? pull_bind((pull *)exchange, setup) : WEFT_OK;
}

static weft_status copy_parameters(pull *p, bool in)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    weft_store *store = p->head.setup.store;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    memcpy(in ? data : p->data, in ? p->data : data, bytes);
    if (in) return weft_store_unmap(store, WEFT_ALL_PARAMETERS, data);
    weft_store_unmap_read(store, data);
    return WEFT_OK;
}

static weft_status pull_before(weft_exchange *exchange, int64_t step)
{
    pull *p = (pull *)exchange;
    (void)step;
    if (!p->under_way) return WEFT_OK;
    p->under_way = false;
    WEFT_TRY(weft_group_request_wait(p->passage));
    return copy_parameters(p, true);
}

static weft_status pull_poll(weft_exchange *exchange)
{
    pull *p = (pull *)exchange;
    bool done;
    return p->under_way ? weft_group_request_test(p->passage, &done) : WEFT_OK;
}

static weft_status pull_after(weft_exchange *exchange, weft_step_result *result)
{
    pull *p = (pull *)exchange;
    (void)result;
    WEFT_TRY(copy_parameters(p, false));
    p->under_way = true;
    return weft_group_request_start(p->passage);
}

/* Records the parameters of this learner in seen.last. The ranks of a learner have equal parameters
 * and write one after the other. */
static weft_status show(weft_exchange *exchange)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pull *p = (pull *)exchange;
    void **last = &seen.last[exchange->setup.endpoint->learner];
    WEFT_TRY(copy_parameters(p, false));
    pthread_mutex_lock(&lock);
    void *room = realloc(*last, p->bytes); /* the run before may have had other parameters */
    if (room) *last = memcpy(room, p->data, p->bytes);
    seen.bytes = p->bytes;
    pthread_mutex_unlock(&lock);
    return room ? WEFT_OK : weft_fail(WEFT_ERR_MEMORY, "no memory for %zu bytes", p->bytes);
}

static weft_status pull_end(weft_exchange *exchange)
{
    WEFT_TRY(pull_before(exchange, 0));
    return show(exchange);
}

static const weft_exchange_ops pull_ops = {
    .struct_size = sizeof(pull_ops),
    .size = sizeof(pull),
    .name = "pull",
    .open = pull_open,
    .close = pull_close,
    .step = {.before = pull_before, .poll = pull_poll, .after = pull_after},
    .life = {.end = pull_end},
};

/* Learner 1 leaves: asked for after step 2, the leave takes effect after one more step. */
static weft_status leave_after(weft_exchange *exchange, weft_step_result *result)
{
    result->leave = exchange->setup.endpoint->learner == 1 && result->step == 2;
    return WEFT_OK;
}

static weft_status apart_open(weft_exchange *exchange, const char *arguments,
                              const weft_exchange_setup *setup)
{
    WEFT_TRY(take_nothing("apart", arguments));
    return pull_open(exchange, arguments, setup);
}

static const weft_exchange_ops apart_ops = {
    .struct_size = sizeof(apart_ops),
    .size = sizeof(pull),
    .name = "apart",
    .open = apart_open,
    .close = pull_close,
    .life = {.end = show},
};

static weft_status leave_open(weft_exchange *exchange, const char *arguments,
                              const weft_exchange_setup *setup)
{
    WEFT_TRY(take_nothing("leave", arguments));
    return pull_open(exchange, arguments, setup);
}

static const weft_exchange_ops leave_ops = {
    .struct_size = sizeof(leave_ops),
    .size = sizeof(pull),
    .name = "leave",
    .open = leave_open,
    .close = pull_close,
    .step = {.after = leave_after},
    .life = {.end = show},
};

weft_status exchange_register(weft_context *context, const weft_exchange_ops *ops)
{
    const weft_entry entry = {.kind = WEFT_KIND_EXCHANGE, .name = ops->name, .ops = ops};
    return weft_registry_add(context, &entry, 1);
}

weft_status exchanges_register(weft_context *context)
{
    const weft_exchange_ops *const all[] = {&sum_ops,   &pull_ops,      &apart_ops,
                                            &leave_ops, &exchange_keep, &exchange_fail};
    for (size_t i = 0; i < WEFT_COUNT(all); i++) WEFT_TRY(exchange_register(context, all[i]));
    return WEFT_OK;
}
