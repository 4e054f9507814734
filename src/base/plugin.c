/* Loads plug-ins: opens a shared object, checks its interface version, starts it once in the
 * process, and registers its entries in the context. */
#include "weft/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/settings.h"

/* A shared object that this process has started, and the number of contexts that have loaded it.
 * `in_process` lists them; `loading` protects the list. */
typedef struct started {
    struct started *next;
    void *handle; /* of dlopen */
    int contexts;
} started;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static started *in_process;

static weft_status check(const char *path, const weft_plugin *plugin)
{
    if (plugin->abi != WEFT_PLUGIN_ABI)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "plug-in %s was built for interface %d of plug-ins, this library has %d; "
                         "build it with the headers of weft %s",
                         path, plugin->abi, WEFT_PLUGIN_ABI, weft_version());
    if (plugin->struct_size != sizeof(*plugin))
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "plug-in %s: its weft_plugin has %zu bytes, this library's %zu; build it "
                         "with the headers of weft %s",
                         path, plugin->struct_size, sizeof(*plugin), weft_version());
    if (!plugin->entries || !plugin->entries[0].name)
        return weft_fail(WEFT_ERR_FORMAT, "plug-in %s has no entries", path);
    return WEFT_OK;
}

/* Counts a context that loads a plug-in; the first one in the process calls the start function. */
static weft_status start(weft_context *root, const weft_plugin *plugin, void *handle)
{
    started *s = in_process;
    while (s && s->handle != handle) s = s->next;
    if (!s) {
        WEFT_TRY(WEFT_NEW(&s, 1));
        uint64_t before = weft_failures();
        weft_status status = plugin->start ? plugin->start(root->services) : WEFT_OK;
        status = weft_ensure_message(status, before, "symbol", "weft_plugin_entry", "start");
        if (status != WEFT_OK) {
            free(s);
            return status;
        }
        *s = (started){.next = in_process, .handle = handle};
        in_process = s;
    }
    s->contexts++;
    return WEFT_OK;
}

static void end(void *handle)
{
    for (started **at = &in_process; *at; at = &(*at)->next) {
        started *s = *at;
        if (s->handle != handle) continue;
        if (--s->contexts == 0) {
            *at = s->next;
            free(s);
        }
        return;
    }
}

static const weft_plugin *entry_of(void *handle)
{
    return dlsym(handle, "weft_plugin_entry");
}

static weft_status load(weft_context *root, const char *path, weft_loaded *l)
{
    int count = 0;
    l->plugin = entry_of(l->handle);
    if (!l->plugin)
        return weft_fail(
            WEFT_ERR_FORMAT,
            "plug-in %s has no symbol weft_plugin_entry; weft/plugin.h says what it is", path);
    WEFT_TRY(check(path, l->plugin));
    while (l->plugin->entries[count].name) count++;
    weft_status status = start(root, l->plugin, l->handle);
    if (status == WEFT_OK) {
        status = weft_context_register(root, l->plugin->entries, count);
        if (status != WEFT_OK) end(l->handle);
    }
    return status == WEFT_OK ? WEFT_OK : weft_fail_within(status, "plug-in %s", path);
}

/* Whether this context has loaded the shared object. */
static bool is_loaded(const weft_context *root, void *handle)
{
    const weft_loaded *l = root->loaded;
    while (l && l->handle != handle) l = l->next;
    return l;
}

/* Opens a shared object, and loads it unless this context has loaded it. `path` is for messages,
 * `full` is the resolved path. The caller holds the lock `loading`. */
static weft_status open_object(weft_context *root, const char *path, const char *full)
{
    weft_loaded *l;
    WEFT_TRY(WEFT_NEW(&l, 1));
    weft_status status = weft_strdup(full, &l->path);
    if (status != WEFT_OK) {
        free(l);
        return status;
    }
    l->handle = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    bool again = l->handle && is_loaded(root, l->handle);
    if (!l->handle)
        status = weft_fail(WEFT_ERR_FORMAT, "plug-in %s cannot be loaded: %s", path, dlerror());
    else if (!again)
        status = load(root, path, l);
    if (status == WEFT_OK && !again) {
        pthread_mutex_lock(&root->registry_lock);
        l->next = root->loaded;
        root->loaded = l;
        pthread_mutex_unlock(&root->registry_lock);
        return WEFT_OK;
    }
    if (l->handle) dlclose(l->handle);
    free(l->path);
    free(l);
    return status;
}

weft_status weft_plugin_load(weft_context *context, const char *path)
{
    WEFT_NEED(context, path);
    struct stat info;
    int file;
    WEFT_TRY(weft_file_open(path, &info, &file)); /* dlopen would wait for the writer of a pipe */
    close(file);
    char *full = realpath(path, NULL);
    if (!full) return weft_fail_io("open", path);
    pthread_mutex_lock(&loading);
    weft_status status = open_object(context->of, path, full);
    pthread_mutex_unlock(&loading);
    free(full);
    return status;
}

/* The folder of the file at `path`, which the caller frees; NULL: there is no such file. */
static char *folder_of(const char *path)
{
    char *full = path ? realpath(path, NULL) : NULL;
    char *slash = full ? strrchr(full, '/') : NULL;
    if (slash) *slash = '\0';
    return full;
}

/* Sets *out to the path of the plug-in beside a folder; NULL: it is not there. */
static weft_status find_beside(const char *folder, const char *name, char **out)
{
    static const char *const beside[] = {"", "/..", ("/../" WEFT_LIBRARY_FOLDER), "/../lib"};
    *out = NULL;
    for (size_t i = 0; folder && i < WEFT_COUNT(beside); i++) {
        WEFT_TRY(weft_format(out, "%s%s/libweft-%s.so", folder, beside[i], name));
        if (access(*out, R_OK) == 0) return WEFT_OK;
        free(*out);
        *out = NULL;
    }
    return WEFT_OK;
}

weft_status weft_plugin_load_shipped(weft_context *context, const char *name)
{
    Dl_info own = {0};
    char *path = NULL;
    /* The library is a shared one, or a part of the program. */
    if (!dladdr(context->services, &own)) own.dli_fname = NULL;
    char *folders[] = {folder_of(own.dli_fname), folder_of("/proc/self/exe")};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < WEFT_COUNT(folders) && status == WEFT_OK && !path; i++)
        status = find_beside(folders[i], name, &path);
    if (status == WEFT_OK && path) status = weft_plugin_load(context, path);
    if (status == WEFT_OK && !path)
        status = weft_fail(WEFT_ERR_UNSUPPORTED,
                           "'%s' needs the plug-in libweft-%s.so, which is neither in %s nor in "
                           "the libraries' folder beside it",
                           name, name, folders[0] ? folders[0] : "the folder of the library");
    for (size_t i = 0; i < WEFT_COUNT(folders); i++) free(folders[i]);
    free(path);
    return status;
}

void weft_plugin_load_installed(weft_context *context)
{
    WEFT_NEED_VOID(context);
    for (int kind = WEFT_KIND_NONE + 1; kind < WEFT_KIND_COUNT; kind++) {
        const weft_extension *x = context->of->extensions[kind];
        for (int i = 0; x && x->shipped && x->shipped[i]; i++) {
            const char *name = x->shipped[i];
            if (weft_registry_look(context, (weft_kind)kind, name, strlen(name))) continue;
            if (weft_plugin_load_shipped(context, name) != WEFT_OK) continue;
        }
    }
}

bool weft_plugin_is_path(const char *name, size_t size)
{
    return size > 3 && memcmp(name + size - 3, ".so", 3) == 0;
}

typedef weft_status path_fn(weft_context *context, const char *option, const char *path);

/* Calls fn with the paths of plug-ins in a text: of the name that begins it, or, of a list of
 * devices, that begins each of its items. */
static weft_status each_path(weft_context *context, const weft_option *o, const char *text,
                             path_fn *fn)
{
    bool list = weft_option_names(o) == WEFT_KIND_DEVICE;
    for (const char *item = text; item;) {
        size_t size = strcspn(item, list ? ":," : ":");
        if (weft_plugin_is_path(item, size)) {
            char *path;
            WEFT_TRY(weft_format(&path, "%.*s", (int)size, item));
            weft_status status = fn(context, o->name, path);
            free(path);
            WEFT_TRY(status);
        }
        item = list ? strchr(item, ',') : NULL;
        if (item) item++;
    }
    return WEFT_OK;
}

static weft_status each_option(weft_context *context, const weft_option *table, const void *options,
                               path_fn *fn)
{
    for (const weft_option *o = table; o->name; o++) {
        char *text;
        if (o->kind != WEFT_OPT_STRING || weft_option_names(o) == WEFT_KIND_NONE) continue;
        WEFT_TRY(weft_options_get(table, options, o->name, &text));
        weft_status status = text ? each_path(context, o, text, fn) : WEFT_OK;
        free(text);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

static weft_status load_path(weft_context *context, const char *option, const char *path)
{
    (void)option;
    return weft_plugin_load(context, path);
}

static weft_status refuse_path(weft_context *context, const char *option, const char *path)
{
    (void)context;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "its option %s is the plug-in %s; a checkpoint loads none, so give --%s here",
                     option, path, option);
}

weft_status weft_plugin_refuse_options(const weft_option *table, const void *options)
{
    return each_option(NULL, table, options, refuse_path);
}

weft_status weft_plugin_load_options(weft_context *context, const weft_option *table,
                                     const void *options)
{
    WEFT_NEED(context, table, options);
    WEFT_TRY(weft_options_valid(table, options));
    return each_option(context, table, options, load_path);
}

weft_status weft_plugin_find(const weft_context *context, weft_kind kind, const char *name,
                             size_t size, const weft_entry **out)
{
    char *path;
    WEFT_TRY(weft_format(&path, "%.*s", (int)size, name));
    char *full = realpath(path, NULL);
    pthread_mutex_lock(&loading);
    const weft_loaded *l = full ? context->of->loaded : NULL;
    while (l && strcmp(l->path, full) != 0) l = l->next;
    pthread_mutex_unlock(&loading);
    const weft_entry *e = l ? l->plugin->entries : NULL;
    while (e && e->name && e->kind != kind) e++;
    weft_status status = WEFT_OK;
    if (!l)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "no %s is named '%s', and no plug-in of this path is loaded; a plug-in "
                           "is loaded only if the command line, a run file, WEFT_PLUGINS or a call "
                           "of weft_plugin_load names it",
                           weft_kind_word(kind), path);
    else if (!e->name)
        status = weft_fail(WEFT_ERR_ARGUMENT, "plug-in %s has nothing among its %s", path,
                           weft_kind_title(kind));
    else
        *out = weft_registry_look(context, kind, e->name, strlen(e->name));
    free(full);
    free(path);
    return status;
}

void weft_plugins_unload(weft_context *context)
{
    pthread_mutex_lock(&loading);
    for (weft_loaded *next, *l = context->loaded; l; l = next) {
        next = l->next;
        end(l->handle);
        dlclose(l->handle);
        free(l->path);
        free(l);
    }
    pthread_mutex_unlock(&loading);
}
