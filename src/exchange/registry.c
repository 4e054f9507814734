/* Registers the built-in exchanges, and finds an exchange by its specification. A new exchange
 * needs a file of its own and an entry in `exchanges`. */
#include "base/registry.h"
#include "exchange/exchange.h"
#include "exchange/ps/range/range.h"

static const weft_entry *const exchanges[] = {
    &weft_exchange_average, &weft_exchange_oneshot, &weft_exchange_server,
    &weft_exchange_easgd,   &weft_exchange_gossip,  &weft_exchange_hogwild,
};

static weft_status accept(weft_context *context, const weft_entry *entry, const void *given,
                          void **made)
{
    weft_exchange_ops *ops;
    (void)context;
    WEFT_TRY(WEFT_NEW(&ops, 1));
    *made = ops;
    *ops = *(const weft_exchange_ops *)given;
    ops->name = entry->name;
    WEFT_TRY(weft_entry_need(entry, "open", ops->open));
    if (ops->size < sizeof(weft_exchange))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s: its size is %zu bytes; its struct begins with a "
                         "weft_exchange, which has %zu",
                         entry->name, ops->size, sizeof(weft_exchange));
    if (ops->owns_update != (ops->step.update != NULL))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "exchange %s: owns_update is %s and the hook update is %s; an exchange that owns "
            "the update needs the hook, and no other may have it",
            entry->name, ops->owns_update ? "true" : "false", ops->step.update ? "set" : "NULL");
    if (ops->actors)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange %s: its 'actors' is set, which only the library's exchanges "
                         "have; set it to NULL",
                         entry->name);
    return WEFT_OK;
}

static const weft_extension extension = {.kind = WEFT_KIND_EXCHANGE,
                                         .type = "weft_exchange_ops",
                                         .size = sizeof(weft_exchange_ops),
                                         .least = sizeof(weft_exchange_ops),
                                         .accept = accept};

weft_status weft_exchanges_register(weft_context *context)
{
    weft_context_extend(context, &extension);
    WEFT_TRY(weft_server_policies_register(context));
    for (size_t i = 0; i < WEFT_COUNT(exchanges); i++)
        WEFT_TRY(weft_registry_add(context, exchanges[i], 1));
    return WEFT_OK;
}

static bool comes_and_goes(const weft_entry *entry, const void *what)
{
    const weft_exchange_ops *ops = entry->ops;
    (void)what;
    return WEFT_EXCHANGE_HAS(ops, began);
}

weft_status weft_exchange_is_elastic(const weft_context *context, const char *spec,
                                     const weft_exchange_ops **ops)
{
    const char *arguments;
    char *names;
    *ops = NULL;
    if (spec) WEFT_TRY(weft_exchange_find(context, spec, ops, &arguments));
    if (*ops && WEFT_EXCHANGE_HAS(*ops, began)) return WEFT_OK;
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
