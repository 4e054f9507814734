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

/* false: a signal has stopped it. */
static bool estimate_row(weft_context *context, const char *cluster, int argc, char **argv,
                         plan_row *r)
{
    weft_train_options options = {0};
    const weft_option *table = weft_train_table(context);
    weft_status status = read_train_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = take_resumed_options(context, &options, argc, argv);
    if (status == WEFT_OK) status = set_strategy(table, &options, r->words);
    if (status == WEFT_OK)
        status = weft_estimate_step_until(context, &options, cluster, &wanted_stop, &r->step);
    bool stopped = status == WEFT_ERR_INTERRUPTED;
    if (status != WEFT_OK && !stopped) r->reason = strdup(weft_last_message());
    if (status == WEFT_OK && r->step.memory_limit > 0 && r->step.memory > r->step.memory_limit)
        r->reason = plan_memory_lack(context, &options, cluster, &r->step);
    weft_options_free(table, &options);
    return !stopped;
}

/* An exchange of one learner is none, so rows of different ones are alike. */
static void note_lone_learners(const plan_row *rows, int count, int64_t machines)
{
    int lone = 0;
    for (int i = 0; i < count; i++)
        lone += rows[i].step.learners == 1 && strstr(rows[i].words, "exchange") != NULL;
    if (lone > 0 && machines > 1)
        fprintf(stderr,
                "weft: %d of these runs %s an exchange but one learner, which exchanges nothing; "
                "give ranks, as -n %lld\n",
                lone, lone == 1 ? "has" : "have", (long long)machines);
}

bool plan_machines(const char *cluster, int64_t *machines)
{
    char *processor = NULL;
    if (weft_cluster_machines(cluster, machines) != WEFT_OK) return false;
    (void)!weft_measured_here(cluster, &processor);
    bool timed = processor != NULL;
    weft_free(processor);
    return timed;
}

int plan_strategies(weft_context *context, const plan_options *plan, int argc, char **argv)
{
    char *words[MOST_STRATEGIES];
    int count = split_strategies(plan->strategies, words, MOST_STRATEGIES);
    int seen = 0, estimated = 0, fit = 0;
    plan_row *rows = count > 0 ? calloc((size_t)count, sizeof(*rows)) : NULL;
    int64_t machines;
    if (count < 1) return refuse_strategies(plan->strategies, MOST_STRATEGIES, "plan");
    if (!plan_machines(plan->cluster, &machines)) {
        for (int i = 0; i < count; i++) free(words[i]);
        free(rows);
        return usage_failure("plan");
    }
    catch_signals();
    for (; seen < count && rows && !wanted_stop.wanted; seen++) {
        plan_row *row = &rows[seen];
        *row = (plan_row){.words = words[seen], .label = strategy_label(words[seen])};
        if (!estimate_row(context, plan->cluster, argc, argv, row)) break;
        estimated += row->step.seconds > 0;
        fit += !row->reason;
    }
    if (rows) qsort(rows, (size_t)seen, sizeof(*rows), compare_rows);
    if (seen > 0 && plan->json) {
        print_plan_objects(rows, seen);
    } else if (seen > 0) {
        printf("Estimated for %s, the fastest first:\n\n", plan->cluster);
        print_plan_rows(rows, seen);
    }
    flush_stdout();
    note_lone_learners(rows, rows ? seen : 0, machines);
    if (wanted_stop.wanted && seen < count)
        fprintf(stderr, "weft: stopped; the table has %d of %d strategies\n", seen, count);
    else if (seen > 0 && estimated == 0)
        fprintf(stderr,
                "weft: no step of these strategies is estimated for %s; the table says why\n",
                plan->cluster);
    else if (estimated > 0 && fit == 0)
        fprintf(stderr, "weft: %s of %s\n",
                count > 1 ? "none of these strategies fits into the memory of the machines"
                          : "the strategy does not fit into the memory of the machines",
                plan->cluster);
    for (int i = 0; i < count; i++) {
        free(words[i]);
        if (rows) free(rows[i].reason);
    }
    free(rows);
    if (wanted_stop.wanted && seen < count) return interrupted_code();
    return fit > 0 ? 0 : 1;
}
