/* An HTTP request in progress: receives its body, has it routed, and sends the reply. The HTTP
 * library calls the functions of this file in the loop's thread. */
#include <stdio.h>

#include "serve/front/server_internal.h"

/* MOST_SPARE: freed requests that are kept for reuse. KEPT: largest buffer of a body that such a
 * request keeps. KEPT_TEXT: largest reply whose response object is kept. FORGOTTEN: bytes of a
 * refused or too large body that are read and dropped, so that the client gets a reply and not a
 * broken connection. MOST_BODIES: largest bodies for which there is memory at a time; a buffer of
 * at most KEPT bytes does not count, since the number of connections limits those. */
enum {
    MOST_SPARE = 256,
    KEPT = 64 << 10,
    KEPT_TEXT = 4 << 10,
    FORGOTTEN = 16 << 20,
    MOST_BODIES = 16
};

/* --- requests --- */

static weft_http_request *new_request(weft_server *s, struct MHD_Connection *connection,
                                      const char *url, const char *method)
{
    weft_http_request *c = s->spare;
    size_t size = strlen(url) + 1;
    if (c) {
        s->spare = c->next;
        s->spares--;
    } else if (WEFT_NEW(&c, 1) != WEFT_OK) {
        return NULL;
    }
    c->server = s;
    c->mhd = connection;
    c->connection = weft_http_connection_of(connection);
    c->connection->request = c;
    c->method = method;
    c->url = url;
    c->path = size <= sizeof(c->path_room) ? c->path_room : malloc(size);
    if (c->path) memcpy(c->path, url, size);
    c->no_memory = !c->path;
    if (c->path) weft_http_request_split_path(c);
    if (s->access_log) c->began = weft_seconds();
    return c;
}

static void free_memory(weft_http_request *c)
{
    if (c->kept.response) MHD_destroy_response(c->kept.response);
    free(c->kept.text);
    free(c->data);
    free(c);
}

/* Releases what the request holds, and keeps its own memory for a later request. */
static void free_request(weft_http_request *c)
{
    weft_server *s = c->server;
    weft_inference_free(&c->inference);
    weft_http_stream_free(c);
    weft_servable_release(&c->servable);
    free(c->reply.text.data);
    if (c->path != c->path_room) free(c->path);
    free(c->name);
    s->requests -= c->counted;
    weft_http_request_drop_large(c);
    if (s->spares >= MOST_SPARE) {
        free_memory(c);
        return;
    }
    char *data = c->data;
    size_t capacity = c->capacity;
    /* `message` is not cleared, since it is long. */
    memset(c, 0, offsetof(weft_http_request, message));
    c->message[0] = '\0';
    c->plain = (weft_plain_body){0};
    c->kind = WEFT_HTTP_OTHER;
    c->name = NULL;
    c->unloads = false;
    c->reply = (weft_reply){0};
    c->data = data;
    c->capacity = capacity;
    c->next = s->spare;
    s->spare = c;
    s->spares++;
}

void weft_http_request_drop_large(weft_http_request *request)
{
    if (request->capacity <= KEPT) return;
    request->server->body_bytes -= request->capacity;
    free(request->data);
    request->data = NULL;
    request->capacity = 0;
}

void weft_http_request_free(weft_http_request *request)
{
    free_request(request);
}

void weft_http_requests_free(weft_server *s)
{
    for (weft_http_request *c = s->spare, *next; c; c = next) {
        next = c->next;
        free_memory(c);
    }
    s->spare = NULL;
}

bool weft_http_request_cancel(weft_http_request *c)
{
    if (c->reading) {
        c->given_up = true;
        return weft_http_request_leave_unread(c);
    }
    if (c->stream.has_lock) __atomic_store_n(&c->stream.given_up, true, __ATOMIC_RELEASE);
    if (!c->is_queued || c->state == WEFT_HTTP_ANSWERED) return false;
    c->cancelled = weft_servable_cancel(c->servable, c->ticket);
    return c->cancelled;
}

/* --- the body --- */

/* Makes room for so many bytes of the body. false: there is no memory, or the bodies of all
 * requests would have more than the server allows. */
static bool make_room(weft_http_request *c, size_t room)
{
    weft_server *s = c->server;
    size_t before = c->capacity > KEPT ? c->capacity : 0, after = room > KEPT ? room : 0;
    char *more =
        s->body_bytes - before + after <= MOST_BODIES * s->body ? realloc(c->data, room) : NULL;
    if (!more) return false;
    s->body_bytes += after - before;
    c->data = more;
    c->capacity = room;
    return true;
}

/* Appends received bytes to the body, or drops them if a refusal is certain. The buffer grows with
 * the received bytes, whatever length the client has announced. false: so much was dropped that the
 * connection is closed. */
static bool take_data(weft_http_request *c, const char *data, size_t size)
{
    size_t most = c->server->body;
    if (c->too_large || c->no_memory || c->reply.code) {
        c->size += size;
        return c->size <= most + FORGOTTEN;
    }
    c->too_large = size > most - c->size;
    if (!c->too_large && c->size + size > c->capacity)
        c->no_memory = !make_room(c, WEFT_MAX(c->size + size, WEFT_MIN(2 * c->capacity, most)));
    if (c->too_large || c->no_memory)
        weft_http_request_drop_large(c);
    else
        memcpy(c->data + c->size, data, size);
    c->size += size;
    return true;
}

/* --- the reply --- */

static struct MHD_Response *make_response(const weft_reply *r, enum MHD_ResponseMemoryMode mode)
{
    char bytes[32];
    struct MHD_Response *response =
        MHD_create_response_from_buffer(r->text.size, r->text.data, mode);
    if (!response) return NULL;
    MHD_add_response_header(response, "Content-Type",
                            r->type   ? r->type
                            : r->json ? "application/octet-stream"
                                      : "application/json");
    if (r->json) {
        (void)snprintf(bytes, sizeof(bytes), "%zu", r->json);
        MHD_add_response_header(response, "Inference-Header-Content-Length", bytes);
    }
    return response;
}

/* Sets the reply's text in the request's kept response object, which saves making a new one:
 * replies of one model mostly differ only in their numbers. The object is made again if the length
 * differs. */
static struct MHD_Response *keep_response(weft_http_request *c)
{
    weft_saved_reply *k = &c->kept;
    weft_text *text = &c->reply.text;
    if (k->response && k->size == text->size && k->json == c->reply.json) {
        memcpy(k->text, text->data, text->size);
        return k->response;
    }
    if (k->response) MHD_destroy_response(k->response);
    free(k->text);
    *k = (weft_saved_reply){.text = text->data, .size = text->size, .json = c->reply.json};
    k->response = make_response(&c->reply, MHD_RESPMEM_PERSISTENT);
    text->data = NULL;
    return k->response;
}

static enum MHD_Result send_once(weft_http_request *c)
{
    weft_reply *r = &c->reply;
    char bytes[32];
    struct MHD_Response *response =
        c->stream.streams ? weft_http_stream_response(c) : make_response(r, MHD_RESPMEM_MUST_FREE);
    if (!response) return MHD_NO;
    if (!c->stream.streams) r->text.data = NULL;
    if (r->allowed) MHD_add_response_header(response, "Allow", r->allowed);
    if (r->code == 503) MHD_add_response_header(response, "Retry-After", "1");
    if (r->code == 429) {
        (void)snprintf(bytes, sizeof(bytes), "%d",
                       weft_rate_limiter_retry_after(c->server->rate_limiter));
        MHD_add_response_header(response, "Retry-After", bytes);
    }
    if (r->code == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"weft\"");
    if (r->code == 413 || c->connection->surplus || weft_server_is_draining(c->server))
        MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response(c->mhd, r->code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_reply(weft_http_request *c)
{
    const weft_reply *r = &c->reply;
    c->sent = r->text.size;
    c->state = WEFT_HTTP_REPLIED;
    /* From here on a client that reads slowly keeps neither the model nor a large body. */
    c->is_queued = false;
    if (!c->stream.streams) weft_servable_release(&c->servable);
    weft_http_request_drop_large(c);
    weft_http_connection_set_state(c->server, c->connection, WEFT_CONNECTION_SENDING);
    if (c->kind == WEFT_HTTP_INFER && r->code == 200 && !r->type && r->text.size <= KEPT_TEXT &&
        !c->connection->surplus && !weft_server_is_draining(c->server)) {
        struct MHD_Response *kept = keep_response(c);
        return kept ? MHD_queue_response(c->mhd, 200, kept) : MHD_NO;
    }
    return send_once(c);
}

/* --- callbacks of the HTTP library --- */

static const char *header(weft_http_request *c, const char *name)
{
    return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

static void check_token(weft_http_request *c)
{
    const char *model;
    if (!weft_tokens_needed(c->piece, c->pieces, &model)) return;
    switch (weft_tokens_right(c->server->tokens, header(c, "Authorization"), model)) {
    case WEFT_TOKEN_VALID: return;
    case WEFT_TOKEN_UNKNOWN:
        weft_reply_error(&c->reply, 401, "this needs a token, 'Authorization: Bearer TOKEN'");
        return;
    case WEFT_TOKEN_OTHER_MODEL:
        weft_reply_error(&c->reply, 403, "this token gives no access to this model");
        return;
    }
}

/* Begins a request when its headers have arrived: checks the limits, the rate and the token. A
 * refused request is answered before its body is read if the client waits for "100 Continue", or
 * the body is long or has no end that the server can tell. Otherwise the body is read and dropped
 * first, since a client whose connection breaks while it sends does not see the reply. */
static enum MHD_Result begin(weft_http_request *c, const char *version)
{
    weft_server *s = c->server;
    int64_t size = 0;
    c->counted = true;
    s->requests++;
    c->modern = strcmp(version, "HTTP/1.1") == 0;
    c->connection->probed = false;
    weft_http_connection_set_state(s, c->connection, WEFT_CONNECTION_RECEIVING);
    if (c->connection->surplus)
        weft_http_request_reject(c, "the limit of open connections is reached (--connections)");
    else if (s->rate_limiter &&
             !weft_rate_limiter_take(s->rate_limiter, c->connection->bucket, s->now))
        weft_reply_error(&c->reply, 429,
                         "this address sends more requests per second than the server allows");
    else if (s->tokens)
        check_token(c);
    /* Connections to a shared port get one more answer, which closes them. */
    if (!c->reply.code && weft_server_is_draining(s) && !s->shared &&
        strcmp(c->method, "POST") == 0)
        weft_http_request_reject(c, "the server is about to end");
    const char *length = header(c, "Content-Length"), *coding = header(c, "Content-Encoding");
    const char *transfer = header(c, "Transfer-Encoding");
    bool endless = transfer && strcasecmp(transfer, "chunked") != 0;
    if (!c->reply.code && endless)
        weft_reply_error(&c->reply, 501,
                         "the server knows no Transfer-Encoding but chunked, and cannot tell where "
                         "this body ends");
    if (!c->reply.code && coding && strcasecmp(coding, "identity") != 0)
        weft_reply_error(&c->reply, 415,
                         "the body must be sent as it is, without Content-Encoding");
    if (length && weft_parse_int(length, &size) && !c->reply.code && size > (int64_t)s->body)
        weft_reply_error(&c->reply, 413, "the body is larger than the server takes (--body)");
    bool now = c->reply.code && (size > FORGOTTEN || endless || header(c, "Expect"));
    return now ? send_reply(c) : MHD_YES;
}

/* Routes a request that has arrived completely, and sends the reply if there is one already. */
static enum MHD_Result route(weft_http_request *c)
{
    if (!c->reply.code) weft_http_request_route(c, c->connection->only_metrics);
    /* Other threads work on the request. The library calls weft_http_request_handle again at once,
     * which suspends the connection. */
    if (c->state == WEFT_HTTP_SUSPENDING) {
        weft_http_connection_set_state(c->server, c->connection, WEFT_CONNECTION_NONE);
        return MHD_YES;
    }
    return send_reply(c);
}

enum MHD_Result weft_http_request_handle(void *user, struct MHD_Connection *connection,
                                         const char *url, const char *method, const char *version,
                                         const char *data, size_t *size, void **state)
{
    weft_http_request *c = *state;
    if (!c) {
        *state = c = new_request(user, connection, url, method);
        return c ? begin(c, version) : MHD_NO;
    }
    if (*size > 0) {
        bool listens = take_data(c, data, *size);
        *size = 0;
        return listens ? MHD_YES : MHD_NO;
    }
    switch (c->state) {
    case WEFT_HTTP_RECEIVING: return route(c);
    case WEFT_HTTP_SUSPENDING:
        MHD_suspend_connection(connection);
        c->state = WEFT_HTTP_SUSPENDED;
        weft_http_connection_set_state(c->server, c->connection, WEFT_CONNECTION_SUSPENDED);
        return MHD_YES;
    case WEFT_HTTP_SUSPENDED: return MHD_YES;
    case WEFT_HTTP_ANSWERED:
        if (c->cancelled) return MHD_NO;
        weft_http_request_finish(c);
        return send_reply(c);
    case WEFT_HTTP_REPLIED: break;
    }
    return MHD_NO;
}

/* Logs an ended request. If the client did not wait for the reply, or for all of a stream, the code
 * is 499, as with NGINX. */
static void log_request(const weft_http_request *c, bool whole)
{
    bool replied = c->state == WEFT_HTTP_REPLIED && (whole || !c->stream.streams);
    const weft_access_entry line = {.client = c->connection->address,
                                    .method = c->method,
                                    .path = c->url,
                                    .model = c->model,
                                    .code = replied ? c->reply.code : 499,
                                    .bytes = replied || c->stream.streams ? c->sent : 0,
                                    .seconds = weft_seconds() - c->began};
    weft_access_log_add(c->server->access_log, &line);
}

void weft_http_request_completed(void *user, struct MHD_Connection *connection, void **state,
                                 enum MHD_RequestTerminationCode code)
{
    weft_http_request *c = *state;
    (void)connection;
    *state = NULL;
    if (!c) return;
    if (c->server->access_log) log_request(c, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    weft_http_connection_set_state(user, c->connection, WEFT_CONNECTION_IDLE);
    c->connection->request = NULL;
    c->connection = NULL;
    c->mhd = NULL;
    /* While other threads work on the request, it is freed later, when they have handed it back. */
    bool away = c->state == WEFT_HTTP_SUSPENDING || c->state == WEFT_HTTP_SUSPENDED;
    if (!away && !weft_http_stream_outlives(c))
        free_request(c);
    else if (away && weft_http_request_cancel(c))
        weft_http_request_resume(c);
}
