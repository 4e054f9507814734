/* weft compare FILE...: compares runs that have ended, by the files of metrics (--metrics) that
 * they have written. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "compare.h"
#include "json_scan.h"

static const char first_bytes[] = "{\"event\":";

enum { MOST_PATHS = 4096 };

typedef struct file_runs {
    compared_run all[MOST_RUNS];
    const char *path[MOST_PATHS];
    int count;
} file_runs;

/* Whether a word of the command line is the path of a metrics file. */
static bool is_metrics(const char *word)
{
    static const char suffix[] = ".jsonl";
    char *text;
    size_t size, own = strlen(word), end = strlen(suffix);
    if (*word == '-') return false;
    if (own > end && strcmp(word + own - end, suffix) == 0) return true;
    if (access(word, R_OK) != 0 || !json_read_file(word, &text, &size)) return false;
    bool is = size >= strlen(first_bytes) && strncmp(text, first_bytes, strlen(first_bytes)) == 0;
    free(text);
    return is;
}

/* --- lines --- */

/* The events of a run that are compared, by their names in the lines. */
static const char loss_key[] = "loss";
enum { OF_STEP, OF_EVALUATION, OF_SUMMARY, EVENTS };
static const char *const events[EVENTS] = {"step", "eval", "summary"};

typedef struct line {
    int event; /* EVENTS: another one */
    char split[16];
    evaluation found; /* its loss is `loss` */
    double step, seconds, loss, train_loss, rate, comm_bytes, exchange_bytes, learners, utilisation;
    double staleness; /* mean; below 0: unknown */
} line;

static void take_event(json_scan *s, line *out)
{
    char name[16];
    json_take_text(s, name, sizeof(name));
    out->event = 0;
    while (out->event < EVENTS && strcmp(name, events[out->event]) != 0) out->event++;
}

static void take_split(json_scan *s, line *out)
{
    json_take_text(s, out->split, sizeof(out->split));
}

static void take_best(json_scan *s, line *out)
{
    out->found.best = s->at < s->end && *s->at == 't';
    json_skip(s);
}

/* Takes the mean of a histogram of 0, 1, 2 and so on. */
static void take_staleness(json_scan *s, line *out)
{
    double updates = 0, sum = 0;
    json_enter(s, '[');
    for (int i = 0; json_element(s); i++) {
        double n = json_take_number(s);
        updates += n;
        sum += i * n;
    }
    out->staleness = updates > 0 ? sum / updates : -1;
}

/* The keys of a line: a number, or what takes the value. */
static const struct {
    const char *key;
    size_t number; /* offset of the double in a line */
    void (*take)(json_scan *s, line *out);
} keys[] = {{"event", 0, take_event},
            {"split", 0, take_split},
            {"staleness", 0, take_staleness},
            {"best", 0, take_best},
            {"train_loss", offsetof(line, train_loss), NULL},
            {"step", offsetof(line, step), NULL},
            {"steps", offsetof(line, step), NULL},
            {"seconds", offsetof(line, seconds), NULL},
            {loss_key, offsetof(line, loss), NULL},
            {"samples_per_second", offsetof(line, rate), NULL},
            {"comm_bytes", offsetof(line, comm_bytes), NULL},
            {"exchange_bytes", offsetof(line, exchange_bytes), NULL},
            {"utilisation", offsetof(line, utilisation), NULL},
            {"learners", offsetof(line, learners), NULL}};
enum { KEYS = sizeof(keys) / sizeof(*keys) };

/* Reads a line; false: it is damaged. The metrics of an evaluation are the numbers behind the loss;
 * asked: those that are wanted, NULL: the first one. */
static bool read_line(const char *text, size_t size, const char *asked, line *out)
{
    json_scan s = {.at = text, .end = text + size};
    char key[40];
    bool behind_loss = false;
    *out = (line){.event = EVENTS,
                  .step = NAN,
                  .seconds = NAN,
                  .loss = NAN,
                  .utilisation = -1,
                  .staleness = -1};
    json_enter(&s, '{');
    while (json_member(&s, key, sizeof(key))) {
        size_t i = 0;
        while (i < KEYS && strcmp(key, keys[i].key) != 0) i++;
        if (i < KEYS && keys[i].take) {
            keys[i].take(&s, out);
        } else if (i < KEYS) {
            double number = json_take_number(&s);
            memcpy((char *)out + keys[i].number, &number, sizeof(number));
        } else if (behind_loss && out->event == OF_EVALUATION) {
            add_metric(&out->found, asked, NULL,
                       &(weft_figure){.name = key, .title = key, .value = json_take_number(&s)});
        } else {
            json_skip(&s);
        }
        behind_loss = behind_loss || (i < KEYS && keys[i].number == offsetof(line, loss));
    }
    out->found.loss = out->loss;
    return json_ended(&s) && isfinite(out->step) && out->step >= 0 && !(out->seconds < 0);
}

/* --- runs --- */

/* The reading of a file, beside its points. */
typedef struct reading {
    size_t lines, damaged, first_damaged;
    double step,
        back; /* the last step, and one that comes after it and should not; below 0: none */
    size_t back_line;
    double comm_bytes;
    double before, last; /* seconds of the processes before a resume, and of this one */
    bool ended, infinite;
} reading;

/* The time of a line: each process of a run that resumes counts its seconds from 0. */
static double seconds_of(const line *l, reading *r)
{
    if (l->seconds < r->last) r->before += r->last;
    r->last = l->seconds;
    return r->before + l->seconds;
}

static void take_line(compared_run *c, const line *l, size_t number, reading *r)
{
    double seconds = seconds_of(l, r);
    c->seconds = seconds;
    bool ascends = l->event == OF_STEP ? l->step > r->step : l->step >= r->step;
    if (l->event < EVENTS && r->back < 0 && !ascends) {
        r->back = l->step;
        r->back_line = number;
    }
    if (l->event < EVENTS && r->back < 0) r->step = l->step;
    if (l->event == OF_STEP) {
        if (isfinite(l->loss)) add_point(&c->courses[TRAINING], (point){seconds, l->step, l->loss});
        r->infinite = r->infinite || !isfinite(l->loss);
        r->comm_bytes += l->comm_bytes;
        c->samples_per_second = l->rate;
    } else if (l->event == OF_EVALUATION) {
        add_evaluation(c, l->split, &l->found, (point){seconds, l->step, 0});
    } else if (l->event == OF_SUMMARY) {
        r->ended = true;
        c->samples_per_second = l->rate;
        c->learners = (int)l->learners;
        c->staleness = l->staleness;
        c->utilisation = l->utilisation;
        c->bytes = r->comm_bytes * l->learners + l->exchange_bytes;
    }
}

/* Tells what is missing of a file. */
static void note(const char *path, const reading *r)
{
    if (r->damaged > 0)
        fprintf(stderr, "weft: %s:%zu: is cut off or damaged%s; the other lines are compared\n",
                path, r->first_damaged, r->damaged > 1 ? ", as are further lines" : "");
    if (!r->ended)
        fprintf(
            stderr,
            "weft: %s: has no summary, since the run goes on or was broken off; what it sent is "
            "not known, and its rate is that of its last step\n",
            path);
}

static bool read_run(const char *path, const char *asked, compared_run *c)
{
    char *text;
    size_t size, number = 1;
    reading r = {.step = -1, .back = -1};
    if (!json_read_file(path, &text, &size)) return false;
    for (char *at = text, *end = text + size; at < end; number++) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        line l;
        if (newline && read_line(at, length, asked, &l)) {
            take_line(c, &l, number, &r);
            r.lines++;
        } else {
            if (r.damaged++ == 0) r.first_damaged = number;
        }
        at += length + 1;
    }
    free(text);
    if (r.lines == 0 || c->courses[TRAINING].count == 0) {
        fprintf(stderr,
                "weft: %s: has no step of a run; give a file that weft train --metrics FILE has "
                "written\n",
                path);
        return false;
    }
    if (r.back >= 0) {
        fprintf(stderr,
                "weft: %s:%zu: step %.0f comes after step %.0f, so the lines are not those of one "
                "run in their order; give a file for each run, as --metrics FILE has written it\n",
                path, r.back_line, r.back, r.step);
        return false;
    }
    if (!has_metrics(c, path, asked, loss_key)) return false;
    c->failed = r.infinite && !r.ended;
    note(path, &r);
    smooth_course(&c->courses[TRAINING]);
    return true;
}

/* --- labels --- */

/* Labels are the paths without what all have in common at their beginning and end, up to a slash:
 * runs/a/metrics.jsonl and runs/b/metrics.jsonl are a and b. */
static void make_labels(file_runs *f)
{
    size_t head = 0, tail = 0;
    const char *first = f->path[0];
    for (size_t n = 1; first[n - 1]; n++) {
        bool same = first[n - 1] == '/';
        for (int i = 1; i < f->count && same; i++) same = strncmp(f->path[i], first, n) == 0;
        if (same) head = n;
    }
    for (size_t n = 1; n + head < strlen(first); n++) {
        const char *end = first + strlen(first) - n;
        bool same = *end == '/';
        for (int i = 1; i < f->count && same; i++) {
            size_t own = strlen(f->path[i]);
            same = own > n + head && strcmp(f->path[i] + own - n, end) == 0;
        }
        if (same) tail = n;
    }
    for (int i = 0; i < f->count; i++) {
        f->all[i].words = strdup(f->path[i] + head);
        if (!f->all[i].words) continue;
        f->all[i].words[strlen(f->all[i].words) - tail] = '\0';
        f->all[i].label = f->all[i].words;
    }
}

/* Runs whose metrics have other names than that of the first are compared without theirs. */
static void drop_other_metrics(file_runs *f)
{
    const compared_run *first = NULL;
    for (int i = 0; i < f->count; i++) {
        compared_run *c = &f->all[i];
        if (c->held_out.metrics == 0) continue;
        if (!first) first = c;
        if (strcmp(c->held_out.metric[0].name, first->held_out.metric[0].name) == 0) continue;
        fprintf(stderr,
                "weft: %s has the metric %s, and %s has %s: their losses and metrics do not tell "
                "which run is better, and the table leaves the second metric out\n",
                first->label, first->held_out.metric[0].name, c->label, c->held_out.metric[0].name);
        c->courses[HELD_OUT_METRIC].count = 0;
        c->held_out.metrics = 0;
    }
}

/* --- the command --- */

static int show(file_runs *f, const weft_compare_options *o, bool json)
{
    if (!suffix_fits("compare", "plot", o->plot ? o->plot : "", OTHER_PICTURES, "an SVG picture",
                     ".svg"))
        return 2;
    for (int i = 0; i < f->count; i++) {
        if (o->plot && weft_output_same(o->plot, f->path[i])) {
            fprintf(stderr, "weft: --plot '%s' is a file that is compared; give another path\n",
                    o->plot);
            return 2;
        }
        if (!read_run(f->path[i], o->base.train.output.metric, &f->all[i])) return 1;
    }
    make_labels(f);
    drop_other_metrics(f);
    (json ? print_comparison_json : print_comparison)(f->all, f->count, o->target);
    if (!o->plot) return 0;
    weft_output *plot = NULL;
    weft_status status = weft_output_open(o->plot, WEFT_OUTPUT_REPLACE, &plot);
    if (status == WEFT_OK) status = plot_runs(f->all, f->count, RUNS_OF_FILES, NULL, plot);
    weft_status closed = weft_output_close(&plot, status == WEFT_OK);
    return report_failure(status == WEFT_OK ? closed : status);
}

/* Compares the files of the words, if they are some. Returns the exit code; -1: they are none. */
static int take_files(const weft_option *table, file_runs *f, const weft_compare_options *given,
                      const weft_compare_options *usual, bool json)
{
    if (f->count == 0 || (f->count == 1 && !is_metrics(f->path[0]))) return -1;
    if (f->count > MOST_RUNS) {
        fprintf(stderr, "weft: %d files of metrics; at most %d are compared\n", f->count,
                MOST_RUNS);
        return 2;
    }
    if (!compare_files_fit(table, given, usual)) return 2;
    for (int i = 0; i < f->count; i++) f->all[i] = compared_run_of(NULL, f->path[i]);
    int code = show(f, given, json);
    for (int i = 0; i < f->count; i++) compared_run_free(&f->all[i]);
    return code;
}

int compare_files(weft_context *context, bool json, int argc, char **argv)
{
    const weft_option *table = weft_compare_table(context);
    weft_compare_options given = {.target = 0}, usual = {.target = 0};
    file_runs *f = calloc(1, sizeof(*f));
    weft_status status = weft_compare_options_init(context, &given);
    if (status == WEFT_OK) status = weft_compare_options_init(context, &usual);
    if (status == WEFT_OK && f)
        status = weft_options_parse(table, &given, argc, argv, MOST_PATHS, f->path, &f->count);
    int code = status != WEFT_OK ? usage_failure("compare")
               : f               ? take_files(table, f, &given, &usual, json)
                                 : -1;
    free(f);
    weft_options_free(table, &given);
    weft_options_free(table, &usual);
    return code;
}
