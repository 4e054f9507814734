/* Reads the certificate, its key and the tokens again when their files have changed, so that they
 * can be renewed while the server runs. A thread of its own looks and reads: a file system may not
 * answer for a while, and the event loop waits for none. */
#include <sys/stat.h>
#include <time.h>

#include "serve/front/server_internal.h"
#include "serve/servable.h"

static const double LOOK_SECONDS = 1;

/* A hash that changes when a file is written, replaced, removed or gets other permissions. */
static uint64_t state_of(const weft_watched_files *files)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < WEFT_COUNT(files->paths); i++) {
        struct stat info;
        if (!files->paths[i] || stat(files->paths[i], &info) != 0) continue;
        hash = weft_mix(hash, (uint64_t)info.st_dev);
        hash = weft_mix(hash, (uint64_t)info.st_ino);
        hash = weft_mix(hash, (uint64_t)info.st_size);
        hash = weft_mix(hash, (uint64_t)info.st_ctim.tv_sec);
        hash = weft_mix(hash, (uint64_t)info.st_ctim.tv_nsec);
    }
    return hash;
}

weft_status weft_watched_files_set(weft_watched_files *files, const char *first, const char *second)
{
    if (first) WEFT_TRY(weft_strdup(first, &files->paths[0]));
    if (second) WEFT_TRY(weft_strdup(second, &files->paths[1]));
    files->read = files->seen = state_of(files);
    return WEFT_OK;
}

void weft_watched_files_free(weft_watched_files *files)
{
    for (size_t i = 0; i < WEFT_COUNT(files->paths); i++) free(files->paths[i]);
    *files = (weft_watched_files){0};
}

/* Whether the files differ from what was read last, and have been the same at two looks, so that
 * nobody is writing them, or are asked for. A state that is not valid is read once only. */
static bool is_due(weft_watched_files *files, bool asked)
{
    if (!files->paths[0]) return false;
    uint64_t now = state_of(files);
    bool due = (asked || now == files->seen) && now != files->read;
    files->seen = now;
    if (due) files->read = now;
    return due;
}

static void report(const weft_server *s, weft_status status, const weft_watched_files *files,
                   const char *what)
{
    weft_context *context = weft_service_context(s->service);
    if (status == WEFT_OK)
        weft_log(context, WEFT_LOG_NOTE, "%s has changed and was read again", files->paths[0]);
    else
        weft_log(context, WEFT_LOG_WARNING, "%s; the %s of before stay in use", weft_last_message(),
                 what);
}

static void reload_if_changed(weft_server *s, bool asked)
{
    if (is_due(&s->tls_files, asked))
        report(s, weft_tls_read(s->credentials, s->tls_files.paths[0], s->tls_files.paths[1]),
               &s->tls_files, "certificate and key");
    if (!is_due(&s->token_file, asked)) return;
    weft_tokens *tokens = NULL;
    weft_status status = weft_tokens_read(s->token_file.paths[0], &tokens);
    report(s, status, &s->token_file, "tokens");
    if (status != WEFT_OK) return;
    tokens = __atomic_exchange_n(&s->new_tokens, tokens, __ATOMIC_ACQ_REL);
    weft_tokens_free(&tokens); /* the loop has not taken them yet */
}

static void scan_models(weft_server *s)
{
    weft_context *context = weft_service_context(s->service);
    if (weft_service_has_folder(s->service) && weft_service_poll_models(s->service) != WEFT_OK)
        weft_log(context, WEFT_LOG_WARNING, "%s", weft_last_message());
}

static void *watch_files(void *user)
{
    weft_server *s = user;
    double next = weft_seconds() + LOOK_SECONDS;
    pthread_mutex_lock(&s->lock);
    while (!s->watch_ending) {
        struct timespec at = {.tv_sec = (time_t)next,
                              .tv_nsec = (long)((next - (double)(time_t)next) * 1e9)};
        bool asked = s->look_now;
        s->look_now = false;
        if (weft_seconds() < next && !asked) {
            pthread_cond_timedwait(&s->watch_wake, &s->lock, &at);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        reload_if_changed(s, asked);
        if (asked) scan_models(s);
        next = weft_seconds() + LOOK_SECONDS;
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

weft_status weft_server_watch_start(weft_server *s)
{
    WEFT_TRY(weft_thread_start(&s->watcher, watch_files, s));
    s->watching = true;
    return WEFT_OK;
}

void weft_server_look_now(weft_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->look_now = true;
    pthread_cond_broadcast(&s->watch_wake);
    pthread_mutex_unlock(&s->lock);
}

void weft_server_watch_end(weft_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->watch_ending = true;
    pthread_cond_broadcast(&s->watch_wake);
    pthread_mutex_unlock(&s->lock);
    if (s->watching) pthread_join(s->watcher, NULL);
    weft_tokens_free(&s->new_tokens);
    weft_watched_files_free(&s->tls_files);
    weft_watched_files_free(&s->token_file);
}

void weft_server_take_tokens(weft_server *s)
{
    if (!__atomic_load_n(&s->new_tokens, __ATOMIC_RELAXED)) return;
    weft_tokens_free(&s->tokens);
    s->tokens = __atomic_exchange_n(&s->new_tokens, NULL, __ATOMIC_ACQ_REL);
}
