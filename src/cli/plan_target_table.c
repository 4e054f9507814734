/* The table of weft plan --target: the runs by their time to the target, and why runs were left
 * out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_target.h"

enum { LR, BATCH, STEP, TIME, SAMPLES, LOSS, HELD_OUT, METRIC, FIGURES, ROOM = 96, SHORT = 32 };

static const weft_finalist *finalist_of(const target_search *s, const weft_target_result *r)
{
    return &s->finalists[r->finalist];
}

static void number(double x, char *out, size_t size)
{
    if (isnan(x))
        (void)snprintf(out, size, "-");
    else
        (void)snprintf(out, size, x >= 1e4 && x < 1e12 ? "%.0f" : "%.4g", x);
}

/* A run that has not reached the target takes longer than it was run. */
static void time_text(const target_search *s, const weft_target_result *r, char out[ROOM])
{
    char seconds[SHORT];
    number(r->seconds, seconds, sizeof(seconds));
    if (*s->metric && !r->reached)
        (void)snprintf(out, ROOM, "> %s", seconds);
    else if (r->high > r->low)
        (void)snprintf(out, ROOM, "%s (%.4g to %.4g)", seconds, r->low, r->high);
    else
        (void)snprintf(out, ROOM, "%s", seconds);
}

static void figures_of(const target_search *s, const weft_target_result *r,
                       char text[FIGURES][ROOM])
{
    number(r->lr, text[LR], ROOM);
    number(r->batch, text[BATCH], ROOM);
    number(1e3 * r->step_seconds, text[STEP], ROOM);
    time_text(s, r, text[TIME]);
    number(r->samples, text[SAMPLES], ROOM);
    number(r->loss, text[LOSS], ROOM);
    number(r->held_out, text[HELD_OUT], ROOM);
    number(r->metric, text[METRIC], ROOM);
}

/* The columns; the last ones are those of evaluations, whose loss may be the metric. */
static int columns_of(const target_search *s)
{
    bool held_out = false, differs = false;
    for (int i = 0; i < s->count; i++) {
        const weft_target_result *r = &s->results[i];
        held_out = held_out || !isnan(r->held_out);
        differs = differs || (!isnan(r->metric) && r->metric != r->held_out);
    }
    return differs ? FIGURES : held_out ? METRIC : HELD_OUT;
}

static void heads_of(const target_search *s, char text[FIGURES][ROOM])
{
    static const char *const heads[FIGURES] = {
        [LR] = "lr",           [BATCH] = "batch",        [STEP] = "ms a step",        [TIME] = "s",
        [SAMPLES] = "samples", [LOSS] = "training loss", [HELD_OUT] = "held-out loss"};
    for (int k = 0; k < FIGURES; k++)
        (void)snprintf(text[k], ROOM, "%s", heads[k] ? heads[k] : s->metric);
    if (*s->metric) (void)snprintf(text[TIME], ROOM, "s to %.30s", s->choice->target);
}

static void put_row(FILE *to, const char *label, int width, const int *wide,
                    char text[FIGURES][ROOM], int figures)
{
    fprintf(to, "%-*s", width, label);
    for (int k = 0; k < figures; k++) fprintf(to, "  %*s", wide[k], text[k]);
    fprintf(to, "\n");
}

static void print_rows(const target_search *s)
{
    char text[FIGURES][ROOM];
    int width = (int)strlen("strategy"), wide[FIGURES] = {0};
    int figures = columns_of(s);
    for (int i = -1; i < s->count; i++) {
        if (i >= 0 && s->results[i].refused) continue;
        if (i < 0)
            heads_of(s, text);
        else
            figures_of(s, &s->results[i], text);
        for (int k = 0; k < FIGURES; k++) wide[k] = (int)fmax(wide[k], (double)strlen(text[k]));
        if (i >= 0) width = (int)fmax(width, (double)strlen(finalist_of(s, &s->results[i])->name));
    }
    folded_table t;
    folded_table_begin(&t);
    heads_of(s, text);
    put_row(t.to, "strategy", width, wide, text, figures);
    for (int i = 0; i < s->count; i++) {
        if (s->results[i].refused) continue;
        figures_of(s, &s->results[i], text);
        put_row(t.to, finalist_of(s, &s->results[i])->name, width, wide, text, figures);
    }
    folded_table_end(&t);
}

static void print_reasons(const target_search *s)
{
    for (int i = 0; i < s->count; i++) {
        const weft_target_result *r = &s->results[i];
        const char *name = finalist_of(s, r)->name;
        if (r->refused)
            printf("%s: %s\n", name, r->why);
        else if (r->round > 0)
            printf("%s: left out after round %d: %s\n", name, r->round, r->why);
        else if (r->why)
            printf("%s: %s\n", name, r->why);
        if (!r->refused && r->same_as != r->finalist)
            printf("%s: its numbers are those of %s, computed once\n", name,
                   s->finalists[r->same_as].name);
    }
}

static void print_rule(const target_search *s)
{
    bool ruled = false;
    for (int i = 0; i < s->count; i++)
        ruled = ruled || s->results[i].lr != finalist_of(s, &s->results[i])->options->update.lr;
    if (ruled)
        printf("learning rates are those given for a batch of %.0f, and follow the samples of an "
               "update (--lr-rule)\n",
               s->batch);
    for (int i = 0; i < s->count; i++) {
        const weft_target_result *r = &s->results[i];
        const weft_train_options *o = finalist_of(s, r)->options;
        if (r->refused || r->warmup == o->update.warmup) continue;
        printf("%s: a warm-up, since the rate is %.3g times the given one: --lr %.6g --warmup "
               "%lld\n",
               finalist_of(s, r)->name, r->lr / o->update.lr, r->lr, (long long)r->warmup);
    }
}

static void print_days(const target_search *s)
{
    double longest = 0, day = 86400;
    for (int i = 0; i < s->count; i++) longest = fmax(longest, s->results[i].seconds);
    if (longest > day)
        printf("%.0f s of virtual time are %.1f days: real machines would have failed or slowed "
               "down meanwhile, which the cluster file leaves out\n",
               longest, longest / day);
}

void target_print(const target_search *s)
{
    printf("%s on %s, in virtual time, from one beginning:\n\n", s->subject ? s->subject : "runs",
           s->cluster);
    print_rows(s);
    printf("\n");
    print_reasons(s);
    print_rule(s);
    print_days(s);
}

double target_best(const target_search *s)
{
    double best = NAN;
    /* All values are on the same side of a target that none has reached. */
    for (int i = 0; i < s->count; i++) {
        double x = s->results[i].best;
        best = x < s->value ? fmax(best, x) : fmin(best, x);
    }
    return best;
}

/* --- JSON --- */

static void print_number(const char *name, double x)
{
    if (isfinite(x)) printf(",\"%s\":%.9g", name, x);
}

/* At most MOST points of the curve of the training loss. */
static void print_curve(const weft_target_result *r)
{
    enum { MOST = 200 };
    int64_t every = r->point_count / MOST + 1, found = 0;
    const char *before = "";
    printf(",\"curve\":[");
    for (int64_t k = 0; k < r->point_count; k++) {
        const weft_target_point *p = &r->points[k];
        if (isnan(p->loss) || found++ % every != 0) continue;
        printf("%s[%.9g,%.9g,%.9g]", before, p->seconds, p->samples, p->loss);
        before = ",";
    }
    printf("]");
}

static void print_object(const target_search *s, const weft_target_result *r)
{
    printf("{\"strategy\":");
    print_json_string(s->words[r->finalist]);
    if (r->why) {
        printf(",\"reason\":");
        print_json_string(r->why);
    }
    if (r->refused) {
        printf("}");
        return;
    }
    printf(",\"reached\":%s", r->reached ? "true" : "false");
    if (r->round > 0) printf(",\"left_out_after_round\":%d", r->round);
    if (r->same_as != r->finalist) {
        printf(",\"numbers_of\":");
        print_json_string(s->words[r->same_as]);
    }
    print_number("seconds", r->seconds);
    print_number("low", r->low);
    print_number("high", r->high);
    print_number("samples", r->samples);
    print_number("train_loss", r->loss);
    print_number("held_out_loss", r->held_out);
    print_number("metric", r->metric);
    print_number("lr", r->lr);
    print_number("warmup", (double)r->warmup);
    print_number("batch", r->batch);
    print_number("step_seconds", r->step_seconds);
    print_curve(r);
    printf("}");
}

void target_print_json(const target_search *s)
{
    for (int i = 0; i < s->count; i++) {
        printf(i ? ",\n " : "[");
        print_object(s, &s->results[i]);
    }
    printf("]\n");
}
