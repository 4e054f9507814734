/* Names of entries that plug-ins have: for records such as checkpoints, which name the plug-ins of
 * a run, and for the messages where one of these is missing later. A record never loads a plug-in.
 */
#include <stdio.h>

#include "base/context.h"
#include "base/settings.h"

/* A context keeps no more of the names of records than this many bytes. */
enum { MOST_NAMES = 1 << 16 };

const char *weft_plugin_path(const weft_context *context, int i)
{
    WEFT_NEED_ELSE(NULL, context);
    pthread_mutex_lock(&context->of->registry_lock);
    const weft_loaded *l = context->of->loaded;
    while (l && i-- > 0) l = l->next;
    pthread_mutex_unlock(&context->of->registry_lock);
    return l ? l->path : NULL;
}

weft_status weft_plugin_names(const weft_context *context, char **out)
{
    weft_text text = {0};
    pthread_mutex_lock(&context->of->registry_lock);
    for (const weft_loaded *l = context->of->loaded; l; l = l->next)
        for (const weft_entry *e = l->plugin->entries; e->name && !strchr(l->path, ':'); e++)
            weft_text_add(&text, "%s%s=%s=%s", text.size ? ":" : "", weft_kind_word(e->kind),
                          e->name, l->path);
    pthread_mutex_unlock(&context->of->registry_lock);
    *out = NULL;
    return text.size ? weft_text_take(&text, out) : WEFT_OK;
}

weft_status weft_plugin_remember(const weft_context *context, const char *names)
{
    weft_context *root = context->of;
    weft_text text = {0};
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&root->registry_lock);
    size_t have = root->absent ? strlen(root->absent) : 0;
    if (weft_is_printable(names) && have + strlen(names) < MOST_NAMES &&
        !(root->absent && strstr(root->absent, names))) {
        weft_text_add(&text, "%s:%s", root->absent ? root->absent : "", names);
        free(root->absent);
        root->absent = NULL;
        status = weft_text_take(&text, &root->absent);
    }
    pthread_mutex_unlock(&root->registry_lock);
    return status;
}

const char *weft_plugin_hint(const weft_context *context, weft_kind kind, const char *name,
                             size_t size, char *buffer, size_t room)
{
    char key[256];
    const char *at = NULL;
    buffer[0] = '\0';
    if (!context->of->extensions[kind]) return buffer;
    (void)snprintf(key, sizeof(key), ":%s=%.*s=", weft_kind_word(kind),
                   (int)WEFT_MIN(size, (size_t)128), name);
    pthread_mutex_lock(&context->of->registry_lock);
    if (context->of->absent) at = strstr(context->of->absent, key);
    if (at) at += strlen(key);
    if (at)
        (void)snprintf(buffer, room, "; plug-in %.*s had it (--plugin FILE, weft_plugin_load)",
                       (int)WEFT_MIN(strcspn(at, ":"), room / 2), at);
    pthread_mutex_unlock(&context->of->registry_lock);
    if (!at)
        (void)snprintf(buffer, room,
                       "; if it is a plug-in's, load that (--plugin FILE, weft_plugin_load)");
    return buffer;
}

weft_status weft_plugin_resolve(const weft_context *context, weft_kind kind, char **text)
{
    weft_text out = {0};
    bool list = kind == WEFT_KIND_DEVICE;
    const char *item = *text;
    while (item) {
        const weft_entry *entry;
        size_t size = strcspn(item, list ? ":," : ":"),
               all = list ? strcspn(item, ",") : strlen(item);
        bool path = weft_plugin_is_path(item, size) &&
                    weft_plugin_find(context, kind, item, size, &entry) == WEFT_OK;
        weft_text_add(&out, "%s%.*s%.*s", out.size ? "," : "",
                      path ? (int)strlen(entry->name) : (int)size, path ? entry->name : item,
                      (int)(all - size), item + size);
        item = item[all] ? item + all + 1 : NULL;
    }
    char *resolved;
    WEFT_TRY(weft_text_take(&out, &resolved));
    free(*text);
    *text = resolved;
    return WEFT_OK;
}
