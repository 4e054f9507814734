/* Connections: accepts them, enforces their timeouts, and detects clients that have
 * disconnected. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/front/server_internal.h"

/* Seconds that a request is worked on before its client is checked for disconnection, and that
 * accepting pauses after an error, such as no free descriptors. */
static const double SLEEPS_LONG = 5e-3, DEAF = 0.1;
enum { MOST_AT_ONCE = 64 };

weft_client *weft_client_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void leave(weft_server *s, weft_client *c)
{
    if (c->stand == WEFT_STAND_NONE) return;
    weft_clients *list = &s->stands[c->stand];
    *(c->before ? &c->before->next : &list->first) = c->next;
    *(c->next ? &c->next->before : &list->last) = c->before;
    if (c->stand == WEFT_STAND_WATCHED) (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->socket, NULL);
}

void weft_client_stand(weft_server *s, weft_client *c, weft_stand stand)
{
    leave(s, c);
    c->stand = stand;
    c->since = s->now;
    c->next = NULL;
    if (stand == WEFT_STAND_NONE) return;
    weft_clients *list = &s->stands[stand];
    c->before = list->last;
    *(list->last ? &list->last->next : &list->first) = c;
    list->last = c;
}

/* --- opening and closing --- */

static void forget(weft_server *s, weft_client *c)
{
    leave(s, c);
    if (s->rates && !c->only_metrics) weft_rates_release(s->rates, c->bucket);
    s->clients -= !c->only_metrics;
    free(c);
}

/* The client whose socket was given to the library, which has not begun to read it. */
static weft_client *arriving(weft_server *s, int socket)
{
    weft_client *c = s->stands[WEFT_STAND_ARRIVES].first;
    while (c && c->socket != socket) c = c->next;
    return c;
}

/* libmicrohttpd 0.9 calls this within MHD_add_connection, 1.0 in its next run. */
void weft_client_notify(void *user, struct MHD_Connection *connection, void **context,
                        enum MHD_ConnectionNotificationCode code)
{
    weft_server *s = user;
    weft_client *c = *context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        c = arriving(
            s, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
        c->connection = connection;
        weft_client_stand(s, c, WEFT_STAND_RESTS);
    } else {
        forget(s, c);
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

/* Sends a reply to a socket that nothing else writes to at this time; the part that the socket does
 * not accept is lost. */
static void say(const weft_server *s, int socket, const char *status, const char *sentence)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                     "Retry-After: 1\r\nConnection: close\r\n\r\n{\"error\":\"%s\"}",
                     status, strlen(sentence) + strlen("{\"error\":\"\"}"), sentence);
    if (!s->tls) (void)send(socket, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void let_in(weft_server *s, weft_door *door, int socket,
                   const struct sockaddr_storage *address, socklen_t size)
{
    weft_client *c = NULL;
    bool too_many = !door->only_metrics && s->clients >= s->connections;
    if ((too_many && s->clients >= s->connections + WEFT_SURPLUS) || WEFT_NEW(&c, 1) != WEFT_OK) {
        say(s, socket, "503 Service Unavailable", "there are as many connections as may be");
        (void)close(socket);
        return;
    }
    c->socket = socket;
    c->stand = WEFT_STAND_NONE;
    c->only_metrics = door->only_metrics;
    c->surplus = too_many;
    name_address(address, c->address, sizeof(c->address));
    if (s->rates && !c->only_metrics) c->bucket = weft_rates_hold(s->rates, address, s->now);
    s->clients += !c->only_metrics;
    /* An earlier client with this descriptor is gone: the library has closed it without a
     * notification. */
    weft_client *before = arriving(s, socket);
    if (before) forget(s, before);
    weft_client_stand(s, c, WEFT_STAND_ARRIVES);
    /* From here on the library owns the socket, even if it refuses it. */
    int taken = MHD_add_connection(door->daemon, socket, (const struct sockaddr *)address, size);
    if (taken != MHD_YES && arriving(s, socket)) forget(s, c);
}

void weft_clients_forget(weft_server *s)
{
    for (weft_client *c = s->stands[WEFT_STAND_ARRIVES].first, *next; c; c = next) {
        next = c->next;
        forget(s, c);
    }
}

void weft_clients_accept(weft_server *s, weft_door *door)
{
    for (int i = 0; i < MOST_AT_ONCE; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int socket = accept4(door->listening, (struct sockaddr *)&address, &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            let_in(s, door, socket, &address, size);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            /* Accepting failed, and epoll would report the same connection again and again:
             * accepting pauses. */
            struct epoll_event nothing = {.data.ptr = door};
            (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, door->listening, &nothing);
            door->deaf = s->now + DEAF;
        }
        return;
    }
}

/* --- timeouts --- */

/* After the shutdown the library sees the end of the stream and closes the connection. */
static void hang_up(weft_server *s, weft_client *c)
{
    if (c->stand != WEFT_STAND_SENDS)
        say(s, c->socket, "408 Request Timeout", "the request took too long to come");
    weft_client_stand(s, c, WEFT_STAND_NONE);
    (void)shutdown(c->socket, SHUT_RDWR);
}

static void watch(weft_server *s, weft_client *c)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = c};
    weft_client_stand(s, c, WEFT_STAND_WATCHED);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->socket, &event) == 0) return;
    weft_client_stand(s, c, WEFT_STAND_NONE);
}

void weft_clients_look(weft_server *s)
{
    const weft_stand slow[] = {WEFT_STAND_RESTS, WEFT_STAND_RECEIVES, WEFT_STAND_SENDS};
    const double most[] = {s->timeout + s->receive, s->receive, s->receive};
    for (int i = 0; i < 3; i++)
        for (weft_clients *l = &s->stands[slow[i]]; l->first && s->now - l->first->since > most[i];)
            hang_up(s, l->first);
    for (weft_clients *l = &s->stands[WEFT_STAND_SLEEPS];
         l->first && s->now - l->first->since > SLEEPS_LONG;)
        watch(s, l->first);
    for (int i = 0; i < 2; i++) {
        weft_door *door = &s->doors[i];
        if (door->deaf <= 0 || s->now < door->deaf) continue;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = door};
        (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, door->listening, &event);
        door->deaf = 0;
    }
}

/* A disconnected client and one that has only closed its sending side look alike until something is
 * sent, which a disconnected one refuses. An interim response is sent, since clients that still
 * listen ignore it. */
void weft_client_hears(weft_server *s, weft_client *c, unsigned events)
{
    static const char INTERIM[] = "HTTP/1.1 100 Continue\r\n\r\n";
    weft_call *call = c->call;
    if (!call || c->stand != WEFT_STAND_WATCHED) return;
    if (!(events & (EPOLLHUP | EPOLLERR)) && !s->tls && call->modern && !c->probed) {
        struct epoll_event event = {.events = EPOLLONESHOT, .data.ptr = c};
        c->probed = true;
        (void)send(c->socket, INTERIM, sizeof(INTERIM) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->socket, &event);
        return;
    }
    weft_client_stand(s, c, WEFT_STAND_NONE);
    if (weft_call_give_up(call)) weft_call_wake(call);
}
