/* An incremental, strict parser of HTTP/1.1 responses: a response whose length does not match its
 * headers is an error. */
#include <ctype.h>
#include <strings.h>

#include "load/http_client.h"

enum { LINE = 8192, HEAD = 65536 };
enum { STATUS, HEADER, BODY, TO_THE_END, CHUNK, CHUNK_DATA, CHUNK_END, TRAILER, WHOLE };

void weft_http_response_begin(weft_http_response *response)
{
    *response = (weft_http_response){.text = response->text,
                                     .text_capacity = response->text_capacity,
                                     .line = response->line,
                                     .length = -1};
}

void weft_http_response_free(weft_http_response *response)
{
    free(response->line);
    response->line = NULL;
}

static bool wrong(weft_http_response *a, const char *what)
{
    a->error = what;
    return false;
}

/* --- lines, without their ends --- */

static bool take_status(weft_http_response *a, const char *line, size_t size)
{
    if (size < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)line[7]) ||
        line[8] != ' ' || (size > 12 && line[12] != ' '))
        return wrong(a, "it does not begin with a status line of HTTP/1.1");
    for (int i = 9; i < 12; i++) {
        if (!isdigit((unsigned char)line[i])) return wrong(a, "its status is no number");
        a->status = 10 * a->status + line[i] - '0';
    }
    a->connection_close = line[7] == '0';
    a->part = HEADER;
    return a->status >= 100 || wrong(a, "its status is below 100");
}

static bool is(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && strncasecmp(text, word, size) == 0;
}

static bool take_length(weft_http_response *a, const char *value, size_t size)
{
    int64_t length = 0;
    if (size == 0 || size > 15) return wrong(a, "its Content-Length is no number of bytes");
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)value[i]))
            return wrong(a, "its Content-Length is no number of bytes");
        length = 10 * length + value[i] - '0';
    }
    if (a->length >= 0 && a->length != length)
        return wrong(a, "it has two values of Content-Length");
    a->length = length;
    return true;
}

/* Whether a header's list of values, such as "a, b", contains the word. */
static bool lists(const char *value, size_t size, const char *word)
{
    for (const char *at = value, *end = value + size; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *last = comma ? comma : end;
        while (at < last && (*at == ' ' || *at == '\t')) at++;
        while (last > at && (last[-1] == ' ' || last[-1] == '\t')) last--;
        if (is(at, (size_t)(last - at), word)) return true;
        at = comma ? comma + 1 : end;
    }
    return false;
}

static bool take_field(weft_http_response *a, const char *line, size_t size)
{
    const char *colon = memchr(line, ':', size), *end = line + size;
    if (!colon || colon == line) return wrong(a, "a header has no name and colon");
    for (const char *c = line; c < colon; c++)
        if (!isgraph((unsigned char)*c)) return wrong(a, "a header's name has a space in it");
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) end--;
    size_t name = (size_t)(colon - line), length = (size_t)(end - value);
    if (is(line, name, "content-length")) return take_length(a, value, length);
    if (is(line, name, "connection")) {
        if (lists(value, length, "close")) a->connection_close = true;
        if (lists(value, length, "keep-alive")) a->connection_close = false;
    }
    if (!is(line, name, "transfer-encoding")) return true;
    a->chunked = is(value, length, "chunked");
    return a->chunked || wrong(a, "its Transfer-Encoding is not chunked");
}

/* Ends the headers: determines how the body is delimited. */
static bool take_head(weft_http_response *a)
{
    if (a->status < 200) { /* an interim response */
        a->status = 0;
        a->length = -1;
        a->chunked = false;
        a->part = STATUS;
        return true;
    }
    if (a->chunked && a->length >= 0)
        return wrong(a, "it has a Content-Length and is chunked, too");
    if (a->status == 204 || a->status == 304) a->length = 0;
    a->left = a->length;
    a->part = a->chunked ? CHUNK : a->length < 0 ? TO_THE_END : a->length > 0 ? BODY : WHOLE;
    if (a->part == TO_THE_END) a->connection_close = true;
    return true;
}

static bool take_chunk(weft_http_response *a, const char *line, size_t size)
{
    size_t digits = 0;
    a->left = 0;
    for (; digits < size && isxdigit((unsigned char)line[digits]); digits++) {
        int c = tolower((unsigned char)line[digits]);
        if (digits == 12) return wrong(a, "a chunk is too large");
        a->left = 16 * a->left + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (digits == 0 || (digits < size && !strchr("; \t", line[digits])))
        return wrong(a, "a chunk does not begin with its size");
    a->part = a->left > 0 ? CHUNK_DATA : TRAILER;
    return true;
}

static bool take_line(weft_http_response *a, const char *line, size_t size)
{
    if (size == 0 || line[size - 1] != '\r') return wrong(a, "a line of it does not end in CR LF");
    size--;
    switch (a->part) {
    case STATUS: return take_status(a, line, size);
    case HEADER: return size ? take_field(a, line, size) : take_head(a);
    case CHUNK: return take_chunk(a, line, size);
    case CHUNK_END: a->part = CHUNK; return size == 0 || wrong(a, "a chunk is longer than it says");
    default: /* the trailer */
        if (size == 0) a->part = WHOLE;
        return true;
    }
}

/* --- bytes --- */

/* Parses a line once its end has arrived; until then keeps its beginning. */
static bool feed_line(weft_http_response *a, const char *data, size_t size, size_t *used)
{
    const char *end = memchr(data, '\n', size);
    size_t more = end ? (size_t)(end - data) : size;
    *used = end ? more + 1 : more;
    a->head += *used;
    if (a->head > HEAD) return wrong(a, "its headers have more than 64 KiB");
    if (a->line_size + more > LINE) return wrong(a, "a line of its headers has more than 8 KiB");
    if (end && a->line_size == 0) return take_line(a, data, more);
    if (!a->line) a->line = malloc(LINE);
    if (!a->line) return wrong(a, "there is no memory for a line of it");
    memcpy(a->line + a->line_size, data, more);
    a->line_size += more;
    if (!end) return true;
    size_t whole = a->line_size;
    a->line_size = 0;
    return take_line(a, a->line, whole);
}

static void feed_body(weft_http_response *a, const char *data, size_t size, size_t *used)
{
    *used = a->part == TO_THE_END ? size : WEFT_MIN(size, (size_t)a->left);
    size_t keep = WEFT_MIN(*used, a->text_capacity - a->text_size);
    if (keep > 0) memcpy(a->text + a->text_size, data, keep);
    a->text_size += keep;
    a->size += (int64_t)*used;
    if (a->part == TO_THE_END) return;
    a->left -= (int64_t)*used;
    if (a->left > 0) return;
    a->part = a->part == BODY ? WHOLE : CHUNK_END;
    a->head = 0;
}

weft_http_response_state weft_http_response_feed(weft_http_response *response, const char *data,
                                                 size_t size, size_t *used)
{
    *used = 0;
    while (*used < size && response->part != WHOLE) {
        size_t part;
        if (response->part == BODY || response->part == TO_THE_END || response->part == CHUNK_DATA)
            feed_body(response, data + *used, size - *used, &part);
        else if (!feed_line(response, data + *used, size - *used, &part))
            return WEFT_RESPONSE_INVALID;
        *used += part;
    }
    return response->part == WHOLE ? WEFT_RESPONSE_COMPLETE : WEFT_RESPONSE_INCOMPLETE;
}

weft_http_response_state weft_http_response_end(weft_http_response *response)
{
    if (response->part == TO_THE_END) return WEFT_RESPONSE_COMPLETE;
    response->error = response->part == STATUS || response->part == HEADER
                          ? "it was cut off within its headers"
                          : "it was cut off within its body";
    return WEFT_RESPONSE_INVALID;
}
