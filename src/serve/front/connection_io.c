/* The next steps of a connection, as far as it can go without waiting: it shakes hands, reads a
 * head and a body, sends a reply, and at its end drops what still comes. */
#include <stdio.h>
#include <sys/epoll.h>

#include "serve/front/server_internal.h"

/* COPIED: bytes of a body up to which it is sent in one piece with its head. */
enum { COPIED = 16 << 10 };

static bool wait_for(weft_server *s, weft_http_connection *c, unsigned events)
{
    weft_http_connection_watch(s, c, events);
    return false;
}

static bool wait_for_input(weft_server *s, weft_http_connection *c)
{
    return wait_for(s, c, EPOLLIN | EPOLLRDHUP);
}

static bool end(weft_server *s, weft_http_connection *c)
{
    weft_http_connection_close(s, c);
    return false;
}

static bool shake(weft_server *s, weft_http_connection *c)
{
    switch (weft_transport_handshake(&c->transport)) {
    case WEFT_TRANSPORT_AGAIN:
        if (weft_transport_wants_write(&c->transport)) return wait_for(s, c, EPOLLOUT);
        return wait_for_input(s, c);
    case WEFT_TRANSPORT_BROKEN: return end(s, c);
    default:
        weft_http_connection_touch(s, c);
        c->phase = WEFT_PHASE_HEAD;
        return true;
    }
}

/* --- reading --- */

void weft_http_connection_refuse(weft_server *s, weft_http_connection *c,
                                 const weft_http_fault *fault)
{
    c->failed |= weft_http_request_reply_malformed(s, c, fault) == NULL;
}

/* Reads a head. Returns the bytes that were used, which are 0 if more must come. */
static size_t read_head(weft_server *s, weft_http_connection *c, const char *data, size_t size)
{
    static const weft_http_fault long_head = {431, "the head of the request is larger than the "
                                                   "server takes (--headers)"};
    weft_http_fault fault = {0};
    size_t head = weft_http_head_end(data, size, &c->scan, &fault);
    if (fault.code == 0 && (head > s->head || (head == 0 && size > s->head))) fault = long_head;
    if (fault.code == 0 && head == 0) return 0;
    c->scan = (weft_http_scan){0};
    if (fault.code) {
        weft_http_connection_refuse(s, c, &fault);
        return size;
    }
    weft_http_request *request = weft_http_request_begin(s, c, data, head);
    c->failed |= !request;
    if (!request || c->phase != WEFT_PHASE_HEAD) return head;
    c->phase = WEFT_PHASE_BODY;
    c->left = request->head.length;
    c->chunks = (weft_http_chunks){0};
    /* The client waits with the body. Its socket takes these few bytes, since the reply before has
     * been sent. */
    static const char step_connection[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (request->head.expects_continue && head == size && (c->left > 0 || request->head.chunked))
        c->failed |= weft_transport_write(&c->transport, step_connection,
                                          sizeof(step_connection) - 1, false) < 0;
    return head;
}

static void add(weft_server *s, weft_http_connection *c, const char *data, size_t size)
{
    static const weft_http_fault large = {413, "the body is larger than the server takes (--body)"};
    if (!weft_http_request_add(c->request, data, size)) weft_http_connection_refuse(s, c, &large);
}

/* Reads a part of a body with its length. Returns the bytes that were used. */
static size_t read_body(weft_server *s, weft_http_connection *c, const char *data, size_t size)
{
    size_t used = (size_t)WEFT_MIN((int64_t)size, c->left);
    if (used > 0) add(s, c, data, used);
    c->left -= (int64_t)used;
    if (c->phase == WEFT_PHASE_BODY && c->left == 0) weft_http_request_on_body(c->request);
    return used;
}

static size_t read_chunks(weft_server *s, weft_http_connection *c, const char *data, size_t size)
{
    weft_http_fault fault = {0};
    size_t used, piece, at = 0;
    while (c->phase == WEFT_PHASE_BODY && at < size) {
        weft_http_result result =
            weft_http_chunks_read(&c->chunks, data + at, size - at, &used, &piece, &fault);
        at += used;
        if (result == WEFT_HTTP_DATA) add(s, c, data + at - piece, piece);
        if (result == WEFT_HTTP_END) weft_http_request_on_body(c->request);
        if (result == WEFT_HTTP_FAULTY) weft_http_connection_refuse(s, c, &fault);
    }
    return at;
}

/* Reads from received bytes until more must come, or a request waits or has a reply. Returns the
 * bytes that were used. */
static size_t read_bytes(weft_server *s, weft_http_connection *c, const char *data, size_t size)
{
    size_t at = 0;
    for (size_t used = 1; used > 0 && !c->failed;) {
        used = 0;
        if (c->phase == WEFT_PHASE_HEAD && at < size) used = read_head(s, c, data + at, size - at);
        at += used;
        if (c->phase != WEFT_PHASE_BODY || c->failed) continue;
        used = c->request->head.chunked ? read_chunks(s, c, data + at, size - at)
                                        : read_body(s, c, data + at, size - at);
        at += used;
    }
    return at;
}

static void read_kept(weft_server *s, weft_http_connection *c)
{
    size_t used = read_bytes(s, c, c->in.data, c->in.size);
    c->in.size -= used;
    memmove(c->in.data, c->in.data + used, c->in.size);
    c->unread = false;
    if (c->in.size > 0) return;
    free(c->in.data);
    c->in = (weft_text){.data = NULL};
}

/* Reads once from the socket, or what an earlier request has left. */
static bool receive(weft_server *s, weft_http_connection *c)
{
    if (c->unread) {
        read_kept(s, c);
        return !c->failed || end(s, c);
    }
    if (c->drained) return wait_for_input(s, c);
    ssize_t n = weft_transport_read(&c->transport, s->received, WEFT_RECEIVED);
    if (n == WEFT_TRANSPORT_AGAIN) return wait_for_input(s, c);
    if (n <= 0) return end(s, c);
    weft_http_connection_touch(s, c);
    c->drained = !c->transport.tls && n < WEFT_RECEIVED;
    if (c->in.size > 0) {
        weft_text_add_bytes(&c->in, s->received, (size_t)n);
        c->failed |= c->in.failed;
        if (!c->failed) read_kept(s, c);
    } else {
        size_t used = read_bytes(s, c, s->received, (size_t)n);
        if (used < (size_t)n) weft_text_add_bytes(&c->in, s->received + used, (size_t)n - used);
        c->failed |= c->in.failed;
    }
    return !c->failed || end(s, c);
}

/* --- sending --- */

/* Sends bytes from *at on. 1: all are sent. */
static int send_bytes(weft_server *s, weft_http_connection *c, const char *data, size_t size,
                      size_t *at, bool more)
{
    while (*at < size) {
        ssize_t n = weft_transport_write(&c->transport, data + *at, size - *at, more);
        if (n < 0) return (int)n;
        weft_http_connection_touch(s, c);
        *at += (size_t)n;
    }
    return 1;
}

/* Sends what there is. 1: all is sent. */
static int flush(weft_server *s, weft_http_connection *c)
{
    size_t body = 0;
    if (c->out.failed) return WEFT_TRANSPORT_BROKEN;
    if (c->sent == 0 && c->body_left > 0 && c->body_left <= COPIED) {
        weft_text_add_bytes(&c->out, c->body, c->body_left);
        c->body_left = 0;
        if (c->out.failed) return WEFT_TRANSPORT_BROKEN;
    }
    int result = send_bytes(s, c, c->out.data, c->out.size, &c->sent, c->body_left > 0);
    if (result == 1 && c->body_left > 0) {
        result = send_bytes(s, c, c->body, c->body_left, &body, false);
        c->body += body;
        c->body_left -= body;
    }
    return result;
}

/* Gives the memory of a reply that was sent to the next one. */
static void keep_memory(weft_server *s, weft_http_connection *c)
{
    c->out.size = c->sent = 0;
    if (s->spare_out.data || c->out.capacity > (size_t)2 * COPIED) {
        free(c->out.data);
    } else {
        s->spare_out = c->out;
    }
    c->out = (weft_text){.data = NULL};
}

/* All of the reply is sent. */
static bool finish(weft_server *s, weft_http_connection *c)
{
    bool last = c->last;
    keep_memory(s, c);
    weft_http_request_end(c->request, true);
    if (last) {
        weft_transport_finish(&c->transport);
        c->phase = WEFT_PHASE_LINGER;
        c->left = WEFT_FORGOTTEN;
        c->drained = false;
        weft_http_connection_set_state(s, c, WEFT_CONNECTION_LINGERING);
        return true;
    }
    c->phase = WEFT_PHASE_HEAD;
    weft_http_connection_set_state(s, c, WEFT_CONNECTION_IDLE);
    if (c->in.size == 0) return true;
    /* Others come first. */
    c->unread = true;
    weft_http_connection_postpone(s, c);
    return false;
}

/* Adds the next bytes of a stream to those that are to be sent. A stream that is broken off ends
 * with a reset, since a client of HTTP/1.0 would take any other end for that of the text. */
static bool go_on_with_stream(weft_server *s, weft_http_connection *c)
{
    const char *data;
    size_t size;
    bool chunked = c->request->head.minor > 0;
    c->out.size = c->sent = 0;
    switch (weft_http_stream_next(c->request, &data, &size)) {
    case WEFT_STREAM_SLEEPS: c->phase = WEFT_PHASE_WORK; return true;
    case WEFT_STREAM_BROKEN: weft_transport_break(&c->transport); return end(s, c);
    case WEFT_STREAM_OVER:
        if (chunked) weft_text_add(&c->out, "0\r\n\r\n");
        c->request->stream.ended = true;
        return true;
    case WEFT_STREAM_BYTES:
        if (chunked) weft_text_add(&c->out, "%zx\r\n", size);
        weft_text_add_bytes(&c->out, data, size);
        if (chunked) weft_text_add(&c->out, "\r\n");
        return true;
    }
    return true;
}

static bool send_reply(weft_server *s, weft_http_connection *c)
{
    switch (flush(s, c)) {
    case WEFT_TRANSPORT_AGAIN: return wait_for(s, c, EPOLLOUT);
    case WEFT_TRANSPORT_BROKEN: return end(s, c);
    default: break;
    }
    if (c->request->stream.streams && !c->request->stream.ended) return go_on_with_stream(s, c);
    return finish(s, c);
}

/* Reads and drops what comes behind the last reply. If the socket were closed before it is read,
 * the client would see a broken connection and might lose the reply. */
static bool linger(weft_server *s, weft_http_connection *c)
{
    ssize_t n = weft_transport_read(&c->transport, s->received, WEFT_RECEIVED);
    if (n == WEFT_TRANSPORT_AGAIN) return wait_for_input(s, c);
    c->left -= n;
    return (n > 0 && c->left > 0) || end(s, c);
}

/* One step; false: the connection waits, or is closed. */
static bool step_connection(weft_server *s, weft_http_connection *c)
{
    switch (c->phase) {
    case WEFT_PHASE_HANDSHAKE: return shake(s, c);
    case WEFT_PHASE_HEAD:
    case WEFT_PHASE_BODY: return receive(s, c);
    case WEFT_PHASE_WORK: return false;
    case WEFT_PHASE_SEND: return send_reply(s, c);
    case WEFT_PHASE_LINGER: return linger(s, c);
    }
    return false;
}

void weft_http_connection_run(weft_server *s, weft_http_connection *c)
{
    while (step_connection(s, c)) continue;
}
