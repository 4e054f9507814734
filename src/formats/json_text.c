/* Reads one value of a JSON object, as WebDataset has beside a picture. */
#include <jansson.h>

#include "formats/formats.h"

weft_status weft_json_text_at(const char *name, const void *data, size_t size, const char *key,
                              char **out)
{
    json_error_t error;
    weft_status status;
    json_t *all = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    const json_t *value = json_object_get(all, key);
    if (json_is_integer(value))
        status = weft_format(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_string(value))
        status = weft_strdup(json_string_value(value), out);
    else if (!all && json_error_code(&error) == json_error_duplicate_key)
        status = weft_fail(WEFT_ERR_FORMAT,
                           "%s: an object has the same key twice (%s, in line %d); leave one of "
                           "them out",
                           name, error.text, error.line);
    else if (!all)
        status = weft_fail(WEFT_ERR_FORMAT, "%s: is no JSON: %s, in line %d", name, error.text,
                           error.line);
    else
        status =
            weft_fail(WEFT_ERR_FORMAT, "%s: must have a text or whole number under the key '%s'%s",
                      name, key, value ? ", which has another type" : "");
    json_decref(all);
    return status;
}
