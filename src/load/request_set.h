/* Requests to a target, as the bytes to send; they are made before the load begins. */
#ifndef WEFT_LOAD_REQUEST_SET_H
#define WEFT_LOAD_REQUEST_SET_H

#include "load/http_client.h"
#include "weft/load.h"

/* The requests have different inputs, so that a server with a response cache must compute. */
enum { WEFT_ASKED_MOST = 16, WEFT_ASKED_BYTES = 16 << 20 };

typedef struct weft_asked {
    char *bytes;
    size_t size;
} weft_asked;

typedef struct weft_asking {
    weft_load_target target;
    char *model;  /* name in the server's metadata */
    int64_t rows; /* rows of a request; 0: unknown */
    weft_asked all[WEFT_ASKED_MOST];
    int count;
} weft_asking;

/* Finds the target's model, makes requests for it, and sends one of them. Errors are those of
 * weft_load_open. */
weft_status weft_asking_open(const weft_load_options *options, const char *url,
                             const weft_stop *stop, weft_asking *out) WEFT_NODISCARD;
void weft_asking_close(weft_asking *asking);

/* --- inputs.c --- */

/* Makes a request body for the inputs of a model's metadata (JSON text); *head: bytes of JSON
 * before binary tensors. `url` is for messages. FORMAT: these are no such metadata; UNSUPPORTED,
 * ARGUMENT: such inputs cannot be made. */
weft_status weft_inputs_make(const char *url, const char *metadata, size_t size,
                             const weft_load_options *options, uint64_t variant, weft_asked *body,
                             size_t *head) WEFT_NODISCARD;
/* Whether a body is an inference response of the protocol; *why: what it lacks. */
bool weft_inputs_answered(const char *body, size_t size, const char **why);

#endif
