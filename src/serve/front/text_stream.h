/* Internals of the front: the text of a generation request, which executors write and the loop
 * sends. */
#ifndef WEFT_SERVE_FRONT_TEXT_STREAM_H
#define WEFT_SERVE_FRONT_TEXT_STREAM_H

#include <pthread.h>

#include "serve/front/http_internal.h"
#include "train/stop_strings.h"

/* generate_request.c: reads the body of a generation request. The caller frees *prompt, which the
 * request points to, *id (NULL: there is none), and the strings, also after a failure. */
weft_status weft_generate_read(const char *body, size_t size, bool streams,
                               weft_generation_request *out, char **prompt, char **id,
                               weft_texts *stops) WEFT_NODISCARD;
/* Writes the object of a reply with this text and the id of the request (NULL: none), of which a
 * character that is cut off at the end is left out unless `all`. Bytes that are no UTF-8 become
 * U+FFFD. Returns the bytes of the text that are written. */
size_t weft_generate_write(const weft_servable_info *about, const char *text, size_t size, bool all,
                           const char *id, weft_text *out);
/* Adds a JSON string, likewise. */
size_t weft_json_add_text(weft_text *out, const char *text, size_t size, bool all);

/* The text of a generation request. Fields below the lock are guarded by it. */
typedef struct weft_text_stream {
    bool streams;      /* each token is sent when it is there; else all of them at the end */
    bool has_lock;     /* the lock is initialised */
    bool begun;        /* its head has been sent */
    bool ended;        /* all of it has been given to the connection */
    bool given_up;     /* atomic: the client is gone */
    char *id;          /* of the request; NULL: none */
    weft_text ready;   /* bytes of events that the loop sends; owned by the loop */
    bool failure_told; /* owned by the loop */
    weft_texts stops;  /* strings that end the text */
    pthread_mutex_t lock;
    weft_text text; /* drawn, and not yet in an event */
    bool finished;  /* no more will come */
    bool cut;       /* the end of the server ends it */
    bool sleeping;  /* the loop waits for more, and must be woken */
} weft_text_stream;

#endif
