/* As much of HTTP/1.1 as whoever makes load needs. */
#ifndef WEFT_LOAD_HTTP_H
#define WEFT_LOAD_HTTP_H

#include <sys/socket.h>

#include "base/base.h"
#include "weft/members.h"

/* --- answer.c: an answer, read as its bytes come --- */

typedef enum weft_heard_state {
    WEFT_HEARD_MORE,  /* it has not ended */
    WEFT_HEARD_WHOLE, /* it has */
    WEFT_HEARD_WRONG  /* it is not HTTP, or was cut off: `wrong` says what of it */
} weft_heard_state;

typedef struct weft_heard {
    int status;
    bool closes; /* the connection is not to be used again */
    const char *wrong;
    char *text;        /* where the first `room` bytes of the body go; the caller's */
    size_t room, kept; /* of the text */
    int64_t size;      /* of the body so far */
    /* inside */
    int part;
    bool chunked;
    int64_t length, left;
    size_t head, line_size;
    char *line; /* one that is not whole yet */
} weft_heard;

/* Expects an answer; text and room stay. */
void weft_heard_begin(weft_heard *answer);
/* Takes bytes; *used of them belong to it. */
weft_heard_state weft_heard_feed(weft_heard *answer, const char *data, size_t size, size_t *used);
/* The connection was closed. */
weft_heard_state weft_heard_end(weft_heard *answer);
void weft_heard_free(weft_heard *answer);

/* --- target.c: where requests go --- */

typedef struct weft_load_target {
    char *url;  /* as it was given */
    char *host; /* as in "Host:", with its port */
    char *path; /* "/v2/models/NAME[/versions/V]", or "" */
    struct sockaddr_storage *addresses;
    socklen_t *sizes;
    int count, good; /* addresses, and the one that answered last */
} weft_load_target;

/* `any`: the path may be any other, too. ARGUMENT: no URL, or no such host; UNSUPPORTED: https. */
weft_status weft_load_target_open(const char *url, bool any, weft_load_target *out) WEFT_NODISCARD;
void weft_load_target_close(weft_load_target *target);
/* Begins to connect to an address: a socket that does not block; -1 with errno. */
int weft_load_target_connect(const weft_load_target *target, int address);
/* "127.0.0.1:8000" into buffer; returns it. */
const char *weft_load_target_address(const weft_load_target *target, int address, char *buffer,
                                     size_t size);

/* --- ask.c: one question, waited for --- */

typedef struct weft_load_reply {
    int status;
    char *body; /* with a zero behind it */
    size_t size;
} weft_load_reply;

/* Tries every address. PEER: nobody answers in so many seconds; FORMAT: it is not HTTP;
 * INTERRUPTED. */
weft_status weft_load_ask(weft_load_target *target, const void *request, size_t size,
                          double timeout, const weft_stop *stop,
                          weft_load_reply *out) WEFT_NODISCARD;
void weft_load_reply_free(weft_load_reply *reply);
/* What a server says of an error, {"error": "..."} or plain, into buffer; returns it. */
const char *weft_load_error_text(const char *body, size_t size, char *buffer, size_t room);

#endif
