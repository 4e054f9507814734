/* The HTTP/1.1 client of the load generator: the parser of responses, the addresses of a target,
 * and single requests. */
#ifndef WEFT_LOAD_HTTP_CLIENT_H
#define WEFT_LOAD_HTTP_CLIENT_H

#include <sys/socket.h>

#include "base/base.h"
#include "weft/members.h"

/* --- http_response.c: incremental parser of a response --- */

typedef enum weft_http_response_state {
    WEFT_RESPONSE_INCOMPLETE, /* more bytes are expected */
    WEFT_RESPONSE_COMPLETE,   /* the response has ended */
    WEFT_RESPONSE_INVALID     /* it is not HTTP, or was cut off: `error` says why */
} weft_http_response_state;

typedef struct weft_http_response {
    int status;
    bool connection_close; /* the connection must not be reused */
    const char *error;
    /* buffer of the caller, for the beginning of the body: at most `text_capacity` bytes */
    char *text;
    size_t text_capacity, text_size;
    int64_t size; /* bytes of the body received so far */
    /* internal state of the parser */
    int part;
    bool chunked;
    int64_t length, left;
    size_t head, line_size;
    char *line; /* the beginning of an incomplete line */
} weft_http_response;

/* Prepares the parser for the next response; `text` and `text_capacity` stay. */
void weft_http_response_begin(weft_http_response *response);
/* Parses received bytes; *used of them belong to this response. */
weft_http_response_state weft_http_response_feed(weft_http_response *response, const char *data,
                                                 size_t size, size_t *used);
/* Tells the parser that the connection was closed. This ends a body without a stated length, and
 * cuts off any other response. */
weft_http_response_state weft_http_response_end(weft_http_response *response);
void weft_http_response_free(weft_http_response *response);

/* --- target.c: URL and addresses of a target --- */

typedef struct weft_load_trust weft_load_trust;
typedef struct weft_load_target {
    char *url;  /* as it was given */
    char *host; /* for the header Host, with the port */
    char *name; /* the host alone, whose certificate is expected */
    bool https;
    weft_load_trust *trust; /* for https: set by the caller of weft_load_target_open */
    char *path; /* "/v2/models/NAME[/versions/V]"; "": no model is named; or another path */
    struct sockaddr_storage *addresses;
    socklen_t *sizes;
    int count, good; /* number of addresses; index of the last one that worked */
} weft_load_target;

/* Parses the URL and resolves its host. any: paths outside the Open Inference Protocol are allowed.
 * ARGUMENT: the URL is invalid; PEER: the host is unknown. */
weft_status weft_load_target_open(const char *url, bool any, weft_load_target *out) WEFT_NODISCARD;
void weft_load_target_close(weft_load_target *target);
/* Writes an address as text, such as "127.0.0.1:8000", into buffer; returns buffer. */
const char *weft_load_target_address(const weft_load_target *target, int address, char *buffer,
                                     size_t size);

/* --- stream.c: a connection to a target, with TLS for https --- */

/* The certificates that a client of https accepts: those that the file `ca` has or has signed, by
 * default the system's, or with `insecure` all. IO: the file has no certificate. */
weft_status weft_load_trust_open(const char *ca, bool insecure,
                                 weft_load_trust **out) WEFT_NODISCARD;
void weft_load_trust_close(weft_load_trust **trust);

typedef struct weft_load_stream {
    int file;                           /* -1: closed */
    struct gnutls_session_int *session; /* NULL: without TLS */
    bool begun, ready;                  /* the handshake has begun; is over */
    int failure;                        /* of TLS, a code of GnuTLS; 0: none */
} weft_load_stream;

/* Starts connecting to an address; false: errno says why. */
bool weft_load_stream_open(weft_load_stream *stream, const weft_load_target *target, int address);
void weft_load_stream_close(weft_load_stream *stream);
/* As send and recv of a socket that does not wait: -1 with errno, EPROTO for a failure of TLS. Both
 * also go on with the handshake. */
ssize_t weft_load_stream_send(weft_load_stream *stream, const void *data, size_t size);
ssize_t weft_load_stream_receive(weft_load_stream *stream, void *data, size_t size);
/* Whether data can be sent, which needs a handshake with TLS. */
bool weft_load_stream_is_ready(const weft_load_stream *stream);
/* Whether a send that did not take all waits for room, not for bytes of the handshake. */
bool weft_load_stream_wants_write(const weft_load_stream *stream);
/* Whether bytes have been received that the socket does not show. */
bool weft_load_stream_has_more(const weft_load_stream *stream);
/* Writes the text of a failure with this errno into buffer; returns buffer. */
const char *weft_load_stream_why(const weft_load_stream *stream, int why, char *buffer,
                                 size_t size);

/* --- fetch.c: a single request --- */

typedef struct weft_load_reply {
    int status;
    char *body; /* with a zero byte after it */
    size_t size;
} weft_load_reply;

/* Sends a request to the first address of the target that accepts a connection, and waits for the
 * response. PEER: no address can be reached, or no response came within `timeout` seconds; FORMAT:
 * the response is not HTTP; INTERRUPTED: it was stopped. */
weft_status weft_load_fetch(weft_load_target *target, const void *request, size_t size,
                            double timeout, const weft_stop *stop,
                            weft_load_reply *out) WEFT_NODISCARD;
void weft_load_reply_free(weft_load_reply *reply);
/* Writes the error message of a response, {"error": "..."} or plain text, into buffer; returns
 * buffer. */
const char *weft_load_error_text(const char *body, size_t size, char *buffer, size_t room);

#endif
