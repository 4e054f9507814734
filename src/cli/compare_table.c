/* The table of weft compare: one row for each strategy. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "compare.h"

static double lowest(const compared_run *c)
{
    double low = INFINITY;
    for (size_t i = 0; i < c->count; i++) low = fmin(low, c->points[i].loss);
    return low;
}

static double find_target(const compared_run *all, int count, double asked)
{
    double target = 0;
    for (int i = 0; i < count && asked <= 0; i++)
        if (!all[i].failed) target = fmax(target, lowest(&all[i]));
    return asked > 0 ? asked : target;
}

static void find_reached(compared_run *c, double target)
{
    c->reached = -1;
    for (size_t i = 0; i < c->count && c->reached < 0; i++)
        if (c->points[i].loss <= target) c->reached = c->points[i].seconds;
}

/* NaN, which is printed as a dash, for a number below 0, by which runs mark unknown figures. Not
 * for R2, which may be negative. */
static double known(double x)
{
    return x < 0 ? NAN : x;
}

static const char *number(double x, const char *form, char *out, size_t size)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (!isfinite(x))
        (void)snprintf(out, size, "-");
    else
        (void)snprintf(out, size, form, x);
#pragma GCC diagnostic pop
    return out;
}

enum { REACHED, RATE, QUALITY, SENT, STALENESS, UTILISATION, FIGURES, ROOM = 32 };

static void figures_of(const compared_run *c, char text[FIGURES][ROOM])
{
    (void)number(known(c->reached), "%.4g", text[REACHED], ROOM);
    (void)number(known(c->samples_per_second), "%.0f", text[RATE], ROOM);
    if (isfinite(c->quality))
        (void)score_text(c->quality, text[QUALITY], ROOM);
    else
        (void)snprintf(text[QUALITY], ROOM, "-");
    (void)snprintf(text[SENT], ROOM, "%s", bytes_text(c->bytes, (char[ROOM]){0}, ROOM));
    (void)number(known(c->staleness), "%.2f", text[STALENESS], ROOM);
    (void)number(100 * known(c->utilisation), "%.0f %%", text[UTILISATION], ROOM);
}

static void heads_of(const compared_run *all, int count, double target, char text[FIGURES][ROOM])
{
    const char *quality = "accuracy";
    for (int i = 0; i < count; i++)
        if (all[i].quality_name) quality = all[i].quality_name;
    (void)snprintf(text[REACHED], ROOM, "s to loss %.4g", target);
    (void)snprintf(text[RATE], ROOM, "samples/s");
    (void)snprintf(text[QUALITY], ROOM, "%s", quality);
    (void)snprintf(text[SENT], ROOM, "sent");
    (void)snprintf(text[STALENESS], ROOM, "staleness");
    (void)snprintf(text[UTILISATION], ROOM, "utilisation");
}

/* The widths of the columns: of the labels, and of the figures with two spaces before each. */
typedef struct layout {
    int label, figure[FIGURES];
    bool folds; /* a label has a line of its own, since the whole row is wider than the terminal */
} layout;

static void widen(layout *l, char text[FIGURES][ROOM])
{
    for (int k = 0; k < FIGURES; k++) {
        int own = 2 + (int)strlen(text[k]);
        if (own > l->figure[k]) l->figure[k] = own;
    }
}

static layout lay_out(const compared_run *all, int count, char heads[FIGURES][ROOM])
{
    layout l = {.label = (int)strlen("strategy")};
    char text[FIGURES][ROOM];
    widen(&l, heads);
    for (int i = 0; i < count; i++) {
        int own = (int)strlen(all[i].label);
        if (own > l.label) l.label = own;
        if (all[i].failed) continue;
        figures_of(&all[i], text);
        widen(&l, text);
    }
    int row = l.label;
    for (int k = 0; k < FIGURES; k++) row += l.figure[k];
    l.folds = isatty(STDOUT_FILENO) && row > progress_columns();
    return l;
}

static void print_row(const layout *l, const char *label, char text[FIGURES][ROOM])
{
    if (l->folds)
        printf("%s\n", label);
    else
        printf("%-*s", l->label, label);
    for (int k = 0; k < FIGURES; k++) printf("%*s", l->figure[k], text[k]);
    printf("\n");
}

void print_comparison(compared_run *all, int count, double asked)
{
    double target = find_target(all, count, asked);
    char text[FIGURES][ROOM];
    for (int i = 0; i < count; i++) find_reached(&all[i], target);
    heads_of(all, count, target, text);
    layout l = lay_out(all, count, text);
    print_row(&l, "strategy", text);
    for (int i = 0; i < count; i++) {
        if (all[i].failed) {
            printf("%-*s%s  the loss became NaN or infinite\n", l.folds ? 0 : l.label, all[i].label,
                   l.folds ? "\n" : "");
            continue;
        }
        figures_of(&all[i], text);
        print_row(&l, all[i].label, text);
    }
}
