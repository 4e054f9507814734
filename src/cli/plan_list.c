/* weft plan --cluster FILE --strategies LIST: the estimated steps of several runs, the fastest
 * first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

enum { MOST_STRATEGIES = 256 };

/* The rows that fit come first, by their samples a second. */
static int compare_rows(const void *first, const void *second)
{
    const plan_row *a = first, *b = second;
    int lacks = (a->reason != NULL) - (b->reason != NULL);
    double x = a->step.samples_per_second, y = b->step.samples_per_second;
    return lacks ? lacks : (x < y) - (x > y);
}

static void estimate_row(weft_context *context, const char *cluster, int argc, char **argv,
                         plan_row *r)
{
    weft_train_options options = {0};
    const weft_option *table = weft_train_table(context);
    weft_status status = read_train_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = set_strategy(table, &options, r->words);
    if (status == WEFT_OK) status = weft_estimate_step(context, &options, cluster, &r->step);
    if (status != WEFT_OK) r->reason = strdup(weft_last_message());
    if (status == WEFT_OK && r->step.memory_limit > 0 && r->step.memory > r->step.memory_limit)
        r->reason = plan_memory_lack(context, &options, cluster, &r->step);
    weft_options_free(table, &options);
}

int plan_strategies(weft_context *context, const plan_options *plan, int argc, char **argv)
{
    char *words[MOST_STRATEGIES];
    int count = split_strategies(plan->strategies, words, MOST_STRATEGIES), estimated = 0, fit = 0;
    plan_row *rows = count > 0 ? calloc((size_t)count, sizeof(*rows)) : NULL;
    if (count < 1) return refuse_strategies(plan->strategies, MOST_STRATEGIES, "plan");
    for (int i = 0; i < count && rows; i++) {
        rows[i] = (plan_row){.words = words[i], .label = strategy_label(words[i])};
        estimate_row(context, plan->cluster, argc, argv, &rows[i]);
        estimated += rows[i].step.seconds > 0;
        fit += !rows[i].reason;
    }
    if (rows) qsort(rows, (size_t)count, sizeof(*rows), compare_rows);
    if (rows && plan->json) {
        print_plan_objects(rows, count);
    } else if (rows) {
        printf("Estimated for %s, the fastest first:\n\n", plan->cluster);
        print_plan_rows(rows, count);
    }
    flush_stdout();
    if (estimated > 0 && fit == 0)
        fprintf(stderr, "weft: %s of %s\n",
                count > 1 ? "none of these strategies fits into the memory of the machines"
                          : "the strategy does not fit into the memory of the machines",
                plan->cluster);
    for (int i = 0; i < count; i++) {
        free(words[i]);
        if (rows) free(rows[i].reason);
    }
    free(rows);
    return fit > 0 ? 0 : 1;
}
