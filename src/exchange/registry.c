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

weft_status weft_exchange_find(const char *spec, const weft_exchange_ops **ops,
                               const char **arguments)
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
