/* Requests of pages in browsers from other origins (CORS, WHATWG Fetch section 3.2). */
#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>

#include "serve/front/server_internal.h"

static weft_status check_origin(void *user, char *item)
{
    char shown[120];
    const char *host = strstr(item, "://");
    (void)user;
    bool good = host && (strncmp(item, "http://", 7) == 0 || strncmp(item, "https://", 8) == 0) &&
                host[3] && !strchr(host, '*') && weft_http_is_host(host + 3, strlen(host + 3));
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

/* Whether a Host is an address, or a name of this machine that no other can have in DNS: any other
 * name may be one of a page that had it resolved to this server (DNS rebinding). */
static bool is_own_host(const char *host)
{
    char name[256], own[256] = "";
    unsigned char address[16];
    bool six = *host == '[';
    size_t size = six ? strcspn(++host, "]") : strcspn(host, ":");
    if (size == 0 || size >= sizeof(name)) return false;
    memcpy(name, host, size);
    name[size] = '\0';
    if (inet_pton(six ? AF_INET6 : AF_INET, name, address) == 1) return true;
    const char *last = strrchr(name, '.');
    if (strcasecmp(last ? last + 1 : name, "localhost") == 0) return true;
    return gethostname(own, sizeof(own) - 1) == 0 && strcasecmp(name, own) == 0;
}

bool weft_cors_may_ask(const weft_http_request *request)
{
    const char *origin = weft_http_field_value(&request->head, "Origin");
    const char *host = weft_http_field_value(&request->head, "Host");
    const char *from = origin ? strstr(origin, "://") : NULL;
    if (!origin || weft_cors_origin(request)) return true;
    return from && host && strcasecmp(from + 3, host) == 0 && is_own_host(host);
}

void weft_cors_refuse(weft_http_request *request)
{
    char text[256], shown[120];
    const char *origin = weft_http_field_value(&request->head, "Origin");
    (void)snprintf(text, sizeof(text),
                   "pages of '%s' may not ask this server; it names those that may with --cors",
                   weft_printable(origin, shown, sizeof(shown)));
    weft_reply_error(&request->reply, 403, text);
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
