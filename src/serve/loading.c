/* Loads and unloads versions of models while other versions serve requests. A loaded version
 * replaces the previous one in the table first; then the previous one answers its last requests and
 * is freed. */
#include <ctype.h>
#include <stdio.h>

#include "serve/generation.h"
#include "serve/service_internal.h"

/* --- entries; the caller holds the service's lock --- */

weft_model_entry *weft_model_entry_find(weft_service *s, const char *name, int64_t version)
{
    for (int i = 0; i < s->count; i++) {
        weft_model_entry *p = s->entries[i];
        if (strcmp(p->name, name) == 0 && p->numbered == (version > 0) &&
            (version == 0 || p->version == version))
            return p;
    }
    return NULL;
}

static bool is_name(const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size >= sizeof(((weft_service_item *)0)->name) || name[0] == '.') return false;
    for (const char *at = name; *at; at++)
        if (!isascii(*at) || (!isalnum(*at) && !strchr("-_.", *at))) return false;
    return true;
}

static weft_status check_name(const char *name)
{
    char shown[160];
    if (is_name(name)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "'%s' is no name of a model; take letters, digits, '-', '_' and '.' (not in "
                     "front), 1 to 127 of them",
                     weft_printable(name, shown, sizeof(shown)));
}

static void free_entry(weft_model_entry *p)
{
    free(p->name);
    free(p->path);
    free(p);
}

weft_status weft_model_entry_add(weft_service *s, const char *name, int64_t version,
                                 weft_model_entry **out)
{
    weft_model_entry *p;
    WEFT_TRY(check_name(name));
    WEFT_TRY(WEFT_GROW(&s->entries, &s->capacity, s->count));
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->version = version;
    p->numbered = version > 0;
    weft_status status = weft_strdup(name, &p->name);
    if (status != WEFT_OK) {
        free_entry(p);
        return status;
    }
    s->entries[s->count++] = *out = p;
    return WEFT_OK;
}

void weft_model_entry_remove(weft_service *s, weft_model_entry *entry)
{
    int i = 0;
    while (s->entries[i] != entry) i++;
    s->count--;
    memmove(&s->entries[i], &s->entries[i + 1], (size_t)(s->count - i) * sizeof(*s->entries));
    free_entry(entry);
}

static bool in_folder(weft_service *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (s->entries[i]->numbered && strcmp(s->entries[i]->name, name) == 0) return true;
    return false;
}

/* --- loading --- */

/* Creates the batch queue of a version's generation. A free executor takes all sequences whose next
 * position is due: waiting for more would delay those that are there. */
static weft_status add_generation_queue(weft_service *s, weft_servable *servable)
{
    weft_generation_engine *g = servable->generation;
    weft_batch_queue_options o;
    if (!g) return WEFT_OK;
    weft_batch_queue_options_init(&o);
    o.policy = "greedy";
    o.limit = 1 << (g->sizes - 1);
    o.max_waiting = g->most_active = s->options.waiting;
    o.share = weft_share_of(s->shares, servable->name);
    o.run = weft_generation_run;
    o.user = servable;
    return weft_batch_queue_add(s->batcher, &o, &g->queue);
}

/* Creates the batch queue of a version, with the batch times that are known for it. */
static weft_status add_queue(weft_service *s, weft_servable *servable)
{
    weft_batch_queue_options o;
    int64_t rows[WEFT_MOST_SIZES];
    double times[WEFT_MOST_SIZES];
    weft_batch_queue_options_init(&o);
    o.policy = s->policy;
    o.limit = servable->limit;
    o.max_waiting = s->options.waiting;
    o.share = weft_share_of(s->shares, servable->name);
    o.run = weft_servable_run;
    o.user = servable;
    for (int i = 0; i < servable->count; i++) {
        rows[i] = servable->sizes[i].rows;
        times[i] = servable->sizes[i].seconds;
    }
    o.curve_rows = rows;
    o.curve_times = times;
    o.curve_sizes = times[0] > 0 ? servable->count : 0;
    o.slowdown = servable->has_slowdown ? servable->slowdown : NULL;
    /* A thread that submits requests may compute a batch in the place of an executor only if the
     * batch is short and needs no other thread. */
    o.run_in_caller = weft_context_threads(servable->context) == 1 &&
                      servable->weights.ranks == 1 && times[0] > 0 && times[0] < 1e-3;
    WEFT_TRY(weft_batch_queue_add(s->batcher, &o, &servable->queue));
    return add_generation_queue(s, servable);
}

weft_status weft_model_entry_load(weft_service *s, weft_model_entry *entry, const char *path,
                                  int64_t version)
{
    weft_servable *servable = NULL, *before = NULL;
    weft_error error = {0};
    weft_service_setup setup = {s->context, &s->options, s->ranks, s->cores};
    weft_servable *like = weft_service_hold(s, entry->name, 0);
    weft_status status = weft_servable_open(&setup, entry->name, path, like, &servable);
    if (status == WEFT_OK) status = add_queue(s, servable);
    weft_servable_release(&like);
    if (status == WEFT_OK) weft_batch_times_write(servable);
    pthread_mutex_lock(&s->lock);
    entry->loading = false;
    /* The model was unloaded while this load was running. */
    if (status == WEFT_OK && entry->unloaded)
        status = weft_fail(WEFT_ERR_BUSY, "it was taken out of service while it was being loaded");
    if (status == WEFT_OK) {
        servable->service = s;
        servable->version = entry->version = version ? version : entry->version + 1;
        before = entry->servable;
        entry->servable = servable;
        entry->reason[0] = '\0';
    } else {
        (void)snprintf(entry->reason, sizeof(entry->reason), "%s", weft_last_message());
    }
    pthread_mutex_unlock(&s->lock);
    weft_error_catch(&error, status);
    if (status != WEFT_OK && servable) {
        weft_servable_remove_queues(servable);
        weft_servable_close(&servable);
    }
    weft_service_end(s, before);
    return weft_error_raise(&error);
}

/* Finds or adds the entry of a model with a path of its own, and marks it as loading. *from: a copy
 * of the path to load. The caller holds the service's lock. */
static weft_status begin_load(weft_service *s, const char *name, const char *path,
                              weft_model_entry **entry, char **from)
{
    weft_model_entry *p = weft_model_entry_find(s, name, 0);
    if (in_folder(s, name))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "two models are named '%s', one of them in %s; give each a name of its own", name,
            s->models);
    if (!p && !path) return weft_fail(WEFT_ERR_ARGUMENT, "no model is named '%s'", name);
    if (!p) WEFT_TRY(weft_model_entry_add(s, name, 0, &p));
    if (p->loading) return weft_fail(WEFT_ERR_BUSY, "model '%s' is being loaded already", name);
    if (path && (!p->path || strcmp(p->path, path) != 0)) {
        free(p->path);
        WEFT_TRY(weft_strdup(path, &p->path));
    }
    if (!p->path) return weft_fail(WEFT_ERR_ARGUMENT, "no checkpoint of model '%s' is known", name);
    WEFT_TRY(weft_strdup(p->path, from));
    p->loading = true;
    p->unloaded = false;
    *entry = p;
    return WEFT_OK;
}

weft_status weft_service_load(weft_service *s, const char *name, const char *path)
{
    WEFT_NEED_AS("service, name", s, name);
    weft_model_entry *p = NULL;
    char *from = NULL;
    pthread_mutex_lock(&s->lock);
    bool own = path || !s->models || weft_model_entry_find(s, name, 0);
    weft_status status = own ? begin_load(s, name, path, &p, &from) : check_name(name);
    pthread_mutex_unlock(&s->lock);
    if (status != WEFT_OK) return status;
    if (!own) return weft_service_poll_model(s, name);
    status = weft_model_entry_load(s, p, from, 0);
    free(from);
    return status;
}

weft_status weft_service_unload(weft_service *s, const char *name)
{
    WEFT_NEED_AS("service, name", s, name);
    weft_servable *servable;
    bool any = false;
    do {
        servable = NULL;
        pthread_mutex_lock(&s->lock);
        for (int i = 0; i < s->count; i++) {
            weft_model_entry *p = s->entries[i];
            if (strcmp(p->name, name) != 0) continue;
            /* A version that is still being loaded is dropped at the end of its load, because
             * `unloaded` is set. */
            any = any || p->servable || p->loading;
            if (!p->unloaded || p->servable)
                (void)snprintf(p->reason, sizeof(p->reason), "it was taken out of service");
            p->unloaded = true;
            if (!servable) {
                servable = p->servable;
                p->servable = NULL;
            }
        }
        pthread_mutex_unlock(&s->lock);
        weft_service_end(s, servable);
    } while (servable);
    if (any) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "no model named '%s' is served", name);
}
