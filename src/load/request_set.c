/* Prepares the requests to a target before the load begins: finds the model that the target serves,
 * makes requests for it, and tries one of them. */
#include <jansson.h>
#include <stdio.h>

#include "load/request_set.h"

typedef struct finder {
    const weft_load_options *options;
    const char *token; /* NULL: none */
    const weft_stop *stop;
    weft_request_set *set;
} finder;

static const char *scheme(const finder *f)
{
    return f->set->target.https ? "https" : "http";
}

static weft_status make_request(const finder *f, const char *method, const char *path,
                                const weft_raw_request *body, size_t head, weft_raw_request *out)
{
    weft_text text = {0};
    const char *token = f->token;
    bool json = !body || head == body->size || head == 0;
    weft_text_add(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: weft/%s\r\nAccept: */*\r\n",
                  method, path, f->set->target.host, weft_version());
    if (token) weft_text_add(&text, "Authorization: Bearer %s\r\n", token);
    if (body) {
        weft_text_add(&text, "Content-Type: %s\r\n",
                      json && body->size && *body->bytes == '{' ? "application/json"
                                                                : "application/octet-stream");
        if (!json) weft_text_add(&text, "Inference-Header-Content-Length: %zu\r\n", head);
        weft_text_add(&text, "Content-Length: %zu\r\n", body->size);
    }
    weft_text_add(&text, "\r\n");
    if (body) weft_text_add_bytes(&text, body->bytes, body->size);
    out->size = text.size;
    return weft_text_take(&text, &out->bytes);
}

static weft_status send_request(const finder *f, const char *method, const char *path,
                                const weft_raw_request *body, weft_load_reply *reply)
{
    weft_raw_request request;
    *reply = (weft_load_reply){0};
    WEFT_TRY(make_request(f, method, path, body, 0, &request));
    weft_status status = weft_load_fetch(&f->set->target, request.bytes, request.size,
                                         f->options->timeout, f->stop, reply);
    free(request.bytes);
    return status;
}

static weft_status refused(const finder *f, const char *what, const weft_load_reply *reply)
{
    char said[600];
    weft_load_error_text(reply->body, reply->size, said, sizeof(said));
    return weft_fail(WEFT_ERR_PEER, "%s: %s is answered with %d%s%s%s", f->set->target.url, what,
                     reply->status, *said ? ": " : "", said,
                     reply->status == 401 || reply->status == 403 ? "; give --token-file" : "");
}

/* --- choice of the model --- */

static weft_status take_only_model(const finder *f, json_t *list)
{
    const char *name = NULL, *url = f->set->target.url;
    weft_text names = {0};
    int count = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (!one || (name && strcmp(one, name) == 0)) continue; /* another version of `name` */
        weft_text_add(&names, "%s%.80s", count++ ? ", " : "", one);
        name = one;
    }
    char *all = NULL;
    weft_status status = weft_text_take(&names, &all);
    if (status == WEFT_OK && count == 0)
        status = weft_fail(WEFT_ERR_PEER, "%s: the server has no models", url);
    if (status == WEFT_OK && count > 1)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "%s: the server has several models (%s); give one, as in "
                           "%s://%s/v2/models/%s",
                           url, all, scheme(f), f->set->target.host, name);
    free(all);
    if (status != WEFT_OK) return status;
    if (strpbrk(name, " /?#%\r\n"))
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "%s: the model '%s' has a name that a URL does not take as it is; give "
                         "%s://%s/v2/models/NAME with %%20 and the like",
                         url, name, scheme(f), f->set->target.host);
    free(f->set->target.path);
    return weft_format(&f->set->target.path, "/v2/models/%s", name);
}

static weft_status find_model(const finder *f)
{
    const weft_raw_request none = {.bytes = (char[]){"{}"}, .size = 2};
    weft_load_reply reply;
    WEFT_TRY(send_request(f, "POST", "/v2/repository/index", &none, &reply));
    json_t *list = json_loadb(reply.body, reply.size, 0, NULL);
    weft_status status;
    if (reply.status == 401 || reply.status == 403)
        status = refused(f, "the list of models", &reply);
    else if (reply.status != 200 || !json_is_array(list))
        status = weft_fail(WEFT_ERR_PEER,
                           "%s: the server does not list its models (%d); give one, as in "
                           "%s://%s/v2/models/NAME",
                           f->set->target.url, reply.status, scheme(f), f->set->target.host);
    else
        status = take_only_model(f, list);
    json_decref(list);
    weft_load_reply_free(&reply);
    return status;
}

/* --- requests --- */

/* Adds a request with this body, and frees the body. */
static weft_status add(const finder *f, const char *path, weft_raw_request *body, size_t head)
{
    weft_request_set *a = f->set;
    weft_status status = make_request(f, "POST", path, body, head, &a->requests[a->count]);
    if (status == WEFT_OK) a->count++;
    free(body->bytes);
    return status;
}

static weft_status make_requests(const finder *f, const weft_load_reply *metadata, const char *path)
{
    size_t bytes = 0;
    for (int i = 0; i < WEFT_MOST_RAW_REQUESTS; i++) {
        weft_raw_request body = {0};
        size_t head;
        WEFT_TRY(weft_inputs_make(f->set->target.url, metadata->body, metadata->size, f->options,
                                  (uint64_t)i, &body, &head));
        bytes += body.size;
        WEFT_TRY(add(f, path, &body, head));
        if (bytes + body.size > WEFT_RAW_REQUESTS_BYTES) break;
    }
    return WEFT_OK;
}

static weft_status ask_metadata(const finder *f, const char *path)
{
    weft_request_set *a = f->set;
    weft_load_reply reply;
    WEFT_TRY(send_request(f, "GET", a->target.path, NULL, &reply));
    weft_status status = reply.status != 200 ? refused(f, "the request for the model", &reply)
                                             : make_requests(f, &reply, path);
    json_t *json = json_loadb(reply.body, reply.size, 0, NULL);
    const char *name = json_string_value(json_object_get(json, "name"));
    char shown[512];
    if (status == WEFT_OK)
        status = weft_strdup(weft_printable(name ? name : a->target.path, shown, sizeof(shown)),
                             &a->model);
    json_decref(json);
    weft_load_reply_free(&reply);
    a->rows = f->options->rows;
    return status;
}

/* Reads the body of the requests from a file: JSON, JSON with binary tensors after it, or any other
 * content. */
static weft_status read_body(const finder *f, const char *path)
{
    weft_bytes file;
    weft_raw_request body = {0};
    json_error_t error = {.position = 0};
    WEFT_TRY(weft_file_map(f->options->body, &file));
    body.size = file.size;
    weft_status status = WEFT_NEW(&body.bytes, file.size + 1);
    if (status == WEFT_OK && file.size > 0) memcpy(body.bytes, file.data, file.size);
    weft_file_unmap(&file);
    WEFT_TRY(status);
    json_t *json = *body.bytes == '{'
                       ? json_loadb(body.bytes, body.size, JSON_DISABLE_EOF_CHECK, &error)
                       : NULL;
    size_t head = json ? (size_t)error.position : 0;
    json_decref(json);
    if (head > 0 && head + strspn(body.bytes + head, " \r\n\t") == body.size) head = 0;
    WEFT_TRY(weft_strdup(f->set->target.path, &f->set->model));
    return add(f, path, &body, head);
}

/* Sends one request. A refusal that every request would get is an error now; a failure that may be
 * transient (429, 5xx) is left to be counted in the load. */
static weft_status try_one(const finder *f, bool protocol)
{
    weft_request_set *a = f->set;
    const char *why;
    weft_load_reply reply;
    WEFT_TRY(weft_load_fetch(&a->target, a->requests[0].bytes, a->requests[0].size,
                             f->options->timeout, f->stop, &reply));
    weft_status status = WEFT_OK;
    if (reply.status != 200 && reply.status != 429 && reply.status < 500)
        status = refused(f, "a request", &reply);
    else if (reply.status == 200 && protocol &&
             !weft_inputs_check_reply(reply.body, reply.size, &why))
        status = weft_fail(WEFT_ERR_FORMAT,
                           "%s: the answer to a request is not of the Open Inference Protocol: %s",
                           a->target.url, why);
    weft_load_reply_free(&reply);
    return status;
}

/* Whether a path is "/v2/models/NAME" or "/v2/models/NAME/versions/V". */
static bool is_model(const char *path)
{
    static const char models[] = "/v2/models/", versions[] = "/versions/";
    if (strncmp(path, models, strlen(models)) != 0) return false;
    const char *rest = strchr(path + strlen(models), '/');
    if (!rest) return true;
    return strncmp(rest, versions, strlen(versions)) == 0 && !strchr(rest + strlen(versions), '/');
}

static weft_status find(const finder *f)
{
    weft_request_set *a = f->set;
    char *path = NULL;
    if (!*a->target.path) WEFT_TRY(find_model(f));
    bool protocol = is_model(a->target.path);
    if (!protocol && !f->options->body)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "target '%s': is not a model; give http://HOST:PORT/v2/models/NAME, or "
                         "the body of the requests with --body",
                         a->target.url);
    WEFT_TRY(weft_format(&path, "%s%s", a->target.path, protocol ? "/infer" : ""));
    weft_status status = f->options->body ? read_body(f, path) : ask_metadata(f, path);
    free(path);
    return status == WEFT_OK ? try_one(f, protocol) : status;
}

weft_status weft_request_set_open(const weft_load_options *options, const char *token,
                                  const char *url, const weft_stop *stop, weft_request_set *out)
{
    const finder f = {options, token, stop, out};
    *out = (weft_request_set){0};
    weft_status status = weft_load_target_open(url, options->body != NULL, &out->target);
    if (status == WEFT_OK && out->target.https)
        status = weft_load_trust_open(options->ca, options->insecure, &out->target.trust);
    if (status == WEFT_OK) status = find(&f);
    if (status != WEFT_OK) weft_request_set_close(out);
    return status;
}

void weft_request_set_close(weft_request_set *set)
{
    for (int i = 0; i < set->count; i++) free(set->requests[i].bytes);
    free(set->model);
    weft_load_target_close(&set->target);
    *set = (weft_request_set){0};
}
