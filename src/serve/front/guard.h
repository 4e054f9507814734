/* Inside of the front: who may ask, how often, over what, and what is written down of it. Of the
 * loop's thread, but for what makes and frees. */
#ifndef WEFT_SERVE_FRONT_GUARD_H
#define WEFT_SERVE_FRONT_GUARD_H

#include <stdio.h>
#include <sys/socket.h>

#include "base/base.h"

/* secret.c: reads a file of at most 1 MiB as text, which is to be freed with weft_secret_free.
 * closed_to: bits of the mode that none but its owner may have, 0 for what is no secret; what: it
 * is, as in "a file of tokens". IO; ARGUMENT: others may read it; FORMAT: too long, or no text. */
weft_status weft_secret_read(const char *path, unsigned closed_to, const char *what,
                             char **out) WEFT_NODISCARD;
void weft_secret_free(char **text);

/* secure.c: a certificate and its key (PEM), checked against each other. ARGUMENT: one without the
 * other, or a key that others may read; FORMAT: not what they should be, or not of each other. */
typedef struct weft_secure {
    char *certificate, *key;
} weft_secure;
weft_status weft_secure_read(const char *certificate, const char *key,
                             weft_secure *out) WEFT_NODISCARD;
void weft_secure_free(weft_secure *secure);

/* tokens.c: who may ask which model. */
typedef struct weft_tokens weft_tokens;
typedef enum weft_right { WEFT_RIGHT_GOOD, WEFT_RIGHT_UNKNOWN, WEFT_RIGHT_OTHER } weft_right;
/* Lines "MODEL TOKEN", of which * is every model. */
weft_status weft_tokens_read(const char *path, weft_tokens **out) WEFT_NODISCARD;
void weft_tokens_free(weft_tokens **tokens);
/* What the value of an Authorization header (NULL: there is none) is good for; takes as long for
 * every token of a length. model: a name; NULL: all of them; "": any of them. */
weft_right weft_tokens_right(const weft_tokens *tokens, const char *authorization,
                             const char *model);
/* What a path in pieces needs, as above; false: nothing. */
bool weft_tokens_needed(char *const *piece, int pieces, const char **model);

/* rates.c: requests a second of each address; of IPv6 of each network of 64 bits. */
typedef struct weft_rates weft_rates;
typedef struct weft_bucket weft_bucket;
weft_status weft_rates_create(double rate, weft_rates **out) WEFT_NODISCARD;
void weft_rates_destroy(weft_rates **rates);
/* That of an address, until it is released. NULL: there is no memory, and no limit then. */
weft_bucket *weft_rates_hold(weft_rates *rates, const struct sockaddr_storage *address, double now);
void weft_rates_release(weft_rates *rates, weft_bucket *bucket);
/* Whether one more request may be. NULL: it may. */
bool weft_rates_take(const weft_rates *rates, weft_bucket *bucket, double now);
/* Whole seconds after which one may be for sure, at least 1. */
int weft_rates_later(const weft_rates *rates);

/* access.c: a line of JSON for each request, written by a thread of its own. */
typedef struct weft_access weft_access;
typedef struct weft_accessed {
    const char *client, *method, *path, *model; /* model: NULL: of none */
    unsigned code;
    size_t bytes;   /* of the reply's body */
    double seconds; /* from the head of the request to the end of the reply */
} weft_accessed;
/* "-": standard output. IO: it cannot be opened. */
weft_status weft_access_open(weft_context *context, const char *path,
                             weft_access **out) WEFT_NODISCARD;
/* Does not wait for the disk: what it does not take in time is left out. */
void weft_access_add(weft_access *access, const weft_accessed *accessed);
/* Writes what is left, within a second. */
void weft_access_close(weft_access **access);
/* The calling thread is told of a client or reader who has gone by what fails, not by a signal that
 * ends the process. */
void weft_bear_broken_pipes(void);

#endif
