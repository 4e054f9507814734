#include "checked_exchanges.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "base/registry.h"

enum { MOST = 8 };
static weft_exchange_ops watched[MOST];
static const weft_exchange_ops *originals[MOST];
static char names[MOST][64];
static int watched_count;

static const weft_exchange_ops *original(const weft_exchange *exchange)
{
    return originals[exchange->ops - watched];
}

/* --- watched_X: ranks of a learner that hold the same shard have equal parameters --- */

typedef struct part {
    uint64_t which, value;
} part;
enum { PARTS = 64 };

static uint64_t hash_bytes(const unsigned char *bytes, size_t count)
{
    uint64_t hash = 7;
    for (size_t i = 0; i < count; i++) hash = weft_mix(hash, bytes[i]);
    return hash;
}

static weft_status list_parts(const weft_store *store, const char *data, weft_dtype dtype,
                              part *out)
{
    int n = 0;
    for (int i = 0; i < weft_store_count(store); i++) {
        weft_shape whole;
        int64_t start[WEFT_MAX_RANK], begin, count;
        if (weft_store_kind(store, i) != WEFT_VALUE_PARAM) continue;
        if (n == PARTS) return weft_fail(WEFT_ERR_INTERNAL, "a model of too many parameters");
        weft_type type = weft_store_type(store, i);
        weft_store_part(store, i, &whole, start);
        WEFT_TRY(weft_store_range(store, i, &begin, &count));
        out[n].which = weft_hash_text(weft_store_name(store, i));
        for (int d = 0; d < whole.rank; d++)
            out[n].which =
                weft_mix(weft_mix(out[n].which, (uint64_t)start[d]), (uint64_t)type.shape.dim[d]);
        size_t size = weft_dtype_size(dtype);
        out[n++].value =
            hash_bytes((const unsigned char *)data + (size_t)begin * size, (size_t)count * size);
    }
    return WEFT_OK;
}

static weft_status check_alike(const weft_exchange *e, const char *when)
{
    int ranks = weft_comm_size(e->setup.learner);
    part mine[PARTS] = {{0, 0}}, *all;
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(e->setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    weft_status status = list_parts(e->setup.store, data, dtype, mine);
    weft_store_unmap_read(e->setup.store, data);
    WEFT_TRY(status);
    WEFT_TRY(WEFT_NEW(&all, ranks * PARTS));
    status = weft_comm_run(e->setup.learner, &(weft_transfer){.kind = WEFT_ALL_GATHER,
                                                              .dtype = WEFT_U8,
                                                              .what = "what ranks have",
                                                              .send = mine,
                                                              .receive = all,
                                                              .count = sizeof(mine)});
    for (int i = 0; i < ranks * PARTS && status == WEFT_OK; i++)
        for (int k = 0; k < PARTS && mine[k].which; k++)
            if (all[i].which == mine[k].which && all[i].value != mine[k].value)
                status = weft_fail(WEFT_ERR_INTERNAL, "ranks %d and %d of a learner differ %s",
                                   weft_comm_rank(e->setup.learner), i / PARTS, when);
    free(all);
    return status;
}

static weft_status watched_before(weft_exchange *exchange, int64_t step)
{
    if (original(exchange)->step.before) WEFT_TRY(original(exchange)->step.before(exchange, step));
    return check_alike(exchange, "before a step");
}

static weft_status watched_end(weft_exchange *exchange)
{
    if (original(exchange)->life.end) WEFT_TRY(original(exchange)->life.end(exchange));
    return check_alike(exchange, "at the end");
}

/* Adds an exchange that reads the options of another one. */
static weft_status add(weft_context *context, const weft_exchange_ops *ops, const char *like)
{
    weft_entry entry = *weft_registry_look(context, WEFT_KIND_EXCHANGE, like, strlen(like));
    entry.name = ops->name;
    entry.ops = ops;
    return weft_registry_add(context, &entry, 1);
}

weft_status watched_register(weft_context *context)
{
    const weft_entry *e;
    const weft_exchange_ops *found[MOST];
    int count = 0;
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_EXCHANGE, i)) && count < MOST; i++)
        if (!((const weft_exchange_ops *)e->ops)->lockstep) found[count++] = e->ops;
    for (int i = 0; i < count; i++) {
        weft_exchange_ops *ops = &watched[watched_count];
        (void)snprintf(names[watched_count], sizeof(names[0]), "watched_%s", found[i]->name);
        *ops = *found[i];
        ops->name = names[watched_count];
        ops->step.before = watched_before;
        ops->life.end = watched_end;
        originals[watched_count++] = found[i];
        WEFT_TRY(add(context, ops, found[i]->name));
    }
    return WEFT_OK;
}

/* --- balanced: records what gossip does to the parameters --- */

static const weft_exchange_ops *gossip(void)
{
    return weft_exchange_gossip.ops;
}

balance balanced;
static double *began[BALANCED]; /* by learner: its parameters before the running step */
static weft_exchange_ops balanced_ops;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void balance_forget(void)
{
    free(balanced.first);
    free(balanced.changed);
    for (int i = 0; i < BALANCED; i++) {
        free(balanced.last[i]);
        free(balanced.residual[i]);
        free(began[i]);
        began[i] = NULL;
    }
    balanced = (balance){.count = 0};
}

static weft_status keep(double **to, const double *from, int64_t count)
{
    if (!*to) WEFT_TRY(WEFT_NEW(to, count));
    memcpy(*to, from, (size_t)count * sizeof(double));
    return WEFT_OK;
}

static double rounded(double x)
{
    return ldexp(rint(ldexp(x, 20)), -20);
}

/* Rounds the changes of this learner's parameters since `began` to multiples of 2^-20 and adds them
 * to balanced.changed. With `first`, rounds the parameters themselves, before the first step. */
static weft_status count_change(const weft_exchange *e, bool first)
{
    int me = e->setup.endpoint->learner;
    void *data;
    size_t bytes;
    weft_dtype dtype;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_store_map(e->setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    double *now = data;
    int64_t count = (int64_t)(bytes / sizeof(double));
    pthread_mutex_lock(&lock);
    balanced.count = count;
    if (!balanced.changed) status = WEFT_NEW(&balanced.changed, count);
    for (int64_t i = 0; i < count && status == WEFT_OK; i++) {
        double change = first ? 0 : rounded(now[i] - began[me][i]);
        now[i] = first ? rounded(now[i]) : began[me][i] + change;
        balanced.changed[i] += change;
    }
    if (status == WEFT_OK && !balanced.first) status = keep(&balanced.first, now, count);
    pthread_mutex_unlock(&lock);
    weft_status back = weft_store_unmap(e->setup.store, WEFT_ALL_PARAMETERS, data);
    return status == WEFT_OK ? back : status;
}

static weft_status read_into(const weft_exchange *e, double **to)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(e->setup.store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    weft_status status = keep(to, data, (int64_t)(bytes / sizeof(double)));
    weft_store_unmap_read(e->setup.store, data);
    return status;
}

static weft_status balanced_begin(weft_exchange *exchange)
{
    WEFT_TRY(count_change(exchange, true));
    WEFT_TRY(gossip()->life.begin(exchange));
    return read_into(exchange, &began[exchange->setup.endpoint->learner]);
}

static weft_status balanced_after(weft_exchange *exchange, weft_step_result *result)
{
    int me = exchange->setup.endpoint->learner;
    WEFT_TRY(count_change(exchange, false));
    WEFT_TRY(gossip()->step.after(exchange, result));
    balanced.steps[me]++;
    return read_into(exchange, &began[me]);
}

static weft_status balanced_end(weft_exchange *exchange)
{
    weft_exchange_state s;
    int me = exchange->setup.endpoint->learner;
    WEFT_TRY(gossip()->life.end(exchange));
    WEFT_TRY(gossip()->life.save(exchange));
    for (int i = 0; weft_exchange_state_at(exchange, i, &s); i++)
        if (strstr(s.name, "_residual"))
            WEFT_TRY(keep(&balanced.residual[me], s.data, balanced.count));
    return read_into(exchange, &balanced.last[me]);
}

weft_status balanced_register(weft_context *context)
{
    balanced_ops = *gossip();
    balanced_ops.name = "balanced";
    balanced_ops.life.begin = balanced_begin;
    balanced_ops.step.after = balanced_after;
    balanced_ops.life.end = balanced_end;
    return add(context, &balanced_ops, "gossip");
}
