#include "actor/address.h"

#include <inttypes.h>
#include <stdio.h>

static const char INSIDE[] = "inproc://";

static bool is_inside(const char *address)
{
    return strncmp(address, INSIDE, sizeof(INSIDE) - 1) == 0;
}

weft_status weft_address_add(char **list, const char *bound, uint64_t token)
{
    char mark[24] = "", *more;
    if (is_inside(bound)) (void)snprintf(mark, sizeof(mark), "@%016" PRIx64, token);
    WEFT_TRY(weft_format(&more, "%s%s%s%s", *list ? *list : "", *list ? " " : "", bound, mark));
    free(*list);
    *list = more;
    return WEFT_OK;
}

/* Takes the mark off. */
static bool is_here(char *address, uint64_t token)
{
    char mark[24], *at = strrchr(address, '@');
    if (!is_inside(address) || !at) return true;
    (void)snprintf(mark, sizeof(mark), "@%016" PRIx64, token);
    if (strcmp(at, mark) != 0) return false;
    *at = '\0';
    return true;
}

weft_status weft_address_choose(const char *list, uint64_t token, char **out)
{
    char *copy, *rest = NULL;
    weft_status status = WEFT_OK;
    *out = NULL;
    WEFT_TRY(weft_strdup(list, &copy));
    for (char *a = strtok_r(copy, " ", &rest); a && !*out && status == WEFT_OK;
         a = strtok_r(NULL, " ", &rest))
        if (is_here(a, token)) status = weft_strdup(a, out);
    free(copy);
    return status;
}
