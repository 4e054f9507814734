/* Prints tables. On a terminal that is narrower than the table, each row is folded between two
 * columns, so that no number is cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { MOST_COLUMNS = 32, INDENT = 2, GAP = 2 };

/* The lines of a text, each within it, and the columns of the table: column c has characters
 * [begin[c], end[c]) of each line, without the blanks around it that all lines have. */
typedef struct table {
    char **lines;
    int count, wide; /* lines; characters of the longest one */
    int begin[MOST_COLUMNS], end[MOST_COLUMNS];
    int columns;
} table;

static bool blank(const table *t, int at)
{
    for (int i = 0; i < t->count; i++) {
        int length = (int)strlen(t->lines[i]);
        if (at < length && t->lines[i][at] != ' ') return false;
    }
    return true;
}

/* The begin of the next column, behind the widest run of blanks in all lines between two headings;
 * 0: there is none. */
static int find_begin(const table *t, int from, int to)
{
    int found = 0, widest = 0;
    for (int at = from, run = 0; at < to; at++) {
        run = blank(t, at) ? run + 1 : 0;
        if (run == 0 || run < widest) continue;
        widest = run;
        found = at + 1;
    }
    return found;
}

/* Headings are apart by two blanks or more; the columns of headings between which some line has no
 * blank stay together. */
static void find_columns(table *t)
{
    const char *head = t->lines[0];
    int length = (int)strlen(head), end = 0;
    t->columns = 1;
    for (int at = 0; at < length && t->columns < MOST_COLUMNS; at++) {
        if (head[at] == ' ') continue;
        int begin = end > 0 && at - end >= 2 ? find_begin(t, end, at) : 0;
        if (begin > 0) t->begin[t->columns++] = begin;
        end = at + 1;
    }
    for (int c = 0; c < t->columns; c++) {
        t->end[c] = c + 1 < t->columns ? t->begin[c + 1] : t->wide;
        while (t->end[c] > t->begin[c] && blank(t, t->end[c] - 1)) t->end[c]--;
    }
    for (int c = 0; c < t->columns; c++)
        while (t->begin[c] < t->end[c] && blank(t, t->begin[c])) t->begin[c]++;
}

/* Prints the columns of a line, without blanks at the end; returns the first that is beyond the
 * edge. */
static int print_columns(const table *t, const char *line, int first, int edge)
{
    int at = first > 0 ? INDENT : 0, length = (int)strlen(line), blanks = at, c = first;
    bool empty = true;
    for (; c < t->columns && (c == first || at + t->end[c] - t->begin[c] <= edge); c++) {
        int end = t->end[c] < length ? t->end[c] : length, begin = t->begin[c], cell = begin;
        at += t->end[c] - begin + GAP;
        while (cell < end && line[cell] == ' ') cell++;
        while (end > cell && line[end - 1] == ' ') end--;
        if (end > cell) printf("%*s%.*s", blanks + cell - begin, "", end - cell, line + cell);
        empty = empty && end <= cell;
        blanks = end > cell ? t->end[c] - end + GAP : blanks + t->end[c] - begin + GAP;
    }
    if (!empty) printf("\n");
    return c;
}

/* The lines of the text, whose ends are cut off. */
static bool take_lines(table *t, char *text)
{
    char *save = NULL;
    size_t most = 1;
    for (const char *c = text; *c; c++) most += *c == '\n';
    t->lines = calloc(most, sizeof(*t->lines));
    for (char *l = t->lines ? strtok_r(text, "\n", &save) : NULL; l;
         l = strtok_r(NULL, "\n", &save)) {
        int length = (int)strlen(l);
        t->lines[t->count++] = l;
        if (length > t->wide) t->wide = length;
    }
    return t->count > 0;
}

/* The lines of a table end at the same place; others are notes between its rows. */
static size_t table_bytes(const char *text)
{
    size_t all = 0, first = strcspn(text, "\n");
    while (text[all] && strcspn(text + all, "\n") == first) all += first + (text[all + first] != 0);
    return all;
}

static void print_folded(const char *text)
{
    table t = {.count = 0};
    char *copy = isatty(STDOUT_FILENO) ? strdup(text) : NULL;
    int columns = progress_columns();
    if (copy && take_lines(&t, copy) && t.wide > columns) {
        find_columns(&t);
        for (int i = 0; i < t.count; i++)
            for (int c = 0; c < t.columns;) c = print_columns(&t, t.lines[i], c, columns);
    } else {
        fputs(text, stdout);
    }
    free(t.lines);
    free(copy);
}

void print_with_tables(const char *text, const char *heading)
{
    const char *before = text;
    for (const char *at = strstr(text, heading); at; at = strstr(before, heading)) {
        size_t bytes = at == text || at[-1] == '\n' ? table_bytes(at) : 1;
        char *rows = strndup(at, bytes);
        printf("%.*s", (int)(at - before), before);
        if (rows) print_folded(rows);
        free(rows);
        before = at + bytes;
    }
    fputs(before, stdout);
}

void folded_table_begin(folded_table *t)
{
    t->text = NULL;
    t->to = open_memstream(&t->text, &t->size);
    if (!t->to) t->to = stdout;
}

void folded_table_end(folded_table *t)
{
    if (t->to != stdout && fclose(t->to) == 0) print_folded(t->text);
    free(t->text);
}
