/* The head of a request: finds its end, and parses the request line and the fields (RFC 9112,
 * sections 2 to 5). */
#include <strings.h>

#include "serve/http/http.h"

static bool refuse(weft_http_fault *fault, unsigned code, const char *sentence)
{
    *fault = (weft_http_fault){.code = code, .sentence = sentence};
    return false;
}

/* --- the end of the head --- */

/* Goes behind the line end at scan->at. Returns the bytes of the head if the line is the empty one
 * at its end, else 0. */
static size_t end_line(weft_http_scan *scan, weft_http_fault *fault)
{
    size_t begin = scan->line, end = scan->at;
    bool first = begin == scan->blank;
    scan->at = scan->line = end + 2;
    if (end > begin) return 0;
    if (!first) return scan->at;
    /* Some clients send an empty line behind a body (section 2.2). */
    if (scan->blank == 0)
        scan->blank = 2;
    else
        refuse(fault, 400, "the request begins with more than one empty line");
    return 0;
}

static bool is_allowed(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

size_t weft_http_head_end(const char *data, size_t size, weft_http_scan *scan,
                          weft_http_fault *fault)
{
    while (scan->at < size) {
        unsigned char c = (unsigned char)data[scan->at];
        if (c == '\r') {
            if (scan->at + 1 == size) return 0;
            if (data[scan->at + 1] != '\n') {
                refuse(fault, 400, "a carriage return (CR) in the head has no line feed behind it");
                return 0;
            }
            size_t end = end_line(scan, fault);
            if (end > 0 || fault->code) return end;
            continue;
        }
        if (c == '\n')
            refuse(fault, 400, "a line of the head ends with LF alone; it must end with CR LF");
        else if (!is_allowed(c))
            refuse(fault, 400, "the head has a control character");
        else if (scan->at == scan->line && (c == ' ' || c == '\t'))
            refuse(fault, 400,
                   "a line of the head begins with a space; a field must be on one line");
        if (fault->code) return 0;
        scan->at++;
    }
    return 0;
}

/* --- the request line --- */

bool weft_http_is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c));
}

bool weft_http_is_token_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!weft_http_is_token((unsigned char)text[i])) return false;
    return size > 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Whether the text has only letters, digits, these marks, and, if they are allowed, pairs of digits
 * behind %. */
static bool has_only(const char *text, size_t size, const char *marks, bool escapes)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (escapes && c == '%') {
            if (size - i < 3 || !is_hex(text[i + 1]) || !is_hex(text[i + 2])) return false;
            i += 2;
        } else if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
                   (c == '\0' || !strchr(marks, c))) {
            return false;
        }
    }
    return true;
}

bool weft_http_is_host(const char *text, size_t size)
{
    size_t name = size, digits = size;
    while (digits > 0 && is_digit(text[digits - 1])) digits--;
    if (digits > 0 && text[digits - 1] == ':') name = digits - 1;
    if (size > 0 && text[0] == '[')
        return name > 2 && text[name - 1] == ']' &&
               has_only(text + 1, name - 2, "-._~!$&'()*+,;=:", false);
    return has_only(text, name, "-._~!$&'()*+,;=", true) && (name > 0 || size == 0);
}

/* Splits the target into path and query. */
static bool parse_target(char *target, weft_http_head *head, weft_http_fault *fault)
{
    static const char marks[] = "-._~!$&'()*+,;=:@/?";
    static char root[] = "/";
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    if (strcmp(head->method, "CONNECT") == 0)
        return refuse(fault, 501, "this server is no proxy and opens no tunnels (CONNECT)");
    if (strcmp(target, "*") == 0) {
        head->path = target;
        return strcmp(head->method, "OPTIONS") == 0 ||
               refuse(fault, 400, "the target * is for OPTIONS alone");
    }
    if (!has_only(target, strlen(target), scheme > 0 ? "-._~!$&'()*+,;=:@/?[]" : marks, true))
        return refuse(fault, 400,
                      "the target has a character that must be written as %XX, or a % without two "
                      "hexadecimal digits");
    head->path = target;
    if (scheme > 0) {
        /* The absolute form, which every server must accept (section 3.2.2): the host of the target
         * replaces that of the Host field. */
        size_t host = strcspn(target + scheme, "/?");
        if (host == 0 || !weft_http_is_host(target + scheme, host))
            return refuse(fault, 400, "the target has no valid host");
        head->path = target + scheme + host;
        if (!has_only(head->path, strlen(head->path), marks, true))
            return refuse(fault, 400, "the target has a character that must be written as %XX");
    } else if (target[0] != '/') {
        return refuse(fault, 400,
                      "the target must begin with a slash, or with http:// or https://");
    }
    char *query = strchr(head->path, '?');
    if (query) *query = '\0';
    head->query = query ? query + 1 : NULL;
    if (!*head->path) head->path = root;
    return true;
}

static bool parse_version(const char *text, weft_http_head *head, weft_http_fault *fault)
{
    if (strlen(text) != 8 || strncmp(text, "HTTP/", 5) != 0 || !is_digit(text[5]) ||
        text[6] != '.' || !is_digit(text[7]))
        return refuse(fault, 400, "the request line must be METHOD TARGET HTTP/1.1");
    if (text[5] != '1') return refuse(fault, 505, "this server speaks HTTP/1.0 and HTTP/1.1 alone");
    head->minor = text[7] == '0' ? 0 : 1;
    return true;
}

/* Parses the request line, whose end is a NUL. */
static bool parse_request_line(char *line, weft_http_head *head, weft_http_fault *fault)
{
    char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;
    if (!version || target == line || version == target + 1 || strchr(version + 1, ' ') ||
        !weft_http_is_token_text(line, (size_t)(target - line)))
        return refuse(fault, 400, "the request line must be METHOD TARGET HTTP/1.1");
    *target++ = '\0';
    *version++ = '\0';
    head->method = line;
    return parse_version(version, head, fault) && parse_target(target, head, fault);
}

/* --- fields --- */

/* Parses a field, whose end is a NUL. */
static bool parse_field(char *line, weft_http_head *head, weft_http_fault *fault)
{
    char *colon = strchr(line, ':');
    if (!colon) return refuse(fault, 400, "a line of the head has no colon");
    if (!weft_http_is_token_text(line, (size_t)(colon - line)))
        return refuse(fault, 400,
                      "the name of a field must be a word without spaces, directly before its "
                      "colon");
    if (head->count == WEFT_HTTP_FIELDS) return refuse(fault, 431, "the head has too many fields");
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) end--;
    *end = '\0';
    head->fields[head->count++] = (weft_http_field){.name = line, .value = value};
    return true;
}

bool weft_http_head_parse(char *data, size_t size, weft_http_head *head, weft_http_fault *fault)
{
    char *line = data, *end = data + size - 2; /* without the empty line */
    head->method = head->query = NULL;
    head->path = NULL;
    head->count = 0;
    if (line[0] == '\r') line += 2;
    for (bool first = true; line < end; first = false) {
        char *stop = memchr(line, '\r', (size_t)(end - line));
        *stop = '\0';
        if (first ? !parse_request_line(line, head, fault) : !parse_field(line, head, fault))
            return false;
        line = stop + 2;
    }
    return weft_http_head_frame(head, fault);
}
