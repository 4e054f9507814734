/* Starts, drains and stops the HTTP server: its listeners, its event loop, and the objects that
 * they share. */
#include <errno.h>
#include <math.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/settings.h"
#include "checkpoint/checkpoint.h"
#include "serve/front/server_internal.h"
#include "serve/port.h"
#include "serve/servable.h"

/* Opens a port. */
static weft_status open_listener(const weft_server_options *o, int64_t port,
                                 weft_http_listener *listener)
{
    return weft_port_open(o->host, port, o->processes > 1 ? WEFT_PORT_SHARED : WEFT_PORT_ALONE,
                          &listener->socket, &listener->port);
}

/* The log must not be a file that the server reads. */
static weft_status check_log(const weft_server_options *o)
{
    const char *const own[] = {o->tokens, o->certificate, o->key};
    if (!o->log) return WEFT_OK;
    for (size_t i = 0; i < WEFT_COUNT(own); i++)
        if (own[i] && weft_output_same(own[i], o->log))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "--log %s is a file that the server reads, which would be lost; give "
                             "another",
                             o->log);
    return weft_checkpoint_refuse_overwrite("log", o->log);
}

/* Other machines need a token to load and unload models; that they may ask at all is told. */
static weft_status check_access(const weft_server *s, const weft_server_options *o)
{
    if (o->port > 0 && o->port == o->metrics_port)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "port and metrics-port are both %lld; give another metrics-port, or -1 "
                         "for metrics on the port alone",
                         (long long)o->port);
    if (weft_port_is_local(o->host) || o->tokens) return WEFT_OK;
    if (o->control)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "host is %s, where other machines could load and unload models (control) "
                         "without a token; give --tokens FILE, or leave one of the two out",
                         o->host);
    weft_log(weft_service_context(s->service), WEFT_LOG_WARNING,
             "any machine that reaches %s may ask, without a token%s; --tokens, --certificate and "
             "--rate-limit limit this",
             o->host, o->certificate ? "" : " and unencrypted");
    return WEFT_OK;
}

static weft_status open_all(weft_server *s, const weft_server_options *o)
{
    WEFT_TRY(check_log(o));
    WEFT_TRY(check_access(s, o));
    s->tls = o->certificate || o->key;
    /* The state of a file is noted before it is read, so that no change is missed. */
    WEFT_TRY(weft_watched_files_set(&s->tls_files, o->certificate, o->key));
    WEFT_TRY(weft_watched_files_set(&s->token_file, o->tokens, NULL));
    if (s->tls) WEFT_TRY(weft_tls_open(o->certificate, o->key, &s->credentials));
    if (o->tokens) WEFT_TRY(weft_tokens_read(o->tokens, &s->tokens));
    if (o->rate_limit > 0) WEFT_TRY(weft_rate_limiter_create(o->rate_limit, &s->rate_limiter));
    if (o->cors) {
        WEFT_TRY(weft_cors_check(o->cors));
        WEFT_TRY(weft_strdup(o->cors, &s->cors));
    }
    if (o->proxies) WEFT_TRY(weft_proxies_read(o->proxies, &s->proxies));
    if (getrandom(&s->id_key, sizeof(s->id_key), 0) < 0) s->id_key = (uint64_t)getpid();
    if (o->log)
        WEFT_TRY(weft_access_log_open(weft_service_context(s->service), o->log, &s->access_log));
    WEFT_TRY(open_listener(o, o->port, &s->listeners[0]));
    if (o->metrics_port >= 0) {
        s->listeners[1].only_metrics = true;
        WEFT_TRY(open_listener(o, o->metrics_port, &s->listeners[1]));
    }
    WEFT_TRY(weft_loop_start(s));
    return weft_server_watch_start(s);
}

weft_status weft_server_start(weft_service *service, const weft_server_options *options,
                              weft_server **out)
{
    WEFT_NEED(service, options, out);
    weft_server *s;
    weft_server_options own, *o = &own;
    WEFT_TRY(weft_options_take(weft_server_table(weft_service_context(service)), options, &own));
    WEFT_TRY(WEFT_NEW(&s, 1));
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->drained, &monotonic);
    pthread_cond_init(&s->watch_wake, &monotonic);
    pthread_cond_init(&s->readers_ended, NULL);
    s->unread_end = &s->unread;
    pthread_condattr_destroy(&monotonic);
    s->service = service;
    s->head = (size_t)o->headers << 10;
    s->body = (size_t)o->body << 20;
    s->queue_timeout = o->patience;
    s->timeout = o->timeout;
    s->receive = o->receive;
    s->connections = o->connections;
    s->control = o->control;
    s->shared = o->processes > 1;
    s->epoll = s->wake_event = s->listeners[0].socket = s->listeners[1].socket = -1;
    s->listeners[1].port = -1;
    weft_status status = weft_history_create(&s->history);
    if (status == WEFT_OK) status = WEFT_NEW(&s->received, WEFT_RECEIVED);
    if (status == WEFT_OK) status = open_all(s, o);
    if (status != WEFT_OK) {
        weft_error error = {0};
        weft_error_catch(&error, status);
        weft_server_stop(&s);
        return weft_error_raise(&error);
    }
    *out = s;
    return WEFT_OK;
}

void weft_server_ports(const weft_server *server, int *port, int *metrics)
{
    WEFT_NEED_VOID(server);
    *port = server->listeners[0].port;
    *metrics = server->listeners[1].port;
}

/* Seconds of the longest wait, which the system's clock can add to its time. */
static const double LONGEST_DRAIN = 1e9;

bool weft_server_drain(weft_server *s, double seconds)
{
    WEFT_NEED_ELSE_AS(false, "server", s);
    if (isnan(seconds)) return false;
    seconds = WEFT_MIN(WEFT_MAX(seconds, 0), LONGEST_DRAIN);
    double until = weft_seconds() + seconds;
    struct timespec at = {.tv_sec = (time_t)until, .tv_nsec = (long)((until - floor(until)) * 1e9)};
    int late = 0;
    __atomic_store_n(&s->draining, true, __ATOMIC_RELEASE);
    weft_loop_wake(s);
    pthread_mutex_lock(&s->lock);
    while (!s->is_drained && late == 0) late = pthread_cond_timedwait(&s->drained, &s->lock, &at);
    bool all = s->is_drained;
    pthread_mutex_unlock(&s->lock);
    return all;
}

void weft_server_reload(weft_server *s)
{
    WEFT_NEED_VOID_AS("server", s);
    if (s->access_log) weft_access_log_reopen(s->access_log);
    weft_server_look_now(s);
}

void weft_server_stop(weft_server **server)
{
    if (!server || !*server) return;
    weft_server *s = *server;
    __atomic_store_n(&s->draining, true, __ATOMIC_RELEASE);
    weft_server_watch_end(s);
    weft_loop_end(s);
    for (int i = 0; i < 2; i++) {
        if (s->listeners[i].socket >= 0) (void)close(s->listeners[i].socket);
    }
    weft_http_connections_close(s);
    weft_http_requests_free(s);
    free(s->received);
    free(s->spare_out.data);
    weft_access_log_close(&s->access_log);
    weft_rate_limiter_destroy(&s->rate_limiter);
    weft_proxies_free(&s->proxies);
    free(s->cors);
    weft_tokens_free(&s->tokens);
    weft_tls_close(&s->credentials);
    pthread_cond_destroy(&s->readers_ended);
    pthread_cond_destroy(&s->watch_wake);
    pthread_cond_destroy(&s->drained);
    pthread_mutex_destroy(&s->lock);
    weft_history_free(&s->history);
    free(s);
    *server = NULL;
}
