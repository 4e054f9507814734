/*
 * What a call answers. Every function that can fail returns a weft_status; the sentence that
 * says what was wrong, where, and what would be right is kept per thread until the next failure.
 *
 * Outputs are set only on success. The library never prints, exits or aborts.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stddef.h>

#if defined(WEFT_SHARED)
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif
#define WEFT_NODISCARD __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

/* Grouped by what is lost. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_ARGUMENT,    /* a value given by the caller is wrong; nothing was changed */
    WEFT_ERR_FORMAT,      /* a file is damaged, truncated or of another kind */
    WEFT_ERR_IO,          /* the operating system refused (missing file, full disk, ...) */
    WEFT_ERR_MEMORY,      /* out of memory; nothing was changed */
    WEFT_ERR_UNSUPPORTED, /* legal, but this build or device cannot do it */
    WEFT_ERR_NUMERIC,     /* a result is not finite; the run stopped before using it */
    WEFT_ERR_INTERRUPTED, /* the caller asked to stop; state is saved and consistent */
    WEFT_ERR_PEER,        /* another rank failed, left or did not come; the job is over */
    WEFT_ERR_BUSY,    /* more than can be taken now, or it is about to end; nothing was changed */
    WEFT_ERR_LATE,    /* its time was over before it was begun; nothing was computed */
    WEFT_ERR_INTERNAL /* a promise inside the library was broken: please report it */
} weft_status;

/* The sentence of this thread's last failure; never NULL, owned by the library, valid until the
 * next failure in the same thread. */
WEFT_API const char *weft_last_message(void);

/* A failure that outlives its thread's next one: kept, given to another thread, told again. Begins
 * as {0}, which is none, and owns nothing. */
typedef struct weft_error {
    weft_status status;
    char message[2048];
} weft_error;

/* Keeps a failure with this thread's message, unless there is one already or the status is OK. */
WEFT_API void weft_error_catch(weft_error *error, weft_status status);
/* Makes it this thread's last failure; its status, or OK if there is none. */
WEFT_API weft_status weft_error_raise(const weft_error *error);

/* The short name of a status, such as "format"; never NULL. */
WEFT_API const char *weft_status_name(weft_status status);

/* What may be shown of a text that came from outside, into buffer (cut off where it is full):
 * control characters, and bytes that are not UTF-8, become \xNN. Messages of the library are so
 * already. Returns buffer. */
WEFT_API const char *weft_printable(const char *text, char *buffer, size_t size);

/* "" for one of something, else "s". */
WEFT_API const char *weft_plural(long long count);

/* Frees text that the library handed out. NULL is allowed. */
WEFT_API void weft_free(void *memory);

/* "MAJOR.MINOR.PATCH" of the library. */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
