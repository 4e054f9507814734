/* The meaning of the fields of a head: where the body ends, and whether the connection
 * stays open (RFC 9112, sections 3.2, 6 and 9.3). */
#include <stdio.h>
#include <strings.h>

#include "serve/http/http.h"

static bool refuse(weft_http_fault *fault, unsigned code, const char *sentence)
{
    *fault = (weft_http_fault){.code = code, .sentence = sentence};
    return false;
}

/* --- fields --- */

const char *weft_http_field_value(const weft_http_head *head, const char *name)
{
    for (int i = 0; i < head->count; i++)
        if (strcasecmp(head->fields[i].name, name) == 0) return head->fields[i].value;
    return NULL;
}

static int count_fields(const weft_http_head *head, const char *name)
{
    int count = 0;
    for (int i = 0; i < head->count; i++) count += strcasecmp(head->fields[i].name, name) == 0;
    return count;
}

/* *at holds the field in its upper half and the byte of its value in the lower one, which suits
 * heads of less than 4 GiB. */
const char *weft_http_field_item(const weft_http_head *head, const char *name, size_t *at,
                                 size_t *size)
{
    size_t field = *at >> 32, byte = *at & 0xffffffff;
    for (; field < (size_t)head->count; field++, byte = 0) {
        if (strcasecmp(head->fields[field].name, name) != 0) continue;
        const char *value = head->fields[field].value, *item = value + byte;
        item += strspn(item, " \t");
        size_t length = strcspn(item, ","), shown = length;
        while (shown > 0 && (item[shown - 1] == ' ' || item[shown - 1] == '\t')) shown--;
        *at = item[length] ? field << 32 | (size_t)(item + length + 1 - value) : (field + 1) << 32;
        *size = shown;
        return item;
    }
    return NULL;
}

static bool is(const char *item, size_t size, const char *word)
{
    return size == strlen(word) && strncasecmp(item, word, size) == 0;
}

static bool has_item(const weft_http_head *head, const char *name, const char *word)
{
    size_t at = 0, size;
    for (const char *item; (item = weft_http_field_item(head, name, &at, &size));)
        if (is(item, size, word)) return true;
    return false;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

bool weft_http_decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        char c = *from;
        /* The parsed head has two digits behind each %. */
        if (c == '%' && from[1] && from[2]) {
            c = (char)(hex(from[1]) << 4 | hex(from[2]));
            from += 2;
        }
        if (c == '\0') return false;
        *to++ = c;
    }
    *to = '\0';
    return true;
}

bool weft_http_query_value(const char *query, const char *name, char *out, size_t room)
{
    size_t length = strlen(name);
    for (const char *at = query; at; at = strchr(at, '&')) {
        at += *at == '&';
        if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
        const char *value = at + length + 1;
        (void)snprintf(out, room, "%.*s", (int)WEFT_MIN(strcspn(value, "&"), room), value);
        (void)weft_http_decode(out);
        return true;
    }
    return false;
}

/* --- the end of the body --- */

static bool read_length(weft_http_head *head, weft_http_fault *fault)
{
    const char *text = weft_http_field_value(head, "Content-Length");
    head->length = 0;
    if (!text) return true;
    if (count_fields(head, "Content-Length") > 1)
        return refuse(fault, 400, "the head has more than one Content-Length");
    for (const char *c = text; *c || c == text; c++) {
        if (*c < '0' || *c > '9')
            return refuse(fault, 400, "Content-Length must be a whole number of bytes");
        if (head->length > (INT64_MAX - (*c - '0')) / 10)
            return refuse(fault, 413, "Content-Length is more than any server takes");
        head->length = 10 * head->length + (*c - '0');
    }
    return true;
}

/* The coding `chunked` must be the last one and be there once, else nobody knows where the body
 * ends. */
static bool read_coding(weft_http_head *head, weft_http_fault *fault)
{
    size_t at = 0, size, others = 0, chunked = 0;
    bool last = false;
    for (const char *item; (item = weft_http_field_item(head, "Transfer-Encoding", &at, &size));) {
        if (size == 0) continue; /* empty items of a list mean nothing (RFC 9110, 5.6.1.2) */
        last = is(item, size, "chunked");
        chunked += last;
        others += !last;
    }
    if (!last || chunked > 1)
        return refuse(fault, 400,
                      "Transfer-Encoding must end with chunked, once; else nobody can tell where "
                      "the body ends");
    if (others > 0) return refuse(fault, 501, "the server knows no Transfer-Encoding but chunked");
    head->chunked = true;
    return true;
}

/* Fields that this server reads and that have one value: a proxy may have checked the other one. */
#define SINGLE(name)                                                                               \
    {                                                                                              \
        name, "the head has more than one " name                                                   \
    }
static const struct {
    const char *name, *sentence;
} single[] = {SINGLE("Authorization"),    SINGLE("Origin"),
              SINGLE("Content-Type"),     SINGLE("Inference-Header-Content-Length"),
              SINGLE("Content-Encoding"), SINGLE("X-Request-ID")};

bool weft_http_head_frame(weft_http_head *head, weft_http_fault *fault)
{
    const char *host = weft_http_field_value(head, "Host");
    int hosts = count_fields(head, "Host");
    bool coded = count_fields(head, "Transfer-Encoding") > 0;
    head->chunked = false;
    head->keeps_alive = !has_item(head, "Connection", "close") &&
                        (head->minor > 0 || has_item(head, "Connection", "keep-alive"));
    head->expects_continue = false;
    if (hosts > 1) return refuse(fault, 400, "the head has more than one Host");
    if (hosts == 0 && head->minor > 0) return refuse(fault, 400, "the head has no Host");
    if (host && !weft_http_is_host(host, strlen(host)))
        return refuse(fault, 400, "Host must be HOST or HOST:PORT");
    for (size_t i = 0; i < WEFT_COUNT(single); i++)
        if (count_fields(head, single[i].name) > 1) return refuse(fault, 400, single[i].sentence);
    if (!read_length(head, fault)) return false;
    if (coded && head->minor == 0) return refuse(fault, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (coded && count_fields(head, "Content-Length") > 0)
        return refuse(fault, 400,
                      "the head has both Transfer-Encoding and Content-Length, so its body would "
                      "have two ends");
    if (coded && !read_coding(head, fault)) return false;
    size_t at = 0, size;
    for (const char *item; (item = weft_http_field_item(head, "Expect", &at, &size));) {
        if (size > 0 && !is(item, size, "100-continue"))
            return refuse(fault, 417, "the server knows no expectation but 100-continue");
        head->expects_continue |= size > 0 && head->minor > 0;
    }
    return true;
}
