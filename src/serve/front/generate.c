/* Handles generation requests: hands them to executors, and sends the text, at the end or as server
 * sent events, one for the tokens that have come since the one before. */
#include <stdio.h>

#include "serve/front/server_internal.h"

/* --- in threads of executors --- */

/* Wakes the loop if it waits for this text. The caller holds the lock of the stream. */
static void wake(weft_http_request *c)
{
    bool sleeping = c->stream.sleeping;
    c->stream.sleeping = false;
    if (sleeping) weft_http_request_resume(c);
}

static bool take_token(void *user, const char *text, size_t size)
{
    weft_http_request *c = user;
    weft_text_stream *t = &c->stream;
    pthread_mutex_lock(&t->lock);
    weft_text_add_bytes(&t->text, text, size);
    bool failed = t->text.failed, stopped = false;
    if (!failed && size > 0 && t->stops.count > 0) {
        size_t end = weft_stop_strings_find(&t->stops, t->text.data, t->text.size, size);
        stopped = end < t->text.size;
        t->text.size = end;
    }
    t->cut = __atomic_load_n(&c->server->ending, __ATOMIC_ACQUIRE);
    bool goes_on =
        !failed && !stopped && !t->cut && !__atomic_load_n(&t->given_up, __ATOMIC_ACQUIRE);
    if (size > 0 && t->streams) wake(c);
    pthread_mutex_unlock(&t->lock);
    return goes_on;
}

static void ended(void *user, const weft_request_result *result)
{
    weft_http_request *c = user;
    weft_server *s = c->server;
    weft_text_stream *t = &c->stream;
    pthread_mutex_lock(&t->lock);
    bool cut = t->cut && result->status == WEFT_OK;
    c->status = cut ? WEFT_ERR_BUSY : result->status;
    (void)snprintf(c->message, sizeof(c->message), "%s",
                   cut ? "the server has ended before the text" : result->message);
    t->finished = true;
    wake(c);
    pthread_mutex_unlock(&t->lock);
    /* The loop does not end, so that the server is not freed, before this. */
    __atomic_fetch_sub(&s->generating, 1, __ATOMIC_ACQ_REL);
}

bool weft_http_streams_open(weft_server *server)
{
    return __atomic_load_n(&server->generating, __ATOMIC_ACQUIRE) > 0;
}

/* --- in the loop --- */

void weft_http_request_generate(weft_http_request *request, bool streams)
{
    weft_http_request *c = request;
    weft_generation_request q;
    char *prompt = NULL;
    double most = c->server->queue_timeout;
    weft_status status =
        weft_generate_read(c->data, c->size, streams, &q, &prompt, &c->stream.id, &c->stream.stops);
    if (status == WEFT_OK) {
        if (most > 0 && (q.queue_timeout <= 0 || q.queue_timeout > most)) q.queue_timeout = most;
        q.user = c;
        q.token = take_token;
        q.done = ended;
        pthread_mutex_init(&c->stream.lock, NULL);
        c->stream.has_lock = true;
        c->stream.streams = streams;
        c->stream.sleeping = true;
        c->kind = WEFT_HTTP_GENERATE;
        weft_http_request_suspend(c);
        __atomic_fetch_add(&c->server->generating, 1, __ATOMIC_ACQ_REL);
        status = weft_servable_generate(c->servable, &q);
        if (status != WEFT_OK) {
            __atomic_fetch_sub(&c->server->generating, 1, __ATOMIC_ACQ_REL);
            c->stream.finished = true;
            weft_http_request_fail_inference(c, status);
        }
        free(prompt);
        return;
    }
    weft_reply_error(&c->reply, weft_http_status_of(status), weft_last_message());
}

/* Writes the next event, from the text that has come. Returns whether the stream is over: all text
 * is in events. The caller holds the lock. */
static bool make_event(weft_http_request *c)
{
    weft_text_stream *t = &c->stream;
    size_t size = t->text.size;
    if (!t->finished && size > 0) size -= weft_stop_strings_held(&t->stops, t->text.data, size);
    if (size > 0) {
        weft_text event = {0};
        size_t taken =
            weft_generate_write(&c->about, t->text.data, size, t->finished, t->id, &event);
        if (taken > 0) {
            weft_text_add(&t->ready, "data: ");
            weft_text_add_bytes(&t->ready, event.data, event.size);
            weft_text_add(&t->ready, "\n\n");
            t->ready.failed |= event.failed;
            memmove(t->text.data, t->text.data + taken, t->text.size - taken);
            t->text.size -= taken;
        }
        free(event.data);
    } else if (t->finished && c->status != WEFT_OK && !t->failure_told) {
        t->failure_told = true;
        weft_text_add(&t->ready, "data: {\"error\":");
        weft_text_add_json(&t->ready, c->message);
        weft_text_add(&t->ready, "}\n\n");
    } else if (t->finished) {
        return true;
    }
    return false;
}

weft_http_more weft_http_stream_next(weft_http_request *request, const char **data, size_t *size)
{
    weft_http_request *c = request;
    weft_text_stream *t = &c->stream;
    t->begun = true;
    t->ready.size = 0;
    pthread_mutex_lock(&t->lock);
    bool over = make_event(c);
    bool sleeps = t->sleeping = !over && t->ready.size == 0;
    bool failed = t->ready.failed || t->text.failed;
    pthread_mutex_unlock(&t->lock);
    if (failed || weft_http_stream_is_abandoned(c)) return WEFT_STREAM_BROKEN;
    if (over) return WEFT_STREAM_OVER;
    if (sleeps) {
        c->state = WEFT_HTTP_SUSPENDED;
        c->server->suspended++;
        weft_http_connection_set_state(c->server, c->connection, WEFT_CONNECTION_NONE);
        return WEFT_STREAM_SLEEPS;
    }
    *data = t->ready.data;
    *size = t->ready.size;
    c->sent += *size;
    return WEFT_STREAM_BYTES;
}

bool weft_http_stream_is_abandoned(weft_http_request *request)
{
    const weft_text_stream *t = &request->stream;
    return t->has_lock && __atomic_load_n(&t->given_up, __ATOMIC_ACQUIRE);
}

void weft_http_stream_finish(weft_http_request *request)
{
    weft_text_stream *t = &request->stream;
    pthread_mutex_lock(&t->lock);
    weft_status status = t->finished ? request->status : WEFT_OK;
    if (status != WEFT_OK && (!t->streams || t->text.size == 0)) {
        t->streams = false;
        /* A model that does not generate is the wrong one for this request. */
        weft_reply_error(&request->reply,
                         status == WEFT_ERR_UNSUPPORTED ? 400 : weft_http_status_of(status),
                         request->message);
    } else if (t->streams) {
        request->reply.code = 200;
    } else {
        request->reply.code = 200;
        (void)weft_generate_write(&request->about, t->text.data ? t->text.data : "", t->text.size,
                                  true, t->id, &request->reply.text);
        if (request->reply.text.failed || t->text.failed)
            weft_reply_error(&request->reply, 500, "there is no memory for the text");
    }
    pthread_mutex_unlock(&t->lock);
}

bool weft_http_stream_outlives(weft_http_request *request)
{
    weft_text_stream *t = &request->stream;
    if (!t->has_lock) return false;
    __atomic_store_n(&t->given_up, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&t->lock);
    bool open = !t->finished;
    t->sleeping = open;
    pthread_mutex_unlock(&t->lock);
    if (open) {
        request->state = WEFT_HTTP_SUSPENDED;
        request->server->suspended++;
    }
    return open;
}

void weft_http_stream_free(weft_http_request *request)
{
    weft_text_stream *t = &request->stream;
    if (t->has_lock) pthread_mutex_destroy(&t->lock);
    free(t->text.data);
    free(t->ready.data);
    free(t->id);
    while (t->stops.count > 0) free(t->stops.at[--t->stops.count]);
    *t = (weft_text_stream){.streams = false};
}
