/* Loads the plug-ins that the user names: in options, by --plugin, or in the environment variable
 * WEFT_PLUGINS. Other code of the command finds plug-ins and never loads them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#include "weft/plugin.h"

/* Adds a path to WEFT_PLUGINS, so that the processes that this one starts load it, too. */
static int add_plugin(const char *path)
{
    const char *list = getenv("WEFT_PLUGINS"), *there = list ? strstr(list, path) : NULL;
    size_t length = strlen(path), size = length + (list ? strlen(list) : 0) + 2;
    if (there && (there == list || there[-1] == ':') && (!there[length] || there[length] == ':'))
        return 0;
    char *all = malloc(size);
    if (all) (void)snprintf(all, size, "%s%s%s", list ? list : "", list && *list ? ":" : "", path);
    bool added = all && setenv("WEFT_PLUGINS", all, 1) == 0;
    free(all);
    if (added) return 0;
    fprintf(stderr, "weft: --plugin %s: out of memory\n", path);
    return 1;
}

weft_status load_option_plugins(weft_context *context, const weft_option *table,
                                const void *options)
{
    weft_status status = weft_plugin_load_options(context, table, options);
    const char *path;
    for (int i = 0; status == WEFT_OK && (path = weft_plugin_path(context, i)); i++)
        if (!strchr(path, ':')) (void)add_plugin(path);
    return status;
}

int load_plugins(weft_context *context, const weft_option *table, const void *options)
{
    return report_failure(load_option_plugins(context, table, options));
}

int take_plugin_options(int *argc, char **argv)
{
    static const char option[] = "--plugin";
    const size_t size = sizeof(option) - 1;
    int kept = 0, code = 0;
    for (int i = 0; i < *argc; i++) {
        const char *word = argv[i], *path = word + size + 1;
        if (strncmp(word, option, size) != 0 || (word[size] && word[size] != '=')) {
            argv[kept++] = argv[i];
            continue;
        }
        if (!word[size]) path = i + 1 < *argc ? argv[++i] : "";
        if (!code && (!*path || strchr(path, ':'))) {
            fprintf(stderr,
                    "weft: --plugin is '%s', must be the path of a shared object, without a "
                    "colon\n",
                    path);
            code = 2;
        }
        if (!code) code = add_plugin(path);
    }
    argv[kept] = NULL;
    *argc = kept;
    return code;
}

int load_plugins_of_environment(weft_context *context)
{
    const char *list = getenv("WEFT_PLUGINS");
    char *copy = list ? strdup(list) : NULL, *save = NULL;
    weft_status status = WEFT_OK;
    for (char *path = copy ? strtok_r(copy, ":", &save) : NULL; path && status == WEFT_OK;
         path = strtok_r(NULL, ":", &save))
        status = weft_plugin_load(context, path);
    free(copy);
    return report_failure(status);
}
