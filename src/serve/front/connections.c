/* HTTP connections: accepts them, closes those that exceed a timeout, and detects clients that have
 * disconnected while their request is worked on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/front/server_internal.h"

/* Seconds for which a request is suspended before its client is checked for disconnection; and
 * seconds for which accepting pauses after an error, such as no free descriptor. */
static const double WATCH_AFTER = 5e-3, ACCEPT_PAUSE = 0.1;
enum { MOST_AT_ONCE = 64 };

weft_http_connection *weft_http_connection_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void unlink_connection(weft_server *s, weft_http_connection *c)
{
    if (c->state == WEFT_CONNECTION_NONE) return;
    weft_http_connection_list *list = &s->by_state[c->state];
    *(c->before ? &c->before->next : &list->first) = c->next;
    *(c->next ? &c->next->before : &list->last) = c->before;
    if (c->state == WEFT_CONNECTION_WATCHED)
        (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->socket, NULL);
}

void weft_http_connection_set_state(weft_server *s, weft_http_connection *c,
                                    weft_http_connection_state state)
{
    unlink_connection(s, c);
    c->state = state;
    c->since = s->now;
    c->next = NULL;
    if (state == WEFT_CONNECTION_NONE) return;
    weft_http_connection_list *list = &s->by_state[state];
    c->before = list->last;
    *(list->last ? &list->last->next : &list->first) = c;
    list->last = c;
}

/* --- opening and closing --- */

static void free_connection(weft_server *s, weft_http_connection *c)
{
    unlink_connection(s, c);
    if (s->rate_limiter && !c->only_metrics) weft_rate_limiter_release(s->rate_limiter, c->bucket);
    s->connection_count -= !c->only_metrics;
    free(c);
}

/* The connection with this socket that the library has been given but has not begun to read. */
static weft_http_connection *arriving(weft_server *s, int socket)
{
    weft_http_connection *c = s->by_state[WEFT_CONNECTION_ARRIVED].first;
    while (c && c->socket != socket) c = c->next;
    return c;
}

/* The library calls this when a connection starts or ends. Version 0.9 of libmicrohttpd reports the
 * start within MHD_add_connection, version 1.0 in its next run. */
void weft_http_connection_notify(void *user, struct MHD_Connection *connection, void **context,
                                 enum MHD_ConnectionNotificationCode code)
{
    weft_server *s = user;
    weft_http_connection *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        c = arriving(
            s, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
        c->mhd = connection;
        weft_http_connection_set_state(s, c, WEFT_CONNECTION_IDLE);
    } else {
        free_connection(s, c);
        c = NULL;
    }
    *context = c;
}

static void name_address(const struct sockaddr_storage *at, char *out, size_t size)
{
    const void *bytes = at->ss_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)at)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)at)->sin_addr;
    if (!inet_ntop(at->ss_family, bytes, out, (socklen_t)size)) out[0] = '\0';
}

/* Sends an error reply straight to a socket to which the library writes nothing at this time. Bytes
 * that the socket does not take are lost. With TLS nothing is sent. */
static void say(const weft_server *s, int socket, const char *status, const char *sentence)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                     "Retry-After: 1\r\nConnection: close\r\n\r\n{\"error\":\"%s\"}",
                     status, strlen(sentence) + strlen("{\"error\":\"\"}"), sentence);
    if (!s->tls) (void)send(socket, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void let_in(weft_server *s, weft_http_listener *listener, int socket,
                   const struct sockaddr_storage *address, socklen_t size)
{
    weft_http_connection *c = NULL;
    bool too_many = !listener->only_metrics && s->connection_count >= s->connections;
    if ((too_many && s->connection_count >= s->connections + WEFT_SURPLUS) ||
        WEFT_NEW(&c, 1) != WEFT_OK) {
        say(s, socket, "503 Service Unavailable", "the limit of open connections is reached");
        (void)close(socket);
        return;
    }
    c->socket = socket;
    c->state = WEFT_CONNECTION_NONE;
    c->only_metrics = listener->only_metrics;
    c->surplus = too_many;
    name_address(address, c->address, sizeof(c->address));
    if (s->rate_limiter && !c->only_metrics)
        c->bucket = weft_rate_limiter_hold(s->rate_limiter, address, s->now);
    s->connection_count += !c->only_metrics;
    /* An arriving connection with this descriptor is stale: the library has closed its socket
     * without a notification, and the system has given the descriptor again. */
    weft_http_connection *before = arriving(s, socket);
    if (before) free_connection(s, before);
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_ARRIVED);
    /* From here on the library owns the socket, even if it refuses the connection. */
    int taken =
        MHD_add_connection(listener->daemon, socket, (const struct sockaddr *)address, size);
    if (taken != MHD_YES && arriving(s, socket)) free_connection(s, c);
}

void weft_http_connections_free(weft_server *s)
{
    for (weft_http_connection *c = s->by_state[WEFT_CONNECTION_ARRIVED].first, *next; c; c = next) {
        next = c->next;
        free_connection(s, c);
    }
}

bool weft_http_connections_accept(weft_server *s, weft_http_listener *listener)
{
    for (int i = 0; i < MOST_AT_ONCE; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int socket = accept4(listener->socket, (struct sockaddr *)&address, &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            let_in(s, listener, socket, &address, size);
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

/* Ends a connection that is too slow. The shutdown makes the library read the end of the stream, so
 * it closes the connection. */
static void hang_up(weft_server *s, weft_http_connection *c)
{
    if (c->state != WEFT_CONNECTION_SENDING)
        say(s, c->socket, "408 Request Timeout", "the request took too long to come");
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_NONE);
    (void)shutdown(c->socket, SHUT_RDWR);
}

static void watch(weft_server *s, weft_http_connection *c)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = c};
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_WATCHED);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->socket, &event) == 0) return;
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_NONE);
}

void weft_http_connections_check(weft_server *s)
{
    const weft_http_connection_state slow[] = {WEFT_CONNECTION_IDLE, WEFT_CONNECTION_RECEIVING,
                                               WEFT_CONNECTION_SENDING};
    const double most[] = {s->timeout + s->receive, s->receive, s->receive};
    for (int i = 0; i < 3; i++)
        for (weft_http_connection_list *l = &s->by_state[slow[i]];
             l->first && s->now - l->first->since > most[i];)
            hang_up(s, l->first);
    for (weft_http_connection_list *l = &s->by_state[WEFT_CONNECTION_SUSPENDED];
         l->first && s->now - l->first->since > WATCH_AFTER;)
        watch(s, l->first);
    for (int i = 0; i < 2; i++) {
        weft_http_listener *listener = &s->listeners[i];
        if (listener->paused_until <= 0 || s->now < listener->paused_until) continue;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
        (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, listener->socket, &event);
        listener->paused_until = 0;
    }
}

/* Checks a client that has closed its side of a watched connection. A client that is gone and one
 * that has only finished sending (half-closed) look alike until something is sent, which fails if
 * the client is gone. So an interim response is sent first, which a client that still reads
 * ignores. */
void weft_http_connection_event(weft_server *s, weft_http_connection *c, unsigned events)
{
    static const char INTERIM[] = "HTTP/1.1 100 Continue\r\n\r\n";
    weft_http_request *request = c->request;
    if (!request || c->state != WEFT_CONNECTION_WATCHED) return;
    if (!(events & (EPOLLHUP | EPOLLERR)) && !s->tls && request->modern && !c->probed) {
        struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = c};
        c->probed = true;
        (void)send(c->socket, INTERIM, sizeof(INTERIM) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->socket, &event);
        return;
    }
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_NONE);
    if (weft_http_request_cancel(request)) weft_http_request_resume(request);
}
