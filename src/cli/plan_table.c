/* The tables of weft plan --cluster FILE: estimated steps of several runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

/* --- text --- */

/* A number with so many digits, or all before its point. */
static const char *digits(double number, int least, char out[24])
{
    if (number < pow(10, least) - 0.5)
        (void)snprintf(out, 24, "%.*g", least, number);
    else
        (void)snprintf(out, 24, "%.0f", number);
    return out;
}

/* The consequence of the end of a machine. */
static const char *end_text(const weft_step_estimate *s, char *out, size_t size)
{
    if (s->learners_left > 0)
        (void)snprintf(out, size, "goes on with %d of %d", s->learners_left, s->learners);
    else
        (void)snprintf(out, size, "stops; --checkpoint resumes");
    return out;
}

static void print_row(FILE *to, const plan_row *r, int width)
{
    const weft_step_estimate *s = &r->step;
    char range[80], rate[24], low[24], high[24], link[24], memory[24], end[48];
    (void)snprintf(range, sizeof(range), "%s (%s to %s)", digits(1e3 * s->seconds, 4, rate),
                   digits(1e3 * s->low, 3, low), digits(1e3 * s->high, 3, high));
    fprintf(to, "%-*s  %-27s  %9s  %7.0f %%  %9s  %9s  %-10s  %s\n", width, r->label, range,
            digits(s->samples_per_second, 4, rate), 100 * s->computed / s->seconds,
            digits(s->link_bytes / 1e6, 3, link), digits(s->memory / 1e6, 3, memory), s->limited_by,
            end_text(s, end, sizeof(end)));
}

/* Prints why rows are not estimated or do not fit: one reason once, with all that it is for. */
static void print_reasons(const plan_row *rows, int count, int width)
{
    for (int i = 0; i < count; i++) {
        int before = 0, length = 0;
        if (!rows[i].reason) continue;
        while (!rows[before].reason || strcmp(rows[before].reason, rows[i].reason) != 0) before++;
        for (int k = i; k < count && before == i; k++)
            if (rows[k].reason && strcmp(rows[k].reason, rows[i].reason) == 0)
                length += printf("%s%s", k > i ? "; " : "", rows[k].label);
        if (before == i)
            printf("%*s  %s\n", length < width ? width - length : 0, "", rows[i].reason);
    }
}

void print_plan_rows(const plan_row *rows, int count)
{
    int width = 8;
    bool estimated = false;
    folded_table t;
    folded_table_begin(&t);
    for (int i = 0; i < count; i++) {
        width = (int)fmax(width, (double)strlen(rows[i].label));
        estimated = estimated || rows[i].step.seconds > 0;
    }
    if (estimated)
        fprintf(t.to, "%-*s  %-27s  %9s  %9s  %9s  %9s  %-10s  %s\n", width, "strategy",
                "ms a step (likely)", "samples/s", "computing", "MB/link", "MB/memory",
                "limited by", "if a machine ends");
    for (int i = 0; i < count; i++)
        if (rows[i].step.seconds > 0) print_row(t.to, &rows[i], width);
    folded_table_end(&t);
    print_reasons(rows, count, width);
}

/* --- JSON --- */

static void print_text(const char *name, const char *text)
{
    printf(",\"%s\":", name);
    print_json_string(text);
}

static void print_number(const char *name, double number)
{
    printf(",\"%s\":%.9g", name, number);
}

static void print_step(const weft_step_estimate *s)
{
    print_number("step_seconds", s->seconds);
    print_number("low", s->low);
    print_number("high", s->high);
    print_number("samples_per_second", s->samples_per_second);
    print_number("kernel_seconds", s->computed);
    print_number("transfer_seconds", s->transferred);
    print_number("waiting_seconds", s->waited);
    print_number("rest_seconds", s->rest);
    print_number("bytes_between_machines", s->wire_bytes);
    print_number("bytes_of_busiest_link", s->link_bytes);
    print_number("busiest_link", s->busiest_link);
    if (s->staleness >= 0) print_number("staleness", s->staleness);
    if (s->staleness >= 0) print_number("server_busy", s->server_busy);
    print_number("memory_bytes", s->memory);
    if (s->memory_limit > 0)
        printf(",\"fits\":%s", s->memory <= s->memory_limit ? "true" : "false");
    print_text("limited_by", s->limited_by);
    print_number("learners", s->learners);
    print_number("learners_left", s->learners_left);
}

static void print_object(const plan_row *r)
{
    printf("{\"strategy\":");
    print_json_string(r->words);
    if (strcmp(r->label, strategy_label(r->words)) != 0) print_text("command", r->label);
    if (r->step.seconds > 0) print_step(&r->step);
    if (r->reason) print_text("reason", r->reason);
    printf("}");
}

void print_plan_objects(const plan_row *rows, int count)
{
    printf("[");
    for (int i = 0; i < count; i++) {
        if (i) printf(",\n ");
        print_object(&rows[i]);
    }
    printf("]\n");
}
