/* Opens simulated exchanges, and checks whether an exchange can be simulated: whether it has
 * actors. */
#include "exchange/simulated.h"

#include "base/registry.h"

static bool has_actors(const weft_entry *entry, const void *what)
{
    const weft_exchange_ops *ops = entry->ops;
    (void)what;
    return WEFT_EXCHANGE_HAS(ops, simulate);
}

static weft_status no_actors(const weft_context *context, const char *name)
{
    char *others;
    WEFT_TRY(weft_registry_names(context, WEFT_KIND_EXCHANGE, has_actors, NULL, &others));
    weft_status status = weft_fail(WEFT_ERR_ARGUMENT,
                                   "exchange %s cannot be simulated, since it is not made of "
                                   "actors; give --exchange %s",
                                   name, others);
    free(others);
    return status;
}

weft_status weft_sim_exchange_check(const weft_context *context, const char *spec)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    WEFT_TRY(weft_exchange_find(context, spec, &ops, &arguments));
    return WEFT_EXCHANGE_HAS(ops, simulate) ? WEFT_OK : no_actors(context, ops->name);
}

weft_status weft_sim_exchange_open(const char *spec, const weft_sim_exchange_options *sim_options,
                                   weft_sim_exchange **out)
{
    const weft_exchange_ops *ops;
    const char *arguments;
    *out = NULL;
    if (sim_options->struct_size != sizeof(*sim_options))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "weft_sim_exchange_options has %zu bytes, this library's %zu",
                         sim_options->struct_size, sizeof(*sim_options));
    WEFT_TRY(weft_sim_exchange_check(sim_options->context, spec));
    WEFT_TRY(weft_exchange_find(sim_options->context, spec, &ops, &arguments));
    WEFT_TRY(weft_exchange_fits(sim_options->context, spec,
                                &(weft_exchange_plan){.learners = sim_options->learners,
                                                      .servers = sim_options->servers,
                                                      .replicas = sim_options->replicas,
                                                      .codec = sim_options->codec,
                                                      .back = sim_options->back}));
    uint64_t before = weft_failures();
    weft_status status = ops->actors->simulate(arguments, sim_options, out);
    return weft_ensure_message(status, before, "exchange", ops->name, "simulate");
}

bool weft_sim_exchange_state_at(weft_sim_exchange *exchange, int learner, int i,
                                weft_exchange_state *out)
{
    *out = (weft_exchange_state){.name = NULL};
    return exchange->ops->state && exchange->ops->state(exchange, learner, i, out);
}

void weft_sim_exchange_close(weft_sim_exchange **exchange)
{
    if (!exchange || !*exchange) return;
    (*exchange)->ops->close(*exchange);
    *exchange = NULL;
}
