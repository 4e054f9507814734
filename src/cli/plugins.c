/* Loads the plug-ins that the user names: in options, or in the environment variable WEFT_PLUGINS
 * for plug-ins that no option names, such as that of a model in a checkpoint. Other code of the
 * command finds plug-ins and never loads them. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#include "weft/plugin.h"

int load_plugins(weft_context *context, const weft_option *table, const void *options)
{
    return report_failure(weft_plugin_load_options(context, table, options));
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
