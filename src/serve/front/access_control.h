/* Internals of the front end: TLS files, bearer tokens, rate limits and the access log. Apart from
 * creation and destruction, these functions are called in the loop's thread only. */
#ifndef WEFT_SERVE_FRONT_ACCESS_CONTROL_H
#define WEFT_SERVE_FRONT_ACCESS_CONTROL_H

#include <stdio.h>
#include <sys/socket.h>

#include "base/base.h"
#include "serve/http/http.h"

/* reload.c: files that are read again when they have changed. */
typedef struct weft_watched_files {
    char *paths[2];      /* the second may be NULL; without the first there are none */
    uint64_t read, seen; /* their state when they were read, and at the last look */
} weft_watched_files;

/* tls.c: reads a certificate and its key (PEM), and checks that they match. ARGUMENT: only one
 * is given, or others may read the key; FORMAT: one is not valid, or they do not match. */
typedef struct weft_tls weft_tls;
weft_status weft_tls_open(const char *certificate, const char *key, weft_tls **out) WEFT_NODISCARD;
void weft_tls_close(weft_tls **tls);
/* Reads the files again, for new connections. A failure leaves the pair of before. */
weft_status weft_tls_read(weft_tls *tls, const char *certificate, const char *key) WEFT_NODISCARD;
/* The credentials of GnuTLS for a new connection. They live as long as the object. */
struct gnutls_certificate_credentials_st *weft_tls_credentials(const weft_tls *tls);

/* tokens.c: bearer tokens, each of which gives access to one model or to all models. */
typedef struct weft_tokens weft_tokens;
typedef enum weft_token_right {
    WEFT_TOKEN_VALID,
    WEFT_TOKEN_UNKNOWN,
    WEFT_TOKEN_OTHER_MODEL
} weft_token_right;
/* Reads a file of lines "MODEL TOKEN"; the model * stands for all models. */
weft_status weft_tokens_read(const char *path, weft_tokens **out) WEFT_NODISCARD;
void weft_tokens_free(weft_tokens **tokens);
/* The right that an Authorization header gives; NULL: there is no header. All tokens are compared
 * in constant time. model: name of the model that is to be used; NULL: the token must be good for
 * all models; "": a token for any model is enough. */
weft_token_right weft_tokens_right(const weft_tokens *tokens, const char *authorization,
                                   const char *model);
/* Whether a path needs a token; *model: for which model, as in weft_tokens_right. */
bool weft_tokens_needed(char *const *piece, int pieces, const char **model);

/* rate_limit.c: limits the requests per second of each client, which is an IPv4 address or a /64
 * network of IPv6, with a token bucket. */
typedef struct weft_rate_limiter weft_rate_limiter;
typedef struct weft_token_bucket weft_token_bucket;
weft_status weft_rate_limiter_create(double rate, weft_rate_limiter **out) WEFT_NODISCARD;
void weft_rate_limiter_destroy(weft_rate_limiter **limiter);
/* Finds or adds the bucket of an address, and keeps it until it is released. NULL: there is no
 * memory for it; then no limit applies to the client. */
weft_token_bucket *weft_rate_limiter_hold(weft_rate_limiter *limiter,
                                          const struct sockaddr_storage *address, double now);
void weft_rate_limiter_release(weft_rate_limiter *limiter, weft_token_bucket *bucket);
/* Takes one token from the bucket for a request; false: the bucket is empty. bucket NULL: always
 * true. */
bool weft_rate_limiter_take(const weft_rate_limiter *limiter, weft_token_bucket *bucket,
                            double now);
/* The whole seconds, at least 1, after which an empty bucket certainly has a token again. */
int weft_rate_limiter_retry_after(const weft_rate_limiter *limiter);

/* proxies.c: the trusted proxies. */
typedef struct weft_proxies weft_proxies;
/* Reads a list of addresses and networks. ARGUMENT: an item is none. */
weft_status weft_proxies_read(const char *list, weft_proxies **out) WEFT_NODISCARD;
void weft_proxies_free(weft_proxies **proxies);
/* Writes the address of the client for which a trusted proxy has sent the request, as its field
 * X-Forwarded-For says. false: the peer is no trusted proxy (proxies NULL: none is), or says
 * nothing. */
bool weft_proxies_client(const weft_proxies *proxies, const char *peer, const weft_http_head *head,
                         char *out, size_t room);
/* Reads an address for weft_rate_limiter_hold. */
bool weft_address_read(const char *text, struct sockaddr_storage *out);

/* access_log.c: the access log has a line of JSON for each request; a thread of its own writes the
 * file. */
typedef struct weft_access_log weft_access_log;
typedef struct weft_access_entry {
    /* model NULL: the request named no model in service */
    const char *client, *method, *path, *model, *id;
    unsigned code;
    size_t bytes;   /* of the reply's body */
    double seconds; /* from the request's head to the end of the reply */
} weft_access_entry;
/* Opens the log file for appending; path "-": standard output. IO: the file cannot be opened. */
weft_status weft_access_log_open(weft_context *context, const char *path,
                                 weft_access_log **out) WEFT_NODISCARD;
/* Adds a line to the buffer and never waits for the disk: a line that does not fit is dropped. */
void weft_access_log_add(weft_access_log *log, const weft_access_entry *entry);
/* Makes the thread open the file again, behind the lines that were added before: it may have been
 * renamed. A file that cannot be opened leaves the one of before in use. */
void weft_access_log_reopen(weft_access_log *log);
/* Writes the lines that are left, for at most a second, and closes the log. */
void weft_access_log_close(weft_access_log **log);
/* Blocks SIGPIPE in the calling thread, so that a write to a closed connection fails instead of
 * ending the process. */
void weft_block_sigpipe(void);

#endif
