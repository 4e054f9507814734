/* weft plan --cluster FILE --auto: the search for the fastest strategy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "plan.h"
#include "weft/data.h"

/* --- progress --- */

static int64_t looked_at(const weft_strategies *s)
{
    return s->estimated + s->refused + s->bounded + s->idle;
}

typedef struct search_bar {
    bool terminal;
    double shown; /* time of the last line */
} search_bar;

static void show(void *user, const weft_strategies *so_far, double best)
{
    enum { WIDTH = 24 };
    search_bar *bar = user;
    double now = clock_seconds();
    int64_t done = looked_at(so_far);
    if (!bar->terminal || now - bar->shown < 0.1) return;
    bar->shown = now;
    int filled = (int)(WIDTH * done / so_far->candidates);
    fprintf(stderr, CLEAR_LINE "[%.*s%*s] %lld of %lld, %lld estimated", filled,
            "########################", WIDTH - filled, "", (long long)done,
            (long long)so_far->candidates, (long long)so_far->estimated);
    if (best > 0) fprintf(stderr, "; best %.4g samples/s", best);
    fflush(stderr);
}

/* --- rows --- */

/* The options of a strategy as they are typed: "-n 2 --mesh data=2". The caller frees them. */
static char *typed(const weft_option *table, const char *words)
{
    char *copy = strdup(words), *save = NULL, *out = NULL;
    size_t size;
    FILE *to = open_memstream(&out, &size);
    for (char *w = copy && to ? strtok_r(copy, " ", &save) : NULL; w;
         w = strtok_r(NULL, " ", &save)) {
        const weft_option *o = table;
        char *value = strchr(w, '=');
        if (value) *value++ = '\0';
        while (o->name && strcmp(o->name, w) != 0) o++;
        if (ftell(to) > 0) fputc(' ', to);
        if (o->letter)
            fprintf(to, "-%c", o->letter);
        else
            fprintf(to, "--%s", w);
        if (o->kind != WEFT_OPT_FLAG && value) fprintf(to, " %s", value);
    }
    free(copy);
    if (to && fclose(to) == 0) return out;
    free(out);
    return NULL;
}

static plan_row *make_rows(const weft_context *context, const weft_strategies *found)
{
    plan_row *rows = calloc((size_t)found->count + 1, sizeof(*rows));
    for (int i = 0; i < found->count && rows; i++) {
        const weft_strategy *s = &found->at[i];
        char *label = typed(weft_train_table(context), s->words);
        rows[i] = (plan_row){.label = label ? label : s->words,
                             .words = s->words,
                             .step = s->step,
                             .reason = s->reason};
    }
    return rows;
}

static void free_rows(plan_row *rows, const weft_strategies *found)
{
    for (int i = 0; i < found->count && rows; i++)
        if (rows[i].label != rows[i].words) free((void *)(uintptr_t)rows[i].label);
    free(rows);
}

/* The seconds after which the search ends; 0: no limit. */
static double limit_of(const plan_options *plan)
{
    enum { USUAL = 60 };
    if (plan->seconds > 0) return plan->seconds;
    return plan->exhaustive ? 0 : USUAL;
}

/* --- what is printed --- */

static void print_found(const plan_options *plan, const weft_train_options *options,
                        const weft_strategies *found, const plan_row *rows)
{
    int own = 0;
    int64_t ranks = plan->keeps_ranks ? options->job.ranks : found->ranks;
    printf("Estimated for %s: %lld candidates of %s%lld ranks, %lld estimated, %lld left out by "
           "bounds, %lld that a run refuses\n",
           plan->cluster, (long long)found->candidates, plan->keeps_ranks ? "" : "up to ",
           (long long)ranks, (long long)found->estimated, (long long)found->bounded,
           (long long)found->refused);
    if (found->idle > 0)
        printf("%lld more, with an axis of the mesh that splits nothing of the model, are left "
               "out\n",
               (long long)found->idle);
    printf("A learner takes %lld samples a step; the fastest first:\n\n",
           (long long)options->length.batch);
    print_plan_rows(rows, found->count);
    while (own < found->fitting && !found->at[own].one_learner) own++;
    if (own > 0 && own < found->fitting)
        printf("\nThe fastest whose steps are those of one learner is row %d.\n", own + 1);
}

/* Copies a text with unprintable bytes replaced, for a line of a comment. */
static void add_line(FILE *to, const char *text)
{
    for (; *text; text++) fputc((unsigned char)*text < ' ' ? '?' : *text, to);
}

weft_status write_found(weft_context *context, const plan_options *plan,
                        const weft_train_options *options, const char *words, const char *found)
{
    char *about = NULL;
    size_t size;
    weft_train_options run = {0};
    const weft_option *table = weft_train_table(context);
    FILE *to = open_memstream(&about, &size);
    if (!to) return WEFT_ERR_MEMORY;
    fputs("# Found by weft plan --cluster ", to);
    add_line(to, plan->cluster);
    fprintf(to, ":\n# %s\n", found);
    fputs("# On several machines add engine: mpi, and hosts: NAME:RANKS,... as mpirun has them.\n",
          to);
    weft_status status = fclose(to) == 0 ? WEFT_OK : WEFT_ERR_MEMORY;
    if (status == WEFT_OK) status = weft_train_options_copy(context, options, &run);
    if (status == WEFT_OK) status = set_strategy(table, &run, words);
    if (status == WEFT_OK) status = write_run_file(context, &run, about, plan->output);
    weft_options_free(table, &run);
    free(about);
    return status;
}

static int write_output(weft_context *context, const plan_options *plan,
                        const weft_train_options *options, const weft_strategies *found,
                        const plan_row *rows)
{
    if (!plan->output || found->fitting == 0) return 0;
    int64_t pick = plan->pick > 0 ? plan->pick : 1;
    if (pick > found->fitting) {
        fprintf(stderr, "weft: pick %lld: %d row%s fit%s; nothing is written\n", (long long)pick,
                found->fitting, weft_plural(found->fitting), found->fitting == 1 ? "s" : "");
        return 1;
    }
    char figures[160];
    const weft_step_estimate *step = &rows[pick - 1].step;
    (void)snprintf(figures, sizeof(figures), "%.4g ms a step, %.4g samples/s, limited by %s",
                   1e3 * step->seconds, step->samples_per_second, step->limited_by);
    return save_found(context, plan, options, rows[pick - 1].words, figures);
}

static int print_result(weft_context *context, const plan_options *plan,
                        const weft_train_options *options, const weft_strategies *found)
{
    plan_row *rows = make_rows(context, found);
    if (!rows) return report_failure(WEFT_ERR_MEMORY);
    if (plan->json)
        print_plan_objects(rows, found->count);
    else
        print_found(plan, options, found, rows);
    flush_stdout();
    int code = write_output(context, plan, options, found, rows);
    if (options->job.ranks > found->ranks)
        fprintf(stderr, "weft: there are %lld cores for %lld ranks, which take turns\n",
                (long long)found->ranks, (long long)options->job.ranks);
    if (found->first_machines > 0)
        fprintf(stderr,
                "weft: the ranks of the first row are on the first %lld of the machines of the "
                "file, which are unlike: those that a run should use come first\n",
                (long long)found->first_machines);
    if (found->remedy) fprintf(stderr, "weft: %s\n", found->remedy);
    if (found->timed_out)
        fprintf(stderr,
                "weft: the search ended after %g seconds, and %lld of %lld candidates were looked "
                "at; give --seconds for more, or options that all candidates have, such as -n or "
                "--mesh\n",
                limit_of(plan), (long long)looked_at(found), (long long)found->candidates);
    if (found->interrupted)
        fprintf(stderr, "weft: stopped; the table has the best of %lld estimates\n",
                (long long)found->estimated);
    free_rows(rows, found);
    if (found->interrupted) return interrupted_code();
    return code ? code : found->fitting == 0;
}

static int search_on(weft_context *context, const plan_options *plan,
                     const weft_train_options *options, int64_t top, weft_strategies *found)
{
    weft_search_options search;
    search_bar bar = {.terminal = isatty(STDERR_FILENO) && !options->show.quiet};
    weft_search_options_init(&search);
    if (top > 0) search.top = top;
    search.all = plan->exhaustive;
    search.one_learner = plan->one_learner;
    search.given = plan->given;
    search.seconds = limit_of(plan);
    print_log(context, true); /* notes would be of every candidate */
    catch_signals();
    weft_status status = weft_dataset_keep(context);
    if (status == WEFT_OK)
        status = weft_strategies_search(context, options, plan->cluster, &search, &wanted_stop,
                                        show, &bar, found);
    if (bar.shown > 0) fprintf(stderr, CLEAR_LINE);
    return report_failure(status);
}

int plan_search(weft_context *context, const plan_options *plan, const weft_train_options *options)
{
    weft_strategies found;
    int code = search_on(context, plan, options, plan->top, &found);
    if (code != 0) return code;
    code = print_result(context, plan, options, &found);
    weft_strategies_free(&found);
    return code;
}

/* Sets *out, which the caller frees, to the list of the strategies that fit; NULL: none does. */
static char *list_found(const weft_strategies *found)
{
    char *out = NULL;
    size_t size;
    FILE *to = found->fitting > 0 ? open_memstream(&out, &size) : NULL;
    for (int i = 0; to && i < found->fitting; i++)
        fprintf(to, "%s%s", i ? "; " : "", found->at[i].words);
    if (to && fclose(to) == 0) return out;
    free(out);
    return NULL;
}

int plan_finalists(weft_context *context, const plan_options *plan,
                   const weft_train_options *options, char **list)
{
    enum { FINALISTS = 6 };
    weft_strategies found;
    *list = NULL;
    int code = search_on(context, plan, options, plan->top > 0 ? plan->top : FINALISTS, &found);
    if (code != 0) return code;
    if (found.interrupted || found.fitting == 0)
        code = print_result(context, plan, options, &found);
    else if (!(*list = list_found(&found)))
        code = report_failure(WEFT_ERR_MEMORY);
    weft_strategies_free(&found);
    return code;
}
