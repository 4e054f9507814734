/* Exchange adapter for an elastic learner whose mesh shards the parameters, or whose device lays
 * them out otherwise than the run. Learners exchange whole, unsharded parameters in one layout, so
 * their meshes and devices may differ. Rank 0 of the learner has a store with the whole parameters
 * in that layout, on which the inner exchange works. Gradients of all ranks are gathered for
 * it, and new parameters are broadcast to the ranks, which take their shards, before a step reads
 * them. */
#include <stdio.h>

#include "learner/unsharded_params.h"
#include "program/program.h"

typedef struct unsharded {
    weft_exchange head;
    weft_exchange_ops ops;
    weft_exchange_actors actors;
    weft_rank *rank;
    weft_exchange *inner; /* on rank 0 only, as are `store`, `turner` and `instance` */
    weft_comm *self;      /* communicator of this rank alone */
    weft_store *store,
        *gradient_store;     /* whole parameters; a clone, to lay gradients out like them */
    weft_instance *instance; /* on `store`; never run: its gradients come from the ranks */
    weft_unsharded_params params;
    int *entries; /* on rank 0: of each parameter its index in `store` */
    bool saved;   /* the ranks have what a checkpoint reads, perhaps not their own parameters */
    void *image;  /* this rank's gradients */
} unsharded;

/* On rank 0: writes the whole parameters or gradients of w->params to a store. */
static weft_status put(const unsharded *w, weft_store *store)
{
    for (int i = 0; i < w->params.count && w->inner; i++)
        WEFT_TRY(weft_store_write(store, w->entries[i], weft_unsharded_at(&w->params, i)));
    return WEFT_OK;
}

static weft_status spread(const unsharded *w)
{
    for (int i = 0; i < w->params.count && w->inner; i++)
        WEFT_TRY(weft_store_read(w->store, w->entries[i], weft_unsharded_at(&w->params, i)));
    return weft_unsharded_spread(&w->params, !w->inner);
}

static weft_status take_parameters(const unsharded *w)
{
    WEFT_TRY(weft_unsharded_gather(&w->params, NULL));
    return put(w, w->store);
}

/* On rank 0: writes the gathered gradients to the places where w->instance would have made them, so
 * that the inner exchange finds them there. */
static weft_status lay_gradients(const unsharded *w)
{
    size_t size = weft_dtype_size(w->params.dtype), bytes;
    weft_dtype dtype;
    weft_gradient g;
    void *all;
    const void *to;
    const weft_program *program = weft_instance_program(w->instance);
    WEFT_TRY(put(w, w->gradient_store));
    WEFT_TRY(weft_store_map(w->gradient_store, WEFT_ALL_PARAMETERS, &dtype, &all, &bytes));
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && weft_program_gradient(program, i, &g); i++) {
        status = weft_gradient_map(w->instance, g.index, &to);
        if (status != WEFT_OK) break;
        memcpy((void *)(uintptr_t)to, (char *)all + (size_t)g.begin * size, (size_t)g.count * size);
        weft_gradient_unmap(w->instance, g.index, to);
    }
    weft_store_unmap_read(w->gradient_store, all);
    return status;
}

/* Copies the waiting time of the inner exchange to the adapter; returns `status`. */
static weft_status from_inner(unsharded *w, weft_status status)
{
    w->head.waited = w->inner->waited;
    return status;
}

static weft_status give_gradients(const unsharded *w)
{
    const weft_rank *r = w->rank;
    weft_gradient g;
    size_t size = weft_dtype_size(w->params.dtype);
    for (int i = 0; weft_program_gradient(weft_instance_program(r->instance), i, &g); i++) {
        const void *data;
        WEFT_TRY(weft_gradient_map(r->instance, g.index, &data));
        memcpy((char *)w->image + (size_t)g.begin * size, data, (size_t)g.count * size);
        weft_gradient_unmap(r->instance, g.index, data);
    }
    WEFT_TRY(weft_unsharded_gather(&w->params, w->image));
    if (!w->inner) return WEFT_OK;
    WEFT_TRY(lay_gradients(w));
    for (int i = 0; weft_program_gradient(weft_instance_program(w->instance), i, &g); i++)
        WEFT_TRY(weft_exchange_ready(w->inner, &g));
    return WEFT_OK;
}

/* --- hooks --- */

static weft_status unsharded_wait(weft_exchange *exchange)
{
    unsharded *w = (unsharded *)exchange;
    if (w->inner) WEFT_TRY(from_inner(w, weft_exchange_wait(w->inner)));
    return spread(w);
}

static weft_status unsharded_begin(weft_exchange *exchange)
{
    const unsharded *w = (const unsharded *)exchange;
    WEFT_TRY(take_parameters(w));
    if (w->inner) WEFT_TRY(weft_exchange_begin(w->inner));
    return unsharded_wait(exchange);
}

static weft_status unsharded_before(weft_exchange *exchange, int64_t step)
{
    unsharded *w = (unsharded *)exchange;
    if (w->inner) {
        w->inner->weight = exchange->weight;
        w->inner->empty = exchange->empty;
        WEFT_TRY(from_inner(w, weft_exchange_before(w->inner, step)));
    }
    bool other = w->ops.owns_update || w->saved;
    w->saved = false;
    return other ? unsharded_wait(exchange) : WEFT_OK;
}

static weft_status unsharded_poll(weft_exchange *exchange)
{
    const unsharded *w = (const unsharded *)exchange;
    return w->inner ? weft_exchange_poll(w->inner) : WEFT_OK;
}

static weft_status unsharded_update(weft_exchange *exchange, int64_t step)
{
    unsharded *w = (unsharded *)exchange;
    WEFT_TRY(give_gradients(w));
    return w->inner ? from_inner(w, weft_exchange_update(w->inner, step)) : WEFT_OK;
}

static weft_status unsharded_after(weft_exchange *exchange, weft_step_result *result)
{
    unsharded *w = (unsharded *)exchange;
    if (!w->ops.owns_update) WEFT_TRY(take_parameters(w));
    if (w->inner) WEFT_TRY(from_inner(w, weft_exchange_after(w->inner, result)));
    /* All ranks must stop after the same step, and only the inner exchange knows the last one. */
    if (result->asked)
        WEFT_TRY(weft_comm_run(
            w->rank->learner,
            WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_U8,
                          .what = "the last step of a learner", .receive = &result->until,
                          .count = sizeof(result->until), .unlimited = !w->inner)));
    return w->ops.owns_update ? WEFT_OK : spread(w);
}

static weft_status unsharded_save(weft_exchange *exchange)
{
    unsharded *w = (unsharded *)exchange;
    if (w->inner) WEFT_TRY(from_inner(w, weft_exchange_save(w->inner)));
    w->saved = true;
    return spread(w);
}

static weft_status unsharded_end(weft_exchange *exchange)
{
    const unsharded *w = (const unsharded *)exchange;
    if (w->inner) {
        w->inner->finished = exchange->finished;
        WEFT_TRY(weft_exchange_end(w->inner));
    }
    return spread(w);
}

static bool unsharded_figure(weft_exchange *exchange, int i, weft_series *out)
{
    const unsharded *w = (const unsharded *)exchange;
    return w->inner && weft_exchange_figure_at(w->inner, i, out);
}

static int64_t unsharded_began(weft_exchange *exchange)
{
    const unsharded *w = (const unsharded *)exchange;
    return w->inner ? w->inner->ops->actors->began(w->inner) : -1;
}

static void unsharded_close(weft_exchange *exchange)
{
    unsharded *w = (unsharded *)exchange;
    weft_exchange_close(&w->inner);
    weft_instance_destroy(&w->instance);
    weft_store_destroy(&w->gradient_store);
    weft_store_destroy(&w->store);
    weft_comm_close(&w->self);
    weft_unsharded_params_close(&w->params);
    free(w->entries);
    free(w->image);
}

/* --- opening --- */

/* Creates the store of the whole parameters on a device, and a program for it as of a single rank.
 */
static weft_status make_store_on(unsharded *w, const char *device)
{
    weft_rank *r = w->rank;
    weft_program_options p;
    const weft_value fetch[] = {weft_rank_loss(r), r->optimizer.learning_rate};
    weft_program_options_init(&p);
    p.fetch = fetch;
    p.fetch_count = fetch[1] == WEFT_NO_VALUE ? 1 : 2;
    weft_instance_destroy(&w->instance);
    weft_store_destroy(&w->store);
    WEFT_TRY(weft_rank_store(r, device, &w->store));
    return weft_instance_build_with(w->store, r->graph, &p, NULL, &w->instance);
}

/* Whether the host shares its memory, and it lies in the layout of the run. */
static bool fits_run(const unsharded *w)
{
    uint64_t layout = w->rank->run_spec->cluster->layout;
    return weft_device_shares(schema_store_device(w->store->schema)) &&
           (!layout || weft_store_form(w->store) == layout);
}

/* On rank 0: creates that store on the rank's own device, on the cpu, or on a device such as the
 * run's, but without its options. */
static weft_status make_store(unsharded *w)
{
    const weft_learner_link *link = w->rank->run_spec->cluster;
    char device[64] = "";
    if (link->device)
        (void)snprintf(device, sizeof(device), "%.*s", (int)strcspn(link->device, ":"),
                       link->device);
    WEFT_TRY(make_store_on(w, NULL));
    if (!fits_run(w)) WEFT_TRY(make_store_on(w, "cpu"));
    bool fits = fits_run(w);
    /* Not every machine has the run's device. */
    if (!fits && *device) fits = make_store_on(w, device) == WEFT_OK && fits_run(w);
    if (!fits && link->otherwise) return weft_fail(WEFT_ERR_ARGUMENT, "%s", link->otherwise);
    return weft_store_clone(w->store, &w->gradient_store);
}

static weft_status find_entries(unsharded *w)
{
    WEFT_TRY(WEFT_NEW(&w->entries, w->params.count + 1));
    for (int i = 0; i < w->params.count && w->store; i++)
        w->entries[i] = weft_store_find(w->store, w->params.tensors[i].name);
    return WEFT_OK;
}

static weft_status open_inner(unsharded *w, const weft_exchange_setup *setup)
{
    weft_exchange_setup own = *setup;
    weft_exchange_state state;
    own.store = w->store;
    own.instance = w->instance;
    own.learner = w->self;
    WEFT_TRY(weft_exchange_open(w->rank->run_spec->exchange, &own, &w->inner));
    if (!w->rank->run_spec->saves || !weft_exchange_state_at(w->inner, 0, &state)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "a learner that shards the parameters over its ranks, or lays them out otherwise than the "
        "run, cannot write checkpoints with the state of exchange %s; give --checkpoint to a "
        "learner with another mesh (data, domain), or the device of the coordinator",
        w->ops.name);
}

static weft_status make(unsharded *w, const weft_exchange_setup *setup)
{
    weft_rank *r = w->rank;
    size_t bytes;
    void *mine;
    weft_dtype dtype;
    bool first = weft_comm_rank(r->learner) == 0;
    WEFT_TRY(weft_comm_split(r->learner, weft_comm_rank(r->learner), 0, &w->self));
    if (first) WEFT_TRY(make_store(w));
    WEFT_TRY(weft_unsharded_params_open(&w->params, r));
    WEFT_TRY(find_entries(w));
    WEFT_TRY(weft_store_map(r->store, WEFT_ALL_PARAMETERS, &dtype, &mine, &bytes));
    weft_store_unmap_read(r->store, mine);
    WEFT_TRY(weft_new_aligned(bytes + 1, &w->image));
    return first ? open_inner(w, setup) : WEFT_OK;
}

weft_status weft_unsharded_open(weft_rank *rank, const weft_exchange_setup *setup,
                                weft_exchange **out)
{
    const weft_exchange_ops *inner;
    const char *arguments;
    unsharded *w;
    WEFT_TRY(weft_exchange_find(setup->context, rank->run_spec->exchange, &inner, &arguments));
    WEFT_TRY(WEFT_NEW(&w, 1));
    w->rank = rank;
    w->ops = (weft_exchange_ops){
        .struct_size = sizeof(w->ops),
        .name = inner->name,
        .lockstep = inner->lockstep,
        .owns_update = inner->owns_update,
        .close = unsharded_close,
        .step = {.before = unsharded_before,
                 .poll = unsharded_poll,
                 .update = inner->owns_update ? unsharded_update : NULL,
                 .wait = unsharded_wait,
                 .after = unsharded_after},
        .life = {.begin = unsharded_begin,
                 .save = unsharded_save,
                 .end = unsharded_end,
                 .figure = unsharded_figure},
        .actors = &w->actors,
    };
    w->actors.began = WEFT_EXCHANGE_HAS(inner, began) ? unsharded_began : NULL;
    w->head.ops = &w->ops;
    w->head.setup = *setup;
    *out = &w->head;
    weft_status status = make(w, setup);
    if (status != WEFT_OK) weft_exchange_close(out);
    return status;
}
