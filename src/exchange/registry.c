/* The exchanges, by name. A new one is its file and a line here. */
#include "exchange/exchange.h"
#include "weft/exchange.h"

static const weft_exchange_ops *const exchanges[] = {
    &weft_exchange_average,
    &weft_exchange_oneshot,
};

const char *weft_exchange_form(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(exchanges) ? exchanges[i]->form : NULL;
}

const char *weft_exchange_help(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(exchanges) ? exchanges[i]->help : NULL;
}

static const char *candidate(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(exchanges) ? exchanges[i]->name : NULL;
}

static weft_status find(const char *spec, const weft_exchange_ops **ops, const char **arguments)
{
    char near[128], name[64];
    size_t size = strcspn(spec, ":");
    for (size_t i = 0; i < WEFT_COUNT(exchanges); i++)
        if (strlen(exchanges[i]->name) == size && strncmp(exchanges[i]->name, spec, size) == 0) {
            *ops = exchanges[i];
            *arguments = spec[size] ? spec + size + 1 : "";
            return WEFT_OK;
        }
    size = WEFT_MIN(size, sizeof(name) - 1);
    memcpy(name, spec, size);
    name[size] = '\0';
    return weft_fail(WEFT_ERR_ARGUMENT, "no exchange is named '%s'%s", name,
                     weft_suggest(near, sizeof(near), name, candidate, NULL));
}

weft_status weft_exchange_open(const char *spec, weft_comm *between, weft_store *store,
                               weft_exchange **out)
{
    const weft_exchange_ops *ops = NULL;
    const char *arguments = "";
    WEFT_TRY(find(spec, &ops, &arguments));
    WEFT_TRY(ops->open(arguments, between, store, out));
    (*out)->ops = ops;
    (*out)->between = between;
    (*out)->store = store;
    return WEFT_OK;
}

weft_status weft_exchange_check(const char *spec)
{
    weft_exchange *exchange;
    WEFT_TRY(weft_exchange_open(spec, NULL, NULL, &exchange));
    weft_exchange_close(&exchange);
    return WEFT_OK;
}

weft_status weft_exchange_step(weft_exchange *exchange, int64_t step, bool last, bool *met)
{
    return exchange->ops->step(exchange, step, last, met);
}

void weft_exchange_close(weft_exchange **exchange)
{
    if (!exchange || !*exchange) return;
    (*exchange)->ops->close(*exchange);
    *exchange = NULL;
}
