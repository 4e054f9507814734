/* The access log. The loop appends lines to a buffer, and a thread writes the buffer to the file,
 * so a slow or full disk delays no request. The thread finishes one buffer before the next one, so
 * lines are neither cut nor mixed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "serve/front/access_control.h"

/* Bytes of the buffer, of a line, and of a path in it. Seconds for which the thread gathers lines
 * before a write, for which it waits after an error, and that closing may take. */
enum { ROOM = 1 << 20, MOST_LINE = 4096, MOST_PATH = 1024 };
_Static_assert(MOST_LINE <= PIPE_BUF, "a line fits into a piece");
static const double GATHER_SECONDS = 0.05, RETRY_SECONDS = 1, CLOSE_SECONDS = 1;

struct weft_access_log {
    weft_context *context;
    char *name;
    int file;
    bool regular, started, error_logged; /* told: the thread has logged a write error */
    char *writing;                       /* buffer that the thread is writing; owned by it */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    char *lines; /* buffer for new lines; from here on guarded by the lock */
    size_t used;
    int64_t lost;
    bool reopens; /* the file is to be opened again */
    double until; /* time at which closing gives up; 0: not closing yet */
};

void weft_block_sigpipe(void)
{
    sigset_t broken;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken, NULL);
}

/* --- a line --- */

static void put(char *line, size_t *n, const char *text)
{
    *n = (size_t)(stpcpy(line + *n, text) - line);
}

/* Writes a JSON string. The bytes of the text may be any: a byte that is not ASCII is written as
 * the Latin-1 character \u00XX. */
static void put_string(char *line, size_t *n, const char *text)
{
    char escaped[8];
    put(line, n, "\"");
    for (int i = 0; text[i] && i < MOST_PATH && *n < MOST_LINE - 512; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7f)
            (void)snprintf(escaped, sizeof(escaped), "\\u%04x", c);
        else
            (void)snprintf(escaped, sizeof(escaped), c == '"' || c == '\\' ? "\\%c" : "%c", c);
        put(line, n, escaped);
    }
    put(line, n, "\"");
}

static void put_time(char *line, size_t *n)
{
    struct timespec now;
    struct tm parts;
    char text[64];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t size = strftime(text, sizeof(text), "{\"time\":\"%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + size, sizeof(text) - size,
                   ".%03ldZ\",\"client\":", now.tv_nsec / 1000000);
    put(line, n, text);
}

static size_t write_line(const weft_access_entry *a, char *line)
{
    char text[128];
    size_t n = 0;
    put_time(line, &n);
    put_string(line, &n, a->client);
    put(line, &n, ",\"method\":");
    put_string(line, &n, a->method);
    put(line, &n, ",\"path\":");
    put_string(line, &n, a->path);
    (void)snprintf(text, sizeof(text), ",\"status\":%u,\"bytes\":%zu,\"seconds\":%.6f", a->code,
                   a->bytes, a->seconds);
    put(line, &n, text);
    if (a->id && *a->id) {
        put(line, &n, ",\"id\":");
        put_string(line, &n, a->id);
    }
    if (a->model) {
        put(line, &n, ",\"model\":");
        put_string(line, &n, a->model);
    }
    put(line, &n, "}\n");
    return n;
}

void weft_access_log_add(weft_access_log *log, const weft_access_entry *entry)
{
    weft_access_log *x = log;
    char line[MOST_LINE];
    size_t n = write_line(entry, line);
    pthread_mutex_lock(&x->lock);
    if (x->used + n > ROOM) {
        x->lost++;
    } else {
        memcpy(x->lines + x->used, line, n);
        if (x->used == 0) pthread_cond_signal(&x->change);
        x->used += n;
    }
    pthread_mutex_unlock(&x->lock);
}

/* --- the thread --- */

static bool is_over(weft_access_log *x)
{
    pthread_mutex_lock(&x->lock);
    bool over = x->until > 0 && weft_seconds() >= x->until;
    pthread_mutex_unlock(&x->lock);
    return over;
}

/* Writes the beginning of the data; returns the number of bytes. 0: the file takes nothing now;
 * below 0: errno has the error. A pipe gets at most PIPE_BUF bytes at a time, which a pipe that
 * polls as writable takes without blocking, and whole lines, since the kernel does not mix such
 * pieces with those of other processes. */
static ssize_t write_some(const weft_access_log *x, const char *data, size_t size)
{
    struct pollfd pipe = {.fd = x->file, .events = POLLOUT};
    if (x->regular) return write(x->file, data, size);
    if (poll(&pipe, 1, 100) <= 0) return 0;
    size = WEFT_MIN(size, PIPE_BUF);
    while (data[size - 1] != '\n') size--;
    return write(x->file, data, size);
}

/* Waits so many seconds, or until a signal of `change`; the caller holds the lock. */
static void rest(weft_access_log *x, double seconds)
{
    double when = weft_seconds() + seconds;
    struct timespec at = {.tv_sec = (time_t)when,
                          .tv_nsec = (long)((when - (double)(time_t)when) * 1e9)};
    pthread_cond_timedwait(&x->change, &x->lock, &at);
}

static int open_log(const char *path)
{
    if (strcmp(path, "-") == 0) return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640);
}

static void use(weft_access_log *x, int file)
{
    struct stat info;
    x->file = file;
    x->regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
}

static void reopen(weft_access_log *x)
{
    int file = open_log(x->name);
    if (file < 0) {
        weft_log(x->context, WEFT_LOG_WARNING,
                 "cannot open the request log %s again: %s; the file of before stays in use",
                 x->name, strerror(errno));
        return;
    }
    (void)close(x->file);
    use(x, file);
    x->error_logged = false;
}

static void write_all(weft_access_log *x, size_t size)
{
    for (size_t at = 0; at < size && !is_over(x);) {
        ssize_t n = write_some(x, x->writing + at, size - at);
        if (n > 0) at += (size_t)n;
        if (n >= 0 || errno == EINTR || errno == EAGAIN) continue;
        if (!x->error_logged)
            weft_log(x->context, WEFT_LOG_ERROR,
                     "cannot write the request log to %s: %s; the server tries again, and leaves "
                     "out requests that the buffer cannot hold",
                     x->name, strerror(errno));
        x->error_logged = true;
        pthread_mutex_lock(&x->lock);
        if (x->until == 0) rest(x, RETRY_SECONDS);
        bool ends = x->until > 0, again = x->reopens;
        x->reopens = false;
        pthread_mutex_unlock(&x->lock);
        if (ends) return;
        if (again) reopen(x);
    }
}

static void *write_lines(void *user)
{
    weft_access_log *x = user;
    weft_block_sigpipe();
    pthread_mutex_lock(&x->lock);
    while (x->until == 0 || x->used > 0) {
        if (x->used == 0 && !x->reopens) {
            pthread_cond_wait(&x->change, &x->lock);
            continue;
        }
        if (x->until == 0 && !x->reopens) rest(x, GATHER_SECONDS);
        bool again = x->reopens;
        x->reopens = false;
        char *lines = x->lines;
        size_t size = x->used;
        x->lines = x->writing;
        x->writing = lines;
        x->used = 0;
        pthread_mutex_unlock(&x->lock);
        write_all(x, size);
        if (again) reopen(x);
        pthread_mutex_lock(&x->lock);
        if (x->until > 0 && weft_seconds() >= x->until) break;
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* --- creation and shutdown --- */

static weft_status begin(weft_access_log *x, const char *path)
{
    WEFT_TRY(weft_strdup(path, &x->name));
    WEFT_TRY(WEFT_NEW(&x->lines, ROOM));
    WEFT_TRY(WEFT_NEW(&x->writing, ROOM));
    int file = open_log(path);
    if (file < 0) return weft_fail_io("open", path);
    use(x, file);
    WEFT_TRY(weft_thread_start(&x->thread, write_lines, x));
    x->started = true;
    return WEFT_OK;
}

weft_status weft_access_log_open(weft_context *context, const char *path, weft_access_log **out)
{
    pthread_condattr_t monotonic;
    WEFT_TRY(WEFT_NEW(out, 1));
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    (*out)->context = context;
    (*out)->file = -1;
    weft_status status = begin(*out, path);
    if (status != WEFT_OK) weft_access_log_close(out);
    return status;
}

void weft_access_log_reopen(weft_access_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->reopens = true;
    pthread_cond_signal(&log->change);
    pthread_mutex_unlock(&log->lock);
}

void weft_access_log_close(weft_access_log **log)
{
    weft_access_log *x = *log;
    if (!x) return;
    pthread_mutex_lock(&x->lock);
    x->until = weft_seconds() + CLOSE_SECONDS;
    pthread_cond_broadcast(&x->change);
    pthread_mutex_unlock(&x->lock);
    if (x->started) pthread_join(x->thread, NULL);
    if (x->lost > 0)
        weft_log(x->context, WEFT_LOG_WARNING,
                 "%lld requests are not in the log %s, which could not be written fast enough",
                 (long long)x->lost, x->name);
    if (x->file >= 0) (void)close(x->file);
    pthread_cond_destroy(&x->change);
    pthread_mutex_destroy(&x->lock);
    free(x->lines);
    free(x->writing);
    free(x->name);
    free(x);
    *log = NULL;
}
