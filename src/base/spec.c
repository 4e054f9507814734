/* Parses the keys of a specification NAME:key=value,... and checks their numbers against bounds. */
#include "base/spec.h"

#include <math.h>

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
        (!key->integer || value == floor(value))) {
        *key->number = value;
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s is '%s', must be %sfrom %s to %s", k->kind,
                     key->name, text, key->integer ? "a whole number " : "",
                     weft_real_text(key->low, low, sizeof(low)),
                     weft_real_text(key->high, high, sizeof(high)));
}

static weft_status set_key(void *user, char *item)
{
    keys *k = user;
    char near[256], *equals = strchr(item, '='), *value = equals ? equals + 1 : NULL;
    if (equals) *equals = '\0';
    for (int i = 0; k->all[i].name; i++) {
        const weft_spec_key *key = &k->all[i];
        if (strcmp(key->name, item) != 0) continue;
        if (key->flag && value)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s takes no value, not '%s'", k->kind, item,
                             value);
        if (!key->flag && (!value || !*value))
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s has no value; give %s=VALUE", k->kind, item,
                             item);
        if (k->given >> i & 1)
            return weft_fail(WEFT_ERR_ARGUMENT, "%s: %s is given twice", k->kind, item);
        k->given |= UINT64_C(1) << i;
        if (key->flag) *key->flag = true;
        if (key->flag) return WEFT_OK;
        return key->text ? weft_strdup(value, key->text) : set_number(k, key, value);
    }
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: no key is named '%s'%s", k->kind, item,
                     weft_suggest(near, sizeof(near), item, key_candidate, k->all));
}

weft_status weft_spec_parse(const char *kind, const char *text, const weft_spec_key *all)
{
    keys k = {.kind = kind, .all = all};
    return weft_each_piece(kind, text, set_key, &k);
}

weft_status weft_spec_parse_any(const char *kind, const char *text, const weft_spec_key *all)
{
    return *text ? weft_spec_parse(kind, text, all) : WEFT_OK;
}
