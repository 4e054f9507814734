/* Pages of the manual about what the registry knows, such as weft help operators: one for each
 * kind, made from the tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/graph.h"
#include "weft/model.h"
#include "weft/version.h"

static const char *const topics[WEFT_KIND_COUNT] = {
    [WEFT_KIND_MODEL] = "models",
    [WEFT_KIND_LAYER] = "layers",
    [WEFT_KIND_LOSS] = "losses",
    [WEFT_KIND_DATA] = "data",
    [WEFT_KIND_NORMALIZATION] = "normalizations",
    [WEFT_KIND_OPTIMIZER] = "optimizers",
    [WEFT_KIND_RATE] = "rates",
    [WEFT_KIND_DEVICE] = "devices",
    [WEFT_KIND_ENGINE] = "engines",
    [WEFT_KIND_SCHEDULE] = "schedules",
    [WEFT_KIND_EXCHANGE] = "exchanges",
    [WEFT_KIND_CODEC] = "codecs",
    [WEFT_KIND_POLICY] = "policies",
    [WEFT_KIND_ARRIVALS] = "arrivals",
    [WEFT_KIND_OPERATOR] = "operators",
    [WEFT_KIND_METRIC] = "metrics",
    [WEFT_KIND_SERVER_POLICY] = "server-policies",
    [WEFT_KIND_AUGMENTATION] = "augmentations",
};

const char *topic_of(weft_kind kind)
{
    return topics[kind];
}

weft_kind topic_find(const char *name)
{
    for (int k = 0; k < WEFT_KIND_COUNT; k++)
        if (topics[k] && strcmp(topics[k], name) == 0) return (weft_kind)k;
    return WEFT_KIND_NONE;
}

/* The options whose value begins with a name of the kind, as in "--optimizer of train". */
static void print_options(FILE *to, const weft_context *context, weft_kind kind)
{
    for (int c = 0, count = 0; commands[c]; c++) {
        const weft_option *table = commands[c]->table ? commands[c]->table(context) : NULL;
        for (const weft_option *o = table; o && o->name; o++)
            if (!o->unused && weft_option_names(o) == kind)
                fprintf(to, "%s--%s of %s", count++ ? ", " : "\nNamed by ", o->name,
                        commands[c]->name);
        if (!commands[c + 1] && count) fprintf(to, ".\n");
    }
}

/* Prints a list with a comma behind each word as a sentence. */
static void print_list(FILE *to, const char *before, const char *list)
{
    fprintf(to, "    %s ", before);
    for (; *list; list++) fprintf(to, *list == ',' && list[1] != ' ' ? ", " : "%c", *list);
    fprintf(to, ".\n");
}

static weft_status print_entry(FILE *to, const weft_context *context, const weft_entry *e)
{
    char *text = NULL;
    fprintf(to, "\n  %s\n", e->form ? e->form : e->name);
    if (e->summary && *e->summary) fprintf(to, "    %s.\n", e->summary);
    if (e->reads) print_list(to, "Reads the options", e->reads);
    if (e->before) fprintf(to, "    Formerly %s.\n", e->before);
    const char *keys = e->kind == WEFT_KIND_LAYER ? weft_layer_keys(context, e->name) : NULL;
    if (keys && *keys) print_list(to, "Keys:", keys);
    if (e->kind == WEFT_KIND_OPERATOR) {
        weft_status status = weft_operator_text(context, e->name, &text);
        if (status != WEFT_OK) return status;
        fprintf(to, "    %s\n", text);
        weft_free(text);
    }
    return WEFT_OK;
}

/* Prints the text of a page as paragraphs, each with the name of an entry before it. */
static void print_paragraphs(char *text)
{
    for (char *save, *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        size_t indent = strspn(line, " ");
        printf(indent == 2 ? ".TP\n\\fB" : indent ? "" : ".PP\n");
        print_roff(line + indent);
        printf(indent == 2 ? "\\fR\n" : "\n");
    }
}

int print_topic(const weft_context *context, weft_kind kind, bool man)
{
    const weft_entry *e;
    char *text = NULL;
    size_t size;
    weft_status status = WEFT_OK;
    FILE *to = open_memstream(&text, &size);
    if (!to) return 1;
    print_options(to, context, kind);
    for (int i = 0; status == WEFT_OK && (e = weft_context_entry(context, kind, i)); i++)
        if (!e->implied) status = print_entry(to, context, e);
    if (fclose(to) == 0 && status == WEFT_OK && man) {
        printf(
            ".TH WEFT\\-%s 7 \"\" \"weft %s\" \"Weft manual\"\n.ad l\n.SH NAME\nweft\\-%s \\- %s\n"
            ".SH DESCRIPTION\n",
            topics[kind], weft_version(), topics[kind], weft_kind_title(kind));
        print_paragraphs(text);
    } else if (status == WEFT_OK) {
        printf("%s\n%s", weft_kind_title(kind), text);
    }
    free(text);
    return report_failure(status);
}
