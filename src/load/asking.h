/* What is asked of a target: requests as the bytes that are sent, made before the load begins. */
#ifndef WEFT_LOAD_ASKING_H
#define WEFT_LOAD_ASKING_H

#include "load/http.h"
#include "weft/load.h"

/* Requests with other numbers each, so that a server which remembers answers must compute. */
enum { WEFT_ASKED_MOST = 16, WEFT_ASKED_BYTES = 16 << 20 };

typedef struct weft_asked {
    char *bytes;
    size_t size;
} weft_asked;

typedef struct weft_asking {
    weft_load_target target;
    char *model;  /* as it calls itself */
    int64_t rows; /* of a request; 0: not known */
    weft_asked all[WEFT_ASKED_MOST];
    int count;
} weft_asking;

/* Finds the target's model, makes requests for it, and asks one. As weft_load_open. */
weft_status weft_asking_open(const weft_load_options *options, const char *url,
                             const weft_stop *stop, weft_asking *out) WEFT_NODISCARD;
void weft_asking_close(weft_asking *asking);

/* --- inputs.c --- */

/* The body of a request for inputs as a model's metadata (JSON text) describe them; *head: bytes of
 * JSON before binary tensors. `url` is for messages. FORMAT: these are no such metadata;
 * UNSUPPORTED, ARGUMENT: what cannot be made. */
weft_status weft_inputs_make(const char *url, const char *metadata, size_t size,
                             const weft_load_options *options, uint64_t variant, weft_asked *body,
                             size_t *head) WEFT_NODISCARD;
/* Whether a body is an answer of the protocol; *why: what it lacks. */
bool weft_inputs_answered(const char *body, size_t size, const char **why);

#endif
