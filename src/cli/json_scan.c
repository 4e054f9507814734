#include "json_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_DEPTH = 64 };

/* Reads up to `room` bytes; returns their number, or below 0. */
static ssize_t read_all(int file, char *out, size_t room)
{
    size_t done = 0;
    while (done < room) {
        ssize_t count = read(file, out + done, room - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        if (count == 0) break;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

bool json_read_file(const char *path, char **text, size_t *size)
{
    struct stat info;
    bool special = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    int file = special ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *text = NULL;
    if (special) {
        fprintf(stderr, "weft: %s: is not a regular file; give the path of a file\n", path);
        return false;
    }
    if (file >= 0 && fstat(file, &info) == 0) *text = malloc((size_t)info.st_size + 1);
    ssize_t count = *text ? read_all(file, *text, (size_t)info.st_size) : -1;
    if (count < 0) {
        fprintf(stderr, "weft: %s: cannot read it: %s; check the path\n", path, strerror(errno));
        free(*text);
    } else {
        (*text)[count] = '\0';
        *size = (size_t)count;
    }
    if (file >= 0) close(file);
    return count >= 0;
}

static char peek(json_scan *s)
{
    while (s->at < s->end && *s->at && strchr(" \t\r\n", *s->at)) s->at++;
    return s->at < s->end && !s->wrong ? *s->at : '\0';
}

static bool take(json_scan *s, char c)
{
    if (peek(s) != c) {
        s->wrong = true;
        return false;
    }
    s->at++;
    return true;
}

void json_enter(json_scan *s, char open)
{
    if (take(s, open)) s->first = true;
}

/* Whether another entry follows before the closing bracket, which is taken. */
static bool another(json_scan *s, char close)
{
    bool first = s->first;
    s->first = false;
    if (peek(s) == close) {
        s->at++;
        return false;
    }
    return first ? !s->wrong && s->at < s->end : take(s, ',');
}

bool json_member(json_scan *s, char *key, size_t size)
{
    if (!another(s, '}')) return false;
    if (peek(s) != '"') s->wrong = true;
    json_take_text(s, key, size);
    return take(s, ':');
}

bool json_element(json_scan *s)
{
    return another(s, ']');
}

double json_take_number(json_scan *s)
{
    char text[40], *rest;
    size_t size = 0;
    char c = peek(s);
    if (c != '-' && (c < '0' || c > '9')) {
        json_skip(s);
        return NAN;
    }
    while (s->at + size < s->end && s->at[size] && strchr("0123456789+-.eE", s->at[size])) size++;
    if (size >= sizeof(text)) {
        s->wrong = true;
        return NAN;
    }
    memcpy(text, s->at, size);
    text[size] = '\0';
    double number = strtod(text, &rest);
    s->wrong = *rest != '\0';
    s->at += size;
    return number;
}

static char unescaped(char c)
{
    static const char from[] = "nrtbf", to[] = "\n\r\t\b\f";
    const char *at = strchr(from, c);
    return at ? to[at - from] : c;
}

void json_take_text(json_scan *s, char *out, size_t size)
{
    size_t used = 0;
    *out = '\0';
    if (peek(s) != '"') {
        json_skip(s);
        return;
    }
    for (s->at++; s->at < s->end && *s->at != '"'; s->at++) {
        char c = *s->at;
        if (c == '\\') {
            if (++s->at == s->end) break;
            c = *s->at == 'u' ? '?' : unescaped(*s->at);
            if (*s->at == 'u') s->at += s->end - s->at > 4 ? 4 : s->end - s->at - 1;
        }
        if (used + 1 < size) out[used++] = c;
    }
    out[used] = '\0';
    if (s->at < s->end)
        s->at++;
    else
        s->wrong = true;
}

static void skip_word(json_scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        size_t size = strlen(words[i]);
        if ((size_t)(s->end - s->at) < size || strncmp(s->at, words[i], size) != 0) continue;
        s->at += size;
        return;
    }
    s->wrong = true;
}

static void skip_nested(json_scan *s, int depth)
{
    char c = peek(s), none[2];
    if (depth > MOST_DEPTH) s->wrong = true;
    if (s->wrong) return;
    if (c == '{') {
        json_enter(s, '{');
        while (json_member(s, none, sizeof(none))) skip_nested(s, depth + 1);
    } else if (c == '[') {
        json_enter(s, '[');
        while (json_element(s)) skip_nested(s, depth + 1);
    } else if (c == '"') {
        json_take_text(s, none, sizeof(none));
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        (void)json_take_number(s);
    } else {
        skip_word(s);
    }
}

void json_skip(json_scan *s)
{
    skip_nested(s, 0);
}

bool json_ended(json_scan *s)
{
    return peek(s) == '\0' && s->at == s->end && !s->wrong;
}
