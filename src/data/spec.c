/* What follows the kind in a data specification, and the split of one table into two parts. */
#include <stdio.h>

#include "data/data.h"

static const char *key_candidate(const void *user, int i)
{
    const weft_spec_key *keys = user;
    return keys[i].name;
}

static weft_status set_key(const char *kind, const weft_spec_key *keys, char *item)
{
    char near[256], *equals = strchr(item, '=');
    if (!equals)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: '%s' is not of the form key=value", kind, item);
    *equals = '\0';
    for (const weft_spec_key *key = keys; key->name; key++) {
        if (strcmp(key->name, item) != 0) continue;
        if (key->text) {
            free(*key->text);
            *key->text = NULL;
            return weft_strdup(equals + 1, key->text);
        }
        double value;
        if (!weft_parse_real(equals + 1, &value) || !(value >= key->low && value <= key->high))
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s is '%s', must be from %g to %g", kind, item,
                             equals + 1, key->low, key->high);
        *key->number = value;
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: no key is named '%s'%s", kind, item,
                     weft_suggest(near, sizeof(near), item, key_candidate, keys));
}

weft_status weft_spec_parse(const char *kind, const char *text, const weft_spec_key *keys)
{
    char *copy, *save = NULL;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_strdup(text, &copy));
    for (char *item = strtok_r(copy, ",", &save); item && status == WEFT_OK;
         item = strtok_r(NULL, ",", &save))
        status = set_key(kind, keys, item);
    free(copy);
    return status;
}

weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows)
{
    if (distinct <= 10 || (whole && distinct * 5 <= rows)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "the label, %s holds %lld different numbers in %lld rows: that looks measured, "
        "and only classes can be learned; give classes (of a table the column with "
        "label=NAME)",
        where, (long long)distinct, (long long)rows);
}

weft_status weft_split_rows(int64_t total, double share, int64_t count[2], int64_t **rows)
{
    WEFT_TRY(WEFT_NEW(rows, total));
    int64_t test = (int64_t)((double)total * share + 0.5);
    count[WEFT_TEST] = test;
    count[WEFT_TRAIN] = total - test;
    int64_t at[2] = {0, count[WEFT_TRAIN]};
    for (int64_t i = 0; i < total; i++)
        (*rows)[at[weft_permute(0x73706c6974u, total, i) < test]++] = i;
    return WEFT_OK;
}
