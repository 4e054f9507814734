/* Reads the bodies of inference and prediction requests, and queues the inference requests. The
 * loop reads small bodies itself. Large bodies, whose reading would delay other requests, wait in a
 * list for one of a few reader threads; the loop queues their inference requests afterwards. */
#include <stdio.h>

#include "formats/formats.h"
#include "serve/front/server_internal.h"

/* LARGE_BODY: bytes from which on a body is read by a reader thread. MOST_READERS: threads at a
 * time; a large picture may need 128 MiB while it is decoded. */
enum { LARGE_BODY = 256 << 10, MOST_READERS = 4 };

static weft_status read_bytes(weft_http_request *c, const char *data, size_t size)
{
    if (c->kind == WEFT_HTTP_INFER)
        return weft_infer_read(&c->about, data, size, c->json, &c->inference);
    return weft_predict_read(&c->about, &c->plain, &c->inference);
}

/* Finds out what an inflated body is, and keeps the parameters of the path. */
static weft_status detect(weft_http_request *c, const char *data, size_t size)
{
    const weft_plain_body before = c->plain;
    const char *type = weft_http_field_value(&c->head, "Content-Type");
    WEFT_TRY(weft_predict_detect(type, data, size, &c->plain));
    c->plain.timeout = before.timeout;
    c->plain.priority = before.priority;
    return WEFT_OK;
}

/* Inflates a body of gzip data, to no more than a body may have that is sent as it is. *data is
 * freed with free(). */
static weft_status inflate_body(weft_http_request *c, size_t most, char **data, size_t *size)
{
    unsigned char *out;
    weft_status status = weft_gzip_inflate("the body", c->data ? c->data : "",
                                           c->data ? c->size : 0, most, &out, size);
    c->too_large = status == WEFT_ERR_MEMORY;
    *data = status == WEFT_OK ? (char *)out : NULL;
    return status;
}

static weft_status read_body(weft_http_request *c)
{
    char *data;
    size_t size;
    if (!c->gzip) return read_bytes(c, c->data, c->size);
    WEFT_TRY(inflate_body(c, c->server->body, &data, &size));
    weft_status status = c->kind == WEFT_HTTP_PREDICT ? detect(c, data, size) : WEFT_OK;
    if (status == WEFT_OK) status = read_bytes(c, data, size);
    free(data);
    return status;
}

bool weft_http_request_inflate(weft_http_request *request, size_t most)
{
    char *data;
    size_t size;
    if (!request->gzip) return true;
    weft_status status = inflate_body(request, most, &data, &size);
    if (status != WEFT_OK) {
        weft_reply_error(&request->reply, request->too_large ? 413 : weft_http_status_of(status),
                         weft_last_message());
        return false;
    }
    weft_http_request_drop_large(request);
    free(request->data);
    request->data = data;
    request->size = size;
    request->capacity = size; /* it is small */
    request->gzip = false;
    return true;
}

/* --- reader threads --- */

/* Takes the oldest request of the list; NULL: the list is empty, and the thread ends. */
static weft_http_request *next_unread(weft_server *s)
{
    pthread_mutex_lock(&s->lock);
    weft_http_request *c = s->unread;
    if (c) {
        s->unread = c->next;
        if (!s->unread) s->unread_end = &s->unread;
    } else if (--s->readers == 0) {
        pthread_cond_broadcast(&s->readers_ended);
    }
    pthread_mutex_unlock(&s->lock);
    return c;
}

static void *read_bodies(void *user)
{
    weft_server *s = user;
    for (weft_http_request *c; (c = next_unread(s));) {
        weft_error error = {0};
        c->status = read_body(c);
        weft_error_catch(&error, c->status);
        (void)snprintf(c->message, sizeof(c->message), "%s", error.message);
        weft_http_request_resume(c);
    }
    return NULL;
}

/* Appends the request to the list, and starts another reader thread unless there are enough. */
static void read_large(weft_http_request *c)
{
    weft_server *s = c->server;
    pthread_t thread;
    c->reading = true;
    c->arrived = weft_seconds();
    c->next = NULL;
    pthread_mutex_lock(&s->lock);
    *s->unread_end = c;
    s->unread_end = &c->next;
    bool starts = s->readers < MOST_READERS;
    s->readers += starts;
    pthread_mutex_unlock(&s->lock);
    if (!starts) return;
    weft_status status = weft_thread_start(&thread, read_bodies, s);
    if (status == WEFT_OK) {
        pthread_detach(thread);
        return;
    }
    pthread_mutex_lock(&s->lock);
    bool others = --s->readers > 0;
    pthread_mutex_unlock(&s->lock);
    if (!others && weft_http_request_leave_unread(c)) weft_http_request_fail_inference(c, status);
}

bool weft_http_request_leave_unread(weft_http_request *request)
{
    weft_server *s = request->server;
    pthread_mutex_lock(&s->lock);
    weft_http_request **at = &s->unread;
    while (*at && *at != request) at = &(*at)->next;
    bool there = *at != NULL;
    if (there) *at = request->next;
    if (there && !*at) s->unread_end = at;
    pthread_mutex_unlock(&s->lock);
    return there;
}

void weft_body_readers_wait(weft_server *server)
{
    pthread_mutex_lock(&server->lock);
    while (server->readers > 0) pthread_cond_wait(&server->readers_ended, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

bool weft_http_request_was_read(weft_http_request *request)
{
    request->reading = false;
    weft_http_request_drop_large(request);
    if (!request->connection || request->given_up) {
        request->cancelled = true;
        weft_batch_queue_count(weft_servable_queue(request->servable), false);
        return false;
    }
    if (request->status != WEFT_OK) return false;
    weft_http_request_submit(request);
    return true;
}

/* --- requests --- */

static void fail(weft_http_request *c, weft_status status)
{
    weft_reply_error(&c->reply, weft_http_status_of(status), weft_last_message());
}

/* A request may have as many rows as may be queued; its answer may take 256 MiB, or what that of a
 * batch takes. */
static void set_most_rows(weft_http_request *c)
{
    int64_t row = 8 * WEFT_MAX(c->about.outputs, (int64_t)1);
    for (int k = 1; k < c->about.output_count; k++)
        row += (int64_t)weft_type_bytes(
            &(weft_type){c->about.output[k].dtype, c->about.output[k].shape});
    const int64_t fit = ((int64_t)256 << 20) / row;
    c->about.most_rows = WEFT_MAX(c->about.limit, WEFT_MIN(c->about.most_rows, fit));
}

static void read_and_submit(weft_http_request *c)
{
    set_most_rows(c);
    /* The time that gzip data take to be read is not known before. */
    if (c->gzip || c->size > LARGE_BODY ||
        (c->kind == WEFT_HTTP_PREDICT && weft_predict_is_long(&c->plain))) {
        weft_http_request_suspend(c);
        read_large(c);
        return;
    }
    weft_status status = read_body(c);
    if (status != WEFT_OK) {
        fail(c, status);
        return;
    }
    weft_http_request_drop_large(c);
    weft_http_request_suspend(c);
    weft_http_request_submit(c);
}

void weft_http_request_infer(weft_http_request *request)
{
    const char *json = weft_http_field_value(&request->head, "Inference-Header-Content-Length");
    request->json = -1;
    if (json && (!weft_parse_int(json, &request->json) || request->json < 0)) {
        weft_reply_error(
            &request->reply, 400,
            "Inference-Header-Content-Length must be the bytes of the JSON, a whole number");
        return;
    }
    request->kind = WEFT_HTTP_INFER;
    read_and_submit(request);
}

/* Reads a whole number from the query of the path, "?timeout=1000"; without it, *out stays. */
static weft_status read_query(weft_http_request *c, const char *name, int64_t *out)
{
    char text[64], shown[64];
    if (!weft_http_query_value(c->head.query, name, text, sizeof(text)) ||
        (weft_parse_int(text, out) && *out >= 0))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s=%s must be a whole number from 0 on%s", name,
                     weft_printable(text, shown, sizeof(shown)),
                     strcmp(name, "timeout") == 0 ? ", of microseconds" : "");
}

void weft_http_request_predict(weft_http_request *request)
{
    const char *type = weft_http_field_value(&request->head, "Content-Type"),
               *accept = weft_http_field_value(&request->head, "Accept");
    weft_status status = WEFT_OK;
    if (!request->gzip)
        status = weft_predict_detect(type, request->data, request->size, &request->plain);
    if (status == WEFT_OK) status = read_query(request, "timeout", &request->plain.timeout);
    if (status == WEFT_OK) status = read_query(request, "priority", &request->plain.priority);
    if (status != WEFT_OK) {
        fail(request, status);
        return;
    }
    weft_predict_choose_format(accept, &request->inference);
    request->kind = WEFT_HTTP_PREDICT;
    read_and_submit(request);
}
