/* Converts option structs to settings (names and values as text) and back. */
#include "base/settings.h"

#include "base/option_values.h"
#include "base/registry.h"

static weft_status append(weft_settings *s, const char *name, char *text)
{
    weft_status status = WEFT_GROW(&s->all, &s->capacity, s->count);
    if (status == WEFT_OK) status = weft_strdup(name, &s->all[s->count].name);
    if (status != WEFT_OK) {
        free(text);
        return status;
    }
    s->all[s->count++].text = text;
    return WEFT_OK;
}

weft_status weft_settings_take(const weft_option *table, const void *options, weft_settings *out)
{
    weft_status status = WEFT_OK;
    *out = (weft_settings){0};
    for (const weft_option *o = table; o->name && status == WEFT_OK; o++) {
        char *text;
        weft_kind kind = weft_option_names(o);
        status = weft_options_get(table, options, o->name, &text);
        if (status == WEFT_OK && text && o->context && kind != WEFT_KIND_NONE)
            status = weft_plugin_resolve(o->context, kind, &text);
        if (status == WEFT_OK && text) status = append(out, o->name, text);
    }
    char *plugins = NULL;
    if (status == WEFT_OK && table->context) status = weft_plugin_names(table->context, &plugins);
    if (status == WEFT_OK && plugins) status = append(out, WEFT_SETTING_PLUGINS, plugins);
    if (status != WEFT_OK) weft_settings_free(out);
    return status;
}

/* A row that takes any name of the registry. */
static weft_option of_any_name(const weft_option *o)
{
    weft_option row = *o;
    if (row.names) row.choices = NULL;
    row.names = WEFT_KIND_NONE;
    return row;
}

static weft_status give(const weft_setting *s, const weft_option *table, void *options)
{
    const weft_option *o = table;
    if (strcmp(s->name, WEFT_SETTING_PLUGINS) == 0) return WEFT_OK;
    while (o->name && strcmp(o->name, s->name) != 0) o++;
    if (!o->name || !o->names) return weft_options_set(table, options, s->name, s->text);
    const weft_option row = of_any_name(o);
    return weft_option_store(&row, options, s->text);
}

weft_status weft_settings_give(const weft_settings *settings, const weft_option *table,
                               void *options)
{
    WEFT_TRY(weft_options_init_size(table, options, 0));
    for (int i = 0; i < settings->count; i++) {
        const weft_setting *s = &settings->all[i];
        weft_status status = give(s, table, options);
        if (status == WEFT_OK) continue;
        weft_options_free(table, options);
        return status;
    }
    return WEFT_OK;
}

weft_status weft_settings_add(weft_settings *settings, const weft_option *option, const char *text)
{
    union {
        char *text;
        int64_t whole;
        double real;
        bool flag;
    } value = {0};
    weft_option one[2] = {of_any_name(option), {0}}; /* a table for this option alone */
    char *own = NULL;
    one[0].offset = one[0].size = 0;
    WEFT_TRY(weft_options_set(one, &value, option->name, text));
    weft_status status = weft_options_get(one, &value, option->name, &own);
    weft_options_free(one, &value);
    return status == WEFT_OK ? append(settings, option->name, own) : status;
}

const char *weft_settings_find(const weft_settings *settings, const char *name)
{
    for (int i = 0; i < settings->count; i++)
        if (strcmp(settings->all[i].name, name) == 0) return settings->all[i].text;
    return NULL;
}

void weft_settings_free(weft_settings *settings)
{
    for (int i = 0; i < settings->count; i++) {
        free(settings->all[i].name);
        free(settings->all[i].text);
    }
    free(settings->all);
    *settings = (weft_settings){0};
}
