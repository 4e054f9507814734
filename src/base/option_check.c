/* Refuses options that have no effect because the option that they depend on (weft_option.with) is
 * not given or its entry does not read them, and outputs that would replace an input file. */
#include "base/base.h"
#include "base/registry.h"
#include "base/settings.h"
#include "weft/output.h"

static const weft_option *row(const weft_option *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0) table++;
    return table->name ? table : NULL;
}

/* Sets *out to whether the value of an option is its default, both in canonical form; an unset
 * value counts as the default. */
static weft_status is_usual(const weft_option *o, const char *text, bool *out)
{
    weft_settings usual = {0};
    *out = !text;
    if (!text || !o->initial) return WEFT_OK;
    weft_status status = weft_settings_add(&usual, o, o->initial);
    if (status == WEFT_OK) *out = strcmp(text, usual.all[0].text) == 0;
    weft_settings_free(&usual);
    return status;
}

bool weft_entry_reads(const weft_entry *entry, const char *option)
{
    return entry->reads && weft_is_listed(entry->reads, option);
}

static bool reads(const weft_entry *entry, const void *option)
{
    return weft_entry_reads(entry, option);
}

/* Fails with a message that names an option without effect, and the choices of `with` that read
 * it. */
static weft_status of_no_use(const weft_option *o, const char *text, const weft_option *with,
                             const char *choice)
{
    char *names;
    weft_kind kind = with->names ? with->names : with->forms;
    if (kind == WEFT_KIND_NONE)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s is '%s', but %s needs --%s%s%s; give that too, or leave --%s out",
                         o->name, text, o->name, with->name, with->argument ? " " : "",
                         with->argument ? with->argument : "", o->name);
    WEFT_TRY(weft_registry_names(with->context, kind, reads, o->name, &names));
    weft_status status =
        choice
            ? weft_fail(WEFT_ERR_ARGUMENT,
                        "%s is '%s', but %s %s has no use for it; give --%s %s, or leave --%s out",
                        o->name, text, with->name, choice, with->name, names, o->name)
            : weft_fail(WEFT_ERR_ARGUMENT,
                        "%s is '%s', but there is no %s; give --%s %s, or leave --%s out", o->name,
                        text, with->name, with->name, names, o->name);
    free(names);
    return status;
}

/* Refuses an option whose value is not the default if the option `with` is not given or its choice
 * does not read it. A choice that is not registered, such as the path of a plug-in that is not
 * loaded yet, may read any option. */
static weft_status check_with(const weft_option *table, const void *target, const weft_option *o,
                              const char *text)
{
    const weft_option *with = row(table, o->with);
    char *choice;
    bool usual, useless;
    WEFT_TRY(is_usual(o, text, &usual));
    if (usual || !with) return WEFT_OK;
    WEFT_TRY(weft_options_get(table, target, o->with, &choice));
    useless = !choice || (with->kind == WEFT_OPT_FLAG && strcmp(choice, "true") != 0);
    weft_kind kind = with->names ? with->names : with->forms;
    if (choice && kind != WEFT_KIND_NONE) {
        const weft_entry *e = weft_registry_look(with->context, kind, choice, strcspn(choice, ":"));
        useless = e && !weft_entry_reads(e, o->name);
    }
    weft_status status = useless ? of_no_use(o, text, with, choice) : WEFT_OK;
    free(choice);
    return status;
}

/* Refuses an option that is marked unused, unless it has its default: a run file may serve several
 * commands, and may contain the defaults of options that this command does not use. */
static weft_status check_unused(const weft_option *o, const char *text)
{
    bool usual;
    WEFT_TRY(is_usual(o, text, &usual));
    if (usual) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "--%s has no effect here, since %s; leave it out", o->name,
                     o->unused);
}

weft_status weft_options_check(const weft_option *table, const void *target)
{
    WEFT_NEED(table, target);
    weft_status status = WEFT_OK;
    for (const weft_option *o = table; o->name && status == WEFT_OK; o++) {
        char *text;
        if (!o->with && !o->unused) continue;
        WEFT_TRY(weft_options_get(table, target, o->name, &text));
        status = o->unused ? check_unused(o, text) : check_with(table, target, o, text);
        free(text);
    }
    return status;
}

weft_status weft_options_refuse_overwrite(const weft_option *table, const void *target,
                                          const char *what, const char *path)
{
    WEFT_NEED(table, target, what, path);
    static const char *const outputs[] = {"metrics", "trace", "plot"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < WEFT_COUNT(outputs) && status == WEFT_OK; i++) {
        char *output;
        if (!row(table, outputs[i])) continue;
        WEFT_TRY(weft_options_get(table, target, outputs[i], &output));
        if (output && weft_output_same(output, path))
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "--%s %s is %s, which would be lost; give another file", outputs[i],
                               output, what);
        free(output);
    }
    return status;
}
