#include <errno.h>
#include <stdio.h>

#include "base/base.h"

static _Thread_local char last_message[sizeof((weft_error){0}.message)] = "no failure so far";

static _Thread_local uint64_t failures; /* failures of this thread that have a message */

const char *weft_last_message(void)
{
    return last_message;
}

void weft_error_catch(weft_error *error, weft_status status)
{
    WEFT_NEED_VOID(error);
    if (status == WEFT_OK || error->status != WEFT_OK) return;
    error->status = status;
    memcpy(error->message, last_message, sizeof(last_message));
}

weft_status weft_error_raise(const weft_error *error)
{
    WEFT_NEED(error);
    if (error->status == WEFT_OK) return WEFT_OK;
    memmove(last_message, error->message, sizeof(last_message));
    failures++;
    return error->status;
}

const char *weft_version(void)
{
    return WEFT_VERSION;
}

int weft_version_number(void)
{
    return WEFT_VERSION_NUMBER;
}

const char *weft_status_name(weft_status status)
{
    static const char *const names[] = {
        [WEFT_OK] = "ok",
        [WEFT_ERR_ARGUMENT] = "argument",
        [WEFT_ERR_FORMAT] = "format",
        [WEFT_ERR_IO] = "io",
        [WEFT_ERR_MEMORY] = "memory",
        [WEFT_ERR_UNSUPPORTED] = "unsupported",
        [WEFT_ERR_NUMERIC] = "numeric",
        [WEFT_ERR_PEER] = "peer",
        [WEFT_ERR_INTERRUPTED] = "interrupted",
        [WEFT_ERR_BUSY] = "busy",
        [WEFT_ERR_LATE] = "late",
        [WEFT_ERR_INTERNAL] = "internal",
    };
    return (size_t)status < WEFT_COUNT(names) ? names[status] : "unknown";
}

weft_status weft_fail(weft_status status, const char *format, ...)
{
    /* The message is formatted into a copy, since an argument may be last_message itself. */
    char text[sizeof(last_message)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)weft_printable(text, last_message, sizeof(last_message));
    failures++;
    return status;
}

uint64_t weft_failures(void)
{
    return failures;
}

weft_status weft_ensure_message(weft_status status, uint64_t before, const char *kind,
                                const char *name, const char *function)
{
    if (status == WEFT_OK || failures != before) return status;
    return weft_fail(
        status,
        "%s %s: its function '%s' failed (%s) and did not say why; whoever has made it "
        "must give its failures a message",
        kind, name, function, weft_status_name(status));
}

bool weft_is_status(const char *name, weft_status status)
{
    return strcmp(name, weft_status_name(status)) == 0;
}

weft_status weft_fail_memory(size_t bytes)
{
    return weft_fail(WEFT_ERR_MEMORY,
                     "out of memory: %zu bytes were refused; a smaller batch or model needs less",
                     bytes);
}

weft_status weft_fail_within(weft_status status, const char *format, ...)
{
    char text[sizeof(last_message)];
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof(text)) {
        /* A message that is too long is truncated. */
        size_t room = sizeof(text) - (size_t)used;
        (void)snprintf(text + used, room, ": %.*s", (int)(room > 3 ? room - 3 : 0), last_message);
    }
    (void)weft_printable(text, last_message, sizeof(last_message));
    failures++;
    return status;
}

weft_status weft_strdup(const char *text, char **out)
{
    *out = NULL;
    char *copy = strdup(text);
    if (!copy) return weft_fail_memory(strlen(text) + 1);
    *out = copy;
    return WEFT_OK;
}

weft_status weft_format(char **out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int size = vasprintf(&text, format, arguments);
    va_end(arguments);
    *out = size < 0 ? NULL : text;
    if (size < 0) return weft_fail_memory(strlen(format));
    return WEFT_OK;
}

void weft_free(void *memory)
{
    free(memory);
}
