/* A blocking HTTP client for single requests before the load begins, such as the request for a
 * model's metadata. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>

#include "load/http_client.h"

enum { LARGEST = 4 << 20 };

typedef struct exchange {
    weft_load_target *target;
    weft_load_stream stream;
    int address;
    const char *request;
    size_t size, sent;
    double end;
    const weft_stop *stop;
    weft_http_response answer;
} exchange;

/* Waits until the socket is ready for the poll events, at most until the request's deadline or a
 * stop. */
static weft_status wait_for(const exchange *x, short events)
{
    struct pollfd p = {.fd = x->stream.file, .events = events};
    while (true) {
        double left = x->end - weft_seconds();
        if (x->stop && x->stop->wanted) return weft_fail(WEFT_ERR_INTERRUPTED, "stopped");
        if (left <= 0)
            return weft_fail(
                WEFT_ERR_PEER,
                "%s: does not answer in time; is it that server? --timeout waits longer",
                x->target->url);
        int ready = poll(&p, 1, (int)fmin(ceil(left * 1000), 100));
        if (ready > 0) return WEFT_OK;
        if (ready < 0 && errno != EINTR)
            return weft_fail(WEFT_ERR_IO, "cannot wait for %s: %s", x->target->url,
                             strerror(errno));
    }
}

/* Connects to the current address of the target. *connected false: errno says why. */
static weft_status connect_one(exchange *x, bool *connected)
{
    int why = 0;
    socklen_t size = sizeof(why);
    *connected = false;
    if (!weft_load_stream_open(&x->stream, x->target, x->address)) return WEFT_OK;
    WEFT_TRY(wait_for(x, POLLOUT));
    if (getsockopt(x->stream.file, SOL_SOCKET, SO_ERROR, &why, &size) < 0) why = errno;
    *connected = why == 0;
    if (*connected) return WEFT_OK;
    weft_load_stream_close(&x->stream);
    errno = why;
    return WEFT_OK;
}

static weft_status connect_any(exchange *x)
{
    bool connected = false;
    for (x->address = 0; x->address < x->target->count; x->address++) {
        WEFT_TRY(connect_one(x, &connected));
        if (!connected) continue;
        x->target->good = x->address;
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_PEER,
                     "%s: cannot be reached: %s; check that the server is running at this address",
                     x->target->url, strerror(errno));
}

static weft_status transfer(exchange *x)
{
    char buffer[4096], reason[256];
    weft_http_response_state state = WEFT_RESPONSE_INCOMPLETE;
    while (state == WEFT_RESPONSE_INCOMPLETE) {
        size_t used;
        bool writes = x->sent < x->size && weft_load_stream_wants_write(&x->stream);
        if (!weft_load_stream_has_more(&x->stream))
            WEFT_TRY(wait_for(x, writes ? POLLOUT | POLLIN : POLLIN));
        if (x->sent < x->size) {
            ssize_t n = weft_load_stream_send(&x->stream, x->request + x->sent, x->size - x->sent);
            if (n > 0) x->sent += (size_t)n;
        }
        ssize_t n = weft_load_stream_receive(&x->stream, buffer, sizeof(buffer));
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0)
            return weft_fail(WEFT_ERR_PEER, "%s: %s%s", x->target->url,
                             x->stream.failure ? "" : "the connection broke: ",
                             weft_load_stream_why(&x->stream, errno, reason, sizeof(reason)));
        state = n == 0 ? weft_http_response_end(&x->answer)
                       : weft_http_response_feed(&x->answer, buffer, (size_t)n, &used);
    }
    if (state == WEFT_RESPONSE_INVALID)
        return weft_fail(WEFT_ERR_FORMAT, "%s: its answer is not HTTP: %s", x->target->url,
                         x->answer.error);
    if (x->answer.size > LARGEST)
        return weft_fail(WEFT_ERR_FORMAT, "%s: its answer has more than %d MiB", x->target->url,
                         LARGEST >> 20);
    return WEFT_OK;
}

weft_status weft_load_fetch(weft_load_target *target, const void *request, size_t size,
                            double timeout, const weft_stop *stop, weft_load_reply *out)
{
    exchange x = {
        .target = target, .stream = {.file = -1}, .request = request, .size = size, .stop = stop};
    *out = (weft_load_reply){0};
    x.end = weft_seconds() + timeout;
    x.answer.text_capacity = LARGEST;
    WEFT_TRY(WEFT_NEW(&x.answer.text, LARGEST + 1));
    weft_http_response_begin(&x.answer);
    weft_status status = connect_any(&x);
    if (status == WEFT_OK) status = transfer(&x);
    weft_load_stream_close(&x.stream);
    weft_http_response_free(&x.answer);
    if (status == WEFT_OK)
        *out = (weft_load_reply){x.answer.status, x.answer.text, x.answer.text_size};
    else
        free(x.answer.text);
    return status;
}

void weft_load_reply_free(weft_load_reply *reply)
{
    free(reply->body);
    *reply = (weft_load_reply){0};
}

const char *weft_load_error_text(const char *body, size_t size, char *buffer, size_t room)
{
    char raw[256];
    json_t *json = json_loadb(body, size, 0, NULL);
    const char *said = json_string_value(json_object_get(json, "error"));
    if (said)
        (void)snprintf(raw, sizeof(raw), "%s", said);
    else
        (void)snprintf(raw, sizeof(raw), "%.*s", (int)WEFT_MIN(size, (size_t)200), body);
    raw[strcspn(raw, "\r\n")] = '\0';
    json_decref(json);
    return weft_printable(raw, buffer, room);
}
