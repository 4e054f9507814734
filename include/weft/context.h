/*
 * A context holds the state that would otherwise be global: the log, the number of threads, and the
 * registry of names (weft/registry.h). A context must outlive every object made with it. Several
 * threads may use a context after its setters have been called.
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

/* Levels of log lines, see weft_context_set_log. */
typedef enum weft_log_level {
    WEFT_LOG_ERROR,
    WEFT_LOG_WARNING,
    WEFT_LOG_NOTE,
    WEFT_LOG_INFO
} weft_log_level;

/* Receives one line of text without a line feed; the text is valid during the call only. The
 * threads of a context call it one at a time; it must not call the library. */
typedef void (*weft_log_fn)(void *user, weft_log_level level, const char *text);

/* Creates a context without log, whose devices use all cores that this process may use, and which
 * knows the built-in names. */
WEFT_API WEFT_NODISCARD weft_status weft_context_create(weft_context **out);

/* Destroys *context and sets it to NULL; NULL and a pointer to NULL are allowed. */
WEFT_API void weft_context_destroy(weft_context **context);

/* Sends log lines to fn (NULL: drops them). WARNING is for input that is legal but probably
 * unintended, such as a layer that no other layer reads. NOTE is for a default that was chosen,
 * such as the layout of images. A line of either level is logged once in a context. INFO: for each
 * program, the operators that its device leaves to the reference device. */
WEFT_API void weft_context_set_log(weft_context *context, weft_log_fn fn, void *user);

/* Sets how many threads each device that is opened later uses: 1 to 1024; 0: one for each core of
 * this process. */
WEFT_API WEFT_NODISCARD weft_status weft_context_set_threads(weft_context *context, int threads);

WEFT_API int weft_context_threads(const weft_context *context);

#ifdef __cplusplus
}
#endif
#endif
