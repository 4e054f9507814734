/* Parses the URL of a target, "http[s]://HOST[:PORT]/v2/models/NAME", and resolves its host. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>

#include "load/http_client.h"

static const char HOW[] = "give http://HOST:PORT/v2/models/NAME";

/* Splits HOST or [HOST], either with or without :PORT, into host and port. */
static weft_status cut_authority(const char *url, const char *text, size_t size, char *host,
                                 char *port)
{
    const char *end = text + size, *close = *text == '[' ? memchr(text, ']', size) : NULL;
    const char *begin = close ? text + 1 : text;
    const char *colon = memchr(close ? close : text, ':', (size_t)(end - (close ? close : text)));
    const char *last = close ? close : colon ? colon : end;
    int64_t number = 0;
    size_t length = (size_t)(last - begin);
    if (length == 0 || length > 255 || (close && close + 1 != (colon ? colon : end)))
        return weft_fail(WEFT_ERR_ARGUMENT, "target '%s': has no host; %s", url, HOW);
    if (memchr(text, '@', size))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "target '%s': names a user; give --token-file in its place", url);
    memcpy(host, begin, length);
    host[length] = '\0';
    if (!colon) return WEFT_OK;
    char digits[8] = "";
    size_t count = (size_t)(end - colon - 1);
    if (count > 0 && count < sizeof(digits)) memcpy(digits, colon + 1, count);
    if (!weft_parse_int(digits, &number) || number < 1 || number > 65535)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "target '%s': its port must be a number from 1 to 65535", url);
    (void)snprintf(port, 8, "%d", (int)number);
    return WEFT_OK;
}

/* Extracts "/v2/models/NAME[/versions/V]" from a path that may end in "/infer" or "/". */
static weft_status cut_path(const char *url, const char *path, bool any, char **out)
{
    static const char models[] = "/v2/models/";
    size_t size = strlen(path);
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "target '%s': has a character that a URL cannot have; write it as "
                             "%%20 and the like",
                             url);
    if (any && strncmp(path, models, strlen(models)) != 0 && size > 1)
        return weft_strdup(path, out);
    while (size > 0 && path[size - 1] == '/') size--;
    if (size > 6 && memcmp(path + size - 6, "/infer", 6) == 0) size -= 6;
    if (size == 0 || (size == 3 && memcmp(path, "/v2", 3) == 0)) return weft_strdup("", out);
    if (size <= strlen(models) || memcmp(path, models, strlen(models)) != 0 ||
        memchr(path, '?', size) || memchr(path, '#', size))
        return weft_fail(WEFT_ERR_ARGUMENT, "target '%s': names no model; %s", url, HOW);
    return weft_format(out, "%.*s", (int)size, path);
}

static weft_status find_addresses(const char *host, const char *port, weft_load_target *t)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int count = 0, code = getaddrinfo(host, port, &hints, &all);
    if (code != 0)
        return weft_fail(WEFT_ERR_PEER, "target '%s': the host '%s' cannot be found: %s", t->url,
                         host, code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    for (struct addrinfo *a = all; a; a = a->ai_next) count++;
    weft_status status = WEFT_NEW(&t->addresses, count);
    if (status == WEFT_OK) status = WEFT_NEW(&t->sizes, count);
    for (struct addrinfo *a = all; a && status == WEFT_OK; a = a->ai_next) {
        if (a->ai_addrlen > sizeof(*t->addresses)) continue;
        memcpy(&t->addresses[t->count], a->ai_addr, a->ai_addrlen);
        t->sizes[t->count++] = a->ai_addrlen;
    }
    freeaddrinfo(all);
    return status;
}

static weft_status open_target(const char *url, bool any, weft_load_target *t)
{
    char host[256], port[8] = "80";
    const char *at = strstr(url, "://");
    WEFT_TRY(weft_strdup(url, &t->url));
    t->https = strncmp(url, "https://", 8) == 0;
    if (at && !t->https && strncmp(url, "http://", 7) != 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "target '%s': is no URL of http or https; %s", url,
                         HOW);
    if (t->https) (void)snprintf(port, sizeof(port), "443");
    const char *begin = at ? at + 3 : url;
    size_t size = strcspn(begin, "/?#");
    if (!at) (void)snprintf(port, sizeof(port), "8000"); /* the usual port of inference servers */
    WEFT_TRY(cut_authority(url, begin, size, host, port));
    WEFT_TRY(cut_path(url, begin + size, any, &t->path));
    WEFT_TRY(weft_strdup(host, &t->name));
    bool six = strchr(host, ':') != NULL;
    WEFT_TRY(weft_format(&t->host, "%s%s%s:%s", six ? "[" : "", host, six ? "]" : "", port));
    return find_addresses(host, port, t);
}

weft_status weft_load_target_open(const char *url, bool any, weft_load_target *out)
{
    *out = (weft_load_target){0};
    weft_status status = open_target(url, any, out);
    if (status != WEFT_OK) weft_load_target_close(out);
    return status;
}

void weft_load_target_close(weft_load_target *t)
{
    free(t->url);
    free(t->host);
    free(t->name);
    weft_load_trust_close(&t->trust);
    free(t->path);
    free(t->addresses);
    free(t->sizes);
    *t = (weft_load_target){0};
}

const char *weft_load_target_address(const weft_load_target *t, int address, char *buffer,
                                     size_t size)
{
    char host[128], port[16];
    if (getnameinfo((const struct sockaddr *)&t->addresses[address], t->sizes[address], host,
                    sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(buffer, size, "%s", t->host);
    else
        (void)snprintf(buffer, size, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return buffer;
}
