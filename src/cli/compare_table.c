/* The table of weft compare: one row for each strategy. */
#include <math.h>
#include <stdio.h>
#include <string.h>

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

void print_comparison(compared_run *all, int count, double asked)
{
    size_t width = strlen("strategy");
    double target = find_target(all, count, asked);
    char head[48];
    const char *quality = "accuracy";
    for (int i = 0; i < count; i++) {
        if (strlen(all[i].label) > width) width = strlen(all[i].label);
        if (all[i].quality_name) quality = all[i].quality_name;
    }
    (void)snprintf(head, sizeof(head), "s to loss %.4g", target);
    printf("%-*s %18s %11s %9s %9s %10s %12s\n", (int)width, "strategy", head, "samples/s", quality,
           "sent", "staleness", "utilisation");
    for (int i = 0; i < count; i++) {
        compared_run *c = &all[i];
        char text[6][32];
        if (c->failed) {
            printf("%-*s the loss became NaN or infinite\n", (int)width, c->label);
            continue;
        }
        find_reached(c, target);
        printf("%-*s %18s %11s %9s %9s %10s %12s\n", (int)width, c->label,
               number(known(c->reached), "%.4g", text[0], 32),
               number(known(c->samples_per_second), "%.0f", text[1], 32),
               isfinite(c->quality) ? score_text(c->quality, text[2], 32) : "-",
               bytes_text(c->bytes, text[3], 32), number(known(c->staleness), "%.2f", text[4], 32),
               number(100 * known(c->utilisation), "%.0f %%", text[5], 32));
    }
}
