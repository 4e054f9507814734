/* The curves of weft plan --target over virtual time, on a terminal and as SVG. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "plan_target.h"

/* Sets *out to the curves of the runs that took steps; returns their number. The caller frees their
 * points and *out; NULL: there is no memory. */
static int curves_of(const target_search *s, compared_run **out)
{
    int count = 0;
    compared_run *all = calloc((size_t)s->count, sizeof(*all));
    *out = all;
    for (int i = 0; all && i < s->count && count < MOST_RUNS; i++) {
        const weft_target_result *r = &s->results[i];
        if (r->point_count == 0) continue;
        compared_run *c = &all[count++];
        *c = compared_run_of(NULL, s->finalists[r->finalist].name);
        c->subject = s->subject;
        c->learners = (int)fmax(r->batch / s->batch, 1);
        c->failed = isnan(r->loss);
        c->reached = r->reached ? r->seconds : -1;
        (void)snprintf(c->part, sizeof(c->part), "held-out");
        c->held_out.metrics = 1;
        (void)snprintf(c->held_out.metric[0].title, sizeof(c->held_out.metric[0].title), "%.31s",
                       s->metric);
        for (int64_t k = 0; k < r->point_count; k++) {
            const weft_target_point *p = &r->points[k];
            bool step = !isnan(p->loss);
            double value = step ? p->loss : p->metric;
            add_point(&c->courses[step ? TRAINING : HELD_OUT_METRIC],
                      (point){p->seconds, p->samples, value});
        }
        smooth_course(&c->courses[TRAINING]);
    }
    return count;
}

static void free_curves(compared_run *all, int count)
{
    for (int i = 0; i < count; i++)
        for (int row = 0; row < COURSES; row++) free(all[i].courses[row].points);
    free(all);
}

weft_status target_plot(const target_search *s, weft_output *to)
{
    compared_run *all;
    int count = curves_of(s, &all);
    const plot_goal goal = {.row = strcmp(s->metric, WEFT_TRAIN_LOSS) == 0 ? TRAINING
                                                                           : HELD_OUT_METRIC,
                            .value = s->value,
                            .text = s->choice->target};
    weft_status status =
        count > 0 ? plot_runs(all, count, RUNS_SIMULATED, *s->metric ? &goal : NULL, to) : WEFT_OK;
    free_curves(all, count);
    return status;
}

/* --- on a terminal --- */

enum { LINES = 12, COLUMNS = 64 };

typedef struct grid {
    char cell[LINES][COLUMNS + 1];
    double end, low, high; /* seconds, losses */
} grid;

static void find_range(const compared_run *all, int count, grid *g)
{
    g->low = INFINITY;
    g->high = -INFINITY;
    for (int i = 0; i < count; i++) {
        const course *c = &all[i].courses[TRAINING];
        for (size_t k = 0; k < c->count; k++) {
            const point *p = &c->points[k];
            if (!isfinite(p->value)) continue;
            g->end = fmax(g->end, p->seconds);
            g->low = fmin(g->low, p->value);
            /* A loss that bursts would hide all others. */
            if (p->value <= 2 * c->points[0].value) g->high = fmax(g->high, p->value);
        }
    }
}

static void draw(const course *c, char letter, grid *g)
{
    for (size_t k = 0; k < c->count; k++) {
        const point *p = &c->points[k];
        if (!(p->value <= g->high)) continue;
        double x = g->end > 0 ? p->seconds / g->end : 0;
        double y = g->high > g->low ? (p->value - g->low) / (g->high - g->low) : 0;
        int column = (int)(x * (COLUMNS - 1)), line = LINES - 1 - (int)(y * (LINES - 1) + 0.5);
        g->cell[line][column] = letter;
    }
}

void target_print_chart(const target_search *s)
{
    grid g = {.end = 0};
    compared_run *all;
    int count = curves_of(s, &all);
    find_range(all, count, &g);
    for (int l = 0; l < LINES; l++) memset(g.cell[l], ' ', COLUMNS);
    /* The best is drawn last. */
    for (int i = count; i-- > 0;)
        draw(&all[i].courses[TRAINING], (char)(i < 26 ? 'a' + i : '*'), &g);
    if (count > 0 && isfinite(g.low) && isfinite(g.high)) {
        printf("\ntraining loss (moving mean) over virtual seconds\n");
        for (int l = 0; l < LINES; l++) {
            double loss = g.high - (g.high - g.low) * l / (LINES - 1);
            if (l % 4 == 0 || l == LINES - 1)
                printf("%9.4g |%s\n", loss, g.cell[l]);
            else
                printf("%9s |%s\n", "", g.cell[l]);
        }
        printf("%9s +%.*s\n%9s 0%*.4g s\n", "", COLUMNS,
               "----------------------------------------------------------------", "", COLUMNS - 1,
               g.end);
        for (int i = 0; i < count && i < 26; i++) printf("  %c  %s\n", 'a' + i, all[i].label);
    }
    free_curves(all, count);
}
