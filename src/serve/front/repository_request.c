/* Parses the bodies of requests to the model repository (index, load and unload). */
#include "serve/front/infer_internal.h"

/* Enters the JSON object of the body; *there false: the body is empty. */
static weft_status begin(weft_json *j, const char *body, size_t size, bool *there)
{
    weft_json_start(j, body ? body : "", body ? size : 0);
    /* An empty body counts as an empty object. */
    *there = weft_json_peek(j) != WEFT_JSON_WRONG || j->at < j->end;
    if (!*there) return WEFT_OK;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "the body"));
    return weft_json_enter(j);
}

static weft_status with_context(weft_status status)
{
    return status == WEFT_ERR_FORMAT ? weft_fail_within(status, "the body is no JSON") : status;
}

static weft_status read_index(const char *body, size_t size, bool *only_ready)
{
    weft_json j;
    weft_json_key key;
    bool there;
    WEFT_TRY(begin(&j, body, size, &there));
    while (there && weft_json_member(&j, &key)) {
        if (weft_json_is(&key, "ready"))
            WEFT_TRY(weft_infer_flag(&j, "ready", only_ready));
        else
            WEFT_TRY(weft_json_skip(&j));
    }
    WEFT_TRY(j.status);
    return weft_json_finish(&j);
}

weft_status weft_repository_index_read(const char *body, size_t size, bool *only_ready)
{
    *only_ready = false;
    return with_context(read_index(body, size, only_ready));
}

/* Checks the parameters of a load or unload request. unload_dependents has no effect, since models
 * have no dependents. Parameters that would change the model's configuration or files are
 * refused. */
static weft_status read_parameters(weft_json *j)
{
    weft_json_key key;
    bool ignored;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "parameters"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        if (weft_json_is(&key, "unload_dependents"))
            WEFT_TRY(weft_infer_flag(j, "parameter unload_dependents", &ignored));
        else if (weft_json_is(&key, "config") || (key.size > 5 && !memcmp(key.text, "file:", 5)))
            return weft_fail(
                WEFT_ERR_UNSUPPORTED,
                "parameter %.*s is not supported: the checkpoint alone describes a model",
                (int)WEFT_MIN(key.size, sizeof(key.text)), key.text);
        else
            WEFT_TRY(weft_json_skip(j));
    }
    return j->status;
}

static weft_status read_load(const char *body, size_t size)
{
    weft_json j;
    weft_json_key key;
    bool there;
    WEFT_TRY(begin(&j, body, size, &there));
    while (there && weft_json_member(&j, &key)) {
        if (weft_json_is(&key, "parameters"))
            WEFT_TRY(read_parameters(&j));
        else
            WEFT_TRY(weft_json_skip(&j));
    }
    WEFT_TRY(j.status);
    return weft_json_finish(&j);
}

weft_status weft_repository_load_read(const char *body, size_t size)
{
    return with_context(read_load(body, size));
}
