/* The exchange `easgd`: elastic averaging SGD (Zhang, Choromanska and LeCun 2015). Each learner
 * trains its own parameters x with its own optimizer. Every `every` steps the learner and a centre
 * move towards each other by the same elastic difference: d = alpha (x - centre), x -= d, centre +=
 * d. The centre is on servers, which add the differences that learners push; the centre is the
 * result of the run. */
#include <math.h>

#include "base/target_clones.h"
#include "base/spec.h"
#include "exchange/ps/ps_exchange.h"

typedef struct easgd {
    weft_ps_exchange
        ps;      /* parameters: the centre as last pulled; gradients: the elastic difference */
    void *aside; /* [count]: the learner's own parameters, while a checkpoint has the centre in
                    their place */
    bool is_aside;
} easgd;

/* --- the elastic difference --- */

/* Computes the elastic difference `force`, which is pushed, and subtracts the same bits from the
 * learner's parameters x. */
#define DRAW(real)                                                                                 \
    WEFT_CLONES static void draw_##real(real *restrict x, const real *restrict centre,             \
                                        real *restrict force, int64_t n, real alpha)               \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) force[i] = alpha * (x[i] - centre[i]);                     \
        for (int64_t i = 0; i < n; i++) x[i] -= force[i];                                          \
    }
DRAW(float)
DRAW(double)

static void draw(const weft_ps_options *o, int learners, weft_dtype dtype, int64_t count, void *own,
                 const void *served, void *force)
{
    double alpha = isnan(o->alpha) ? o->beta / learners : o->alpha;
    if (dtype == WEFT_F64)
        draw_double(own, served, force, count, alpha);
    else
        draw_float(own, served, force, count, (float)alpha);
}

/* --- opening --- */

static void easgd_close(weft_exchange *exchange)
{
    easgd *e = (easgd *)exchange;
    free(e->aside);
    free(e->ps.parameters);
    weft_ps_exchange_close(exchange);
}

static weft_status make_room(easgd *e, const weft_exchange_setup *setup)
{
    weft_ps_exchange *x = &e->ps;
    weft_status status = weft_ps_exchange_make_room(x, setup);
    x->own_parameters = x->parameters;
    x->parameters = NULL;
    WEFT_TRY(status);
    size_t bytes = (size_t)x->count * weft_dtype_size(x->dtype);
    WEFT_TRY(weft_new_aligned(bytes, &x->parameters));
    return weft_new_aligned(bytes, &e->aside);
}

/* Beside what all learners of servers keep, the centre and the parameters that are aside. */
static weft_status easgd_memory(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                                weft_exchange_memory *out)
{
    WEFT_TRY(weft_ps_exchange_memory(exchange, sizes, out));
    out->learner += 2 * (double)sizes->count * (double)weft_dtype_size(sizes->dtype);
    return WEFT_OK;
}

static weft_status parse(const weft_context *context, const char *arguments, weft_ps_options *o)
{
    double every = 1, alpha = NAN, beta = NAN;
    weft_spec_key keys[] = {
        {.name = "every", .number = &every, .low = 1, .high = 1e9, .integer = true},
        {.name = "alpha", .number = &alpha, .low = 0, .high = 1},
        {.name = "beta", .number = &beta, .low = 0, .high = 1},
        {.name = NULL}};
    if (*arguments) WEFT_TRY(weft_spec_parse("exchange easgd", arguments, keys));
    if (!isnan(alpha) && !isnan(beta))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange easgd: alpha is beta over the number of learners; give one of "
                         "them, or none");
    *o = (weft_ps_options){.adds = true,
                           .push = 1,
                           .fetch = (int64_t)every,
                           .draw = draw,
                           .alpha = alpha,
                           .beta = isnan(beta) ? 0.9 : beta};
    return weft_policy_make(context, "async", -1, -1, NULL, -1, &o->policy);
}

static weft_status easgd_open(weft_exchange *exchange, const char *arguments,
                              const weft_exchange_setup *setup)
{
    easgd *e = (easgd *)exchange;
    WEFT_TRY(parse(exchange->setup.context, arguments, &e->ps.options));
    e->ps.idle = true;
    return setup ? make_room(e, setup) : WEFT_OK;
}

/* --- hooks --- */

static weft_status easgd_begin(weft_exchange *exchange)
{
    easgd *e = (easgd *)exchange;
    weft_ps_exchange *x = &e->ps;
    WEFT_TRY(weft_shared_params_read(x->shared));
    size_t bytes = (size_t)x->count * weft_dtype_size(x->dtype);
    memcpy(x->parameters, x->own_parameters, bytes);
    if (x->leads) WEFT_TRY(weft_ps_exchange_begin(x));
    if (!exchange->setup.cluster) return WEFT_OK;
    memcpy(x->own_parameters, x->parameters, bytes); /* late learners begin with the centre */
    return weft_shared_params_write(x->shared);
}

/* Restores the learner's own parameters, if a checkpoint has put the centre in their place. */
static weft_status easgd_before(weft_exchange *exchange, int64_t step)
{
    easgd *e = (easgd *)exchange;
    (void)step;
    if (!e->is_aside) return WEFT_OK;
    e->is_aside = false;
    memcpy(e->ps.own_parameters, e->aside, (size_t)e->ps.count * weft_dtype_size(e->ps.dtype));
    return weft_shared_params_write(e->ps.shared);
}

static weft_status easgd_after(weft_exchange *exchange, weft_step_result *result)
{
    weft_ps_exchange *x = (weft_ps_exchange *)exchange;
    weft_ps_exchange_after_step(x, result);
    x->idle = x->idle && exchange->empty;
    if (!result->last && result->step % x->options.fetch != 0) return WEFT_OK;
    WEFT_TRY(weft_shared_params_read(x->shared));
    if (x->leads) {
        WEFT_TRY(weft_net_computed(x->net, ++x->clock));
        WEFT_TRY(weft_ps_exchange_wait(x));
    }
    x->idle = true;
    return weft_shared_params_write(x->shared);
}

static weft_status show_centre(easgd *e)
{
    weft_ps_exchange *x = &e->ps;
    size_t bytes = (size_t)x->count * weft_dtype_size(x->dtype);
    if (!e->is_aside) memcpy(e->aside, x->own_parameters, bytes);
    e->is_aside = true;
    memcpy(x->own_parameters, x->parameters, bytes);
    return weft_shared_params_write(x->shared);
}

static weft_status easgd_save(weft_exchange *exchange)
{
    easgd *e = (easgd *)exchange;
    if (e->ps.ended) return WEFT_OK; /* weft_ps_exchange_end has pulled centre and state */
    WEFT_TRY(weft_shared_params_read(e->ps.shared));
    WEFT_TRY(weft_ps_exchange_save(&e->ps));
    return show_centre(e);
}

static weft_status easgd_end(weft_exchange *exchange)
{
    easgd *e = (easgd *)exchange;
    WEFT_TRY(weft_shared_params_read(e->ps.shared));
    WEFT_TRY(weft_ps_exchange_end(&e->ps));
    WEFT_TRY(show_centre(e));
    free(e->aside); /* no step follows */
    free(e->ps.parameters);
    e->aside = e->ps.parameters = NULL;
    return WEFT_OK;
}

/* An elastic difference is sent again until it is gone, so momentum would multiply it. */
static weft_status easgd_fits(const weft_exchange *exchange, const weft_exchange_plan *plan)
{
    double momentum;
    const char *codec = weft_codec_back(plan->codec, NULL);
    WEFT_TRY(weft_ps_exchange_fits(exchange, plan));
    WEFT_TRY(weft_codec_momentum(plan->context, codec, &momentum));
    if (momentum == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "exchange easgd: --compress %s gathers gradients with a momentum of %g, and "
                     "this exchange sends differences of parameters, which become %.3g times as "
                     "large; give the codec momentum=0",
                     codec, momentum, 1 / (1 - momentum));
}

static weft_status easgd_simulate(const char *arguments,
                                  const weft_sim_exchange_options *sim_options,
                                  weft_sim_exchange **out)
{
    weft_ps_options options;
    WEFT_TRY(parse(sim_options->context, arguments, &options));
    return weft_ps_exchange_simulate(&options, sim_options, out);
}

static weft_status easgd_serve(const char *arguments, weft_serving *serving, weft_actor **out)
{
    weft_ps_options options;
    WEFT_TRY(parse(serving->context, arguments, &options));
    return weft_ps_exchange_serve(&options, serving, out);
}

/* The clock of the servers counts elastic updates, one in `fetch` steps. */
static int64_t easgd_began(weft_exchange *exchange)
{
    const weft_ps_exchange *x = (const weft_ps_exchange *)exchange;
    return x->leads ? x->clock * x->options.fetch : -1;
}

static const weft_exchange_actors easgd_actors = {.sockets = weft_ps_exchange_sockets,
                                                  .simulate = easgd_simulate,
                                                  .serve = easgd_serve,
                                                  .began = easgd_began,
                                                  .least = weft_ps_exchange_least};

/* Worth trying: see weft_exchange_life. */
static const char *easgd_offered(int i)
{
    static const char *const offers[] = {"", "every=4", "every=16", "every=64"};
    return i < (int)WEFT_COUNT(offers) ? offers[i] : NULL;
}

static const weft_exchange_ops easgd_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .size = sizeof(easgd),
    .name = "easgd",
    .open = easgd_open,
    .close = easgd_close,
    .fits = easgd_fits,
    .step = {.before = easgd_before, .poll = weft_ps_exchange_poll, .after = easgd_after},
    .life = {.offered = easgd_offered,
             .begin = easgd_begin,
             .state = weft_ps_exchange_state_at,
             .save = easgd_save,
             .store_state = weft_ps_exchange_store_state,
             .end = easgd_end,
             .memory = easgd_memory,
             .figure = weft_ps_exchange_stat},
    .actors = &easgd_actors,
};

const weft_entry weft_exchange_easgd = {
    .kind = WEFT_KIND_EXCHANGE,
    .name = "easgd",
    .form = "easgd[:every=1][,alpha=A|,beta=0.9]",
    .summary = "elastic averaging: learners update their own parameters; every `every` "
               "steps a learner and the centre on the servers move towards each other, "
               "by alpha times their difference, where alpha is beta divided by the "
               "number of learners",
    .ops = &easgd_ops,
    .reads = "servers,replicas,compress",
};
