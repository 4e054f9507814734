/*
 * A context carries what would otherwise be global: the log, the number of threads, and what there
 * is by name (weft/registry.h). It must outlive every object made with it. One context may be used
 * by several threads as long as its setters are called before they start.
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

typedef enum weft_log_level {
    WEFT_LOG_ERROR,
    WEFT_LOG_WARNING,
    WEFT_LOG_NOTE,
    WEFT_LOG_INFO
} weft_log_level;

/* Receives one line of text without a line feed; text is valid during the call only. Called by one
 * thread at a time, of those that a trainer starts; must not call the library. */
typedef void (*weft_log_fn)(void *user, weft_log_level level, const char *text);

/* Makes a context that logs nothing, uses every core this process may run on, and knows what is
 * built in. */
WEFT_API WEFT_NODISCARD weft_status weft_context_create(weft_context **out);

/* Destroys *context and nulls it; NULL and pointer to NULL are allowed. */
WEFT_API void weft_context_destroy(weft_context **context);

/* Sends log lines to fn (NULL: nowhere). WARNING: what can be run but is hardly meant, such as a
 * layer of a model that nobody reads. NOTE: what was decided because nobody said it, such as the
 * layout of images. Both say each line once. INFO: for each program, which operators its device
 * leaves to the reference device. */
WEFT_API void weft_context_set_log(weft_context *context, weft_log_fn fn, void *user);

/* Threads of each device made afterwards; 0 means all cores of this process. At most 1024. */
WEFT_API WEFT_NODISCARD weft_status weft_context_set_threads(weft_context *context, int threads);

WEFT_API int weft_context_threads(const weft_context *context);

#ifdef __cplusplus
}
#endif
#endif
