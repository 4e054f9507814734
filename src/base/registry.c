/* Implements the registry of a context: its entries by kind and name, and its copies of option
 * tables. */
#include "base/registry.h"

#include <ctype.h>
#include <stdio.h>

#include "base/context.h"

/* Words of messages for one entry of a kind and for all entries, a hint for an unknown name, and
 * the option whose value begins with such a name, for rows that have no `names` or `forms`. */
static const struct {
    const char *one, *all, *hint, *option;
} words[WEFT_KIND_COUNT] = {
    [WEFT_KIND_NONE] = {"name", "names", "", NULL},
    [WEFT_KIND_MODEL] = {"model", "models", " (or give a file ending in .yaml)", "model"},
    [WEFT_KIND_LAYER] = {"layer type", "layers of a YAML model", "", NULL},
    [WEFT_KIND_LOSS] = {"loss", "losses", "", NULL},
    [WEFT_KIND_DATA] = {"kind", "data", "", "data"},
    [WEFT_KIND_NORMALIZATION] = {"normalization", "normalizations of data", "", NULL},
    [WEFT_KIND_OPTIMIZER] = {"optimizer", "optimizers", "", NULL},
    [WEFT_KIND_DEVICE] = {"device", "devices", "", "device"},
    [WEFT_KIND_ENGINE] = {"engine", "engines", "", NULL},
    [WEFT_KIND_RATE] = {"learning rate schedule", "learning rate schedules", "", NULL},
    [WEFT_KIND_SCHEDULE] = {"pipeline schedule", "pipeline schedules", "", NULL},
    [WEFT_KIND_EXCHANGE] = {"exchange", "exchanges between learners", "", NULL},
    [WEFT_KIND_CODEC] = {"codec", "codecs of updates", "", NULL},
    [WEFT_KIND_POLICY] = {"batching policy", "batching policies", "", NULL},
    [WEFT_KIND_ARRIVALS] = {"arrival process", "arrival processes", "", NULL},
    [WEFT_KIND_OPERATOR] = {"operator", "operators", "", NULL},
    [WEFT_KIND_METRIC] = {"metric", "metrics of evaluations", "", "metric"},
    [WEFT_KIND_SERVER_POLICY] = {"server policy", "server policies", "", NULL},
    [WEFT_KIND_AUGMENTATION] = {"augmentation", "augmentations of pictures", "", "augment"},
};

const char *weft_kind_title(weft_kind kind)
{
    return (unsigned)kind < WEFT_KIND_COUNT ? words[kind].all : NULL;
}

const char *weft_kind_word(weft_kind kind)
{
    return words[kind].one;
}

weft_kind weft_kind_of_option(const char *option)
{
    for (int k = 0; k < WEFT_KIND_COUNT; k++)
        if (words[k].option && strcmp(words[k].option, option) == 0) return (weft_kind)k;
    return WEFT_KIND_NONE;
}

static pthread_mutex_t *lock_of(const weft_context *context)
{
    return &context->of->registry_lock;
}

static bool is_called(const char *own, const char *name, size_t size)
{
    return own && strncmp(own, name, size) == 0 && !own[size];
}

/* The entry with the present or former name, or NULL. The caller holds the registry lock. */
static const weft_entry *find_entry(const weft_context *context, weft_kind kind, const char *name,
                                    size_t size)
{
    for (const weft_registry_block *s = context->of->blocks; s; s = s->next)
        for (int i = 0; i < s->count; i++)
            if (s->entries[i].kind == kind && (is_called(s->entries[i].name, name, size) ||
                                               is_called(s->entries[i].before, name, size)))
                return &s->entries[i];
    return NULL;
}

const weft_entry *weft_registry_look(const weft_context *context, weft_kind kind, const char *name,
                                     size_t size)
{
    uint64_t hash = (uint64_t)kind;
    for (size_t i = 0; i < size; i++) hash = hash * 31 + (unsigned char)name[i];
    const weft_entry **recent = &context->of->recent[hash % WEFT_RECENT_ENTRIES];
    pthread_mutex_lock(lock_of(context));
    const weft_entry *entry = *recent;
    if (!entry || entry->kind != kind || !is_called(entry->name, name, size))
        entry = find_entry(context, kind, name, size);
    if (entry) *recent = entry;
    pthread_mutex_unlock(lock_of(context));
    return entry;
}

const weft_entry *weft_context_entry(const weft_context *context, weft_kind kind, int i)
{
    WEFT_NEED_ELSE(NULL, context);
    const weft_entry *entry = NULL;
    pthread_mutex_lock(lock_of(context));
    for (const weft_registry_block *s = context->of->blocks; s && i >= 0; s = s->next)
        for (int e = 0; e < s->count && i >= 0; e++)
            if (s->entries[e].kind == kind && i-- == 0) entry = &s->entries[e];
    pthread_mutex_unlock(lock_of(context));
    return entry;
}

const char *weft_context_name(const weft_context *context, weft_kind kind, int i)
{
    WEFT_NEED_ELSE(NULL, context);
    const weft_entry *entry = weft_context_entry(context, kind, i);
    return entry ? entry->name : NULL;
}

/* The user data of `candidate`, which enumerates names for weft_suggest. */
typedef struct names_of {
    const weft_context *context;
    weft_kind kind;
} names_of;

/* Name i: those of entries, then those of plug-ins that are installed and not loaded. */
static const char *candidate(const void *user, int i)
{
    const names_of *n = user;
    const char *name = weft_context_name(n->context, n->kind, i);
    const weft_extension *x = n->context->of->extensions[n->kind];
    if (name || !x || !x->shipped) return name;
    for (int e = 0; weft_context_name(n->context, n->kind, e); e++) i--;
    for (int s = 0; x->shipped[s]; s++)
        if (!weft_registry_look(n->context, n->kind, x->shipped[s], strlen(x->shipped[s])) &&
            i-- == 0)
            return x->shipped[s];
    return NULL;
}

/* Loads the plug-in beside the library that has the name; OK if there is no such name. */
static weft_status load_shipped(const weft_context *context, weft_kind kind, const char *name,
                                size_t size)
{
    const weft_extension *x = context->of->extensions[kind];
    for (int i = 0; x && x->shipped && x->shipped[i]; i++)
        if (is_called(x->shipped[i], name, size))
            return weft_plugin_load_shipped(context->of, x->shipped[i]);
    return WEFT_OK;
}

weft_status weft_registry_find(const weft_context *context, weft_kind kind, const char *name,
                               size_t size, const weft_entry **out)
{
    char near[256], own[64], hint[WEFT_PLUGIN_HINT] = "";
    if (weft_plugin_is_path(name, size)) return weft_plugin_find(context, kind, name, size, out);
    const weft_entry *entry = weft_registry_look(context, kind, name, size);
    if (!entry) {
        WEFT_TRY(load_shipped(context, kind, name, size));
        entry = weft_registry_look(context, kind, name, size);
    }
    if (entry) {
        *out = entry;
        return WEFT_OK;
    }
    (void)snprintf(own, sizeof(own), "%.*s", (int)WEFT_MIN(size, sizeof(own) - 1), name);
    const names_of names = {context, kind};
    if (!weft_nearest(own, candidate, &names))
        (void)weft_plugin_hint(context, kind, name, size, hint, sizeof(hint));
    return weft_fail(WEFT_ERR_ARGUMENT, "no %s is named '%.*s'%s%s%s", words[kind].one, (int)size,
                     name, weft_suggest(near, sizeof(near), own, candidate, &names),
                     words[kind].hint, hint);
}

static bool is_name(const char *name)
{
    const char *c = name;
    while (*c && (isalnum((unsigned char)*c) || strchr("-_.", *c))) c++;
    return *name && !*c;
}

/* Checks that entry i has a known kind, a valid name, and a name that no registered or earlier new
 * entry of its kind has. The caller holds the registry lock. */
static weft_status check(const weft_context *context, const weft_entry *entries, int i)
{
    const weft_entry *e = &entries[i];
    if (e->kind == WEFT_KIND_NONE || (unsigned)e->kind >= WEFT_KIND_COUNT)
        return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is of kind %d, which there is not",
                         e->name ? e->name : "", (int)e->kind);
    if (!e->name || !is_name(e->name))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "'%s' is no name of a %s; names are letters, digits, '-', '_' and '.'",
                         e->name ? e->name : "", words[e->kind].one);
    bool there = find_entry(context, e->kind, e->name, strlen(e->name));
    for (int j = 0; j < i && !there; j++)
        there = entries[j].kind == e->kind && strcmp(entries[j].name, e->name) == 0;
    if (!there) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "a %s named '%s' is there already; give another name",
                     words[e->kind].one, e->name);
}

static weft_status check_names(const weft_context *context, const weft_entry *entries, int count)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) status = check(context, entries, i);
    return status;
}

static void free_block(weft_registry_block *block)
{
    for (int i = 0; block->owned && i < 2 * block->count; i++) free(block->owned[i]);
    free(block->owned);
    free(block);
}

/* Appends a block if its names are new; else frees it. */
static weft_status append(weft_context *context, weft_registry_block *block)
{
    pthread_mutex_lock(lock_of(context));
    weft_status status = check_names(context, block->entries, block->count);
    weft_registry_block **end = &context->of->blocks;
    while (*end) end = &(*end)->next;
    if (status == WEFT_OK) *end = block;
    pthread_mutex_unlock(lock_of(context));
    if (status != WEFT_OK) free_block(block);
    return status;
}

static weft_status new_block(const weft_entry *entries, int count, weft_registry_block **out)
{
    WEFT_TRY(
        weft_new_bytes(out, 1, sizeof(weft_registry_block) + (size_t)count * sizeof(weft_entry)));
    (*out)->count = count;
    memcpy((*out)->entries, entries, (size_t)count * sizeof(weft_entry));
    return WEFT_OK;
}

weft_status weft_registry_add(weft_context *context, const weft_entry *entries, int count)
{
    weft_registry_block *block;
    WEFT_TRY(new_block(entries, count, &block));
    return append(context, block);
}

void weft_context_extend(weft_context *context, const weft_extension *extension)
{
    context->of->extensions[extension->kind] = extension;
}

weft_status weft_entry_need(const weft_entry *entry, const char *function, bool given)
{
    if (given) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "its '%s' is NULL, which every %s needs", function,
                     words[entry->kind].one);
}

/* Replaces the struct of an entry that a caller adds by what its room makes of it. */
static weft_status accept(weft_context *context, weft_entry *e, void **owned)
{
    const weft_extension *x = context->of->extensions[e->kind];
    if (!x)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "only the library has %s; none can be added",
                         words[e->kind].all);
    if (!e->ops) return weft_entry_need(e, "ops", false);
    size_t size = *(const size_t *)e->ops;
    if (size < x->least || size > x->size)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "its %s has %zu bytes, this library's %zu; build it with the headers of "
                         "weft %s",
                         x->type, size, x->size, weft_version());
    WEFT_TRY(weft_new_bytes(&owned[0], 1, x->size));
    memcpy(owned[0], e->ops, size);
    WEFT_TRY(x->accept(context, e, owned[0], &owned[1]));
    e->ops = owned[1] ? owned[1] : owned[0];
    return WEFT_OK;
}

weft_status weft_context_register(weft_context *context, const weft_entry *entries, int count)
{
    WEFT_NEED(context);
    if (count < 0 || (count > 0 && !entries))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%d entries and their list is %s; a count from 0, and "
                         "a list of as many, is right",
                         count, entries ? "given" : "NULL");
    weft_registry_block *block;
    pthread_mutex_lock(lock_of(context));
    weft_status status = check_names(context, entries, count);
    pthread_mutex_unlock(lock_of(context));
    WEFT_TRY(status);
    WEFT_TRY(new_block(entries, count, &block));
    status = WEFT_NEW(&block->owned, 2 * count);
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        weft_entry *e = &block->entries[i];
        status = accept(context, e, &block->owned[2 * (size_t)i]);
        if (status != WEFT_OK)
            status = weft_fail_within(status, "%s %s", words[e->kind].one, e->name);
    }
    if (status == WEFT_OK) return append(context, block);
    free_block(block);
    return status;
}

weft_status weft_registry_names(const weft_context *context, weft_kind kind, weft_entry_fn *is_so,
                                const void *what, char **names)
{
    weft_text text = {0};
    const weft_entry *e, *last = NULL;
    for (int i = 0; (e = weft_context_entry(context, kind, i)); i++) {
        if (!is_so(e, what)) continue;
        if (last) weft_text_add(&text, "%s%s", text.size ? ", " : "", last->name);
        last = e;
    }
    if (last) weft_text_add(&text, "%s%s", text.size ? " or " : "", last->name);
    return weft_text_take(&text, names);
}

static size_t count_rows(const weft_option *rows)
{
    size_t count = 0;
    while (rows[count].name) count++;
    return count;
}

weft_status weft_context_add_longer(weft_context *context, const weft_option *rows,
                                    const weft_option *more)
{
    weft_table *table;
    size_t first = count_rows(rows), count = first + count_rows(more) + 1;
    WEFT_TRY(weft_new_bytes(&table, 1, sizeof(*table) + count * sizeof(*rows)));
    table->of = more;
    memcpy(table->rows, rows, first * sizeof(*rows));
    for (size_t n = first; more->name; more++) {
        weft_option *same = table->rows;
        while (same < table->rows + first && strcmp(same->name, more->name) != 0) same++;
        if (same < table->rows + first)
            same->help = more->help;
        else
            table->rows[n++] = *more;
    }
    for (size_t i = 0; i < count; i++) table->rows[i].context = context;
    pthread_mutex_lock(lock_of(context));
    table->next = context->tables;
    context->tables = table;
    pthread_mutex_unlock(lock_of(context));
    return WEFT_OK;
}

weft_status weft_context_add_table(weft_context *context, const weft_option *rows)
{
    return weft_context_add_longer(context, &(weft_option){.name = NULL}, rows);
}

static weft_table *find_table(const weft_context *context, const weft_option *rows)
{
    pthread_mutex_lock(lock_of(context));
    weft_table *table = context->of->tables;
    while (table->of != rows) table = table->next;
    pthread_mutex_unlock(lock_of(context));
    return table;
}

void weft_context_mark_unused(weft_context *context, const weft_option *rows,
                              const weft_unused *unused)
{
    for (weft_option *o = find_table(context, rows)->rows; o->name; o++)
        for (const weft_unused *u = unused; u->names && !o->unused; u++)
            if (weft_is_listed(u->names, o->name)) o->unused = u->why;
}

const weft_option *weft_context_table(const weft_context *context, const weft_option *rows)
{
    return find_table(context, rows)->rows;
}

void weft_registry_free(weft_context *context)
{
    for (weft_table *next, *t = context->tables; t; t = next) {
        next = t->next;
        free(t);
    }
    for (weft_registry_block *next, *s = context->blocks; s; s = next) {
        next = s->next;
        free_block(s);
    }
}
