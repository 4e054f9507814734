/* The connections of a pool to one target: opens them when they are needed, reuses them
 * (keep-alive), and reopens them after the server has closed them. */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load/engine_internal.h"

enum { BUFFER = 65536 };

/* --- lists --- */

static void list_remove(weft_load_connection_list *list, weft_load_connection *c)
{
    *(c->previous ? &c->previous->next : &list->first) = c->next;
    *(c->next ? &c->next->previous : &list->last) = c->previous;
    c->previous = c->next = NULL;
}

static void list_add_first(weft_load_connection_list *list, weft_load_connection *c)
{
    c->previous = NULL;
    c->next = list->first;
    *(c->next ? &c->next->previous : &list->last) = c;
    list->first = c;
}

static void list_add_last(weft_load_connection_list *list, weft_load_connection *c)
{
    c->next = NULL;
    c->previous = list->last;
    *(c->previous ? &c->previous->next : &list->first) = c;
    list->last = c;
}

/* --- ends --- */

static void end(weft_engine *e, weft_load_connection *c, bool keep, int status, const char *what,
                const char *example)
{
    weft_connection_pool *pool = c->pool;
    list_remove(&pool->busy, c);
    c->busy = false;
    if (!keep) weft_load_stream_close(&c->stream);
    /* The most recently used connection is reused first, so that few connections stay open. */
    list_add_first(keep ? &pool->idle : &pool->closed, c);
    c->used = keep;
    weft_engine_ended(e, pool, c->scheduled, status, what, example);
}

static void fail_address(weft_engine *e, weft_load_connection *c, int why)
{
    char address[160], reason[256], text[424];
    weft_load_target_address(&c->pool->requests->target, c->address, address, sizeof(address));
    (void)snprintf(text, sizeof(text), "%s: %s", address,
                   weft_load_stream_why(&c->stream, why, reason, sizeof(reason)));
    end(e, c, false, 0, "connect", text);
}

void weft_connection_pool_abandon(weft_engine *e, weft_load_connection *c, const char *what,
                                  const char *why)
{
    end(e, c, false, 0, what, why);
}

/* --- requests --- */

static bool watch(weft_engine *e, weft_load_connection *c, bool first, bool writes)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (writes) event.events |= EPOLLOUT;
    if (!first && c->wants_write == writes) return true;
    c->wants_write = writes;
    return epoll_ctl(e->epoll, first ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->stream.file, &event) == 0;
}

/* Sends as much of the request as the socket takes, and watches the socket for the rest. Returns 0,
 * or errno. */
static int send_more(weft_engine *e, weft_load_connection *c, bool first)
{
    while (c->sent < c->request->size) {
        ssize_t n = weft_load_stream_send(&c->stream, c->request->bytes + c->sent,
                                          c->request->size - c->sent);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) break;
        if (n < 0) return errno;
        c->connected = true;
        c->sent += (size_t)n;
    }
    bool writes = c->sent < c->request->size && weft_load_stream_wants_write(&c->stream);
    return watch(e, c, first, writes) ? 0 : errno;
}

static void reset(weft_load_connection *c)
{
    c->sent = 0;
    c->responding = false;
    weft_http_response_begin(&c->response);
}

/* Connects to the next address of the target that was not tried for this request. If no address is
 * left, the request fails. */
static void connect_next(weft_engine *e, weft_load_connection *c)
{
    const weft_load_target *target = &c->pool->requests->target;
    int why = 0;
    for (; c->tried < target->count; c->tried++) {
        c->address = (target->good + c->tried) % target->count;
        c->connected = c->used = false;
        reset(c);
        weft_load_stream_close(&c->stream);
        why = weft_load_stream_open(&c->stream, target, c->address) ? send_more(e, c, true) : errno;
        if (why) continue;
        c->scheduled.stage->result.opened++;
        return;
    }
    fail_address(e, c, why);
}

/* Handles a broken connection. If the connection was never established, the next address is tried.
 * If the server has closed a reused connection, the request is sent again once, since the server
 * may not have seen it. Otherwise the request fails. */
static void broken(weft_engine *e, weft_load_connection *c, int why)
{
    if (!c->connected) {
        c->tried++;
        if (c->tried < c->pool->requests->target.count)
            connect_next(e, c);
        else
            fail_address(e, c, why);
    } else if (c->used && !c->responding && !c->resent) {
        c->resent = true;
        c->tried = 0;
        c->scheduled.stage->result.resent++;
        connect_next(e, c);
    } else {
        char text[128];
        (void)snprintf(text, sizeof(text), "the server closed the connection %s%s%s",
                       c->responding ? "within its answer" : "without an answer", why ? ": " : "",
                       why ? strerror(why) : "");
        end(e, c, false, 0, "closed", text);
    }
}

bool weft_connection_pool_send(weft_engine *e, weft_connection_pool *pool,
                               weft_scheduled_request scheduled)
{
    weft_load_connection *c = pool->idle.first ? pool->idle.first : pool->closed.first;
    if (!c) return false;
    bool open = c->stream.file >= 0;
    list_remove(open ? &pool->idle : &pool->closed, c);
    list_add_last(&pool->busy, c);
    c->busy = true;
    c->scheduled = scheduled;
    c->request = &pool->requests->requests[e->number % (uint64_t)pool->requests->count];
    c->resent = false;
    c->tried = 0;
    if (!open) {
        connect_next(e, c);
        return true;
    }
    reset(c);
    int why = send_more(e, c, false);
    if (why) broken(e, c, why);
    return true;
}

/* --- responses --- */

static void answered(weft_engine *e, weft_load_connection *c)
{
    char text[256] = "";
    bool keep = !c->response.connection_close && c->sent == c->request->size;
    if (c->response.status != 200)
        weft_load_error_text(c->text, c->response.text_size, text, sizeof(text));
    end(e, c, keep, c->response.status, "", text);
}

static void not_http(weft_engine *e, weft_load_connection *c, const char *why)
{
    char text[192];
    (void)snprintf(text, sizeof(text), "the answer is not HTTP: %s", why);
    end(e, c, false, 0, "protocol", text);
}

/* Reads and parses a part of the response; false: no more can be read now. */
static bool receive(weft_engine *e, weft_load_connection *c)
{
    size_t used;
    ssize_t n = weft_load_stream_receive(&c->stream, e->buffer, BUFFER);
    if (n < 0 && errno == EINTR) return true;
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0 || (n == 0 && !c->responding)) {
        broken(e, c, n < 0 ? errno : 0);
        return false;
    }
    c->responding = true;
    weft_http_response_state state =
        n == 0 ? weft_http_response_end(&c->response)
               : weft_http_response_feed(&c->response, e->buffer, (size_t)n, &used);
    if (state == WEFT_RESPONSE_INVALID && n == 0)
        broken(e, c, 0);
    else if (state == WEFT_RESPONSE_INVALID)
        not_http(e, c, c->response.error);
    else if (state == WEFT_RESPONSE_COMPLETE && n > 0 && used < (size_t)n)
        not_http(e, c, "bytes follow its end; its Content-Length or a chunk is too small");
    else if (state == WEFT_RESPONSE_COMPLETE)
        answered(e, c);
    return state == WEFT_RESPONSE_INCOMPLETE &&
           (n == BUFFER || weft_load_stream_has_more(&c->stream));
}

/* Closes an idle connection that the server has closed or has sent unexpected data over. */
static void drop_idle(weft_load_connection *c)
{
    list_remove(&c->pool->idle, c);
    weft_load_stream_close(&c->stream);
    list_add_first(&c->pool->closed, c);
}

void weft_connection_pool_event(weft_engine *e, weft_load_connection *c, uint32_t events)
{
    if (c->stream.file < 0) return;
    if (!c->busy) {
        drop_idle(c);
        return;
    }
    int why = 0;
    socklen_t size = sizeof(why);
    if (!c->connected && (events & (EPOLLERR | EPOLLHUP))) {
        if (getsockopt(c->stream.file, SOL_SOCKET, SO_ERROR, &why, &size) < 0) why = errno;
        broken(e, c, why ? why : ECONNREFUSED);
        return;
    }
    /* The answers of a handshake, too, let more be sent. */
    bool sends = (events & EPOLLOUT) || !weft_load_stream_is_ready(&c->stream);
    if (sends && c->sent < c->request->size) why = send_more(e, c, false);
    /* Only sending goes on with the handshake, since the request is due when it ends. */
    if (!why && !weft_load_stream_is_ready(&c->stream)) return;
    /* A response that arrived before the error is still read. */
    if (why && !(events & EPOLLIN)) {
        broken(e, c, why);
        return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        while (receive(e, c)) continue;
}

/* --- a pool --- */

weft_status weft_connection_pool_open(weft_connection_pool *pool, weft_request_set *set, int count)
{
    *pool = (weft_connection_pool){.requests = set, .count = count};
    WEFT_TRY(WEFT_NEW(&pool->connections, count));
    for (int i = count; i-- > 0;) {
        weft_load_connection *c = &pool->connections[i];
        *c = (weft_load_connection){.stream = {.file = -1}, .pool = pool};
        c->response.text = c->text;
        c->response.text_capacity = sizeof(c->text);
        list_add_first(&pool->closed, c);
    }
    return WEFT_OK;
}

void weft_connection_pool_close(weft_connection_pool *pool)
{
    for (int i = 0; pool->connections && i < pool->count; i++) {
        weft_load_stream_close(&pool->connections[i].stream);
        weft_http_response_free(&pool->connections[i].response);
    }
    free(pool->connections);
    free(pool->waiting);
    *pool = (weft_connection_pool){0};
}
