/* Registers the built-in exchanges, and finds an exchange by its specification. A new exchange
 * needs a file of its own and an entry in `exchanges`. */
#include "base/registry.h"
#include "exchange/exchange.h"
#include "exchange/ps/range/range.h"

static const weft_exchange_ops *const exchanges[] = {
    &weft_exchange_average, &weft_exchange_oneshot, &weft_exchange_server,
    &weft_exchange_easgd,   &weft_exchange_gossip,  &weft_exchange_hogwild,
};

weft_status weft_exchange_register(weft_context *context, const weft_exchange_ops *ops)
{
    const weft_entry entry = {.kind = WEFT_KIND_EXCHANGE,
                              .name = ops->name,
                              .form = ops->form,
                              .summary = ops->help,
                              .ops = ops,
                              .reads = ops->reads};
    return weft_registry_add(context, &entry, 1);
}

weft_status weft_exchanges_register(weft_context *context)
{
    WEFT_TRY(weft_server_policies_register(context));
    for (size_t i = 0; i < WEFT_COUNT(exchanges); i++)
        WEFT_TRY(weft_exchange_register(context, exchanges[i]));
    return WEFT_OK;
}

static bool comes_and_goes(const weft_entry *entry, const void *what)
{
    const weft_exchange_ops *ops = entry->ops;
    (void)what;
    return ops->deployment.began;
}

weft_status weft_exchange_is_elastic(const weft_context *context, const char *spec,
                                     const weft_exchange_ops **ops)
{
    const char *arguments;
    char *names;
    *ops = NULL;
    if (spec) WEFT_TRY(weft_exchange_find(context, spec, ops, &arguments));
    if (*ops && (*ops)->deployment.began) return WEFT_OK;
    WEFT_TRY(weft_registry_names(context, WEFT_KIND_EXCHANGE, comes_and_goes, NULL, &names));
    weft_status status =
        *ops ? weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s needs all learners in one job of threads or MPI; for an "
                         "elastic run or engine processes give --exchange %s",
                         (*ops)->name, names)
             : weft_fail(WEFT_ERR_ARGUMENT,
                         "an elastic run and engine processes need an exchange between the "
                         "learners; give --exchange %s",
                         names);
    free(names);
    return status;
}

weft_status weft_exchange_find(const weft_context *context, const char *spec,
                               const weft_exchange_ops **ops, const char **arguments)
{
    const weft_entry *entry;
    size_t size = strcspn(spec, ":");
    WEFT_TRY(weft_registry_find(context, WEFT_KIND_EXCHANGE, spec, size, &entry));
    *ops = entry->ops;
    *arguments = spec[size] ? spec + size + 1 : "";
    return WEFT_OK;
}
