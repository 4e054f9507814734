/* Requests of pages in browsers from other origins (CORS, WHATWG Fetch section 3.2). */
#include "serve/front/server_internal.h"

static weft_status check_origin(void *user, char *item)
{
    char shown[120];
    const char *host = strstr(item, "://");
    (void)user;
    bool good = host && (strncmp(item, "http://", 7) == 0 || strncmp(item, "https://", 8) == 0) &&
                host[3] && weft_http_is_host(host + 3, strlen(host + 3));
    if (good || strcmp(item, "*") == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "cors: '%s' is no origin; take https://HOST or https://HOST:PORT, without a "
                     "path, or * for all",
                     weft_printable(item, shown, sizeof(shown)));
}

weft_status weft_cors_check(const char *origins)
{
    return weft_each_piece("cors", origins, check_origin, NULL);
}

const char *weft_cors_origin(const weft_http_request *request)
{
    const char *origins = request->server->cors;
    const char *origin = origins ? weft_http_field_value(&request->head, "Origin") : NULL;
    if (!origin || !*origin) return NULL;
    return weft_is_listed(origins, "*") || weft_is_listed(origins, origin) ? origin : NULL;
}

bool weft_cors_is_preflight(const weft_http_request *request)
{
    return strcmp(request->method, "OPTIONS") == 0 && weft_cors_origin(request) &&
           weft_http_field_value(&request->head, "Access-Control-Request-Method");
}

void weft_cors_add_fields(const weft_http_request *request, weft_text *out)
{
    const char *origin = weft_cors_origin(request);
    if (!request->server->cors) return;
    /* Caches must not give the reply for one origin to another. */
    weft_text_add(out, "Vary: Origin\r\n");
    if (!origin) return;
    weft_text_add(out, "Access-Control-Allow-Origin: ");
    weft_text_add_bytes(out, origin, strlen(origin));
    weft_text_add(out, "\r\nAccess-Control-Expose-Headers: Inference-Header-Content-Length, "
                       "Retry-After, X-Request-ID\r\n");
    if (!weft_cors_is_preflight(request)) return;
    weft_text_add(out, "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"
                       "Access-Control-Allow-Headers: Accept, Authorization, Content-Encoding, "
                       "Content-Type, Inference-Header-Content-Length, X-Request-ID\r\n"
                       "Access-Control-Max-Age: 600\r\n");
}
