/*
 * Output files, such as metrics, traces, predictions and weights.
 *
 * The path "-" is standard output. Symbolic links are followed, even if their target does not exist
 * yet. A path that is no regular file (a device, a pipe) is written to, never replaced; a named
 * pipe needs a reader within ten seconds. A regular file is either written directly or replaced
 * atomically when it is complete (weft_output_mode). A replaced file keeps its permissions, without
 * set-user-ID and set-group-ID.
 *
 * The first failure is sticky: later calls on the output repeat it, so only closing must be
 * checked. One thread at a time uses an output.
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

/* How a regular file is written. */
typedef enum weft_output_mode {
    /* Replaced when closed: the file has all new contents, synced, or the old ones. */
    WEFT_OUTPUT_REPLACE,
    /* Written directly: starts empty, each complete line is written at once. The file is locked
     * until it is closed; a second output of this kind to it is ARGUMENT. */
    WEFT_OUTPUT_STREAM,
    WEFT_OUTPUT_APPEND, /* as STREAM, after the existing contents */
    /* As REPLACE, for a file that no user has named, such as one in a folder of checkpoints: a link
     * is replaced and not followed, "-" has no meaning, and what is neither a file nor a link is an
     * error. */
    WEFT_OUTPUT_OWN
} weft_output_mode;

/* Opens an output. IO: the path cannot be written; the message names it and the reason. */
WEFT_API WEFT_NODISCARD weft_status weft_output_open(const char *path, weft_output_mode mode,
                                                     weft_output **out);

/* Write bytes or formatted text to the output's buffer, or write the buffer to the file. IO: the
 * first failure of this output. */
WEFT_API WEFT_NODISCARD weft_status weft_output_write(weft_output *output, const void *data,
                                                      size_t size);
WEFT_API WEFT_NODISCARD weft_status weft_output_print(weft_output *output, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
WEFT_API WEFT_NODISCARD weft_status weft_output_flush(weft_output *output);

/* Closes and frees *output and sets it to NULL; NULL is allowed. With `keep` false, or after a
 * failure, a file that would be replaced keeps its old contents. */
WEFT_API WEFT_NODISCARD weft_status weft_output_close(weft_output **output, bool keep);

/* Removes the temporary files of this process, such as those of outputs that are being replaced,
 * and lets no further one be created: for a process that ends at once (_exit) while other threads
 * write. A handler of a signal may call it. */
WEFT_API void weft_output_abandon_all(void);

/* Whether a path means standard output: "-", or a path of the file that standard output is. */
WEFT_API bool weft_output_is_standard(const char *path);

/* Whether two paths lead to the same file or folder, also through links, and also if it does not
 * exist yet. false for character devices, such as /dev/null, which may be given twice. */
WEFT_API bool weft_output_same(const char *a, const char *b);

/* Formats a number for JSON with `digits` significant digits; "null" if it is not finite. 32 bytes
 * of buffer are enough for up to 17 digits. Returns buffer. */
WEFT_API const char *weft_json_real(double value, int digits, char *buffer, size_t size);
/* Makes a JSON string of a text, in its quotes; U+FFFD replaces each byte that is not UTF-8. The
 * caller frees *out with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_json_string(const char *text, char **out);

#ifdef __cplusplus
}
#endif
#endif
