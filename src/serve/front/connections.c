/* HTTP connections: accepts them, closes those that exceed a timeout, and detects clients that have
 * disconnected while their request is worked on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/front/server_internal.h"

/* Seconds for which a request is suspended before its client is checked for disconnection; seconds
 * for which accepting pauses after an error, such as no free descriptor; and seconds for which what
 * comes behind the last reply of a connection is read. */
static const double WATCH_AFTER = 5e-3, ACCEPT_PAUSE = 0.1, LINGER_SECONDS = 2;
enum { MOST_AT_ONCE = 64 };

static void unlink_state(weft_server *s, weft_http_connection *c)
{
    if (c->state == WEFT_CONNECTION_NONE) return;
    weft_http_connection_list *list = &s->by_state[c->state];
    *(c->before ? &c->before->next : &list->first) = c->next;
    *(c->next ? &c->next->before : &list->last) = c->before;
}

void weft_http_connection_set_state(weft_server *s, weft_http_connection *c,
                                    weft_http_connection_state state)
{
    unlink_state(s, c);
    c->state = state;
    c->since = s->now;
    c->next = NULL;
    if (state == WEFT_CONNECTION_NONE) return;
    weft_http_connection_list *list = &s->by_state[state];
    c->before = list->last;
    *(list->last ? &list->last->next : &list->first) = c;
    list->last = c;
}

static void unlink_connection(weft_server *s, weft_http_connection *c)
{
    *(c->staler ? &c->staler->fresher : &s->stalest) = c->fresher;
    *(c->fresher ? &c->fresher->staler : &s->freshest) = c->staler;
}

static void link_freshest(weft_server *s, weft_http_connection *c)
{
    c->active = s->now;
    c->staler = s->freshest;
    c->fresher = NULL;
    *(c->staler ? &c->staler->fresher : &s->stalest) = c;
    s->freshest = c;
}

void weft_http_connection_touch(weft_server *s, weft_http_connection *c)
{
    if (s->freshest == c) {
        c->active = s->now;
        return;
    }
    unlink_connection(s, c);
    link_freshest(s, c);
}

void weft_http_connection_watch(weft_server *s, weft_http_connection *c, unsigned events)
{
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (c->events == events) return;
    c->events = events;
    (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->transport.socket, &event);
}

void weft_http_connection_postpone(weft_server *s, weft_http_connection *c)
{
    if (c->pending) return;
    c->pending = true;
    c->next_pending = s->pending;
    s->pending = c;
}

/* --- opening and closing --- */

static void free_connection(weft_server *s, weft_http_connection *c)
{
    weft_http_connection **at = &s->pending;
    while (c->pending && *at != c) at = &(*at)->next_pending;
    if (c->pending) *at = c->next_pending;
    unlink_state(s, c);
    unlink_connection(s, c);
    if (s->rate_limiter && !c->only_metrics) weft_rate_limiter_release(s->rate_limiter, c->bucket);
    s->connection_count -= !c->only_metrics;
    weft_transport_close(&c->transport);
    free(c->in.data);
    free(c->out.data);
    free(c);
}

void weft_http_connection_close(weft_server *s, weft_http_connection *c)
{
    if (c->request) weft_http_request_end(c->request, false);
    free_connection(s, c);
}

void weft_http_connections_close(weft_server *s)
{
    while (s->stalest) weft_http_connection_close(s, s->stalest);
}

static void name_address(const struct sockaddr_storage *at, char *out, size_t size)
{
    const void *bytes = at->ss_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)at)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)at)->sin_addr;
    if (!inet_ntop(at->ss_family, bytes, out, (socklen_t)size)) out[0] = '\0';
}

/* Sends an error reply to a client whose connection is not accepted. With TLS nothing is sent. */
static void send_refusal(const weft_server *s, int socket, const char *status, const char *sentence)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                     "Retry-After: 1\r\nConnection: close\r\n\r\n{\"error\":\"%s\"}",
                     status, strlen(sentence) + strlen("{\"error\":\"\"}"), sentence);
    if (!s->tls) (void)send(socket, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void let_in(weft_server *s, weft_http_listener *listener, int socket,
                   const struct sockaddr_storage *address)
{
    weft_http_connection *c = NULL;
    int one = 1;
    bool too_many = !listener->only_metrics && s->connection_count >= s->connections;
    if ((too_many && s->connection_count >= s->connections + WEFT_SURPLUS) ||
        WEFT_NEW(&c, 1) != WEFT_OK) {
        send_refusal(s, socket, "503 Service Unavailable",
                     "the limit of open connections is reached");
        (void)close(socket);
        return;
    }
    c->state = WEFT_CONNECTION_NONE;
    c->only_metrics = listener->only_metrics;
    c->surplus = too_many;
    c->events = EPOLLIN | EPOLLRDHUP;
    c->phase = s->credentials ? WEFT_PHASE_HANDSHAKE : WEFT_PHASE_HEAD;
    name_address(address, c->address, sizeof(c->address));
    if (s->rate_limiter && !c->only_metrics)
        c->bucket = weft_rate_limiter_hold(s->rate_limiter, address, s->now);
    s->connection_count += !c->only_metrics;
    link_freshest(s, c);
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_IDLE);
    /* A reply is sent as a whole, so delaying packets (Nagle's algorithm) gains nothing. */
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct epoll_event event = {.events = c->events, .data.ptr = c};
    if (weft_transport_open(&c->transport, socket, s->credentials) != WEFT_OK ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, socket, &event) != 0)
        free_connection(s, c);
}

bool weft_http_connections_accept(weft_server *s, weft_http_listener *listener)
{
    for (int i = 0; i < MOST_AT_ONCE; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int socket = accept4(listener->socket, (struct sockaddr *)&address, &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            let_in(s, listener, socket, &address);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            /* epoll would report the connection that could not be accepted again and again, so the
             * listener is not watched for a while. */
            struct epoll_event nothing = {.data.ptr = listener};
            (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, listener->socket, &nothing);
            listener->paused_until = s->now + ACCEPT_PAUSE;
        }
        return false;
    }
    return true;
}

/* --- timeouts --- */

/* Ends a connection that is too slow. A client that has begun a request is told. */
static void hang_up(weft_server *s, weft_http_connection *c)
{
    static const weft_http_fault slow = {408, "the request took too long to come"};
    bool begun = (c->phase == WEFT_PHASE_HEAD && c->in.size > 0) || c->phase == WEFT_PHASE_BODY;
    if (!begun) {
        weft_http_connection_close(s, c);
        return;
    }
    weft_http_connection_refuse(s, c, &slow);
    if (c->failed)
        weft_http_connection_close(s, c);
    else
        weft_http_connection_run(s, c);
}

/* Its client sends no more. A client that is gone and one that has only finished sending
 * (half-closed) look alike until something is sent, which fails if the client is gone. So an
 * interim response is sent first, which a client that still reads ignores. HTTP/1.0 has none, and
 * into TLS none may come while others write; there, the request is given up, as NGINX does. */
static void see_half_close(weft_server *s, weft_http_connection *c)
{
    static const char INTERIM[] = "HTTP/1.1 100 Continue\r\n\r\n";
    weft_http_request *request = c->request;
    if (!c->transport.tls && request->head.minor > 0) {
        if (!c->probed)
            (void)weft_transport_write(&c->transport, INTERIM, sizeof(INTERIM) - 1, false);
        c->probed = true;
        return;
    }
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_NONE);
    if (weft_http_request_cancel(request)) weft_http_request_resume(request);
}

void weft_http_connections_check(weft_server *s)
{
    const weft_http_connection_state slow[] = {WEFT_CONNECTION_IDLE, WEFT_CONNECTION_RECEIVING,
                                               WEFT_CONNECTION_SENDING, WEFT_CONNECTION_LINGERING};
    const double most[] = {s->timeout + s->receive, s->receive, s->receive, LINGER_SECONDS};
    for (size_t i = 0; i < WEFT_COUNT(slow); i++)
        for (weft_http_connection_list *l = &s->by_state[slow[i]];
             l->first && s->now - l->first->since > most[i];)
            hang_up(s, l->first);
    while (s->stalest && s->now - s->stalest->active > s->timeout)
        if (s->stalest->phase == WEFT_PHASE_WORK)
            weft_http_connection_touch(s, s->stalest);
        else
            hang_up(s, s->stalest);
    for (weft_http_connection *c;
         (c = s->by_state[WEFT_CONNECTION_SUSPENDED].first) && s->now - c->since > WATCH_AFTER;) {
        weft_http_connection_set_state(s, c, WEFT_CONNECTION_WATCHED);
        if (c->half_closed) see_half_close(s, c);
    }
    for (int i = 0; i < 2; i++) {
        weft_http_listener *listener = &s->listeners[i];
        if (listener->paused_until <= 0 || s->now < listener->paused_until) continue;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
        (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, listener->socket, &event);
        listener->paused_until = 0;
    }
}

/* --- events --- */

void weft_http_connection_event(weft_server *s, weft_http_connection *c, unsigned events)
{
    c->drained = false;
    if (c->phase != WEFT_PHASE_WORK) {
        weft_http_connection_run(s, c);
    } else if (events & (EPOLLHUP | EPOLLERR)) {
        weft_http_connection_close(s, c);
    } else if (events & EPOLLRDHUP) {
        c->half_closed = true;
        weft_http_connection_watch(s, c, 0);
        if (c->state == WEFT_CONNECTION_WATCHED) see_half_close(s, c);
    } else {
        /* The next request is read when this one has its reply. */
        weft_http_connection_watch(s, c, EPOLLRDHUP);
    }
}
