/* An HTTP request in progress: checks its head, receives its body, has it routed, and hands the
 * reply to its connection. All of it is in the loop's thread. */
#include <stdio.h>
#include <strings.h>

#include "serve/front/server_internal.h"

enum {
    MOST_SPARE = 256,    /* freed requests that are kept for reuse */
    KEPT = 64 << 10,     /* bytes of the largest body buffer that such a request keeps */
    KEPT_HEAD = 4 << 10, /* bytes of the head, and again of the path, that it keeps */
    /* Memory is limited to that of so many bodies of the largest size, once for bodies and once for
     * replies. Buffers of up to KEPT bytes are not counted; the number of connections limits them.
     */
    MOST_BODIES = 16
};

/* --- requests --- */

static weft_http_request *new_request(weft_server *s, weft_http_connection *connection)
{
    weft_http_request *c = s->spare;
    if (c) {
        s->spare = c->next;
        s->spares--;
    } else if (WEFT_NEW(&c, 1) != WEFT_OK) {
        return NULL;
    }
    c->server = s;
    c->connection = connection;
    c->method = c->url = "-";
    connection->request = c;
    c->counted = true;
    s->requests++;
    (void)snprintf(c->client, sizeof(c->client), "%s", connection->address);
    c->id[0] = '\0';
    if (s->access_log) c->began = weft_seconds();
    return c;
}

static void free_memory(weft_http_request *c)
{
    free(c->text);
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
    s->reply_bytes -= c->reply_bytes;
    c->reply_bytes = 0;
    free(c->name);
    if (c->text_capacity > KEPT_HEAD) {
        free(c->text);
        c->text = NULL;
        c->text_capacity = 0;
    }
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
    c->head.count = 0;
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
    /* The end of the server ends texts by itself, and its client is told. */
    if (c->stream.has_lock && !__atomic_load_n(&c->server->ending, __ATOMIC_ACQUIRE))
        __atomic_store_n(&c->stream.given_up, true, __ATOMIC_RELEASE);
    if (!c->is_queued || c->state == WEFT_HTTP_ANSWERED) return false;
    bool cancelled = weft_servable_cancel(c->servable, c->ticket);
    if (cancelled) c->cancelled = true;
    return cancelled;
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

bool weft_http_request_add(weft_http_request *c, const char *data, size_t size)
{
    size_t most = c->server->body;
    if (c->too_large || c->no_memory || c->reply.code) {
        c->size += size;
        return c->size <= most + WEFT_FORGOTTEN;
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

/* --- the head --- */

static const char *header(const weft_http_request *c, const char *name)
{
    return weft_http_field_value(&c->head, name);
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

/* Takes the id of the request from the client or a proxy, if it may be in a field, or makes one for
 * the log. */
static void name_request(weft_http_request *c)
{
    weft_server *s = c->server;
    const char *id = header(c, "X-Request-ID");
    size_t size = id ? strlen(id) : 0;
    for (size_t i = 0; i < size; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f) size = 0;
    if (size > 0 && size < sizeof(c->id)) {
        memcpy(c->id, id, size + 1);
    } else if (s->access_log) {
        uint64_t low = weft_mix(s->id_key, ++s->ids);
        (void)snprintf(c->id, sizeof(c->id), "%016llx%016llx",
                       (unsigned long long)weft_mix(low, s->id_key), (unsigned long long)low);
    }
}

/* Whether the client may send one more request now. The limit of a client behind a trusted proxy is
 * its own, and not that of the connection. */
static bool may_ask(weft_http_request *c)
{
    weft_server *s = c->server;
    weft_token_bucket *bucket = c->connection->bucket;
    struct sockaddr_storage address;
    if (!s->rate_limiter || c->connection->only_metrics) return true;
    if (strcmp(c->client, c->connection->address) == 0 || !weft_address_read(c->client, &address))
        return weft_rate_limiter_take(s->rate_limiter, bucket, s->now);
    bucket = weft_rate_limiter_hold(s->rate_limiter, &address, s->now);
    bool may = weft_rate_limiter_take(s->rate_limiter, bucket, s->now);
    weft_rate_limiter_release(s->rate_limiter, bucket);
    return may;
}

/* Checks the limits, the rate, the token and the fields that say how the body is to be read. */
static void check_head(weft_http_request *c)
{
    weft_server *s = c->server;
    const char *coding = header(c, "Content-Encoding");
    if (c->connection->surplus)
        weft_http_request_reply_unavailable(
            c, "the limit of open connections is reached (--connections)");
    else if (!may_ask(c))
        weft_reply_error(&c->reply, 429,
                         "this address sends more requests per second than the server allows");
    else if (s->tokens && !weft_cors_is_preflight(c)) /* browsers ask it without a token */
        check_token(c);
    else if (!s->tokens && strcmp(c->method, "OPTIONS") != 0 && !weft_cors_may_ask(c))
        weft_cors_refuse(c); /* a page has no token, so with tokens there is nothing to refuse */
    /* Connections to a shared port get one more answer, which closes them. */
    if (!c->reply.code && weft_server_is_draining(s) && !s->shared &&
        strcmp(c->method, "POST") == 0)
        weft_http_request_reply_unavailable(c, "the server is about to end");
    c->gzip = coding && (strcasecmp(coding, "gzip") == 0 || strcasecmp(coding, "x-gzip") == 0);
    if (!c->reply.code && coding && !c->gzip && strcasecmp(coding, "identity") != 0)
        weft_reply_error(&c->reply, 415, "the server knows no Content-Encoding but gzip");
    if (!c->reply.code && c->head.length > (int64_t)s->body)
        weft_reply_error(&c->reply, 413, "the body is larger than the server takes (--body)");
}

/* Copies the head, with room for the path, whose pieces are decoded, behind it. */
static bool copy_head(weft_http_request *c, const char *head, size_t size)
{
    size_t room = 2 * size;
    if (room > c->text_capacity) {
        char *more = realloc(c->text, room);
        if (!more) return false;
        c->text = more;
        c->text_capacity = room;
    }
    memcpy(c->text, head, size);
    return true;
}

/* A refused request is answered before its body is read if the client waits for "100 Continue", or
 * the body is long. Otherwise the body is read and dropped first, since a client whose connection
 * breaks while it sends may not see the reply. */
weft_http_request *weft_http_request_begin(weft_server *s, weft_http_connection *connection,
                                           const char *head, size_t size)
{
    weft_http_fault fault = {0};
    weft_http_request *c = new_request(s, connection);
    if (!c || !copy_head(c, head, size)) return NULL;
    if (weft_http_head_parse(c->text, size, &c->head, &fault)) {
        c->method = c->head.method;
        c->url = c->head.path;
        if (!weft_http_request_split_path(c, c->text + size))
            fault = (weft_http_fault){400, "the path has a zero byte, %00"};
    }
    connection->probed = false;
    weft_http_connection_set_state(s, connection, WEFT_CONNECTION_RECEIVING);
    if (fault.code) {
        weft_reply_error(&c->reply, fault.code, fault.sentence);
        connection->last = true;
        weft_http_request_queue_reply(c);
        return c;
    }
    connection->last = !c->head.keeps_alive;
    name_request(c);
    (void)weft_proxies_client(s->proxies, connection->address, &c->head, c->client,
                              sizeof(c->client));
    check_head(c);
    bool now = c->head.length > WEFT_FORGOTTEN || c->head.expects_continue;
    if (!c->reply.code || !now) return c;
    connection->last = true; /* the body may come or not */
    weft_http_request_queue_reply(c);
    return c;
}

weft_http_request *weft_http_request_reply_malformed(weft_server *s,
                                                     weft_http_connection *connection,
                                                     const weft_http_fault *fault)
{
    weft_http_request *c = connection->request ? connection->request : new_request(s, connection);
    if (!c) return NULL;
    if (!c->reply.code) weft_reply_error(&c->reply, fault->code, fault->sentence);
    connection->last = true;
    weft_http_request_queue_reply(c);
    return c;
}

/* --- the reply --- */

/* Counts a large reply, or refuses it: clients decide how long replies stay in memory, so all of
 * them together have a limit. One reply alone may be larger than that. */
static void count_reply(weft_http_request *c)
{
    weft_server *s = c->server;
    weft_text *text = &c->reply.text;
    if (text->size <= KEPT || c->stream.streams) return;
    if (s->reply_bytes > 0 && s->reply_bytes + text->size > MOST_BODIES * s->body) {
        weft_reply_error(&c->reply, 503,
                         "replies that their clients have not read yet take the memory of the "
                         "server; ask again later, or for fewer rows");
        return;
    }
    char *exact = realloc(text->data, text->size);
    if (exact) text->data = exact;
    c->reply_bytes = text->capacity = text->size;
    s->reply_bytes += c->reply_bytes;
}

void weft_http_request_queue_reply(weft_http_request *c)
{
    weft_reply *r = &c->reply;
    weft_http_connection *connection = c->connection;
    count_reply(c);
    bool head_only = strcmp(c->method, "HEAD") == 0;
    c->sent = head_only ? 0 : r->text.size;
    c->state = WEFT_HTTP_REPLIED;
    if (r->code == 413 || connection->surplus || weft_server_is_draining(c->server))
        connection->last = true;
    /* From here on a client that reads slowly keeps neither the model, nor what was predicted, nor
     * a large body. */
    c->is_queued = false;
    if (!c->stream.streams) {
        weft_inference_free(&c->inference);
        weft_servable_release(&c->servable);
    }
    weft_http_request_drop_large(c);
    weft_http_connection_set_state(c->server, connection, WEFT_CONNECTION_SENDING);
    connection->out = c->server->spare_out;
    c->server->spare_out = (weft_text){.data = NULL};
    connection->out.size = connection->sent = 0;
    weft_http_reply_head(c, &connection->out);
    connection->body = r->text.data;
    connection->body_left = c->sent;
    connection->phase = WEFT_PHASE_SEND;
}

void weft_http_request_on_body(weft_http_request *c)
{
    if (!c->reply.code) weft_http_request_route(c, c->connection->only_metrics);
    if (c->state != WEFT_HTTP_SUSPENDED) {
        weft_http_request_queue_reply(c);
        return;
    }
    c->connection->phase = WEFT_PHASE_WORK;
    weft_http_connection_set_state(c->server, c->connection, WEFT_CONNECTION_SUSPENDED);
}

bool weft_http_request_complete_suspended(weft_http_request *c)
{
    if (c->cancelled || weft_http_stream_is_abandoned(c)) return false;
    if (c->stream.begun) {
        c->state = WEFT_HTTP_REPLIED;
        c->connection->phase = WEFT_PHASE_SEND;
        weft_http_connection_set_state(c->server, c->connection, WEFT_CONNECTION_SENDING);
        return true;
    }
    weft_http_request_write_reply(c);
    weft_http_request_queue_reply(c);
    return true;
}

/* --- the end --- */

/* Whether it is a health check with a good answer, which the log leaves out: a balancer sends one
 * every few seconds. */
static bool is_good_check(const weft_http_request *c)
{
    char *const *piece = c->piece;
    int n = c->pieces;
    if (c->reply.code != 200 || n < 3 || n >= WEFT_PIECES || strcmp(piece[0], "v2") != 0)
        return false;
    if (strcmp(piece[1], "health") == 0) return true;
    return strcmp(piece[1], "models") == 0 && strcmp(piece[n - 1], "ready") == 0;
}

/* Logs an ended request. If the client did not wait for the reply, or for all of it, the code is
 * 499, as with NGINX. */
static void log_request(const weft_http_request *c, bool whole)
{
    if (whole && is_good_check(c)) return;
    const weft_access_entry line = {.client = c->client,
                                    .method = c->method,
                                    .path = c->url,
                                    .model = c->model,
                                    .id = c->id,
                                    .code = whole ? c->reply.code : 499,
                                    .bytes = whole || c->stream.streams ? c->sent : 0,
                                    .seconds = weft_seconds() - c->began};
    weft_access_log_add(c->server->access_log, &line);
}

void weft_http_request_end(weft_http_request *c, bool whole)
{
    if (c->server->access_log) log_request(c, whole);
    c->connection->request = NULL;
    c->connection = NULL;
    /* While other threads work on the request, it is freed later, when they have handed it back. */
    bool away = c->state == WEFT_HTTP_SUSPENDED;
    if (!away && !weft_http_stream_outlives(c))
        free_request(c);
    else if (away && weft_http_request_cancel(c))
        weft_http_request_resume(c);
}
