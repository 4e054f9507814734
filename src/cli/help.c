/* weft help: prints the help of commands, and their man pages, from the tables of commands and
 * options. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

#include "weft/plugin.h"
#include "weft/version.h"

/* The names of the pages about the registry, with spaces between them. */
static void print_topics(void)
{
    for (int k = WEFT_KIND_NONE + 1; k < WEFT_KIND_COUNT; k++)
        if (topic_of((weft_kind)k)) printf("%s%s", k % 8 ? " " : "\n  ", topic_of((weft_kind)k));
}

static void overview(void)
{
    printf(
        "weft %s: parallel and distributed deep learning in C\n\nusage: weft COMMAND [options]\n\n",
        weft_version());
    for (int i = 0; commands[i]; i++)
        printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
    printf("\nA first run, about ten seconds:\n  weft train\n\n"
           "'weft help COMMAND' explains a command, 'weft help TOPIC' what there is of a kind, "
           "also in\n"
           "loaded plug-ins; the topics are:\n ");
    print_topics();
    printf("\n\n"
           "Every command takes --plugin FILE.so, several times: it loads a plug-in, whose "
           "operators,\n"
           "layers, optimizers and so on then have names like built-in ones.\n");
}

static int explain(const weft_context *context, const command *c)
{
    char *options = NULL;
    printf("usage: weft %s %s\n\n%s\n\n%s\n", c->name, c->usage, c->summary, c->text);
    for (int i = 0; i < 2; i++) {
        const weft_option *table = i == 0 ? c->own : c->table ? c->table(context) : NULL;
        if (!table) continue;
        weft_status status = weft_options_help(table, &options);
        if (status != WEFT_OK) return report_failure(status);
        printf("\n%s", options);
        weft_free(options);
    }
    if (c->examples) printf("\nExamples:\n%s", c->examples);
    return 0;
}

void print_roff(const char *text)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\\\", stdout);
        else
            putchar(*text);
        start = *text == '\n';
    }
}

static weft_status man_option(const weft_option *o)
{
    char *help;
    weft_status status = weft_option_help(o, &help);
    if (status != WEFT_OK) return status;
    printf(".TP\n\\fB");
    if (o->letter) printf("\\-%c\\fR, \\fB", o->letter);
    printf("\\-\\-");
    print_roff(o->name);
    printf("\\fR");
    if (o->argument) {
        printf("%s\\fI", o->argument[0] == '[' ? "" : " ");
        print_roff(o->argument);
        printf("\\fR");
    }
    printf("\n");
    print_roff(help);
    printf("\n");
    weft_free(help);
    return WEFT_OK;
}

/* table: may be NULL. */
static weft_status man_options(const weft_option *table)
{
    const char *group = NULL, *shown = "";
    for (const weft_option *o = table; o && o->name; o++) {
        if (o->group) group = o->group;
        if (o->unused) continue;
        if (group && strcmp(group, shown) != 0) printf(".SH %s\n", shown = group);
        weft_status status = man_option(o);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static int man_page(const weft_context *context, const command *c)
{
    printf(".TH WEFT\\-%s 1 \"\" \"weft %s\" \"Weft manual\"\n.ad l\n.SH NAME\nweft\\-%s \\- ",
           c->name, weft_version(), c->name);
    print_roff(c->summary);
    printf("\n.SH SYNOPSIS\n\\fBweft %s\\fR ", c->name);
    print_roff(c->usage);
    printf("\n.SH DESCRIPTION\n");
    print_roff(c->text);
    printf("\n");
    for (int i = 0; i < 2; i++) {
        weft_status status = man_options(i == 0 ? c->own : c->table ? c->table(context) : NULL);
        if (status != WEFT_OK) return report_failure(status);
    }
    if (c->examples) {
        printf(".SH EXAMPLES\n.nf\n");
        print_roff(c->examples);
        printf(".fi\n");
    }
    printf(".SH EXIT STATUS\n0: success; 1: failure; 2: invalid arguments; 128 and "
           "the number of a signal: the signal has ended the command (130: "
           "Ctrl\\-C), or killed a rank of the job (137: SIGKILL).\n");
    return 0;
}

/* The man page of weft refers to those of its commands. */
static int man_overview(void)
{
    printf(
        ".TH WEFT 1 \"\" \"weft %s\" \"Weft manual\"\n.SH NAME\nweft \\- parallel and distributed "
        "deep learning in C\n.SH SYNOPSIS\n\\fBweft\\fR \\fICOMMAND\\fR [options]\n"
        ".SH COMMANDS\n",
        weft_version());
    for (int i = 0; commands[i]; i++) {
        printf(".TP\n.BR weft\\-%s (1)\n", commands[i]->name);
        print_roff(commands[i]->summary);
        printf("\n");
    }
    printf(".SH TOPICS\n");
    for (int k = WEFT_KIND_NONE + 1; k < WEFT_KIND_COUNT; k++)
        if (topic_of((weft_kind)k))
            printf(".TP\n.BR weft\\-%s (7)\n%s\n", topic_of((weft_kind)k),
                   weft_kind_title((weft_kind)k));
    printf(".SH EXAMPLES\nA first run, about ten seconds:\n.nf\n  weft train\n.fi\n");
    return 0;
}

typedef struct help_options {
    bool man, bash;
} help_options;

static const weft_option own_table[] = {
    {.name = "man",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(help_options, man),
     .group = "What to print",
     .help = "the manual page of the command or topic, or of weft itself, as source for man(1)"},
    {.name = "bash",
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(help_options, bash),
     .help = "a script for bash that completes commands, options and their values"},
    {.name = NULL},
};

weft_status take_own_options(const weft_option *own, void *out, int *argc, char **argv)
{
    weft_status status = WEFT_OK;
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        const weft_option *o = own;
        size_t size = strncmp(argv[i], "--", 2) == 0 ? strcspn(argv[i] + 2, "=") : 0;
        while (o->name && (strlen(o->name) != size || strncmp(argv[i] + 2, o->name, size) != 0))
            o++;
        const char *usual = o->kind == WEFT_OPT_FLAG ? "true" : o->initial;
        if (!o->name)
            argv[kept++] = argv[i];
        else if (status == WEFT_OK)
            status = weft_options_set(own, out, o->name,
                                      argv[i][size + 2] ? argv[i] + size + 3
                                      : usual           ? usual
                                      : i + 1 < *argc   ? argv[++i]
                                                        : "");
    }
    *argc = kept;
    return status;
}

/* The command that other programs call so, or the first one that begins with the same two letters;
 * NULL: none. */
static const char *near_command(const char *name)
{
    static const char *const meanings[][2] = {{"test", "eval"}, {"sweep", "compare"}};
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
        if (strcmp(name, meanings[i][0]) == 0) return meanings[i][1];
    for (int i = 0; commands[i]; i++)
        if (strncmp(commands[i]->name, name, 2) == 0) return commands[i]->name;
    return NULL;
}

int no_command(const weft_context *context, const char *name)
{
    char shown[256];
    const char *one, *near = near_command(name);
    for (int k = WEFT_KIND_NONE + 1; k < WEFT_KIND_COUNT; k++)
        for (int i = 0; topic_of((weft_kind)k) && (one = weft_context_name(context, k, i)); i++)
            if (strcmp(one, name) == 0) {
                fprintf(stderr, "weft: '%s' is no command, but one of %s\nTry 'weft help %s'.\n",
                        one, topic_of((weft_kind)k), topic_of((weft_kind)k));
                return 2;
            }
    fprintf(stderr, "weft: no command is named '%s'%s%s%s\nTry 'weft help'.\n",
            weft_printable(name, shown, sizeof(shown)), near ? "; did you mean '" : "",
            near ? near : "", near ? "'?" : "");
    return 2;
}

static int run(weft_context *context, int argc, char **argv)
{
    help_options own = {0};
    weft_status status = take_own_options(own_table, &own, &argc, argv);
    if (status != WEFT_OK) return usage_failure("help");
    const bool man = own.man;
    const char *name = argc > 0 ? argv[0] : NULL;
    char shown[256];
    if (own.bash && (man || name)) {
        fprintf(stderr, "weft: --bash is about all commands, so it stands alone\n"
                        "Try 'weft help help'.\n");
        return 2;
    }
    if (own.bash || name) weft_plugin_load_installed(context);
    if (own.bash) return print_completion(context);
    if (argc > 1) {
        fprintf(stderr,
                "weft: help explains one command, and '%s' is a second one; give one of them\n"
                "Try 'weft help'.\n",
                weft_printable(argv[1], shown, sizeof(shown)));
        return 2;
    }
    if (!name && man) return man_overview();
    if (!name) {
        overview();
        return 0;
    }
    for (int i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return man ? man_page(context, commands[i]) : explain(context, commands[i]);
    weft_kind topic = topic_find(name);
    if (topic != WEFT_KIND_NONE) return print_topic(context, topic, man);
    return no_command(context, name);
}

const command command_help = {
    .name = "help",
    .usage = "[--man] [COMMAND | TOPIC]\n       weft help --bash",
    .summary = "explain a command",
    .text =
        "Without a command: the list of commands. A topic is the page of all that is of a kind,\n"
        "such as optimizers.",
    .own = own_table,
    .run = run,
};
