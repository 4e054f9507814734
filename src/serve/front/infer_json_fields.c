/* Helpers that check and read single JSON members of an inference request. */
#include <stdio.h>

#include "serve/front/infer_internal.h"

weft_status weft_infer_key(const weft_json_key *key, const char *const *known, int count,
                           const char *where, unsigned *seen, int *out)
{
    *out = -1;
    for (int i = 0; i < count && *out < 0; i++)
        if (weft_json_is(key, known[i])) *out = i;
    if (*out < 0) return WEFT_OK;
    if (*seen >> *out & 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s has %s twice", where, known[*out]);
    *seen |= 1U << *out;
    return WEFT_OK;
}

/* The value is skipped before its kind is reported, so that a syntax error in it is reported
 * first. */
weft_status weft_infer_must_be(weft_json *j, weft_json_kind kind, const char *what)
{
    weft_json_kind is = weft_json_peek(j);
    if (is == kind) return WEFT_OK;
    WEFT_TRY(weft_json_skip(j));
    return weft_fail(WEFT_ERR_ARGUMENT, "%s must be %s, not %s", what, weft_json_kind_name(kind),
                     weft_json_kind_name(is));
}

weft_status weft_infer_flag(weft_json *j, const char *what, bool *out)
{
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_FLAG, what));
    return weft_json_flag(j, out);
}

weft_status weft_infer_whole(weft_json *j, const char *what, int64_t low, int64_t *out)
{
    weft_decimal d;
    bool minus;
    uint64_t size;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_NUMBER, what));
    WEFT_TRY(weft_json_number(j, &d));
    bool fits = d.whole && weft_decimal_whole(&d, &minus, &size) && size <= INT64_MAX;
    *out = !fits ? 0 : minus ? -(int64_t)size : (int64_t)size;
    if (fits && *out >= low) return WEFT_OK;
    if (d.whole && !fits && d.text[0] != '-')
        return weft_fail(WEFT_ERR_ARGUMENT, "%s is %.*s, and 2^63 - 1 is the most", what,
                         (int)WEFT_MIN(d.size, 40), d.text);
    return weft_fail(WEFT_ERR_ARGUMENT, "%s is %.*s, must be a whole number from %lld on", what,
                     (int)WEFT_MIN(d.size, 40), d.text, (long long)low);
}

weft_status weft_infer_no_shared_memory(const weft_json_key *key)
{
    if (!weft_json_is(key, "shared_memory_region")) return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "shared memory is not supported; send tensors in the JSON or behind it");
}
