/* The HTTP/1.1 client of the load generator. */
#ifndef WEFT_LOAD_HTTP_CLIENT_H
#define WEFT_LOAD_HTTP_CLIENT_H

#include <sys/socket.h>

#include "base/base.h"
#include "weft/members.h"

/* --- http_response.c: incremental parser of a response --- */

typedef enum weft_http_response_state {
    WEFT_RESPONSE_INCOMPLETE, /* the response has not ended */
    WEFT_RESPONSE_COMPLETE,   /* the response is complete */
    WEFT_RESPONSE_INVALID     /* it is not HTTP, or was cut off: `error` says why */
} weft_http_response_state;

typedef struct weft_http_response {
    int status;
    bool connection_close; /* the connection must not be reused */
    const char *error;
    char *text; /* buffer of the caller for the first `text_capacity` bytes of the body */
    size_t text_capacity, text_size;
    int64_t size; /* bytes of the body so far */
    /* internal state */
    int part;
    bool chunked;
    int64_t length, left;
    size_t head, line_size;
    char *line; /* an incomplete line */
} weft_http_response;

/* Prepares for a response; text and text_capacity stay. */
void weft_http_response_begin(weft_http_response *response);
/* Parses bytes; *used of them belong to this response. */
weft_http_response_state weft_http_response_feed(weft_http_response *response, const char *data,
                                                 size_t size, size_t *used);
/* The connection was closed. */
weft_http_response_state weft_http_response_end(weft_http_response *response);
void weft_http_response_free(weft_http_response *response);

/* --- target.c: URL and addresses of a target --- */

typedef struct weft_load_target {
    char *url;  /* as it was given */
    char *host; /* as in "Host:", with its port */
    char *path; /* "/v2/models/NAME[/versions/V]", "", or another path */
    struct sockaddr_storage *addresses;
    socklen_t *sizes;
    int count, good; /* number of addresses, and the last one that worked */
} weft_load_target;

/* any: paths outside the protocol are allowed. ARGUMENT: no URL, or no such host; UNSUPPORTED:
 * https. */
weft_status weft_load_target_open(const char *url, bool any, weft_load_target *out) WEFT_NODISCARD;
void weft_load_target_close(weft_load_target *target);
/* Starts connecting to an address; returns a non-blocking socket, or -1 with errno. */
int weft_load_target_connect(const weft_load_target *target, int address);
/* "127.0.0.1:8000" into buffer; returns it. */
const char *weft_load_target_address(const weft_load_target *target, int address, char *buffer,
                                     size_t size);

/* --- fetch.c: a single request --- */

typedef struct weft_load_reply {
    int status;
    char *body; /* with a zero byte after it */
    size_t size;
} weft_load_reply;

/* Tries all addresses. PEER: no response within `timeout` seconds; FORMAT: it is not HTTP;
 * INTERRUPTED. */
weft_status weft_load_fetch(weft_load_target *target, const void *request, size_t size,
                            double timeout, const weft_stop *stop,
                            weft_load_reply *out) WEFT_NODISCARD;
void weft_load_reply_free(weft_load_reply *reply);
/* Writes the error message of a response, {"error": "..."} or plain text, into buffer; returns
 * it. */
const char *weft_load_error_text(const char *body, size_t size, char *buffer, size_t room);

#endif
