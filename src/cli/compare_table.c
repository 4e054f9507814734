/* The results of weft compare as a table, one row for each run, and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "compare.h"

static double lowest(const course *c)
{
    double low = INFINITY;
    for (size_t i = 0; i < c->count; i++) low = fmin(low, c->points[i].value);
    return low;
}

/* When a run has reached the target for good: of a run that diverges later, or whose loss jumps,
 * one lucky batch does not count. A smoothed loss may be above the target again, but not twice. */
static double kept_since(const course *c, double target)
{
    const double lost = target > 0 ? 2 * target : target / 2;
    double since = -1;
    for (size_t k = 0; k < c->count; k++) {
        if (!(c->points[k].value <= lost)) since = -1;
        if (since < 0 && c->points[k].value <= target) since = c->points[k].seconds;
    }
    return since;
}

/* The lowest loss that all runs reach, and the time when each run has reached it, or the target
 * that was asked for. */
static double find_reached(compared_run *all, int count, double asked)
{
    double target = asked > 0 ? asked : -INFINITY;
    for (int i = 0; i < count && asked <= 0; i++)
        if (!all[i].failed && all[i].courses[TRAINING].count > 0)
            target = fmax(target, lowest(&all[i].courses[TRAINING]));
    for (int i = 0; i < count; i++) {
        all[i].reached = kept_since(&all[i].courses[TRAINING], target);
    }
    return target;
}

/* The smoothed training loss at the end; NaN: there is none. */
static double last_loss(const compared_run *c)
{
    const course *t = &c->courses[TRAINING];
    return t->count > 0 ? t->points[t->count - 1].value : NAN;
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

enum {
    REACHED,
    RATE,
    TRAINED,
    LOSS,
    METRICS,
    SENT = METRICS + MOST_METRICS,
    STALENESS,
    UTILISATION
};
enum { FIGURES = UTILISATION + 1, ROOM = 40 };

/* The metrics of all runs, in the order of their columns. */
typedef struct metric_columns {
    const compared_metric *of[MOST_METRICS];
    int count;
} metric_columns;

static metric_columns find_columns(const compared_run *all, int count)
{
    metric_columns m = {.count = 0};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < all[i].held_out.metrics && m.count < MOST_METRICS; k++) {
            int same = 0;
            const compared_metric *own = &all[i].held_out.metric[k];
            while (same < m.count && strcmp(m.of[same]->name, own->name) != 0) same++;
            if (same == m.count) m.of[m.count++] = own;
        }
    return m;
}

static void score(double x, char *out)
{
    if (isfinite(x))
        (void)score_text(x, out, ROOM);
    else
        (void)snprintf(out, ROOM, "-");
}

static void figures_of(const compared_run *c, const metric_columns *m, char text[FIGURES][ROOM])
{
    memset(text, 0, sizeof(*text) * FIGURES);
    (void)number(known(c->reached), "%.4g", text[REACHED], ROOM);
    (void)number(known(c->samples_per_second), "%.0f", text[RATE], ROOM);
    score(last_loss(c), text[TRAINED]);
    score(c->held_out.loss, text[LOSS]);
    for (int k = 0; k < m->count; k++) {
        const compared_metric *own = find_metric(c, m->of[k]->name);
        score(own ? own->value : NAN, text[METRICS + k]);
    }
    (void)snprintf(text[SENT], ROOM, "%s",
                   c->bytes < 0 ? "-" : bytes_text(c->bytes, (char[ROOM]){0}, ROOM));
    (void)number(known(c->staleness), "%.2f", text[STALENESS], ROOM);
    (void)number(100 * known(c->utilisation), "%.0f %%", text[UTILISATION], ROOM);
}

static void heads_of(const compared_run *all, int count, const metric_columns *m, double target,
                     char text[FIGURES][ROOM])
{
    const char *part = "test";
    memset(text, 0, sizeof(*text) * FIGURES);
    for (int i = 0; i < count; i++)
        if (*all[i].part) part = all[i].part;
    for (int i = 0; i < count; i++)
        if (*all[i].part && strcmp(all[i].part, part) != 0) part = "held-out";
    (void)snprintf(text[REACHED], ROOM, "s to loss %.4g", target);
    (void)snprintf(text[RATE], ROOM, "samples/s");
    (void)snprintf(text[TRAINED], ROOM, "train loss");
    (void)snprintf(text[LOSS], ROOM, "%s loss", part);
    for (int k = 0; k < m->count; k++)
        (void)snprintf(text[METRICS + k], ROOM, "%s", m->of[k]->title);
    (void)snprintf(text[SENT], ROOM, "sent");
    (void)snprintf(text[STALENESS], ROOM, "staleness");
    (void)snprintf(text[UTILISATION], ROOM, "utilisation");
}

/* The widths of the columns: of the labels, and of the figures with two spaces before each. */
typedef struct layout {
    int label, figure[FIGURES];
} layout;

static void widen(layout *l, char text[FIGURES][ROOM])
{
    for (int k = 0; k < FIGURES; k++) {
        int own = *text[k] ? 2 + (int)strlen(text[k]) : 0;
        if (own > l->figure[k]) l->figure[k] = own;
    }
}

static layout lay_out(const compared_run *all, int count, const metric_columns *m,
                      char heads[FIGURES][ROOM])
{
    layout l = {.label = (int)strlen("strategy")};
    char text[FIGURES][ROOM];
    widen(&l, heads);
    for (int i = 0; i < count; i++) {
        int own = (int)strlen(all[i].label);
        if (own > l.label) l.label = own;
        if (all[i].failed) continue;
        figures_of(&all[i], m, text);
        widen(&l, text);
    }
    /* Real runs have no utilisation: no column is of dashes alone. */
    bool any = false;
    for (int i = 0; i < count; i++) any = any || all[i].utilisation >= 0;
    if (!any) l.figure[UTILISATION] = 0;
    return l;
}

static void put_row(FILE *to, const layout *l, const char *label, char text[FIGURES][ROOM])
{
    fprintf(to, "%-*s", l->label, label);
    for (int k = 0; k < FIGURES; k++)
        if (l->figure[k] > 0) fprintf(to, "%*s", l->figure[k], text[k]);
    fprintf(to, "\n");
}

/* Names the run that is best on data that it was not trained on, where all of them are known. */
static void print_best(const compared_run *all, int count)
{
    char loss[ROOM];
    const compared_run *best = NULL;
    for (int i = 0; i < count; i++) {
        if (all[i].failed) continue;
        if (!isfinite(all[i].held_out.loss) || (best && strcmp(all[i].part, best->part) != 0))
            return;
        if (!best || all[i].held_out.loss < best->held_out.loss) best = &all[i];
    }
    if (best && count > 1)
        printf("\nlowest %s loss: %s, of %s\n", best->part,
               score_text(best->held_out.loss, loss, sizeof(loss)), best->label);
}

void print_comparison(compared_run *all, int count, double asked)
{
    double target = find_reached(all, count, asked);
    char text[FIGURES][ROOM];
    const metric_columns m = find_columns(all, count);
    heads_of(all, count, &m, target, text);
    layout l = lay_out(all, count, &m, text);
    folded_table t;
    folded_table_begin(&t);
    put_row(t.to, &l, "strategy", text);
    for (int i = 0; i < count; i++) {
        if (all[i].failed) continue;
        figures_of(&all[i], &m, text);
        put_row(t.to, &l, all[i].label, text);
    }
    folded_table_end(&t);
    for (int i = 0; i < count; i++)
        if (all[i].failed) printf("%s: the loss became NaN or infinite\n", all[i].label);
    print_best(all, count);
}

/* --- JSON --- */

/* Prints a member of an object; nothing if the number is unknown. */
static void json_number(const char *name, double x)
{
    if (isfinite(x)) printf(",\"%s\":%.9g", name, x);
}

static void json_text(const char *name, const char *text)
{
    if (!text || !*text) return;
    printf(",\"%s\":", name);
    print_json_string(text);
}

static void print_object(const compared_run *c, double target)
{
    printf("{\"strategy\":");
    print_json_string(c->words);
    json_text("run", c->subject);
    if (c->learners > 0) printf(",\"learners\":%d", c->learners);
    printf(",\"diverged\":%s", c->failed ? "true" : "false");
    json_number("target_loss", target);
    json_number("seconds_to_target", known(c->reached));
    json_number("seconds", known(c->seconds));
    json_number("samples_per_second", known(c->samples_per_second));
    json_number("train_loss", last_loss(c));
    json_text("split", c->part);
    json_number("loss", c->held_out.loss);
    for (int k = 0; k < c->held_out.metrics; k++)
        json_number(c->held_out.metric[k].name, c->held_out.metric[k].value);
    json_number("bytes_sent", known(c->bytes));
    json_number("staleness", known(c->staleness));
    json_number("utilisation", known(c->utilisation));
    printf("}");
}

void print_comparison_json(compared_run *all, int count, double asked)
{
    double target = find_reached(all, count, asked);
    for (int i = 0; i < count; i++) {
        printf(i ? ",\n " : "[");
        print_object(&all[i], target);
    }
    printf("]\n");
}
