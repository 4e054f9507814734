/* weft help --bash: a completion script for bash, written from the tables of commands and options.
 */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static void print_words(const char *list)
{
    for (; *list; list++) putchar(*list == ',' ? ' ' : *list);
}

static void print_names(void)
{
    for (int i = 0; commands[i]; i++) printf("%s%s", i ? " " : "", commands[i]->name);
}

/* A pattern of the words "COMMAND OPTION" before a value. */
static void print_pattern(const command *c, const weft_option *o)
{
    printf("'%s --%s'", c->name, o->name);
    if (o->letter) printf(" | '%s -%c'", c->name, o->letter);
}

/* The legal values of an option, or the names with which a specification begins. */
static weft_status print_choices(const weft_context *context, const weft_option *o)
{
    char *choices;
    const weft_entry *e;
    weft_status status = weft_option_choices(o, &choices);
    if (status != WEFT_OK) return status;
    print_words(choices ? choices : "");
    for (int i = 0; !choices && (e = weft_context_entry(context, weft_option_names(o), i)); i++)
        if (!e->implied) printf("%s%s", i ? " " : "", e->name);
    weft_free(choices);
    return WEFT_OK;
}

/* Values of the options that take some: words where a table lists them, else names of files. */
static weft_status print_values(const weft_context *context, const command *c,
                                const weft_option *table)
{
    for (const weft_option *o = table; o && o->name; o++) {
        if (o->unused || o->kind == WEFT_OPT_FLAG) continue;
        printf("    ");
        print_pattern(c, o);
        printf(") words='");
        weft_status status = print_choices(context, o);
        if (status != WEFT_OK) return status;
        printf("' ;;\n");
    }
    return WEFT_OK;
}

static void print_names_of(const weft_option *table)
{
    for (const weft_option *o = table; o && o->name; o++)
        if (!o->unused) printf("--%s ", o->name);
}

static void print_options(const command *c, const weft_option *table)
{
    printf("    '%s '*) options='", c->name);
    print_names_of(c->own);
    print_names_of(table);
    printf("--plugin --help'");
    if (strstr(c->usage, "COMMAND")) printf(" words=\"$commands $topics\"");
    printf(" ;;\n");
}

int print_completion(const weft_context *context)
{
    printf("# Completion of weft for bash, written by `weft help --bash`.\n_weft()\n{\n"
           "    local commands='");
    print_names();
    printf("' topics='");
    for (int k = WEFT_KIND_NONE + 1; k < WEFT_KIND_COUNT; k++)
        if (topic_of((weft_kind)k)) printf("%s ", topic_of((weft_kind)k));
    printf("'\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local words= options=\n"
           "    # bash takes the sign of --name=value for a word.\n"
           "    if [ \"$word\" = = ]; then word=\n"
           "    elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then words=$commands options='--help --version'\n"
           "    else case \"${COMP_WORDS[1]} $before\" in\n");
    for (int i = 0; commands[i]; i++) {
        const command *c = commands[i];
        const weft_option *table = c->table ? c->table(context) : NULL;
        weft_status status = print_values(context, c, table);
        if (status == WEFT_OK && c->own) status = print_values(context, c, c->own);
        if (status != WEFT_OK) return report_failure(status);
        print_options(c, table);
    }
    printf("    esac; fi\n"
           "    case $word in -*) words=$options ;; esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "}\n"
           "complete -o default -F _weft weft\n");
    return 0;
}
