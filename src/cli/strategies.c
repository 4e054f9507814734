/* Lists of strategies, "exchange=average; mesh=data=2 zero=1": the options of several runs. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static char *trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t size = strlen(text);
    while (size > 0 && isspace((unsigned char)text[size - 1])) text[--size] = '\0';
    return text;
}

int split_strategies(const char *list, char **words, int most)
{
    char *copy = strdup(list), *next = copy;
    int count = 0;
    bool fits = copy != NULL;
    for (char *at = copy; at && fits && *list; at = next) {
        next = strchr(at, ';');
        if (next) *next++ = '\0';
        at = trim(at);
        fits = *at && count < most && (words[count] = strdup(at));
        count += fits;
    }
    free(copy);
    for (int i = 0; i < count && !fits; i++) free(words[i]);
    return fits ? count : -1;
}

int refuse_strategies(const char *list, int most, const char *command_name)
{
    fprintf(stderr,
            "weft: strategies '%s': give from 1 to %d with semicolons between them, as in "
            "--strategies 'mesh=data=2; mesh=tensor=2'\nTry 'weft help %s'.\n",
            list, most, command_name);
    return 2;
}

weft_status set_strategy(const weft_option *table, void *options, const char *words)
{
    char *copy = strdup(words), *save = NULL;
    weft_status status = WEFT_OK;
    for (char *w = copy ? strtok_r(copy, " \t\n", &save) : NULL; w && status == WEFT_OK;
         w = strtok_r(NULL, " \t\n", &save)) {
        char *equals = strchr(w, '=');
        if (equals) *equals = '\0';
        status = weft_options_set(table, options, w, equals ? equals + 1 : "true");
    }
    free(copy);
    return status;
}

const char *strategy_label(const char *words)
{
    static const char exchange[] = "exchange=";
    return strncmp(words, exchange, strlen(exchange)) == 0 ? words + strlen(exchange) : words;
}
