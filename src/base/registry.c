/* What a context knows by name. */
#include "base/registry.h"

#include <ctype.h>
#include <stdio.h>

#include "base/context.h"

/* What one is called, and all of them. */
static const struct {
    const char *one, *all;
} words[WEFT_KIND_COUNT] = {
    [WEFT_KIND_MODEL] = {"model", "models"},
    [WEFT_KIND_LAYER] = {"layer type", "layers of a YAML model"},
    [WEFT_KIND_LOSS] = {"loss", "losses"},
    [WEFT_KIND_DATA] = {"kind", "data"},
    [WEFT_KIND_OPTIMIZER] = {"optimizer", "optimizers"},
    [WEFT_KIND_DEVICE] = {"device", "devices"},
    [WEFT_KIND_ENGINE] = {"engine", "engines of ranks"},
    [WEFT_KIND_EXCHANGE] = {"exchange", "exchanges between learners"},
    [WEFT_KIND_OPERATOR] = {"operator", "operators"},
};

const char *weft_kind_title(weft_kind kind)
{
    return words[kind].all;
}

static pthread_mutex_t *lock_of(const weft_context *context)
{
    return &context->of->registry_lock;
}

/* With the lock held. */
static const weft_entry *look(const weft_context *context, weft_kind kind, const char *name,
                              size_t size)
{
    for (const weft_shelf *s = context->of->shelves[kind]; s; s = s->next)
        for (int i = 0; i < s->count; i++)
            if (strncmp(s->entries[i].name, name, size) == 0 && !s->entries[i].name[size])
                return &s->entries[i];
    return NULL;
}

const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind, const char *name,
                                     size_t size)
{
    pthread_mutex_lock(lock_of(context));
    const weft_entry *entry = look(context, kind, name, size);
    pthread_mutex_unlock(lock_of(context));
    return entry;
}

const weft_entry *weft_context_entry(const weft_context *context, weft_kind kind, int i)
{
    const weft_entry *entry = NULL;
    pthread_mutex_lock(lock_of(context));
    for (const weft_shelf *s = context->of->shelves[kind]; s && i >= 0 && !entry; s = s->next) {
        if (i < s->count) entry = &s->entries[i];
        i -= s->count;
    }
    pthread_mutex_unlock(lock_of(context));
    return entry;
}

const char *weft_context_name(const weft_context *context, weft_kind kind, int i)
{
    const weft_entry *entry = weft_context_entry(context, kind, i);
    return entry ? entry->name : NULL;
}

const char *weft_registry_candidate(const void *names_of, int i)
{
    const weft_names_of *n = names_of;
    return weft_context_name(n->context, n->kind, i);
}

weft_status weft_registry_find(const weft_context *context, weft_kind kind, const char *name,
                               size_t size, const weft_entry **out)
{
    char near[256], own[64];
    const weft_entry *entry = weft_registry_look(context, kind, name, size);
    if (entry) {
        *out = entry;
        return WEFT_OK;
    }
    (void)snprintf(own, sizeof(own), "%.*s", (int)WEFT_MIN(size, sizeof(own) - 1), name);
    return weft_fail(WEFT_ERR_ARGUMENT, "no %s is named '%s'%s", words[kind].one, own,
                     weft_suggest(near, sizeof(near), own, weft_registry_candidate,
                                  &(weft_names_of){context, kind}));
}

static bool is_name(const char *name)
{
    const char *c = name;
    while (*c && (isalnum((unsigned char)*c) || strchr("-_.", *c))) c++;
    return *name && !*c;
}

/* With the lock held. */
static weft_status check(const weft_context *context, weft_kind kind, const weft_entry *entries,
                         int i)
{
    const char *name = entries[i].name;
    if (!name || !is_name(name))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "'%s' is no name of a %s; names are letters, digits, '-', '_' and '.'",
                         name ? name : "", words[kind].one);
    bool there = look(context, kind, name, strlen(name));
    for (int j = 0; j < i && !there; j++) there = strcmp(entries[j].name, name) == 0;
    if (!there) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "a %s named '%s' is there already; give another name",
                     words[kind].one, name);
}

weft_status weft_context_register(weft_context *context, weft_kind kind, const weft_entry *entries,
                                  int count)
{
    weft_shelf *shelf;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_new_bytes(&shelf, 1, sizeof(weft_shelf) + (size_t)count * sizeof(weft_entry)));
    shelf->count = count;
    memcpy(shelf->entries, entries, (size_t)count * sizeof(weft_entry));
    pthread_mutex_lock(lock_of(context));
    for (int i = 0; i < count && status == WEFT_OK; i++) status = check(context, kind, entries, i);
    weft_shelf **end = &context->of->shelves[kind];
    while (*end) end = &(*end)->next;
    if (status == WEFT_OK) *end = shelf;
    pthread_mutex_unlock(lock_of(context));
    if (status != WEFT_OK) free(shelf);
    return status;
}

void weft_registry_free(weft_context *context)
{
    for (int kind = 0; kind < WEFT_KIND_COUNT; kind++)
        for (weft_shelf *next, *s = context->shelves[kind]; s; s = next) {
            next = s->next;
            free(s);
        }
}
