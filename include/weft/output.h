/*
 * Output files, such as metrics, traces, predictions and weights.
 *
 * The path "-" is standard output. Links are followed, even if their target does not exist yet. A
 * path that is no regular file (a device, a pipe) is written to, never replaced. A regular file is
 * replaced atomically when it is complete, or written directly.
 *
 * The first failure is sticky: later calls repeat it, so that only closing must be checked. An
 * output is used by one thread at a time.
 */
#ifndef WEFT_OUTPUT_H
#define WEFT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_output weft_output;

typedef enum weft_output_mode {
    WEFT_OUTPUT_REPLACE, /* a regular file has all new contents, synced, or the old ones */
    WEFT_OUTPUT_STREAM,  /* starts empty; each complete line is written at once */
    WEFT_OUTPUT_APPEND   /* the same, after the existing contents */
} weft_output_mode;

/* IO: the path cannot be written; the message names it and the reason. */
WEFT_API WEFT_NODISCARD weft_status weft_output_open(const char *path, weft_output_mode mode,
                                                     weft_output **out);

/* Buffered. IO: the first failure of this output. */
WEFT_API WEFT_NODISCARD weft_status weft_output_write(weft_output *output, const void *data,
                                                      size_t size);
WEFT_API WEFT_NODISCARD weft_status weft_output_print(weft_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
WEFT_API WEFT_NODISCARD weft_status weft_output_flush(weft_output *output);

/* Closes and frees *output and sets it to NULL; NULL is allowed. With `keep` false, or after a
 * failure, a file to be replaced is left unchanged. */
WEFT_API WEFT_NODISCARD weft_status weft_output_close(weft_output **output, bool keep);

/* Whether a path means standard output: "-", or another path of the same file. */
WEFT_API bool weft_output_is_standard(const char *path);

/* Whether two paths lead to the same file or folder, also through links, whether it exists or not.
 * Devices that accept everything, such as /dev/null, may be given twice. */
WEFT_API bool weft_output_same(const char *a, const char *b);

/* Formats a number for JSON with so many significant digits; null if it is not finite. 32 bytes of
 * buffer are enough for up to 17 digits; returns buffer. */
WEFT_API const char *weft_json_real(double value, int digits, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
