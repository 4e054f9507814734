/* The simulated learners, which really compute their steps. All learners share one program. Each
 * worker thread has an instance of it, and binds this instance to the store of the learner whose
 * step it computes. */
#include "train/sim/sim_internal.h"

/* Listener of a worker's instance: copies a final gradient to the buffer that the learner's actor
 * reads. */
static weft_status take_gradient(void *user, const weft_gradient *g)
{
    const weft_sim_worker *h = user;
    size_t size = weft_dtype_size(h->dtype);
    const void *data;
    WEFT_TRY(weft_gradient_map(h->rank.instance, g->index, &data));
    memcpy((char *)h->now->gradients + (size_t)g->begin * size, data, (size_t)g->count * size);
    weft_gradient_unmap(h->rank.instance, g->index, data);
    return WEFT_OK;
}

static weft_status copy_parameters(const weft_sim_learner *p, bool in)
{
    void *data;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(p->store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    memcpy(in ? data : p->parameters, in ? p->parameters : data, bytes);
    if (in) return weft_store_unmap(p->store, WEFT_ALL_PARAMETERS, data);
    weft_store_unmap_read(p->store, data);
    return WEFT_OK;
}

/* Makes the batch that learner `index` would have at this step in a real run. */
static void make_batch(const weft_simulation *s, int index, weft_sim_worker *h)
{
    const weft_trainer *t = s->job;
    int64_t step = s->learner[index].steps;
    weft_loader_options options = {.split = WEFT_TRAIN,
                                   .batch = t->options.length.batch,
                                   .slots = t->run_spec.slots,
                                   .parts = s->learners,
                                   .part = index,
                                   .seed = (uint64_t)t->options.task.seed,
                                   .shuffle = true,
                                   .real = weft_graph_real(s->lead->graph)};
    weft_rank_rows(s->lead, &options);
    weft_batch_make(t->data, &options, step / s->epoch,
                    step % s->epoch * options.batch * options.parts, &h->batch);
}

static weft_status compute(void *user, int worker, int index)
{
    weft_simulation *s = user;
    weft_sim_worker *h = &s->workers[worker];
    weft_sim_learner *p = &s->learner[index];
    weft_step_consensus consensus = {0};
    h->now = p;
    make_batch(s, index, h);
    WEFT_TRY(weft_batch_check(&h->batch, s->job->data, WEFT_TRAIN));
    s->weights[index] = h->batch.weight;
    s->empty[index] = h->batch.valid == 0;
    h->rank.store = p->store;
    h->rank.position.step = p->steps;
    WEFT_TRY(weft_instance_use(h->rank.instance, p->store));
    WEFT_TRY(weft_averages_use(&h->rank, p->store, p->steps > 0));
    WEFT_TRY(copy_parameters(p, true));
    weft_status status = weft_rank_step(&h->rank, &h->batch, &consensus);
    if (status != WEFT_OK) return weft_fail_within(status, "learner %d", index);
    p->loss = consensus.loss;
    p->rate = weft_rank_learning_rate(&h->rank);
    return p->gradients ? WEFT_OK : copy_parameters(p, false);
}

void weft_simulation_submit(weft_simulation *s, int index)
{
    weft_thread_pool_submit(s->pool, index);
}

weft_status weft_simulation_wait(weft_simulation *s, int index)
{
    return weft_thread_pool_wait(s->pool, index);
}

/* --- creation --- */

static weft_status open_worker(weft_simulation *s, weft_sim_worker *h)
{
    const weft_trainer *t = s->job;
    weft_loader_options options = {.split = WEFT_TRAIN,
                                   .batch = t->options.length.batch,
                                   .slots = t->run_spec.slots,
                                   .real = weft_graph_real(s->lead->graph)};
    h->dtype = s->dtype;
    WEFT_TRY(weft_rank_clone(s->lead, &h->rank));
    weft_instance_listen(h->rank.instance,
                         s->gradients ? &(weft_listener){.ready = take_gradient, .user = h} : NULL);
    return weft_batch_open(t->data, &options, &h->batch);
}

static weft_status open_learner(weft_simulation *s, int i)
{
    weft_sim_learner *p = &s->learner[i];
    size_t bytes = (size_t)s->count * weft_dtype_size(s->dtype);
    weft_random_start(&p->random, (uint64_t)s->job->options.task.seed, 1000 + (uint64_t)i);
    WEFT_TRY(weft_store_clone(s->lead->store, &p->store));
    WEFT_TRY(weft_new_aligned(bytes, &p->parameters));
    s->parameters[i] = p->parameters;
    if (s->gradients) {
        WEFT_TRY(weft_new_aligned(bytes, &p->gradients));
        s->gradients[i] = p->gradients;
    }
    return copy_parameters(p, false);
}

/* Allocates the buffers of all learners. Gradients are exported only if the exchange owns the
 * update. */
static weft_status make_room(weft_simulation *s)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    void *data;
    size_t bytes;
    WEFT_TRY(weft_exchange_find(s->job->context, s->job->run_spec.exchange, &ops, &arguments));
    WEFT_TRY(weft_store_map(s->lead->store, WEFT_ALL_PARAMETERS, &s->dtype, &data, &bytes));
    weft_store_unmap_read(s->lead->store, data);
    s->count = (int64_t)(bytes / weft_dtype_size(s->dtype));
    WEFT_TRY(WEFT_NEW(&s->learner, s->learners));
    WEFT_TRY(WEFT_NEW(&s->parameters, s->learners));
    WEFT_TRY(WEFT_NEW(&s->weights, s->learners));
    WEFT_TRY(WEFT_NEW(&s->empty, s->learners));
    if (ops->owns_update) WEFT_TRY(WEFT_NEW(&s->gradients, s->learners));
    return WEFT_OK;
}

weft_status weft_simulation_start_learners(weft_simulation *s)
{
    int threads = weft_context_threads(s->job->context);
    int workers = WEFT_MIN(WEFT_MAX(weft_cores() / threads, 1), s->learners);
    WEFT_TRY(make_room(s));
    for (int i = 0; i < s->learners; i++) {
        if (weft_stop_wanted(s->stop))
            return weft_fail(WEFT_ERR_INTERRUPTED, "stopped before the first step");
        WEFT_TRY(open_learner(s, i));
    }
    WEFT_TRY(WEFT_NEW(&s->workers, workers));
    while (s->worker_count < workers) WEFT_TRY(open_worker(s, &s->workers[s->worker_count++]));
    return weft_thread_pool_open(workers, s->learners, compute, s, &s->pool);
}

void weft_simulation_stop_learners(weft_simulation *s)
{
    weft_thread_pool_close(&s->pool);
    for (int i = 0; s->workers && i < s->worker_count; i++) {
        weft_batch_close(&s->workers[i].batch);
        weft_rank_free_clone(&s->workers[i].rank);
    }
    for (int i = 0; s->learner && i < s->learners; i++) {
        weft_store_destroy(&s->learner[i].store);
        free(s->learner[i].parameters);
        free(s->learner[i].gradients);
    }
    free(s->workers);
    free(s->learner);
    free((void *)s->parameters);
    free(s->weights);
    free(s->empty);
    free((void *)s->gradients);
}
