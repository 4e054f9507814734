/* Fuzzes the framing of HTTP requests: where the head and the body of a request end, and whether it
 * is refused, must be what the grammar of RFC 9112 says. The grammar is here as sets of characters
 * over whole lines, while the server reads a byte at a time, from pieces of any size. */
#include <stdio.h>
#include <strings.h>

#include "fuzz.h"
#include "serve/http/http.h"

#define DIGITS "0123456789"
#define HEX DIGITS "abcdefABCDEF"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS
#define TOKEN LETTERS "!#$%&'*+-.^_`|~"
#define NAME LETTERS "-._~!$&'()*+,;="
#define PATH NAME ":@/?"

enum { MOST = 8192, MOST_LINES = 128 };

static bool is_of(const char *text, const char *set)
{
    return text[strspn(text, set)] == '\0';
}

/* Whether a text has only characters of the set, and %XX. */
static bool is_escaped(const char *text, const char *set)
{
    for (;;) {
        text += strspn(text, set);
        if (*text == '\0') return true;
        if (*text != '%' || strspn(text + 1, HEX) < 2) return false;
        text += 3;
    }
}

static bool is_text(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 ? *text != '\t' : *text == 0x7f) return false;
    return true;
}

static bool is_token(const char *text, size_t size)
{
    return size > 0 && strspn(text, TOKEN) >= size;
}

/* HOST or HOST:PORT, which ends the text. */
static bool is_host(const char *text)
{
    char host[MOST + 1];
    (void)snprintf(host, sizeof(host), "%s", text);
    char *end = strrchr(host, host[0] == '[' ? ']' : ':');
    if (host[0] == '[') {
        if (!end || end == host + 1) return false;
        if (end[1] && (end[1] != ':' || !is_of(end + 2, DIGITS))) return false;
        *end = '\0';
        return is_of(host + 1, NAME ":");
    }
    if (end && !is_of(end + 1, DIGITS)) return false;
    if (end) *end = '\0';
    return host[0] && is_escaped(host, NAME);
}

/* A request as the grammar has it. */
typedef struct message {
    bool complete, valid, chunked;
    size_t head, body, all; /* bytes of the head, of the content, and of head and body */
    bool body_complete, body_valid;
    uint64_t length;
} message;

/* --- the grammar --- */

static size_t find(const uint8_t *data, size_t size, size_t from, const char *what)
{
    size_t length = strlen(what);
    for (size_t at = from; at + length <= size; at++)
        if (memcmp(data + at, what, length) == 0) return at;
    return size;
}

static bool is_target(const char *method, const char *target)
{
    char host[MOST + 1];
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    if (strcmp(method, "CONNECT") == 0) return false;
    if (strcmp(target, "*") == 0) return strcmp(method, "OPTIONS") == 0;
    if (scheme == 0) return target[0] == '/' && is_escaped(target, PATH);
    size_t size = strcspn(target + scheme, "/?");
    (void)snprintf(host, sizeof(host), "%.*s", (int)size, target + scheme);
    return is_host(host) && is_escaped(target + scheme + size, PATH);
}

static bool is_request_line(const char *line)
{
    char method[MOST + 1];
    const char *first = strchr(line, ' '), *last = strrchr(line, ' ');
    if (!first || last <= first + 1 || memchr(first + 1, ' ', (size_t)(last - first - 1)))
        return false;
    (void)snprintf(method, sizeof(method), "%.*s", (int)(first - line), line);
    char target[MOST + 1];
    (void)snprintf(target, sizeof(target), "%.*s", (int)(last - first - 1), first + 1);
    return is_token(method, strlen(method)) && strncmp(last + 1, "HTTP/1.", 7) == 0 &&
           strspn(last + 8, DIGITS) == 1 && strlen(last + 8) == 1 && is_target(method, target);
}

static bool is_field(const char *line)
{
    size_t name = strcspn(line, ":");
    return line[name] && is_token(line, name) && is_text(line);
}

/* Whether each item of a list that is not empty is the word; *count: how many. */
static bool has_only(const char *list, const char *word, int *count)
{
    for (*count = 0; *list;) {
        list += strspn(list, ", \t");
        size_t size = strcspn(list, ",");
        const char *next = list + size;
        while (size > 0 && strchr(" \t", list[size - 1])) size--;
        if (size > 0 && (size != strlen(word) || strncasecmp(list, word, size) != 0)) return false;
        *count += size > 0;
        list = next;
    }
    return true;
}

/* The values of the fields of a name, with commas between them. Returns their number. */
static int values(char *const *lines, int count, const char *name, char *out)
{
    int found = 0;
    size_t length = strlen(name);
    out[0] = '\0';
    for (int i = 1; i < count; i++) {
        if (strncasecmp(lines[i], name, length) != 0 || lines[i][length] != ':') continue;
        const char *value = lines[i] + length + 1;
        value += strspn(value, " \t");
        size_t size = strlen(value);
        while (size > 0 && strchr(" \t", value[size - 1])) size--;
        if (found++) strcat(out, ",");
        strncat(out, value, size);
    }
    return found;
}

static bool is_framed(char *const *lines, int count, message *m)
{
    static char value[2 * MOST];
    bool old = strcmp(strrchr(lines[0], ' '), " HTTP/1.0") == 0;
    int items, hosts = values(lines, count, "Host", value);
    if (hosts > 1 || (hosts == 0 && !old) || (hosts == 1 && value[0] && !is_host(value)))
        return false;
    (void)values(lines, count, "Expect", value);
    if (!has_only(value, "100-continue", &items)) return false;
    int codings = values(lines, count, "Transfer-Encoding", value);
    if (codings > 0 && (old || !has_only(value, "chunked", &items) || items != 1)) return false;
    m->chunked = codings > 0;
    int lengths = values(lines, count, "Content-Length", value);
    if (lengths == 0) return true;
    if (lengths > 1 || codings > 0 || !value[0] || !is_of(value, DIGITS)) return false;
    const char *digits = value + strspn(value, "0");
    size_t size = strlen(digits);
    if (size > 19 || (size == 19 && strcmp(digits, "9223372036854775807") > 0)) return false;
    m->length = strtoull(digits, NULL, 10);
    return true;
}

static void read_head(const uint8_t *data, size_t size, message *m)
{
    static char text[MOST + 1];
    char *lines[MOST_LINES];
    int count = 0;
    size_t from = size >= 2 && memcmp(data, "\r\n", 2) == 0 ? 2 : 0;
    size_t end = find(data, size, from, "\r\n\r\n");
    m->complete = end < size;
    if (!m->complete) return;
    m->head = end + 4;
    if (memchr(data, '\0', m->head)) return;
    memcpy(text, data + from, end - from);
    text[end - from] = '\0';
    for (char *at = text; at && count < MOST_LINES;) {
        char *stop = strstr(at, "\r\n");
        if (stop) *stop = '\0';
        lines[count++] = at;
        at = stop ? stop + 2 : NULL;
    }
    if (count > WEFT_HTTP_FIELDS + 1 || !is_request_line(lines[0])) return;
    for (int i = 1; i < count; i++)
        if (!is_field(lines[i])) return;
    m->valid = is_framed(lines, count, m);
}

/* Reads a line of a chunked body into text; false: it has not ended. */
static bool take_line(const uint8_t *data, size_t size, size_t *at, char *text)
{
    size_t end = find(data, size, *at, "\r\n");
    if (end == size) return false;
    memcpy(text, data + *at, end - *at);
    text[end - *at] = '\0';
    if (strlen(text) != end - *at) strcpy(text, "\x01"); /* a NUL is never valid */
    *at = end + 2;
    return true;
}

static bool is_chunk_line(const char *line)
{
    size_t zeros = strspn(line, "0"), digits = strspn(line, HEX);
    const char *rest = line + digits;
    if (digits == 0 || digits - zeros > 15) return false;
    return !*rest || (rest[strspn(rest, " \t")] == ';' && is_text(rest));
}

static void read_chunks(const uint8_t *data, size_t size, message *m)
{
    static char line[MOST + 1];
    size_t at = m->head;
    m->body_valid = true;
    for (;;) {
        if (!take_line(data, size, &at, line)) return;
        m->body_valid = is_chunk_line(line);
        if (!m->body_valid) return;
        uint64_t chunk = strtoull(line, NULL, 16);
        if (chunk == 0) break;
        if (size - at < 2 || chunk > size - at - 2) return;
        at += chunk;
        m->body += chunk;
        m->body_valid = memcmp(data + at, "\r\n", 2) == 0;
        if (!m->body_valid) return;
        at += 2;
    }
    while (m->body_valid && take_line(data, size, &at, line)) {
        if (!line[0]) {
            m->body_complete = true;
            m->all = at;
            return;
        }
        m->body_valid = is_field(line);
    }
}

/* --- the server's way --- */

static size_t piece_of(const uint8_t *data, size_t size, size_t at)
{
    return (size_t)(data[size - 1 - at % size] % 7) + 1;
}

/* Reads the chunks from pieces; returns the result of the last one. */
static weft_http_result serve_chunks(const uint8_t *data, size_t size, size_t head, size_t *body,
                                     size_t *all)
{
    weft_http_chunks chunks = {0};
    weft_http_fault fault = {0};
    weft_http_result result = WEFT_HTTP_MORE;
    size_t at = head, used, piece;
    *body = 0;
    while (at < size && result != WEFT_HTTP_END && result != WEFT_HTTP_FAULTY) {
        size_t room = WEFT_MIN(piece_of(data, size, at), size - at);
        result =
            weft_http_chunks_read(&chunks, (const char *)data + at, room, &used, &piece, &fault);
        if (used > room || piece > used) abort();
        at += used;
        *body += piece;
    }
    if ((result == WEFT_HTTP_FAULTY) != (fault.code != 0)) abort();
    *all = at;
    return result;
}

static void check_body(const uint8_t *data, size_t size, const message *m)
{
    size_t body, all;
    if (!m->chunked) return;
    weft_http_result result = serve_chunks(data, size, m->head, &body, &all);
    if (m->body_complete && (result != WEFT_HTTP_END || body != m->body || all != m->all)) abort();
    if (!m->body_valid && result != WEFT_HTTP_FAULTY) abort();
    if (result == WEFT_HTTP_END && !m->body_complete) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char copy[MOST];
    static weft_http_head head;
    message m = {.valid = false};
    weft_http_scan scan = {0};
    weft_http_fault fault = {0};
    size_t end = 0, seen = 0;
    if (size == 0 || size > MOST) return 0;
    read_head(data, size, &m);
    while (end == 0 && fault.code == 0 && seen < size) {
        seen += WEFT_MIN(piece_of(data, size, seen), size - seen);
        end = weft_http_head_end((const char *)data, seen, &scan, &fault);
    }
    if (end > 0 && fault.code) abort();
    if (m.complete ? end == 0 && !fault.code : end > 0) abort();
    if (end > 0 && end != m.head) abort();
    if (end > 0) {
        memcpy(copy, data, end);
        if (weft_http_head_parse(copy, end, &head, &fault) != (fault.code == 0)) abort();
    }
    if (m.complete && m.valid != (fault.code == 0)) abort();
    if (fault.code && (fault.code < 400 || !fault.sentence)) abort();
    if (!m.valid) return 0;
    if (m.chunked) read_chunks(data, size, &m);
    if (head.chunked != m.chunked || (uint64_t)head.length != m.length) abort();
    check_body(data, size, &m);
    return 0;
}
