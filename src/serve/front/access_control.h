/* Internals of the front end: authorisation, rate limits, TLS and the access log. All but the
 * creation and destruction is called in the loop's thread. */
#ifndef WEFT_SERVE_FRONT_ACCESS_CONTROL_H
#define WEFT_SERVE_FRONT_ACCESS_CONTROL_H

#include <stdio.h>
#include <sys/socket.h>

#include "base/base.h"

/* secret_file.c: reads a text file of at most 1 MiB; release it with weft_secret_free. closed_to:
 * mode bits that must not be set, 0 if the file is not secret; what: its description, such as "a
 * file of tokens". IO; ARGUMENT: the mode is too open; FORMAT: too long, or no text. */
weft_status weft_secret_read(const char *path, unsigned closed_to, const char *what,
                             char **out) WEFT_NODISCARD;
void weft_secret_free(char **text);

/* tls.c: reads a certificate and its key (PEM), and checks that they match. ARGUMENT: only one
 * is given, or others may read the key; FORMAT: one is not valid, or they do not match. */
typedef struct weft_tls_files {
    char *certificate, *key;
} weft_tls_files;
weft_status weft_tls_files_read(const char *certificate, const char *key,
                                weft_tls_files *out) WEFT_NODISCARD;
void weft_tls_files_free(weft_tls_files *files);

/* tokens.c: which token may access which model. */
typedef struct weft_tokens weft_tokens;
typedef enum weft_token_right {
    WEFT_TOKEN_VALID,
    WEFT_TOKEN_UNKNOWN,
    WEFT_TOKEN_OTHER_MODEL
} weft_token_right;
/* Reads lines "MODEL TOKEN"; * is every model. */
weft_status weft_tokens_read(const char *path, weft_tokens **out) WEFT_NODISCARD;
void weft_tokens_free(weft_tokens **tokens);
/* The right that an Authorization header (NULL: none) grants, compared in constant time for each
 * token length. model: a name; NULL: all models; "": any model. */
weft_token_right weft_tokens_right(const weft_tokens *tokens, const char *authorization,
                                   const char *model);
/* The right that a path requires, with `model` as above; false: none. */
bool weft_tokens_needed(char *const *piece, int pieces, const char **model);

/* rate_limit.c: requests a second for each IPv4 address, and each /64 network of IPv6. */
typedef struct weft_rate_limiter weft_rate_limiter;
typedef struct weft_token_bucket weft_token_bucket;
weft_status weft_rate_limiter_create(double rate, weft_rate_limiter **out) WEFT_NODISCARD;
void weft_rate_limiter_destroy(weft_rate_limiter **limiter);
/* The bucket of an address, until it is released. NULL: out of memory, and no limit applies. */
weft_token_bucket *weft_rate_limiter_hold(weft_rate_limiter *limiter,
                                          const struct sockaddr_storage *address, double now);
void weft_rate_limiter_release(weft_rate_limiter *limiter, weft_token_bucket *bucket);
/* Takes one request from the bucket, if it has one. NULL: always true. */
bool weft_rate_limiter_take(const weft_rate_limiter *limiter, weft_token_bucket *bucket,
                            double now);
/* Whole seconds after which a request is certainly allowed, at least 1. */
int weft_rate_limiter_retry_after(const weft_rate_limiter *limiter);

/* access_log.c: the access log, a line of JSON for each request, written by its own thread. */
typedef struct weft_access_log weft_access_log;
typedef struct weft_access_entry {
    const char *client, *method, *path, *model; /* model: NULL: none */
    unsigned code;
    size_t bytes;   /* of the reply's body */
    double seconds; /* from the request's head to the end of the reply */
} weft_access_entry;
/* "-": standard output. IO: the file cannot be opened. */
weft_status weft_access_log_open(weft_context *context, const char *path,
                                 weft_access_log **out) WEFT_NODISCARD;
/* Never blocks on the disk: a line that does not fit into the buffer is dropped. */
void weft_access_log_add(weft_access_log *log, const weft_access_entry *entry);
/* Writes the remaining lines, for at most a second. */
void weft_access_log_close(weft_access_log **log);
/* Blocks SIGPIPE in the calling thread, so that a write to a closed connection fails instead of
 * ending the process. */
void weft_block_sigpipe(void);

#endif
