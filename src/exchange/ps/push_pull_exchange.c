/* The exchange `server`: training with parameter servers (Dean et al. 2012; Li et al. 2014). Each
 * learner pushes the gradients of a range when the last of them is ready, and begins the next step
 * with the parameters that the consistency policy gives it: bsp, async, ssp (Ho et al. 2013) or
 * softsync (Gupta, Zhang and Wang 2016). */
#include <math.h>

#include "base/spec.h"
#include "exchange/ps/ps_exchange.h"

/* --- opening --- */

/* Sets the steps between two pushes and two pulls. Both are 1 if the policy makes learners wait,
 * since they wait for the push of each step of another learner. */
static weft_status set_pace(weft_ps_options *o, double push, double fetch)
{
    if (weft_policy_waits(&o->policy) && (push > 1 || fetch > 1))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "exchange server: %s needs a policy in which no learner waits for others, as "
            "policy=async; leave it out, or give another policy",
            push > 1 ? "push" : "fetch");
    o->push = push < 1 ? 1 : (int64_t)push;
    o->fetch = fetch < 1 ? 1 : (int64_t)fetch;
    return WEFT_OK;
}

static weft_status parse(const weft_context *context, const char *arguments, weft_ps_options *o)
{
    char *policy = NULL, *scale = NULL;
    double count = -1, bound = -1, beta = -1, push = -1, fetch = -1;
    weft_spec_key keys[] = {
        {.name = "policy", .text = &policy},
        {.name = "c", .number = &count, .low = 1, .high = 1e6, .integer = true},
        {.name = "bound", .number = &bound, .low = 0, .high = INFINITY, .integer = true},
        {.name = "scale", .text = &scale},
        {.name = "beta", .number = &beta, .low = 0, .high = 100},
        {.name = "push", .number = &push, .low = 1, .high = 1e6, .integer = true},
        {.name = "fetch", .number = &fetch, .low = 1, .high = 1e6, .integer = true},
        {.name = NULL}};
    weft_status status = *arguments ? weft_spec_parse("exchange server", arguments, keys) : WEFT_OK;
    if (status == WEFT_OK)
        status = weft_policy_make(context, policy ? policy : "bsp", count, bound, scale, beta,
                                  &o->policy);
    if (status == WEFT_OK) status = set_pace(o, push, fetch);
    free(policy);
    free(scale);
    return status;
}

static weft_status server_open(weft_exchange *exchange, const char *arguments,
                               const weft_exchange_setup *setup)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    WEFT_TRY(parse(exchange->setup.context, arguments, &x->options));
    return setup ? weft_ps_exchange_make_room(x, setup) : WEFT_OK;
}

/* --- hooks --- */

static weft_status count_gradients(weft_ps_exchange *x)
{
    weft_gradient g;
    const weft_program *program = weft_instance_program(x->head.setup.instance);
    for (int i = 0; weft_program_gradient(program, i, &g); i++)
        for (int k = 0; k < x->range_count; k++) {
            const weft_server_range *r = &x->ranges[k];
            int64_t common =
                WEFT_MIN(g.begin + g.count, r->begin + r->count) - WEFT_MAX(g.begin, r->begin);
            x->gradient_counts[k] += WEFT_MAX(common, (int64_t)0);
        }
    return WEFT_OK;
}

static weft_status server_begin(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    WEFT_TRY(weft_shared_params_read(x->shared));
    if (x->leads) {
        WEFT_TRY(weft_ps_exchange_begin(x));
        WEFT_TRY(count_gradients(x));
    }
    WEFT_TRY(weft_ps_exchange_open_late(x));
    return weft_shared_params_write(x->shared); /* the servers' parameters may be newer */
}

static weft_status server_before(weft_exchange *exchange, int64_t step)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    x->clock++;
    x->step = step;
    if (x->has_exact_parameters) {
        x->has_exact_parameters = false;
        if (x->leads) weft_ps_exchange_know(x);
        WEFT_TRY(weft_shared_params_write(x->shared));
    }
    if (x->leads)
        memcpy(x->missing, x->gradient_counts,
               (size_t)x->range_count * sizeof(*x->gradient_counts));
    return WEFT_OK;
}

/* Takes the part of a gradient that lies in range k into the next push of this range; with the last
 * missing gradient the range is pushed. */
static weft_status take_gradient(weft_ps_exchange *x, int k, const weft_gradient *g,
                                 const char *data)
{
    const weft_server_range *r = &x->ranges[k];
    int64_t begin = WEFT_MAX(g->begin, r->begin);
    int64_t common = WEFT_MIN(g->begin + g->count, r->begin + r->count) - begin;
    size_t size = weft_dtype_size(x->dtype);
    bool laid;
    if (common <= 0) return WEFT_OK;
    data += (size_t)(begin - g->begin) * size;
    WEFT_TRY(weft_ps_client_write_gradient(weft_net_actor(x->net), k, data, begin - r->begin,
                                           common, &laid));
    if (!laid) memcpy((char *)x->gradients + (size_t)begin * size, data, (size_t)common * size);
    x->missing[k] -= common;
    return x->missing[k] == 0 ? weft_net_computed_part(x->net, x->clock, k) : WEFT_OK;
}

static weft_status server_ready(weft_exchange *exchange, const weft_gradient *g)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    weft_status status = WEFT_OK;
    const void *data;
    if (!x->leads) return WEFT_OK;
    WEFT_TRY(weft_gradient_map(exchange->setup.instance, g->index, &data));
    for (int k = 0; k < x->range_count && status == WEFT_OK; k++)
        status = take_gradient(x, k, g, data);
    weft_gradient_unmap(exchange->setup.instance, g->index, data);
    if (status != WEFT_ERR_NUMERIC) return status;
    weft_error_catch(&x->spoiled, status);
    return WEFT_OK;
}

static weft_status explain(weft_status status, int64_t step)
{
    if (status != WEFT_ERR_NUMERIC) return status;
    return weft_fail_within(status,
                            "step %lld: the loss is finite, but a gradient is not. A smaller --lr, "
                            "--clip-norm or --warmup may help",
                            (long long)step);
}

static weft_status server_update(weft_exchange *exchange, int64_t step)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    WEFT_TRY(explain(weft_error_raise(&x->spoiled), step));
    if (x->leads) {
        /* A range without gradients is pushed, too. No parameter of it is read, so `needed` has not
         * waited for its last push. */
        for (int k = 0; k < x->range_count; k++)
            if (x->gradient_counts[k] == 0) WEFT_TRY(weft_ps_exchange_wait_for(x, k));
        WEFT_TRY(explain(weft_net_computed(x->net, x->clock), step));
    }
    return weft_ps_exchange_begin_pull_overlap(x);
}

static weft_status server_after(weft_exchange *exchange, weft_step_result *result)
{
    weft_ps_exchange_after_step((weft_ps_exchange *)exchange, result);
    return WEFT_OK;
}

static bool server_together(const weft_exchange *exchange)
{
    return ((const weft_ps_exchange *)exchange)->options.policy.bound == 0;
}

static int server_averages(const weft_exchange *exchange, int learners)
{
    int count = ((const weft_ps_exchange *)exchange)->options.policy.count;
    return count > 0 ? WEFT_MIN(count, learners) : learners;
}

static weft_status server_save(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    if (x->ended) return WEFT_OK; /* weft_ps_exchange_end has pulled parameters and state */
    x->has_exact_parameters = !weft_codec_is_plain(exchange->setup.context, x->back);
    WEFT_TRY(weft_ps_exchange_save(x));
    return weft_shared_params_write(x->shared);
}

static weft_status server_end(weft_exchange *exchange)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    WEFT_TRY(weft_ps_exchange_end(x));
    return weft_shared_params_write(x->shared);
}

static int64_t server_began(weft_exchange *exchange)
{
    const weft_ps_exchange *x = (const weft_ps_exchange *)exchange;
    return x->leads ? x->clock : -1;
}

static weft_status server_simulate(const char *arguments,
                                   const weft_sim_exchange_options *sim_options,
                                   weft_sim_exchange **out)
{
    weft_ps_options options = {0};
    WEFT_TRY(parse(sim_options->context, arguments, &options));
    return weft_ps_exchange_simulate(&options, sim_options, out);
}

static weft_status server_serve(const char *arguments, weft_serving *serving, weft_actor **out)
{
    weft_ps_options options = {0};
    WEFT_TRY(parse(serving->context, arguments, &options));
    return weft_ps_exchange_serve(&options, serving, out);
}

static const weft_exchange_actors server_actors = {.sockets = weft_ps_exchange_sockets,
                                                   .simulate = server_simulate,
                                                   .serve = server_serve,
                                                   .began = server_began,
                                                   .least = weft_ps_exchange_least};

/* Worth trying: see weft_exchange_life. */
static const char *server_offered(int i)
{
    static const char *const offers[] = {"policy=bsp", "policy=ssp,bound=4", "policy=async",
                                         "policy=async,push=4,fetch=4",
                                         "policy=async,push=16,fetch=16"};
    return i < (int)WEFT_COUNT(offers) ? offers[i] : NULL;
}

static const weft_exchange_ops server_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .size = sizeof(weft_ps_exchange),
    .name = "server",
    .owns_update = true,
    .open = server_open,
    .close = weft_ps_exchange_close,
    .fits = weft_ps_exchange_fits,
    .step = {.before = server_before,
             .ready = server_ready,
             .needed = weft_ps_exchange_needed,
             .poll = weft_ps_exchange_poll,
             .update = server_update,
             .wait = weft_ps_exchange_wait_all_pulls,
             .after = server_after},
    .life = {.offered = server_offered,
             .begin = server_begin,
             .state = weft_ps_exchange_state_at,
             .save = server_save,
             .store_state = weft_ps_exchange_store_state,
             .averages = server_averages,
             .together = server_together,
             .end = server_end,
             .memory = weft_ps_exchange_memory,
             .figure = weft_ps_exchange_stat},
    .actors = &server_actors,
};

const weft_entry weft_exchange_server = {
    .kind = WEFT_KIND_EXCHANGE,
    .name = "server",
    .form = "server:policy=bsp|async|softsync|ssp[,c=N][,bound=N][,scale=none|inverse|exp]"
            "[,beta=X][,push=N][,fetch=N]",
    .summary = "parameter servers: an update combines one push of each learner (bsp), "
               "c pushes (softsync), or is one push (async; ssp: a learner waits while "
               "it is more than `bound` steps ahead of the slowest); scale=exp multiplies the "
               "learning rate by exp(-beta * staleness), where beta is 0.5 unless given; a push is "
               "the sum of the gradients of `push` steps, and learners pull every `fetch` steps",
    .ops = &server_ops,
    .reads = "servers,replicas,compress,compress-downlink",
};
