/* weft plan --cluster FILE --why 'A; B': where the difference between the estimated steps of two
 * runs comes from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

enum { TWO = 2, REASON = 400, MOST_ROWS = 12, NAME = 100 };

/* A part of the steps, with its seconds in both. */
typedef struct part {
    weft_step_cause cause;
    char name[NAME];
    double seconds[TWO];
} part;

typedef struct reasons {
    part *parts;
    size_t count, capacity;
    int run;   /* whose parts are told */
    bool lost; /* there was no memory for a part */
    weft_step_estimate step[TWO];
    char *words[TWO];
} reasons;

static double difference(const part *p)
{
    return p->seconds[1] - p->seconds[0];
}

static void on_part(void *user, weft_step_cause cause, const char *name, double seconds)
{
    reasons *r = user;
    if (r->count == r->capacity) {
        size_t more = r->capacity ? 2 * r->capacity : 256;
        part *larger = realloc(r->parts, more * sizeof(*larger));
        r->lost = r->lost || !larger;
        if (!larger) return;
        r->parts = larger;
        r->capacity = more;
    }
    part *p = &r->parts[r->count++];
    memset(p, 0, sizeof(*p));
    p->cause = cause;
    p->seconds[r->run] = seconds;
    (void)snprintf(p->name, NAME, "%s", name);
}

static int by_name(const void *first, const void *second)
{
    const part *a = first, *b = second;
    return a->cause != b->cause ? (int)a->cause - (int)b->cause : strcmp(a->name, b->name);
}

static int by_difference(const void *first, const void *second)
{
    double a = fabs(difference(first)), b = fabs(difference(second));
    return a != b ? (a < b) - (a > b) : by_name(first, second);
}

/* Joins the parts of both runs that have one cause and name; the greatest difference comes first.
 */
static void join(reasons *r)
{
    size_t kept = 0;
    qsort(r->parts, r->count, sizeof(*r->parts), by_name);
    for (size_t i = 0; i < r->count; i++) {
        if (kept > 0 && by_name(&r->parts[kept - 1], &r->parts[i]) == 0)
            for (int k = 0; k < TWO; k++) r->parts[kept - 1].seconds[k] += r->parts[i].seconds[k];
        else
            r->parts[kept++] = r->parts[i];
    }
    r->count = kept;
    qsort(r->parts, r->count, sizeof(*r->parts), by_difference);
}

static part sum_of(const reasons *r, weft_step_cause cause)
{
    part sum = {.cause = cause};
    for (size_t i = 0; i < r->count; i++)
        for (int k = 0; k < TWO && r->parts[i].cause == cause; k++)
            sum.seconds[k] += r->parts[i].seconds[k];
    return sum;
}

/* --- output --- */

static void put_part(FILE *to, const char *cause, const char *name, int width, const part *p)
{
    fprintf(to, "%-9s  %-*s  %12.4f  %12.4f  %+12.4f\n", cause, width, name, 1e3 * p->seconds[0],
            1e3 * p->seconds[1], 1e3 * difference(p));
}

static void print_causes(const reasons *r, int width)
{
    part all = {.seconds = {0, 0}};
    folded_table t;
    folded_table_begin(&t);
    fprintf(t.to, "%-9s  %-*s  %12s  %12s  %12s\n", "ms a step", width, "", "A", "B", "B - A");
    for (int c = 0; c < WEFT_CAUSES; c++) {
        part sum = sum_of(r, (weft_step_cause)c);
        for (int k = 0; k < TWO; k++) all.seconds[k] += sum.seconds[k];
        put_part(t.to, weft_step_cause_name(c), "", width, &sum);
    }
    put_part(t.to, "all", "", width, &all);
    folded_table_end(&t);
}

/* Parts of a step (links: the links that send) that differ most, and the sum of the others. */
static void print_greatest(const reasons *r, int width, bool links)
{
    part others = {.seconds = {0, 0}};
    int rows = 0, left = 0;
    folded_table t;
    folded_table_begin(&t);
    for (size_t i = 0; i < r->count; i++) {
        const part *p = &r->parts[i];
        if ((p->cause == WEFT_CAUSE_BUSY) != links) continue;
        if (rows < MOST_ROWS) {
            put_part(t.to, links ? "" : weft_step_cause_name((int)p->cause), p->name, width, p);
            rows++;
            continue;
        }
        left++;
        for (int k = 0; k < TWO; k++) others.seconds[k] += p->seconds[k];
    }
    char name[40];
    (void)snprintf(name, sizeof(name), "%d more", left);
    if (left > 0 && !links) put_part(t.to, "", name, width, &others);
    folded_table_end(&t);
    if (left > 0 && links)
        printf("and %d further link%s, which differ less\n", left, weft_plural(left));
}

static bool has_links(const reasons *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->parts[i].cause == WEFT_CAUSE_BUSY) return true;
    return false;
}

/* The width of the longest name that is printed. */
static int name_width(const reasons *r)
{
    int width = 8, rows[2] = {0, 0};
    for (size_t i = 0; i < r->count; i++)
        if (rows[r->parts[i].cause == WEFT_CAUSE_BUSY]++ < MOST_ROWS)
            width = (int)fmax(width, (double)strlen(r->parts[i].name));
    return width;
}

static void print_reasons(const reasons *r, const char *cluster)
{
    int width = name_width(r);
    printf("Estimated for %s, in the mean over the ranks:\n", cluster);
    for (int k = 0; k < TWO; k++)
        printf("%c  %s: %.4g ms a step, %.4g samples/s\n", "AB"[k], r -> words[k],
               1e3 * r -> step[k].seconds, r->step[k].samples_per_second);
    printf("\n");
    print_causes(r, width);
    printf("\nthe parts that differ most:\n");
    print_greatest(r, width, false);
    if (!has_links(r)) return;
    printf("\nhow long links send:\n");
    print_greatest(r, width, true);
}

static void print_seconds(const part *p)
{
    printf("\"seconds\":[%.9g,%.9g],\"difference\":%.9g", p->seconds[0], p->seconds[1],
           difference(p));
}

static void print_objects(const reasons *r, const char *list, bool links)
{
    bool first = true;
    printf(",\n\"%s\":[", list);
    for (size_t i = 0; i < r->count; i++) {
        const part *p = &r->parts[i];
        if ((p->cause == WEFT_CAUSE_BUSY) != links) continue;
        printf("%s{", first ? "\n " : ",\n ");
        if (!links) printf("\"cause\":\"%s\",", weft_step_cause_name((int)p->cause));
        printf("\"name\":");
        print_json_string(p->name);
        printf(",");
        print_seconds(p);
        printf("}");
        first = false;
    }
    printf("]");
}

static void print_json(const reasons *r)
{
    const part all = {.seconds = {r->step[0].seconds, r->step[1].seconds}};
    printf("{\"strategies\":[");
    print_json_string(r->words[0]);
    printf(",");
    print_json_string(r->words[1]);
    printf("],");
    print_seconds(&all);
    printf(",\n\"causes\":{");
    for (int c = 0; c < WEFT_CAUSES; c++) {
        part sum = sum_of(r, (weft_step_cause)c);
        printf("%s\"%s\":{", c ? ",\n " : "\n ", weft_step_cause_name(c));
        print_seconds(&sum);
        printf("}");
    }
    printf("}");
    print_objects(r, "parts", false);
    print_objects(r, "links", true);
    printf("}\n");
}

/* --- the command --- */

static weft_status estimate(weft_context *context, const char *cluster, reasons *r, int argc,
                            char **argv)
{
    weft_train_options options = {0};
    const weft_option *table = weft_train_table(context);
    weft_status status = read_train_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = set_strategy(table, &options, r->words[r->run]);
    if (status == WEFT_OK)
        status = weft_estimate_parts(context, &options, cluster, on_part, r, &r->step[r->run]);
    weft_options_free(table, &options);
    return status;
}

static bool fits(const weft_step_estimate *s)
{
    return s->memory_limit <= 0 || s->memory <= s->memory_limit;
}

int plan_why(weft_context *context, const char *cluster, const char *two, bool json, int argc,
             char **argv)
{
    reasons r = {.run = 0};
    weft_status status = WEFT_OK;
    int count = split_strategies(two, r.words, TWO);
    if (count == TWO) {
        for (; r.run < TWO && status == WEFT_OK; r.run++)
            status = estimate(context, cluster, &r, argc, argv);
        join(&r);
    } else {
        fprintf(stderr,
                "weft: why '%s': give two strategies with a semicolon between them, as in --why "
                "'mesh=data=2; mesh=tensor=2'\nTry 'weft help plan'.\n",
                two);
    }
    int code = count == TWO ? report_failure(status) : 2;
    if (code == 0 && r.lost) {
        fprintf(stderr, "weft: there is no memory for all parts of the steps\n");
        code = 1;
    }
    if (code == 0 && json) print_json(&r);
    if (code == 0 && !json) print_reasons(&r, cluster);
    flush_stdout();
    if (code == 0 && !fits(&r.step[0]) && !fits(&r.step[1])) {
        fprintf(stderr, "weft: neither run fits into the memory of the machines of %s\n", cluster);
        code = 1;
    }
    for (int i = 0; i < count; i++) free(r.words[i]);
    free(r.parts);
    return code;
}
