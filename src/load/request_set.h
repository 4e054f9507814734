/* The requests to a target, as the bytes to send, which are made before the load begins. */
#ifndef WEFT_LOAD_REQUEST_SET_H
#define WEFT_LOAD_REQUEST_SET_H

#include "load/http_client.h"
#include "weft/load.h"

/* Limits on the number of prepared requests and on the bytes of their bodies. The requests have
 * different inputs, so that a server with a response cache must compute. */
enum { WEFT_MOST_RAW_REQUESTS = 16, WEFT_RAW_REQUESTS_BYTES = 16 << 20 };

typedef struct weft_raw_request {
    char *bytes;
    size_t size;
} weft_raw_request;

typedef struct weft_request_set {
    weft_load_target target;
    char *model;  /* name of the model as the server reports it */
    int64_t rows; /* rows of a request; 0: unknown */
    weft_raw_request requests[WEFT_MOST_RAW_REQUESTS];
    int count;
} weft_request_set;

/* Finds the target's model, prepares requests for it, and sends one of them as a test. Fails as
 * weft_load_open does. token: NULL: none. */
weft_status weft_request_set_open(const weft_load_options *options, const char *token,
                                  const char *url, const weft_stop *stop,
                                  weft_request_set *out) WEFT_NODISCARD;
void weft_request_set_close(weft_request_set *set);

/* --- inputs.c --- */

/* Makes the body of a request from a model's metadata (JSON text). variant: gives other random
 * inputs; *head: bytes of JSON before the binary tensors. `url` is for messages. FORMAT: the
 * metadata are invalid; UNSUPPORTED, ARGUMENT: inputs for this model cannot be made. */
weft_status weft_inputs_make(const char *url, const char *metadata, size_t size,
                             const weft_load_options *options, uint64_t variant,
                             weft_raw_request *body, size_t *head) WEFT_NODISCARD;
/* Whether a body is an inference response of the Open Inference Protocol; *why: the fault, if
 * not. */
bool weft_inputs_check_reply(const char *body, size_t size, const char **why);

#endif
