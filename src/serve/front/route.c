/* Routes HTTP requests: maps their paths and methods to handlers. */
#include <stdio.h>

#include "serve/front/server_internal.h"
#include "serve/servable.h"

/* A queue timeout, in seconds, that is over before any batch can begin. */
static const double ALREADY_LATE = 1e-9;

unsigned weft_http_status_of(weft_status status)
{
    switch (status) {
    case WEFT_OK: return 200;
    case WEFT_ERR_ARGUMENT:
    case WEFT_ERR_FORMAT: return 400;
    case WEFT_ERR_BUSY:
    case WEFT_ERR_LATE: return 503;
    case WEFT_ERR_UNSUPPORTED: return 501;
    default: return 500;
    }
}

static void fail(weft_http_request *c, weft_status status)
{
    weft_reply_error(&c->reply, weft_http_status_of(status), weft_last_message());
}

static void reply_failure(weft_http_request *c, weft_status status)
{
    if (status != WEFT_OK) fail(c, status);
}

static bool is(const weft_http_request *c, const char *method)
{
    return strcmp(c->method, method) == 0 ||
           (strcmp(method, "GET") == 0 && strcmp(c->method, "HEAD") == 0);
}

/* Whether the request has this method. If not, writes the reply: 405, or for OPTIONS the allowed
 * methods. */
static bool takes(weft_http_request *c, const char *method)
{
    char text[128], shown[40];
    if (is(c, method)) return true;
    c->reply.allowed = strcmp(method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    if (strcmp(c->method, "OPTIONS") == 0) {
        c->reply.code = 204;
        return false;
    }
    (void)snprintf(text, sizeof(text), "this path takes %s, not %s", method,
                   weft_printable(c->method, shown, sizeof(shown)));
    weft_reply_error(&c->reply, 405, text);
    return false;
}

/* --- inference --- */

void weft_http_request_on_inference(void *user, const weft_request_result *a)
{
    weft_http_request *c = user;
    c->status = a->status;
    c->cancelled = c->cancelled || a->status == WEFT_ERR_INTERRUPTED;
    (void)snprintf(c->message, sizeof(c->message), "%s", a->message);
    weft_http_request_resume(c);
}

void weft_http_request_fail_inference(weft_http_request *request, weft_status status)
{
    weft_error error = {0};
    weft_error_catch(&error, status);
    weft_http_request_on_inference(
        request, &(weft_request_result){.status = status, .message = error.message});
}

void weft_http_request_reply_unavailable(weft_http_request *request, const char *sentence)
{
    char **piece = request->piece;
    int n = request->pieces;
    int64_t version = 0;
    weft_reply_error(&request->reply, 503, sentence);
    bool numbered =
        n == 6 && strcmp(piece[3], "versions") == 0 && weft_parse_int(piece[4], &version);
    if ((n != 4 && !numbered) || strcmp(piece[0], "v2") != 0 || strcmp(piece[1], "models") != 0 ||
        (strcmp(piece[n - 1], "infer") != 0 && strcmp(piece[n - 1], "predict") != 0))
        return;
    weft_servable *servable = weft_service_hold(request->server->service, piece[2], version);
    if (servable) weft_batch_queue_count(weft_servable_queue(servable), true);
    weft_servable_release(&servable);
}

void weft_http_request_submit(weft_http_request *request)
{
    weft_inference_request *q = &request->inference.request;
    double most = request->server->queue_timeout;
    if (most > 0 && (q->queue_timeout <= 0 || q->queue_timeout > most)) q->queue_timeout = most;
    /* The time that a large body took to be read counts; if all of it is over, the batch queue
     * finds the request late at once. */
    if (q->queue_timeout > 0 && request->arrived > 0)
        q->queue_timeout =
            WEFT_MAX(q->queue_timeout - (weft_seconds() - request->arrived), ALREADY_LATE);
    q->user = request;
    q->done = weft_http_request_on_inference;
    q->no_wake = true; /* the loop looks for batches after it has queued all requests */
    request->server->submitted++;
    weft_status status = weft_servable_submit(request->servable, q, &request->ticket);
    request->is_queued = status == WEFT_OK;
    if (status != WEFT_OK) weft_http_request_fail_inference(request, status);
}

static void no_such(weft_http_request *c, const char *what, const char *name)
{
    char text[256], shown[128];
    (void)snprintf(text, sizeof(text), "%s '%s'", what, weft_printable(name, shown, sizeof(shown)));
    weft_reply_error(&c->reply, 404, text);
}

/* --- loading, in a separate thread --- */

static void *load(void *user)
{
    weft_http_request *c = user;
    weft_server *s = c->server;
    weft_error error = {0};
    c->status = c->unloads ? weft_service_unload(s->service, c->name)
                           : weft_service_load(s->service, c->name, NULL);
    weft_error_catch(&error, c->status);
    (void)snprintf(c->message, sizeof(c->message), "%s", error.message);
    weft_http_request_resume(c);
    return NULL;
}

/* Whether the body is as small as those of requests to the model repository are, which the loop
 * reads. */
static bool is_small(weft_http_request *c)
{
    enum { MOST = 64 << 10 };
    char text[128];
    if (c->size <= MOST) return weft_http_request_inflate(c, MOST);
    (void)snprintf(text, sizeof(text), "the body has %zu bytes, and this path takes at most %d",
                   c->size, MOST);
    weft_reply_error(&c->reply, 413, text);
    return false;
}

static bool is_known(weft_service *service, const char *name)
{
    weft_service_item item;
    for (int i = 0; weft_service_entry(service, i, &item); i++)
        if (strcmp(item.name, name) == 0) return true;
    return false;
}

static void repository(weft_http_request *c, const char *name, const char *verb)
{
    pthread_t thread;
    if (!takes(c, "POST") || !is_small(c)) return;
    weft_status status = weft_repository_load_read(c->data, c->size);
    if (c->server->control && status != WEFT_OK) {
        fail(c, status);
        return;
    }
    if (!c->server->control) {
        weft_reply_error(&c->reply, 403,
                         "clients may not load and unload models here; the server was started "
                         "without --control");
        return;
    }
    c->unloads = strcmp(verb, "unload") == 0;
    /* A folder may have a model that no scan has found yet. */
    if (!is_known(c->server->service, name) &&
        (c->unloads || !weft_service_has_folder(c->server->service))) {
        no_such(c, "no model is named", name);
        return;
    }
    status = weft_strdup(name, &c->name);
    if (status == WEFT_OK) {
        c->kind = WEFT_HTTP_LOAD;
        weft_http_request_suspend(c);
        status = weft_thread_start(&thread, load, c);
        if (status == WEFT_OK) {
            pthread_detach(thread);
            return;
        }
        weft_http_request_fail_inference(c, status);
        return;
    }
    fail(c, status);
}

/* --- paths --- */

bool weft_http_request_split_path(weft_http_request *request, char *room)
{
    request->pieces = 0;
    char *at = strcpy(room, request->url);
    /* An empty piece is a piece: proxies that look at the beginning of a path keep it, too. */
    at = *at == '/' ? at + 1 : NULL; /* the target * has none */
    while (at && *at && request->pieces < WEFT_PIECES) {
        char *slash = strchr(at, '/'), *piece = at;
        if (slash) *slash = '\0';
        at = slash ? slash + 1 : NULL;
        if (!weft_http_decode(piece)) return false;
        request->piece[request->pieces++] = piece;
    }
    return true;
}

static void health(weft_http_request *c, bool good)
{
    if (!takes(c, "GET")) return;
    if (good) {
        c->reply.code = 200;
        c->reply.type = "text/plain";
        return;
    }
    weft_reply_error(&c->reply, weft_server_is_draining(c->server) ? 503 : 400,
                     weft_server_is_draining(c->server) ? "the server is about to end"
                                                        : "a model is not ready");
}

/* Whether a version of the model is in service. */
static bool is_served(weft_service *service, const char *name)
{
    weft_servable *servable = weft_service_hold(service, name, 0);
    bool there = servable != NULL;
    weft_servable_release(&servable);
    return there;
}

/* The server is ready when each model is, except models that a client has unloaded. */
static bool all_ready(weft_service *service)
{
    weft_service_item item;
    bool any = false;
    for (int i = 0; weft_service_entry(service, i, &item); i++) {
        if (!item.ready && !item.unloaded && !is_served(service, item.name)) return false;
        any |= item.ready || item.unloaded;
    }
    return any;
}

/* Replies for a version (0: any) that is not in service: 503 with the reason if the service knows
 * it, else 404. */
static void not_served(weft_http_request *c, const char *name, int64_t version)
{
    weft_service_item item, found = {.version = -1};
    char text[sizeof(item.reason) + sizeof(item.name) + 64];
    for (int i = 0; weft_service_entry(c->server->service, i, &item); i++) {
        bool known = !version || !item.version || item.version == version;
        if (strcmp(item.name, name) != 0 || !known) continue;
        if (found.version < 0 || item.state == WEFT_SERVABLE_LOADING) found = item;
    }
    if (found.version < 0) {
        no_such(
            c, version ? "that version is not served of model" : "no model is served that is named",
            name);
        return;
    }
    (void)snprintf(text, sizeof(text), "model '%s' is not served now: %s", name, found.reason);
    weft_reply_error(&c->reply, 503, text);
}

/* Handles the path /v2/models/NAME[/versions/V][/WHAT]. */
static void model(weft_http_request *c, char **piece, int n)
{
    int64_t version = 0;
    const char *name = piece[2];
    char *const *rest = piece + 3;
    n -= 3;
    if (n >= 2 && strcmp(rest[0], "versions") == 0) {
        if (!weft_parse_int(rest[1], &version) || version < 1) {
            no_such(c, "there is no version", rest[1]);
            return;
        }
        rest += 2;
        n -= 2;
    }
    const char *what = n > 0 ? rest[0] : "";
    if (n > 1) {
        no_such(c, "a model has no", rest[1]);
        return;
    }
    c->servable = weft_service_hold(c->server->service, name, version);
    if (strcmp(what, "ready") == 0) {
        health(c, c->servable && !weft_server_is_draining(c->server));
        return;
    }
    if (!c->servable) {
        not_served(c, name, version);
        return;
    }
    c->model = name;
    weft_servable_describe(c->servable, &c->about);
    if (strcmp(what, "infer") == 0) {
        if (takes(c, "POST")) weft_http_request_infer(c);
    } else if (strcmp(what, "predict") == 0) {
        if (takes(c, "POST")) weft_http_request_predict(c);
    } else if (strcmp(what, "generate") == 0 || strcmp(what, "generate_stream") == 0) {
        if (takes(c, "POST") && is_small(c))
            weft_http_request_generate(c, strcmp(what, "generate") != 0);
    } else if (strcmp(what, "") == 0) {
        if (takes(c, "GET"))
            reply_failure(c, weft_write_model_metadata(c->server->service, &c->about, &c->reply));
    } else if (strcmp(what, "config") == 0) {
        if (takes(c, "GET")) reply_failure(c, weft_write_model_config(c->servable, &c->reply));
    } else if (strcmp(what, "stats") == 0) {
        if (takes(c, "GET"))
            reply_failure(c, weft_write_statistics(c->server->service, name, version, &c->reply));
    } else {
        no_such(c, "a model has no", what);
    }
}

static void list(weft_http_request *c)
{
    bool only_ready;
    if (!is_small(c)) return;
    weft_status status = weft_repository_index_read(c->data, c->size, &only_ready);
    if (status == WEFT_OK)
        status = weft_write_repository_index(c->server->service, only_ready, &c->reply);
    reply_failure(c, status);
}

static void v2(weft_http_request *c, char **piece, int n)
{
    weft_service *service = c->server->service;
    if (n == 1) {
        if (takes(c, "GET")) reply_failure(c, weft_write_server_metadata(&c->reply));
    } else if (n == 3 && strcmp(piece[1], "health") == 0 && strcmp(piece[2], "live") == 0) {
        health(c, true);
    } else if (n == 3 && strcmp(piece[1], "health") == 0 && strcmp(piece[2], "ready") == 0) {
        health(c, !weft_server_is_draining(c->server) && all_ready(service));
    } else if (n == 3 && strcmp(piece[1], "models") == 0 && strcmp(piece[2], "stats") == 0) {
        if (takes(c, "GET")) reply_failure(c, weft_write_statistics(service, NULL, 0, &c->reply));
    } else if (n >= 3 && strcmp(piece[1], "models") == 0) {
        model(c, piece, n);
    } else if (n == 3 && strcmp(piece[1], "repository") == 0 && strcmp(piece[2], "index") == 0) {
        if (takes(c, "POST")) list(c);
    } else if (n == 5 && strcmp(piece[1], "repository") == 0 && strcmp(piece[2], "models") == 0 &&
               (strcmp(piece[4], "load") == 0 || strcmp(piece[4], "unload") == 0)) {
        repository(c, piece[3], piece[4]);
    } else {
        no_such(c, "there is nothing at /v2 named", piece[1]);
    }
}

void weft_http_request_route(weft_http_request *request, bool only_metrics)
{
    char **piece = request->piece;
    int n = request->pieces;
    if (weft_cors_is_preflight(request))
        request->reply.code = 204;
    else if (request->too_large)
        weft_reply_error(&request->reply, 413, "the body is larger than the server takes (--body)");
    else if (request->no_memory)
        weft_http_request_reply_unavailable(
            request, "the bodies of other requests take all memory that the server "
                     "has for them; send this one again later");
    else if (n == 1 && strcmp(piece[0], "metrics") == 0) {
        if (takes(request, "GET"))
            reply_failure(request,
                          weft_write_metrics(request->server->service,
                                             request->server->connection_count, &request->reply));
    } else if ((n == 0 || (n == 1 && strcmp(piece[0], "status") == 0)) && !only_metrics) {
        if (takes(request, "GET"))
            reply_failure(request, weft_write_page(
                                       request->server->service, request->server->history,
                                       weft_server_is_draining(request->server), &request->reply));
    } else if (n >= 1 && n < WEFT_PIECES && strcmp(piece[0], "v2") == 0 && !only_metrics) {
        v2(request, piece, n);
    } else {
        no_such(request, only_metrics ? "this port has /metrics alone, not" : "there is nothing at",
                n ? piece[0] : "/");
    }
}

void weft_http_request_write_reply(weft_http_request *request)
{
    if (request->kind == WEFT_HTTP_GENERATE) {
        weft_http_stream_finish(request);
    } else if (request->status != WEFT_OK) {
        /* A body of gzip data may turn out to be too large while it is read. */
        weft_reply_error(&request->reply,
                         request->too_large ? 413 : weft_http_status_of(request->status),
                         request->message);
    } else if (request->kind == WEFT_HTTP_INFER) {
        reply_failure(
            request, weft_infer_write_reply(&request->about, &request->inference, &request->reply));
    } else if (request->kind == WEFT_HTTP_PREDICT) {
        reply_failure(request, weft_predict_write_reply(&request->about, &request->inference,
                                                        &request->reply));
    } else {
        request->reply.code = 200;
    }
}
