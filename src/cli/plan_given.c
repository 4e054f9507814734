/* The options of weft train that are given in words or in a run file, though perhaps with their
 * defaults: they are read over values that no option has. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

static void *field(const weft_option *o, void *options)
{
    return (char *)options + o->offset;
}

static bool is_on(const weft_option *o)
{
    return o->initial && strcmp(o->initial, "true") == 0;
}

static weft_status init_unlike(const weft_context *context, void *options)
{
    weft_status status = weft_train_options_init(context, options);
    for (const weft_option *o = weft_train_table(context); o->name && status == WEFT_OK; o++)
        if (o->kind == WEFT_OPT_INT) {
            *(int64_t *)field(o, options) = INT64_MIN;
        } else if (o->kind == WEFT_OPT_FLAG) {
            *(bool *)field(o, options) = !is_on(o);
        } else if (o->kind == WEFT_OPT_STRING) {
            weft_free(*(char **)field(o, options));
            *(char **)field(o, options) = NULL;
        }
    return status;
}

/* Options of other kinds count as given by their values alone. */
static bool is_given(const weft_option *o, void *options)
{
    if (o->kind == WEFT_OPT_INT) return *(int64_t *)field(o, options) != INT64_MIN;
    if (o->kind == WEFT_OPT_FLAG) return *(bool *)field(o, options) == is_on(o);
    return o->kind == WEFT_OPT_STRING && *(char **)field(o, options);
}

weft_status find_given(const weft_context *context, int argc, char **argv, plan_options *plan)
{
    weft_train_options scratch = {0}, options = {0};
    const weft_option *table = weft_train_table(context);
    size_t size;
    FILE *to = open_memstream(&plan->given, &size);
    if (!to) return WEFT_ERR_MEMORY;
    weft_status status =
        read_run_options(context, table, init_unlike, &scratch, &options, argc, argv);
    for (const weft_option *o = table; o->name && status == WEFT_OK; o++)
        if (is_given(o, &options)) {
            fprintf(to, "%s,", o->name);
            plan->keeps_ranks =
                plan->keeps_ranks || o->offset == offsetof(weft_train_options, job.ranks);
        }
    weft_options_free(table, &options);
    if (fclose(to) != 0 && status == WEFT_OK) status = WEFT_ERR_MEMORY;
    return status;
}
