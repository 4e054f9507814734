/* The table of weft plan --verify, and its JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan_verify.h"

double verify_error(const verified *row, int figure)
{
    const weft_step_estimate *s = &row->step;
    if (figure == BYTES && s->sent_bytes == row->sent)
        return 0; /* of runs that send nothing, too */
    return figure == TIME     ? s->seconds / row->seconds - 1
           : figure == MEMORY ? row->process / row->peak - 1
                              : s->sent_bytes / row->sent - 1;
}

/* Beyond these times say nothing: the share of the cores that others take, of which the system's
 * own work is one or two per cent, per cent by which kernels differ, and how far two runs do. */
static const double MOST_OTHERS = 0.05, MOST_SPREAD = 15, MOST_APART = 0.1;

bool verify_disturbed(const verified *row)
{
    return !*row->reason && (row->others > MOST_OTHERS || row->apart > MOST_APART);
}

static int count_disturbed(const verification *v)
{
    int count = 0;
    for (int i = 0; i < v->count; i++) count += verify_disturbed(&v->rows[i]);
    return count;
}

static double most_others(const verification *v)
{
    double most = v->others;
    for (int i = 0; i < v->count; i++) most = fmax(most, v->rows[i].others);
    return most;
}

static bool busy(const verification *v)
{
    return v->others > MOST_OTHERS || v->spread > MOST_SPREAD || 2 * count_disturbed(v) > v->count;
}

const char *verify_label(const verified *row)
{
    return *row->words ? strategy_label(row->words) : "this run";
}

static void put_row(FILE *to, const verified *row, int width)
{
    const weft_step_estimate *s = &row->step;
    fprintf(to, "%-*s  %10.4g  %8.4g  %+7.1f %%  %8.1f  %8.1f  %+7.1f %%  %s%13.0f  %12.0f\n",
            width, verify_label(row), 1e3 * s->seconds, 1e3 * row->seconds,
            100 * verify_error(row, TIME), row->process / 1e6, row->peak / 1e6,
            100 * verify_error(row, MEMORY), s->sent_by_chance ? "~" : " ", s->sent_bytes,
            row->sent);
}

/* The rows, and below them what is to be said of single ones. */
static void print_rows(const verification *v)
{
    int width = 8;
    bool chance = false;
    folded_table t;
    folded_table_begin(&t);
    for (int i = 0; i < v->count; i++)
        if (!*v->rows[i].reason)
            width = (int)fmax(width, (double)strlen(verify_label(&v->rows[i])));
    if (v->known > 0)
        fprintf(t.to, "%-*s  %10s  %8s  %9s  %8s  %8s  %9s  %14s  %12s\n", width, "strategy",
                "ms planned", "in run", "error", "MB plan", "process", "error", "bytes planned",
                "in run");
    for (int i = 0; i < v->count; i++) {
        if (*v->rows[i].reason) continue;
        put_row(t.to, &v->rows[i], width);
        chance = chance || v->rows[i].step.sent_by_chance;
    }
    folded_table_end(&t);
    if (chance)
        printf("~ an expectation: the messages depend on chance or on when others arrive\n");
    for (int i = 0; i < v->count; i++) {
        const verified *row = &v->rows[i];
        if (*row->reason) {
            printf("%s: %s\n", verify_label(row), row->reason);
            continue;
        }
        if (row->others > MOST_OTHERS)
            printf("%s: others took %.0f %% of the cores\n", verify_label(row), 100 * row->others);
        if (row->apart > MOST_APART)
            printf("%s: its shortest two runs differ by %.0f %%\n", verify_label(row),
                   100 * row->apart);
    }
}

void verify_print_head(const verification *v)
{
    printf("Estimated steps beside measured ones on %s, %ld cores\n", v->processor, v->cores);
    if (v->spread > 0) printf("Two runs of a kernel differ by %.1f %%\n", v->spread);
    printf("\n");
}

static void print_sums(const verification *v)
{
    if (busy(v))
        printf("Other programs took %.0f %% of the cores, or the machine changed its speed: times "
               "are wrong, measure again when it is idle\n",
               100 * most_others(v));
    if (count_disturbed(v) > 0)
        printf("%d of these runs were disturbed: their errors say little\n", count_disturbed(v));
    printf("%d of %d run%s", v->known, v->count, v->count == 1 ? "" : "s");
    static const char *const names[FIGURES] = {"time", "memory", "bytes"};
    for (int k = 0; k < FIGURES; k++)
        if (isfinite(v->median[k]))
            printf("%s %s %.1f %% off (%.1f at most)", k ? "," : ":", names[k], 100 * v->median[k],
                   100 * v->greatest[k]);
    if (isfinite(v->correlation)) printf("; ranks agree by %.2f", v->correlation);
    printf("\n");
}

static void print_number(const char *name, double number)
{
    if (isfinite(number)) printf(",\"%s\":%.9g", name, number);
}

static void print_object(const verified *row)
{
    printf("{\"strategy\":");
    print_json_string(row->words);
    if (*row->reason) {
        printf(",\"reason\":");
        print_json_string(row->reason);
    } else {
        print_number("step_seconds", row->step.seconds);
        print_number("low", row->step.low);
        print_number("high", row->step.high);
        print_number("measured_seconds", row->seconds);
        print_number("memory_bytes", row->step.programs);
        print_number("measured_memory_bytes", row->planned);
        print_number("estimated_process_bytes", row->process);
        print_number("process_bytes", row->peak);
        print_number("sent_bytes", row->step.sent_bytes);
        printf(",\"sent_by_chance\":%s", row->step.sent_by_chance ? "true" : "false");
        print_number("measured_sent_bytes", row->sent);
        print_number("others_share", row->others);
        print_number("runs_apart", row->apart);
    }
    printf("}");
}

void verify_print_json(const verification *v)
{
    printf("{\"processor\":");
    print_json_string(v->processor);
    printf(",\"cores\":%ld,\"busy\":%s", v->cores, busy(v) ? "true" : "false");
    print_number("others_share", v->others);
    if (v->spread > 0) print_number("kernel_spread_percent", v->spread);
    print_number("median_error", v->median[TIME]);
    print_number("greatest_error", v->greatest[TIME]);
    print_number("median_memory_error", v->median[MEMORY]);
    print_number("greatest_memory_error", v->greatest[MEMORY]);
    print_number("median_bytes_error", v->median[BYTES]);
    print_number("greatest_bytes_error", v->greatest[BYTES]);
    print_number("rank_correlation", v->correlation);
    printf(",\"runs\":[");
    for (int i = 0; i < v->count; i++) {
        printf(i ? ",\n " : "\n ");
        print_object(&v->rows[i]);
    }
    printf("]}\n");
}

void verify_print_rows(const verification *v)
{
    print_rows(v);
    print_sums(v);
}
