/*
 * Output: what is written where a user said, as metrics, traces, predictions and weights are.
 *
 * A path is taken as people mean it. "-" is standard output. A link is followed, also one whose
 * target is not there yet. What is no regular file (a device, a pipe) is written to, never
 * replaced. A regular file is replaced as a whole when all is written, or written as it goes.
 *
 * The first failure sticks: later calls repeat it, so that only closing must be checked. An output
 * is used by one thread at a time.
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
    WEFT_OUTPUT_REPLACE, /* a regular file has all of it, synced, or what it had before */
    WEFT_OUTPUT_STREAM,  /* it begins empty, and each whole line goes there at once */
    WEFT_OUTPUT_APPEND   /* the same, behind what is there */
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

/* Ends it, frees *output and nulls it; NULL is allowed. With `keep` false, or after a failure, a
 * file that was to be replaced stays what it was. */
WEFT_API WEFT_NODISCARD weft_status weft_output_close(weft_output **output, bool keep);

/* Whether a path means standard output: "-", or another name of where that goes. */
WEFT_API bool weft_output_is_standard(const char *path);

/* Whether two paths lead to one file or folder, by way of links too, whether it is there or not.
 * Devices that take everything, as /dev/null does, may be named twice. */
WEFT_API bool weft_output_same(const char *a, const char *b);

/* A number as JSON has it, with so many significant digits: null where it is not finite, which JSON
 * has no word for. Into buffer, of which 32 bytes hold any of up to 17 digits; returns buffer. */
WEFT_API const char *weft_json_real(double value, int digits, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
