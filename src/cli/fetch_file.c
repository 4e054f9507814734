/* Fetches a file with libcurl, which is opened when it is needed. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch.h"

/* The numbers of options in libcurl's interface, which it keeps. */
enum {
    OPTION_URL = 10002,
    OPTION_WRITE_DATA = 10001,
    OPTION_ERROR_TEXT = 10010,
    OPTION_AGENT = 10018,
    OPTION_SLOW_BYTES = 19,
    OPTION_SLOW_SECONDS = 20,
    OPTION_FAIL = 45,
    OPTION_FOLLOW = 52,
    OPTION_REDIRECTIONS = 68,
    OPTION_CONNECT_SECONDS = 78,
    OPTION_NO_SIGNAL = 99,
    OPTION_WRITE = 20011,
    OPTION_RESUME = 30116,
    INFO_CODE = 0x200002,
    ERROR_HTTP = 22,
    ERROR_RANGE = 33,
    ERROR_TEXT = 256
};

typedef struct curl_library {
    void *(*begin)(void);
    int (*set)(void *handle, int option, ...);
    int (*perform)(void *handle);
    int (*get)(void *handle, int info, ...);
    void (*end)(void *handle);
} curl_library;

/* A transfer into a part of a file. */
typedef struct transfer {
    const curl_library *curl;
    const char *url;
    int file;
    int error; /* errno of a write that failed */
    long long bytes;
    char why[ERROR_TEXT];
} transfer;

static char *sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *sentence(const char *format, ...)
{
    va_list arguments;
    char *text = NULL;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    return text ? text : strdup("out of memory");
}

static char *open_curl(curl_library *curl)
{
    static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4"},
                             *const names[] = {"curl_easy_init", "curl_easy_setopt",
                                               "curl_easy_perform", "curl_easy_getinfo",
                                               "curl_easy_cleanup"};
    void **const functions[] = {(void **)&curl->begin, (void **)&curl->set, (void **)&curl->perform,
                                (void **)&curl->get, (void **)&curl->end};
    void *opened = dlopen(files[0], RTLD_NOW | RTLD_LOCAL);
    if (!opened) opened = dlopen(files[1], RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return sentence("fetching needs libcurl.so.4, which is not installed (Debian: libcurl4); "
                        "install it, or bring the file by other means");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!(*functions[i] = dlsym(opened, names[i])))
            return sentence("libcurl has no function %s", names[i]);
    return NULL;
}

static size_t take(const char *data, size_t size, size_t count, void *user)
{
    transfer *t = user;
    for (size_t done = 0; done < size * count;) {
        ssize_t n = write(t->file, data + done, size * count - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            t->error = errno;
            return 0;
        }
        done += (size_t)n;
        t->bytes += n;
    }
    return size * count;
}

/* Runs one request for what is behind the first `from` bytes. Returns libcurl's error; *code: that
 * of HTTP. */
static int request(transfer *t, long long from, long *code)
{
    const curl_library *c = t->curl;
    void *handle = c->begin();
    *code = 0;
    t->why[0] = '\0';
    if (!handle) return -1;
    c->set(handle, OPTION_URL, t->url);
    c->set(handle, OPTION_AGENT, "weft");
    c->set(handle, OPTION_WRITE, take);
    c->set(handle, OPTION_WRITE_DATA, t);
    c->set(handle, OPTION_ERROR_TEXT, t->why);
    c->set(handle, OPTION_FAIL, 1L);
    c->set(handle, OPTION_FOLLOW, 1L);
    c->set(handle, OPTION_REDIRECTIONS, 8L);
    c->set(handle, OPTION_NO_SIGNAL, 1L);
    c->set(handle, OPTION_CONNECT_SECONDS, 30L);
    c->set(handle, OPTION_SLOW_BYTES, 1L);
    c->set(handle, OPTION_SLOW_SECONDS, 60L);
    c->set(handle, OPTION_RESUME, from);
    int error = c->perform(handle);
    c->get(handle, INFO_CODE, code);
    c->end(handle);
    return error;
}

/* The SHA-256 of a file; false with errno: it cannot be read. */
static bool sum_of(const char *path, char sum[SUM_TEXT + 1])
{
    unsigned char block[4096], digest[SUM_TEXT / 2] = {0};
    gnutls_hash_hd_t hash;
    ssize_t n = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) == 0) {
        while ((n = read(file, block, sizeof(block))) > 0)
            (void)gnutls_hash(hash, block, (size_t)n);
        gnutls_hash_deinit(hash, digest);
    } else {
        errno = ENOMEM;
    }
    int error = errno; /* of the read; close may set another one */
    close(file);
    errno = error;
    for (int i = 0; i < SUM_TEXT / 2; i++) (void)snprintf(sum + 2 * i, 3, "%02x", digest[i]);
    return n == 0;
}

char *find_sum(const char *path, const char *name, char sum[SUM_TEXT + 1])
{
    char line[512];
    FILE *file = fopen(path, "re");
    if (!file) return sentence("%s", strerror(errno));
    bool found = false;
    while (!found && fgets(line, sizeof(line), file)) {
        size_t size = strspn(line, "0123456789abcdef");
        char *rest = line + size + strspn(line + size, " *");
        rest[strcspn(rest, "\r\n")] = '\0';
        found = size == SUM_TEXT && strcmp(rest, name) == 0;
    }
    (void)fclose(file);
    if (found) (void)snprintf(sum, SUM_TEXT + 1, "%.*s", SUM_TEXT, line);
    return found ? NULL : sentence("has no line with the SHA-256 of %s", name);
}

/* Fetches the rest of the part, again while a broken connection has brought something. */
static char *fetch_rest(transfer *t)
{
    enum { TRIES = 5 };
    long code;
    for (int attempt = 1;; attempt++) {
        long long from = lseek(t->file, 0, SEEK_END), before = t->bytes;
        int error = request(t, from, &code);
        if (error == 0) return NULL;
        if (t->error) return sentence("cannot write its part: %s", strerror(t->error));
        /* The server has no ranges, or none behind the part: begin again. */
        bool anew = from > 0 && (error == ERROR_RANGE || (error == ERROR_HTTP && code == 416));
        if (anew && ftruncate(t->file, 0) == 0 && attempt < TRIES) continue;
        if (error == ERROR_HTTP)
            return sentence("the server answers %ld to %s; is the address right (--from)?", code,
                            t->url);
        if (attempt < TRIES && t->bytes > before) continue;
        const char *why = t->why[0] ? t->why : "the connection broke";
        long long kept = lseek(t->file, 0, SEEK_END);
        if (kept <= 0) return sentence("%s: %s", t->url, why);
        return sentence("%s: %s; weft fetch again goes on behind %lld bytes", t->url, why, kept);
    }
}

/* Puts the part in the place of the file if its sum is right, or else removes it. */
static char *finish(const char *part, const char *path, const char *sum, const char *url)
{
    char found[SUM_TEXT + 1];
    if (!sum_of(part, found)) return sentence("cannot read its part: %s", strerror(errno));
    if (strcmp(found, sum) == 0)
        return rename(part, path) == 0 ? NULL : sentence("cannot be named: %s", strerror(errno));
    (void)unlink(part);
    return sentence("%s has the SHA-256 %s, must have %s: it is another file, and was removed", url,
                    found, sum);
}

/* Opens the part and locks it until it is closed. The other fetch may have named it meanwhile. */
static char *open_part(const char *part, int *file)
{
    struct stat own, named;
    *file = open(part, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*file < 0) return sentence("cannot write its part: %s", strerror(errno));
    bool taken = flock(*file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!taken && fstat(*file, &own) == 0 && stat(part, &named) == 0 && own.st_ino == named.st_ino)
        return NULL;
    close(*file);
    *file = -1;
    return sentence("another weft fetch writes %s; fetch again when it has ended", part);
}

/* Fetches what the part lacks, and names it. *had: bytes that it has had. */
static char *fetch_part(transfer *t, const char *part, const char *path, const char *sum,
                        long long *had)
{
    char *wrong = open_part(part, &t->file);
    *had = 0;
    if (wrong) return wrong;
    *had = (long long)lseek(t->file, 0, SEEK_END);
    wrong = fetch_rest(t);
    if (!wrong) wrong = finish(part, path, sum, t->url);
    if (close(t->file) != 0 && !wrong) wrong = sentence("cannot write: %s", strerror(errno));
    return wrong;
}

char *fetch_file(const char *url, const char *path, const char *sum, long long *fetched)
{
    char found[SUM_TEXT + 1], *part = NULL;
    curl_library curl;
    transfer t = {.curl = &curl, .url = url};
    struct stat info;
    long long had = 0;
    *fetched = 0;
    if (stat(path, &info) == 0 && sum_of(path, found) && strcmp(found, sum) == 0) return NULL;
    char *wrong = open_curl(&curl);
    if (wrong) return wrong;
    if (asprintf(&part, "%s.part", path) < 0) return sentence("out of memory");
    /* A part that was there may be that of another file: then all of it is fetched. */
    do {
        free(wrong);
        wrong = fetch_part(&t, part, path, sum, &had);
    } while (wrong && had > 0 && stat(part, &info) != 0);
    *fetched = t.bytes;
    free(part);
    return wrong;
}
