/* HTTP/1.1 messages, of which RFC 9112 says where each of them ends: the head of a request, and the
 * chunks of its body. The functions here only look at bytes; serve/front/connection_io.c has the
 * connections.
 *
 * A message that another program could read otherwise is refused, whatever most programs make of
 * it. If a proxy and this server disagreed about the end of a request, the rest of its body would
 * be a request of its own that the proxy has not seen (request smuggling). */
#ifndef WEFT_SERVE_HTTP_HTTP_H
#define WEFT_SERVE_HTTP_HTTP_H

#include "base/base.h"

/* Fields of a head, at most; bytes of chunk extensions and trailers of a body, at most. */
enum { WEFT_HTTP_FIELDS = 100, WEFT_HTTP_CHUNK_EXTRA = 16 << 10 };

/* The status code and the sentence of a reply to a request that is no valid HTTP. */
typedef struct weft_http_fault {
    unsigned code; /* 0: none */
    const char *sentence;
} weft_http_fault;

/* The state of the search for the end of a head, of which bytes arrive; {0} at the beginning. */
typedef struct weft_http_scan {
    size_t at;    /* bytes that were looked at */
    size_t line;  /* beginning of the line that byte is in */
    size_t blank; /* bytes of the empty line before the request line, 0 or 2 */
} weft_http_scan;

/* Looks for the end of the head in the bytes that have arrived, from its first byte on. Returns the
 * bytes of the head with the empty line at its end; 0: more bytes must arrive, or *fault is set: a
 * line does not end with CR LF, it has a control character, or it continues the line before it. */
size_t weft_http_head_end(const char *data, size_t size, weft_http_scan *scan,
                          weft_http_fault *fault);

typedef struct weft_http_field {
    const char *name, *value;
} weft_http_field;

/* The head of a request. Its texts are in the bytes that were parsed. */
typedef struct weft_http_head {
    const char *method;
    char *path;        /* from its first slash, or "*"; not decoded */
    const char *query; /* behind the question mark; NULL: there is none */
    int minor;         /* of the version: 0 or 1 */
    int count;
    weft_http_field fields[WEFT_HTTP_FIELDS];
    int64_t length; /* of the body, if it is not chunked */
    bool chunked, keeps_alive, expects_continue;
} weft_http_head;

/* Parses a whole head, whose bytes are changed. false: *fault is set. */
bool weft_http_head_parse(char *data, size_t size, weft_http_head *head, weft_http_fault *fault);
/* framing.c: finds out from the fields of the head where the body ends. false: *fault is set. */
bool weft_http_head_frame(weft_http_head *head, weft_http_fault *fault);

/* The value of the first field of this name, or NULL. */
const char *weft_http_field_value(const weft_http_head *head, const char *name);
/* The next item, from *at on, of the lists in all fields of this name; *at is 0 at the beginning.
 * NULL: there is none. *size: its bytes, which may be 0. */
const char *weft_http_field_item(const weft_http_head *head, const char *name, size_t *at,
                                 size_t *size);
/* Finds a parameter of the query, and writes its decoded value. false: it is not there; a value
 * that has no room is cut off. */
bool weft_http_query_value(const char *query, const char *name, char *out, size_t room);
/* Decodes %XX in place. false: a NUL would be in the text. */
bool weft_http_decode(char *text);

/* Whether the character may be in a token (RFC 9110, section 5.6.2). */
bool weft_http_is_token(unsigned char c);
/* Whether all characters of a text are such, and there is one. */
bool weft_http_is_token_text(const char *text, size_t size);
/* Whether a text is HOST or HOST:PORT, or empty, as a Host field may be. */
bool weft_http_is_host(const char *text, size_t size);

/* The state of a chunked body (chunks.c); {0} at the beginning. */
typedef struct weft_http_chunks {
    int state;
    uint64_t left; /* of the chunk */
    int digits;    /* of its size, without leading zeros */
    size_t extra;  /* bytes of chunk extensions and trailers so far */
} weft_http_chunks;

typedef enum weft_http_result {
    WEFT_HTTP_MORE,  /* all bytes were used */
    WEFT_HTTP_DATA,  /* *piece are bytes of the body */
    WEFT_HTTP_END,   /* the body has ended with the last byte that was used */
    WEFT_HTTP_FAULTY /* *fault is set */
} weft_http_result;

/* Reads chunks up to the next piece of the body. *used: bytes of the data that were read, with
 * those of the piece, which are the last ones. */
weft_http_result weft_http_chunks_read(weft_http_chunks *chunks, const char *data, size_t size,
                                       size_t *used, size_t *piece, weft_http_fault *fault);

#endif
