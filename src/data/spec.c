/* What follows the kind in a data specification, and the split of one table into two parts. */
#include <math.h>
#include <stdio.h>

#include "data/data.h"
#include "weft/output.h"

static const char *key_candidate(const void *user, int i)
{
    const weft_spec_key *keys = user;
    return keys[i].name;
}

typedef struct keys {
    const char *kind;
    const weft_spec_key *all;
    uint64_t given; /* bit i: key i */
} keys;

static weft_status set_number(const keys *k, const weft_spec_key *key, const char *text)
{
    double value;
    char low[32], high[32];
    if (weft_parse_real(text, &value) && value >= key->low && value <= key->high &&
        (!key->whole || value == floor(value))) {
        *key->number = value;
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s is '%s', must be %sfrom %s to %s", k->kind,
                     key->name, text, key->whole ? "a whole number " : "",
                     weft_real_text(key->low, low, sizeof(low)),
                     weft_real_text(key->high, high, sizeof(high)));
}

static weft_status set_key(void *user, char *item)
{
    keys *k = user;
    char near[256], *equals = strchr(item, '=');
    if (!equals || !equals[1])
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: '%s' is not of the form key=value", k->kind, item);
    *equals = '\0';
    for (int i = 0; k->all[i].name; i++) {
        const weft_spec_key *key = &k->all[i];
        if (strcmp(key->name, item) != 0) continue;
        if (k->given >> i & 1)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s is given twice", k->kind, item);
        k->given |= UINT64_C(1) << i;
        return key->text ? weft_strdup(equals + 1, key->text) : set_number(k, key, equals + 1);
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: no key is named '%s'%s", k->kind, item,
                     weft_suggest(near, sizeof(near), item, key_candidate, k->all));
}

weft_status weft_spec_parse(const char *kind, const char *text, const weft_spec_key *all)
{
    keys k = {.kind = kind, .all = all};
    return weft_each_piece(kind, text, set_key, &k);
}

weft_status weft_spec_spares(const char *spec, const char *option, const char *path)
{
    const char *rest = strchr(spec, ':');
    char piece[4096];
    for (size_t size; path && rest && *rest; rest += size) {
        rest++; /* a colon or a comma */
        size = strcspn(rest, ",");
        (void)snprintf(piece, sizeof(piece), "%.*s", (int)WEFT_MIN(size, sizeof(piece) - 1), rest);
        const char *file = strchr(piece, '=') ? strchr(piece, '=') + 1 : piece;
        if (*file && (weft_output_same(piece, path) || weft_output_same(file, path)))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "--%s %s is a file of the data %s, which would be lost; give another",
                             option, path, spec);
    }
    return WEFT_OK;
}

weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows)
{
    if (distinct <= 10 || (whole && distinct * 5 <= rows)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "the label, %s holds %lld different numbers in %lld rows: that looks measured, and no "
        "class; to learn the numbers give them as target= (a column of a table, or the file of an "
        "array), else give the classes as label=",
        where, (long long)distinct, (long long)rows);
}

weft_status weft_check_target(const char *kind, const char *label, const char *target,
                              const weft_data_stats *known, bool *numbers)
{
    if (label && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: both label=%s and target=%s are given; a label is a class, a target "
                         "a number: give the one that is to be learned",
                         kind, label, target);
    if (known && known->targets > 0 && label)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: label=%s asks for classes, the checkpoint was trained on numbers; "
                         "give target=%s",
                         kind, label, label);
    if (known && known->targets == 0 && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: target=%s asks for numbers, the checkpoint was trained on classes; "
                         "give them as label=, or as the file of labels",
                         kind, target);
    *numbers = target || (known && known->targets > 0);
    return WEFT_OK;
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
