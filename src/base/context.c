#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/context.h"

weft_status weft_context_new(const weft_services *services, weft_context **out)
{
    weft_context *context;
    WEFT_TRY(WEFT_NEW(&context, 1));
    context->of = context;
    context->services = services;
    context->threads = weft_default_threads(1, NULL);
    pthread_mutex_init(&context->lock, NULL);
    pthread_mutex_init(&context->registry_lock, NULL);
    pthread_mutex_init(&context->singletons_lock, NULL);
    *out = context;
    return WEFT_OK;
}

weft_status weft_context_with_threads(weft_context *of, int threads, weft_context **out)
{
    weft_context *context;
    WEFT_TRY(WEFT_NEW(&context, 1));
    context->of = of->of;
    weft_status status = weft_context_set_threads(context, threads);
    if (status == WEFT_OK)
        *out = context;
    else
        free(context);
    return status;
}

static weft_status get_or_make(weft_context *context, const weft_singleton_kind *kind, void **out)
{
    weft_singleton *k;
    for (k = context->singletons; k && k->kind != kind;) k = k->next;
    if (!k) {
        WEFT_TRY(WEFT_NEW(&k, 1));
        weft_status status = kind->make(context, &k->thing);
        if (status != WEFT_OK) {
            free(k);
            return status;
        }
        k->kind = kind;
        k->next = context->singletons;
        context->singletons = k;
    }
    *out = k->thing;
    return WEFT_OK;
}

weft_status weft_context_singleton(const weft_context *context, const weft_singleton_kind *kind,
                                   void **out)
{
    pthread_mutex_lock(&context->of->singletons_lock);
    weft_status status = get_or_make(context->of, kind, out);
    pthread_mutex_unlock(&context->of->singletons_lock);
    return status;
}

static void destroy_singletons(weft_context *context)
{
    for (weft_singleton *next, *k = context->singletons; k; k = next) {
        next = k->next;
        if (k->kind->destroy) k->kind->destroy(k->thing);
        free(k);
    }
}

void weft_context_destroy(weft_context **context)
{
    if (!context || !*context) return;
    weft_context *c = *context;
    if (c->of == c) {
        destroy_singletons(c);
        weft_registry_free(c);
        weft_plugins_unload(c);
        free(c->absent);
        pthread_mutex_destroy(&c->registry_lock);
        pthread_mutex_destroy(&c->lock);
        pthread_mutex_destroy(&c->singletons_lock);
        free(c->warned);
    }
    free(c);
    *context = NULL;
}

void weft_context_set_log(weft_context *context, weft_log_fn fn, void *user)
{
    WEFT_NEED_VOID(context);
    context->of->log = fn;
    context->of->log_user = user;
}

weft_status weft_context_set_threads(weft_context *context, int threads)
{
    WEFT_NEED(context);
    if (threads < 0 || threads > 1024)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "threads is %d, must be from 1 to 1024 (0: one for each core)", threads);
    context->threads = threads ? threads : weft_default_threads(1, NULL);
    return WEFT_OK;
}

int weft_context_threads(const weft_context *context)
{
    WEFT_NEED_ELSE(0, context);
    return context->threads;
}

/* Whether a warning or note is logged for the first time. The ranks of a process and their programs
 * repeat messages, so a hash of each logged one is kept. */
static bool is_news(weft_context *context, const char *line)
{
    uint64_t hash = weft_hash_text(line);
    for (size_t i = 0; i < context->warned_count; i++)
        if (context->warned[i] == hash) return false;
    if (WEFT_GROW(&context->warned, &context->warned_capacity, context->warned_count) == WEFT_OK)
        context->warned[context->warned_count++] = hash;
    return true;
}

void weft_log(const weft_context *context, weft_log_level level, const char *format, ...)
{
    if (!context || !context->of->log) return;
    char text[1024], line[1024];
    weft_context *of = context->of;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)weft_printable(text, line, sizeof(line));
    pthread_mutex_lock(&of->lock);
    if ((level != WEFT_LOG_WARNING && level != WEFT_LOG_NOTE) || is_news(of, line))
        of->log(of->log_user, level, line);
    pthread_mutex_unlock(&of->lock);
}

double weft_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double weft_wait_clock_read(weft_wait_clock *clock, double most)
{
    double now = weft_seconds();
    if (clock->looked > 0) clock->waited += WEFT_MIN(now - clock->looked, most);
    clock->looked = now;
    return clock->waited;
}
