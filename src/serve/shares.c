/* Reads the list of shares, "NAME=N,NAME=N": the weights of models that wait for the same
 * instances. */
#include <math.h>

#include "serve/service_internal.h"

/* Reads the first entry of a list. *name: its name, of *size bytes; returns the rest of the list,
 * "" at its end, NULL: the entry is invalid. */
static const char *next_share(const char *list, size_t *size, double *share)
{
    char number[32];
    size_t entry = strcspn(list, ",");
    *size = strcspn(list, "=,");
    size_t digits = entry - *size;
    if (*size == 0 || digits < 2 || digits > sizeof(number)) return NULL;
    memcpy(number, list + *size + 1, digits - 1);
    number[digits - 1] = '\0';
    if (!weft_parse_real(number, share) || !(*share > 0) || !isfinite(*share)) return NULL;
    list += entry;
    return *list && list[1] ? list + 1 : *list ? NULL : list;
}

double weft_share_of(const char *list, const char *name)
{
    size_t size;
    double share;
    while (list && *list) {
        const char *entry = list;
        list = next_share(list, &size, &share);
        if (list && size == strlen(name) && memcmp(entry, name, size) == 0) return share;
    }
    return 1;
}

/* Whether an earlier entry of the list has the name of this one. */
static bool is_repeated(const char *list, const char *entry, size_t size)
{
    size_t other;
    double share;
    for (const char *at = list; at < entry; at = next_share(at, &other, &share))
        if (strcspn(at, "=") == size && memcmp(at, entry, size) == 0) return true;
    return false;
}

weft_status weft_shares_check(const char *list)
{
    size_t size;
    double share;
    for (const char *at = list; at && *at;) {
        const char *entry = at;
        at = next_share(at, &size, &share);
        if (!at)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "share '%s' must be MODEL=N with commas between them and N above 0, "
                             "such as a=3,b=0.5",
                             list);
        if (is_repeated(list, entry, size))
            return weft_fail(WEFT_ERR_ARGUMENT, "share '%s' names the model '%.*s' twice", list,
                             (int)size, entry);
    }
    return WEFT_OK;
}
