/*
 * Results of calls. Every function that can fail returns a weft_status. The message of a failure
 * says what was wrong, where, and what would be right; each thread keeps the message of its last
 * failure.
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

/* Kinds of failures, by what the caller can do about them. */
typedef enum weft_status {
    WEFT_OK = 0,
    WEFT_ERR_ARGUMENT,    /* the caller passed a wrong value; nothing was changed */
    WEFT_ERR_FORMAT,      /* a file is damaged, truncated or of another kind */
    WEFT_ERR_IO,          /* the operating system refused (missing file, full disk, ...) */
    WEFT_ERR_MEMORY,      /* out of memory; nothing was changed */
    WEFT_ERR_UNSUPPORTED, /* legal, but this build or device cannot do it */
    WEFT_ERR_NUMERIC,     /* a result is not finite; the run stopped before using that result */
    WEFT_ERR_INTERRUPTED, /* the caller asked the call to stop; state is saved and consistent */
    WEFT_ERR_PEER,    /* another rank or process failed, left or did not answer; the job is over */
    WEFT_ERR_BUSY,    /* a limit is reached, or the object is being ended; nothing was changed */
    WEFT_ERR_LATE,    /* the request cannot start before its deadline; nothing was computed */
    WEFT_ERR_INTERNAL /* an invariant of the library was violated: please report it */
} weft_status;

/* Returns early with the status of a failed call. */
#define WEFT_TRY(expr)                                                                             \
    do {                                                                                           \
        weft_status weft_try_status = (expr);                                                      \
        if (weft_try_status != WEFT_OK) return weft_try_status;                                    \
    } while (0)

/* The message of this thread's last failure; never NULL, owned by the library, valid until the next
 * failure in the same thread. */
WEFT_API const char *weft_last_message(void);

/* A stored failure, to be reported later or in another thread. {0} holds none. The struct owns no
 * memory. */
typedef struct weft_error {
    weft_status status;
    char message[2048];
} weft_error;

/* Stores `status` with this thread's message in *error, unless *error holds a failure already or
 * `status` is OK. */
WEFT_API void weft_error_catch(weft_error *error, weft_status status);
/* Makes the stored failure this thread's last one, and returns its status; OK if none is stored. */
WEFT_API weft_status weft_error_raise(const weft_error *error);

/* The short name of a status, such as "format"; never NULL. */
WEFT_API const char *weft_status_name(weft_status status);

/* Copies text from outside into buffer in a form that is safe to print, truncated if necessary:
 * control characters and bytes that are not UTF-8 become \xNN. Messages of the library are safe
 * already. Returns buffer. */
WEFT_API const char *weft_printable(const char *text, char *buffer, size_t size);

/* The ending of a noun in a message: "" if count is 1, else "s". */
WEFT_API const char *weft_plural(long long count);

/* Frees text that the library has returned. NULL is allowed. */
WEFT_API void weft_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
