/* The status line and the fields of a reply (RFC 9112, section 4). */
#include <stdio.h>
#include <time.h>

#include "serve/front/server_internal.h"

static const char *phrase(unsigned code)
{
    static const struct {
        unsigned code;
        const char *phrase;
    } known[] = {{200, "OK"},
                 {204, "No Content"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {413, "Content Too Large"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};
    for (size_t i = 0; i < WEFT_COUNT(known); i++)
        if (known[i].code == code) return known[i].phrase;
    return "";
}

/* The text of the Date field, which is made once a second. */
static const char *date(weft_server *s)
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = time(NULL);
    struct tm t;
    if ((int64_t)now == s->date_second) return s->date;
    gmtime_r(&now, &t);
    (void)snprintf(s->date, sizeof(s->date), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                   days + 3 * t.tm_wday, (unsigned)t.tm_mday % 100, months + 3 * t.tm_mon,
                   (unsigned)(t.tm_year + 1900) % 10000, (unsigned)t.tm_hour % 100,
                   (unsigned)t.tm_min % 100, (unsigned)t.tm_sec % 100);
    s->date_second = (int64_t)now;
    return s->date;
}

static void add_field(weft_text *out, const char *name, const char *value)
{
    weft_text_add_bytes(out, name, strlen(name));
    weft_text_add_bytes(out, ": ", 2);
    weft_text_add_bytes(out, value, strlen(value));
    weft_text_add_bytes(out, "\r\n", 2);
}

static void add_number(weft_text *out, const char *name, int64_t value)
{
    weft_text_add_bytes(out, name, strlen(name));
    weft_text_add_bytes(out, ": ", 2);
    weft_text_add_int(out, value);
    weft_text_add_bytes(out, "\r\n", 2);
}

/* The fields that say where the reply ends. A stream to a client of HTTP/1.0 ends with the
 * connection. */
static void add_framing(weft_http_request *c, weft_text *out)
{
    bool old = c->head.minor == 0;
    if (c->stream.streams && old) c->connection->last = true;
    if (c->stream.streams && !old)
        add_field(out, "Transfer-Encoding", "chunked");
    else if (!c->stream.streams && c->reply.code != 204)
        add_number(out, "Content-Length", (int64_t)c->reply.text.size);
    if (c->connection->last)
        add_field(out, "Connection", "close");
    else if (old)
        add_field(out, "Connection", "keep-alive");
}

void weft_http_reply_head(weft_http_request *request, weft_text *out)
{
    const weft_http_request *c = request;
    const weft_reply *r = &c->reply;
    weft_text_add_bytes(out, "HTTP/1.1 ", 9);
    weft_text_add_int(out, r->code);
    weft_text_add_bytes(out, " ", 1);
    weft_text_add_bytes(out, phrase(r->code), strlen(phrase(r->code)));
    weft_text_add_bytes(out, "\r\n", 2);
    add_field(out, "Date", date(c->server));
    add_framing(request, out);
    if (c->stream.streams) {
        add_field(out, "Content-Type", "text/event-stream");
        add_field(out, "Cache-Control", "no-store");
    } else if (r->code != 204) {
        add_field(out, "Content-Type",
                  r->type   ? r->type
                  : r->json ? "application/octet-stream"
                            : "application/json");
    }
    weft_cors_add_fields(c, out);
    if (c->id[0]) add_field(out, "X-Request-ID", c->id);
    if (r->json) add_number(out, "Inference-Header-Content-Length", (int64_t)r->json);
    if (r->allowed) add_field(out, "Allow", r->allowed);
    if (r->code == 503) add_field(out, "Retry-After", "1");
    if (r->code == 429)
        add_number(out, "Retry-After", weft_rate_limiter_retry_after(c->server->rate_limiter));
    if (r->code == 401) add_field(out, "WWW-Authenticate", "Bearer realm=\"weft\"");
    weft_text_add_bytes(out, "\r\n", 2);
}
