/* weft plan --target and --budget: takes the runs from a list, has them compared, and shows how far
 * that is. */
#include "plan_target.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compare.h"

bool target_asked(const target_choice *c)
{
    return c->target || c->budget;
}

bool target_details(const target_choice *c)
{
    return c->sweep || c->seeds || c->lr_rule;
}

/* --- options --- */

/* NAME=VALUE; false: it is none, and an error was printed. */
static bool take_target(const char *text, target_search *s)
{
    char *end = NULL;
    const char *equals = text ? strchr(text, '=') : NULL;
    size_t size = equals ? (size_t)(equals - text) : 0;
    if (!text) return true;
    if (equals) s->value = strtod(equals + 1, &end);
    if (size > 0 && size < sizeof(s->metric) && end != equals + 1 && !*end && isfinite(s->value)) {
        memcpy(s->metric, text, size);
        s->metric[size] = '\0';
        return true;
    }
    fprintf(stderr,
            "weft: target '%s' is not NAME=VALUE, a metric of evaluations (weft help metrics) or "
            "train_loss and a number, as in --target accuracy=0.97\nTry 'weft help plan'.\n",
            text);
    return false;
}

/* A time with its unit; false: it is none, and an error was printed. */
static bool take_budget(const char *text, target_search *s)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    char *end = NULL;
    if (!text) return true;
    s->budget = strtod(text, &end);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && end != text; i++)
        if (strcmp(end, units[i].name) == 0) {
            s->budget *= units[i].seconds;
            if (s->budget > 0 && isfinite(s->budget)) return true;
        }
    fprintf(stderr,
            "weft: budget '%s' is not a time in seconds or with a unit s, m, h or d, as in "
            "--budget 2h\nTry 'weft help plan'.\n",
            text);
    return false;
}

static weft_rate_rule rule_of(const char *name)
{
    static const char *const names[] = {[WEFT_RATE_USUAL] = "usual",
                                        [WEFT_RATE_LINEAR] = "linear",
                                        [WEFT_RATE_ROOT] = "root",
                                        [WEFT_RATE_KEPT] = "none"};
    int rule = WEFT_RATE_USUAL;
    for (int i = 0; name && i < (int)(sizeof(names) / sizeof(names[0])); i++)
        if (strcmp(names[i], name) == 0) rule = i;
    return (weft_rate_rule)rule;
}

/* --- the finalists --- */

/* Reads the options of a run: those of the command line, and its own. */
static weft_status read_finalist(target_search *s, int i, int argc, char **argv)
{
    weft_train_options *o = &s->options[i];
    weft_status status = read_train_options(s->context, o, argc, argv);
    if (status != WEFT_OK) return status;
    s->batch = (double)o->length.batch;
    if (!s->subject && asprintf(&s->subject, "%s on %s", o->task.model, o->task.data) < 0)
        s->subject = NULL;
    double common = o->update.lr;
    o->update.lr = NAN;
    status = set_strategy(weft_train_table(s->context), o, s->words[i]);
    bool own = !isnan(o->update.lr);
    if (!own) o->update.lr = common;
    s->finalists[i] =
        (weft_finalist){.name = *s->words[i] ? strategy_label(s->words[i]) : "the run",
                        .options = o,
                        .own_rate = own};
    return status;
}

/* Returns the exit code; 0: the runs are known. */
static int take_finalists(target_search *s, const char *list, int argc, char **argv)
{
    char *swept = NULL, *words[MOST_RUNS];
    const char *sweep = s->choice->sweep;
    if (sweep &&
        !sweep_runs(weft_train_table(s->context), sweep, list ? list : "", "plan", true, &swept))
        return 2;
    int count = 1;
    if (swept || list)
        count = split_strategies(swept ? swept : list, words, MOST_RUNS);
    else
        words[0] = strdup("");
    free(swept);
    if (count < 1) {
        fprintf(stderr,
                "weft: strategies '%s': give from 1 to %d with semicolons between them, as in "
                "--strategies 'mesh=data=2; mesh=tensor=2'\nTry 'weft help plan'.\n",
                list ? list : "", MOST_RUNS);
        return 2;
    }
    s->words = calloc((size_t)count, sizeof(*s->words));
    s->options = calloc((size_t)count, sizeof(*s->options));
    s->finalists = calloc((size_t)count, sizeof(*s->finalists));
    bool room = s->words && s->options && s->finalists;
    for (int i = 0; i < count && room; i++) s->words[i] = words[i];
    s->count = room ? count : 0;
    for (int i = 0; i < s->count; i++)
        if (!s->words[i] || read_finalist(s, i, argc, argv) != WEFT_OK)
            return usage_failure("plan");
    if (!room) fprintf(stderr, "weft: plan: not enough memory\n");
    return room ? 0 : 1;
}

/* --- progress --- */

/* Draws on a terminal, a few times a second. */
static void show(void *user, const weft_target_progress *p)
{
    double *drawn = user, now = clock_seconds();
    if (now - *drawn < 0.1) return;
    *drawn = now;
    fprintf(stderr, CLEAR_LINE "round %d of %d, %d left: %.40s at %.4g s", p->round, p->rounds + 1,
            p->running, p->name, p->seconds);
    if (p->until > 0 && isfinite(p->until)) fprintf(stderr, " of %.4g", p->until);
    fprintf(stderr, ", %.0f %% of its steps", 100 * p->share);
}

/* --- the command --- */

/* The words of the best run, with the learning rate and the warm-up that it ran with. */
static char *winner_of(const target_search *s)
{
    char *out = NULL, warmup[40] = "";
    const weft_target_result *best = &s->results[0];
    const weft_finalist *f = &s->finalists[best->finalist];
    const char *words = s->words[best->finalist];
    if (f->own_rate) return strdup(words);
    if (best->warmup != f->options->update.warmup)
        (void)snprintf(warmup, sizeof(warmup), " warmup=%lld", (long long)best->warmup);
    int size = asprintf(&out, "%s%slr=%.6g%s", words, *words ? " " : "", best->lr, warmup);
    return size < 0 ? NULL : out;
}

static int say_reached(const target_search *s)
{
    if (!*s->metric || s->results[0].reached) return 0;
    double best = target_best(s);
    if (isnan(best))
        fprintf(stderr,
                "weft: no evaluation had the metric '%s' before the runs ended; --evaluate-every "
                "STEPS evaluates more often\n",
                s->metric);
    else
        fprintf(stderr, "weft: no run reached %s=%g; the best that was seen is %.6g%s\n", s->metric,
                s->value, best, s->count > 1 ? ", and runs that were left out did not go on" : "");
    return 1;
}

static int search_and_print(target_search *s, bool json, weft_output **plot)
{
    const bool quiet = s->options[0].show.quiet, shows = !quiet && isatty(STDERR_FILENO);
    double drawn = 0;
    weft_target_options asked;
    weft_target_options_init(&asked);
    asked.cluster = s->cluster;
    asked.metric = *s->metric ? s->metric : NULL;
    asked.value = s->value;
    asked.budget = s->budget;
    asked.seeds = s->choice->seeds > 0 ? (int)s->choice->seeds : 1;
    asked.rule = rule_of(s->choice->lr_rule);
    asked.batch = (int64_t)s->batch;
    catch_signals();
    weft_status status =
        weft_time_to_target(s->context, &asked, s->finalists, s->count, &wanted_stop,
                            shows ? show : NULL, &drawn, &s->results);
    if (shows) fprintf(stderr, CLEAR_LINE);
    if (status == WEFT_ERR_INTERRUPTED) {
        fprintf(stderr, "weft: %s\n", weft_last_message());
        return interrupted_code();
    }
    if (status == WEFT_ERR_ARGUMENT) return usage_failure("plan");
    if (status != WEFT_OK) return report_failure(status);
    if (json)
        target_print_json(s);
    else
        target_print(s);
    if (!json && !quiet) target_print_chart(s);
    if (*plot) status = target_plot(s, *plot);
    if (status != WEFT_OK) return report_failure(status);
    flush_stdout();
    return say_reached(s);
}

int plan_target(weft_context *context, const target_choice *choice, const char *cluster,
                const char *list, bool json, int argc, char **argv, char **winner)
{
    target_search s = {.context = context, .choice = choice, .cluster = cluster};
    weft_output *plot = NULL;
    int code = 2;
    *winner = NULL;
    if (take_target(choice->target, &s) && take_budget(choice->budget, &s) &&
        suffix_fits("plan", "plot", choice->plot ? choice->plot : "", OTHER_PICTURES,
                    "an SVG picture", ".svg"))
        code = take_finalists(&s, list, argc, argv);
    if (code == 0 && choice->plot) {
        weft_status status = weft_train_refuse_overwrite(&s.options[0], "plot", choice->plot);
        if (status == WEFT_OK) status = weft_output_open(choice->plot, WEFT_OUTPUT_REPLACE, &plot);
        code = report_failure(status);
    }
    if (code == 0) code = search_and_print(&s, json, &plot);
    weft_status closed = weft_output_close(&plot, s.results != NULL);
    if (code == 0) code = report_failure(closed);
    if (s.results && !s.results[0].refused) *winner = winner_of(&s);
    weft_target_results_free(&s.results, s.count);
    for (int i = 0; i < s.count; i++) {
        weft_options_free(weft_train_table(context), &s.options[i]);
        free(s.words[i]);
    }
    free(s.words);
    free(s.options);
    free(s.finalists);
    free(s.subject);
    return code;
}
