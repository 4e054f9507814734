/* The bars of a step, and their lines in a terminal (weft plan --timeline). */
#include "plan_timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "weft/plan.h"

void step_bars_free(step_bars *bars)
{
    free(bars->at);
    *bars = (step_bars){.count = 0};
}

/* The operator is the first of those that are fused. */
static void take_name(step_bar *bar, const char *text)
{
    size_t op = strcspn(text, "+ ");
    (void)snprintf(bar->op, BAR_NAME, "%.*s", (int)(op < BAR_NAME ? op : BAR_NAME - 1), text);
    (void)snprintf(bar->name, BAR_NAME, "%s", text);
}

void step_bars_add(step_bars *bars, step_bar bar, const char *text)
{
    if (bar.end <= bar.start) return;
    if (bars->count == bars->capacity) {
        size_t more = bars->capacity ? 2 * bars->capacity : 256;
        step_bar *larger = realloc(bars->at, more * sizeof(*larger));
        bars->failed = bars->failed || !larger;
        if (!larger) return;
        bars->at = larger;
        bars->capacity = more;
    }
    if (text) take_name(&bar, text);
    bars->at[bars->count++] = bar;
    bars->seconds = fmax(bars->seconds, bar.end);
    bool link = bar.kind == WEFT_SPAN_SEND || bar.kind == WEFT_SPAN_RECEIVE;
    int *lanes = link ? &bars->machines : &bars->ranks;
    if (bar.where >= *lanes) *lanes = bar.where + 1;
}

void step_bars_take(void *user, const weft_span *span)
{
    step_bars_add(user,
                  (step_bar){.kind = span->kind,
                             .where = span->where,
                             .phase = span->phase,
                             .start = span->start,
                             .end = span->end},
                  span->name);
}

/* --- lines of characters --- */

enum { COLUMNS = 120, MOST_LINES = 32 };

/* The characters of a line, the one that is kept of equal shares first. */
static const char letters[] = "FBU=-.";
static const struct {
    char letter;
    const char *meaning;
} key[] = {{'F', "forward"},  {'B', "backward"}, {'U', "update"},   {'=', "transfers"},
           {'-', "the rest"}, {'.', "waiting"},  {'>', "link busy"}};

static char letter_of(const step_bar *bar)
{
    switch (bar->kind) {
    case WEFT_SPAN_KERNEL:
        return bar->phase == WEFT_PHASE_UPDATE     ? 'U'
               : bar->phase == WEFT_PHASE_BACKWARD ? 'B'
                                                   : 'F';
    case WEFT_SPAN_REST: return '-';
    case WEFT_SPAN_TRANSFER: return '=';
    case WEFT_SPAN_WAIT: return '.';
    default: return '>';
    }
}

/* Adds the seconds of a bar to the columns that it covers. */
static void add_shares(const step_bars *bars, const step_bar *bar, int columns, float *share)
{
    double each = bars->seconds / columns;
    int first = (int)(bar->start / each), last = (int)(bar->end / each);
    for (int c = first; c <= last && c < columns; c++)
        share[c] += (float)fmax(fmin(bar->end, (c + 1) * each) - fmax(bar->start, c * each), 0);
}

/* Each column of a rank has the letter of what takes most of its time; that of a link tells whether
 * it is busy for at least half of it. */
static void make_line(const step_bars *bars, int where, bool link, bool receives, int columns,
                      char *out)
{
    enum { KINDS = sizeof(letters) - 1 };
    float share[KINDS + 1][COLUMNS] = {{0}};
    weft_span_kind way = receives ? WEFT_SPAN_RECEIVE : WEFT_SPAN_SEND;
    for (size_t i = 0; i < bars->count; i++) {
        const step_bar *bar = &bars->at[i];
        bool of_link = bar->kind == WEFT_SPAN_SEND || bar->kind == WEFT_SPAN_RECEIVE;
        if (bar->where != where || of_link != link || (link && bar->kind != way)) continue;
        const char *at = strchr(letters, letter_of(bar));
        add_shares(bars, bar, columns, share[at ? at - letters : KINDS]);
    }
    for (int c = 0; c < columns; c++) {
        float most = 0;
        out[c] = link ? ' ' : '.';
        for (int k = 0; k < KINDS && !link; k++)
            if (share[k][c] > most) {
                most = share[k][c];
                out[c] = letters[k];
            }
        if (link && 2.0 * columns * (double)share[KINDS][c] >= bars->seconds) out[c] = '>';
    }
    out[columns] = '\0';
}

static void print_rest(int left, const char *what)
{
    if (left > 0) printf("and %d further %s%s\n", left, what, weft_plural(left));
}

static void print_key(bool links)
{
    int at = 0, edge = progress_columns();
    for (size_t i = 0; i < sizeof(key) / sizeof(*key); i++) {
        int own = 2 + (int)strlen(key[i].meaning);
        if (key[i].letter == '>' && !links) continue;
        bool fits = at + 2 + own <= edge;
        printf("%s%c %s", i == 0 ? "" : fits ? ", " : ",\n", key[i].letter, key[i].meaning);
        at = i > 0 && fits ? at + 2 + own : own;
    }
    printf("\n");
}

void step_bars_print(const step_bars *bars)
{
    char line[COLUMNS + 1], name[32];
    int columns = progress_columns() - 16;
    columns = columns < 20 ? 20 : columns > COLUMNS ? COLUMNS : columns;
    printf("\n%s: %.4g ms, each character %.3g ms\n", bars->title, 1e3 * bars->seconds,
           1e3 * bars->seconds / columns);
    for (int r = 0; r < bars->ranks && r < MOST_LINES; r++) {
        make_line(bars, r, false, false, columns, line);
        (void)snprintf(name, sizeof(name), "rank %d", r);
        printf("%-14s %s\n", name, line);
    }
    print_rest(bars->ranks - MOST_LINES, "rank");
    for (int m = 0; m < bars->machines && m < MOST_LINES / 2; m++)
        for (int receives = 0; receives < 2; receives++) {
            make_line(bars, m, true, receives, columns, line);
            (void)snprintf(name, sizeof(name), "machine %d %s", m, receives ? "in" : "out");
            printf("%-14s %s\n", name, line);
        }
    print_rest(bars->machines - MOST_LINES / 2, "machine");
    print_key(bars->machines > 0);
}

/* --- the command --- */

typedef weft_status (*write_fn)(const step_bars *const *bars, int count, const char *subject,
                                weft_output *to);

static weft_status write_trace(const step_bars *const *bars, int count, const char *subject,
                               weft_output *to)
{
    (void)count;
    (void)subject;
    return step_bars_trace(bars[0], to);
}

static int write_file(const char *path, write_fn write, const step_bars *const *bars, int count,
                      const char *subject)
{
    weft_output *to = NULL;
    weft_status status = weft_output_open(path, WEFT_OUTPUT_REPLACE, &to);
    if (status == WEFT_OK) status = write(bars, count, subject, to);
    weft_status closed = weft_output_close(&to, status == WEFT_OK);
    return report_failure(status == WEFT_OK ? closed : status);
}

/* Whether the files fit their contents; prints an error if not. */
static bool files_fit(const weft_train_options *options, const plan_timeline_options *show)
{
    if (!suffix_fits("plan", "plot", show->plot ? show->plot : "", OTHER_PICTURES, "an SVG picture",
                     ".svg"))
        return false;
    const char *const outputs[] = {show->plot, show->trace};
    static const char *const names[] = {"plot", "predicted"};
    for (int i = 0; i < 2; i++) {
        if (outputs[i] && show->measured && weft_output_same(outputs[i], show->measured)) {
            fprintf(stderr, "weft: --%s '%s' is the file of --measured; give another path\n",
                    names[i], outputs[i]);
            return false;
        }
        if (weft_train_refuse_overwrite(options, names[i], outputs[i]) != WEFT_OK) {
            (void)usage_failure("plan");
            return false;
        }
    }
    return true;
}

/* Whether the measured step is one of such a run; prints an error if not. One of another model is
 * told. A trace has all ranks, or those of the first learner. */
static bool measured_fits(const weft_train_options *o, const plan_timeline_options *show,
                          const plan_steps *steps)
{
    const step_bars *measured = &steps->measured;
    const char *mesh = o->parallel.mesh;
    int64_t ranks = steps->predicted.ranks, own = 1;
    if (o->parallel.exchange && mesh && weft_mesh_ranks(mesh, &own) != WEFT_OK) own = ranks;
    if (!o->parallel.exchange) own = ranks;
    if (measured->ranks != ranks && measured->ranks != own) {
        fprintf(stderr,
                "weft: %s: a trace of %d rank%s, and the step that is predicted has %lld; give -n "
                "and --mesh as in the run that wrote it\n",
                show->measured, measured->ranks, weft_plural(measured->ranks), (long long)ranks);
        return false;
    }
    if (*measured->model && strcmp(measured->model, o->task.model) != 0)
        fprintf(stderr,
                "weft: %s: a trace of the model %s, and the step that is predicted is of %s\n",
                show->measured, measured->model, o->task.model);
    return true;
}

/* Tells of a step that was measured on another processor than the times of the prediction. */
static void note_processors(const char *cluster, const char *path, const char *measured)
{
    char *processor;
    (void)!weft_measured_here(cluster, &processor);
    if (processor && *measured && strcmp(processor, measured) != 0)
        fprintf(stderr,
                "weft: %s: the step was measured on '%s', and the times of %s on '%s'; weft "
                "measure writes times of the first\n",
                path, measured, cluster, processor);
    weft_free(processor);
}

/* Tells which ranks and links a picture leaves out. */
static void note_part(const char *path, const step_bars *const *bars, int count)
{
    char part[150];
    for (int i = 0; i < count; i++) {
        if (!step_bars_part(bars[i], part, sizeof(part))) continue;
        fprintf(stderr, "weft: %s: %s; --predicted FILE writes all\n", path, part);
        return;
    }
}

int plan_steps_make(weft_context *context, const weft_train_options *options, const char *cluster,
                    const plan_timeline_options *show, weft_step_estimate *step, plan_steps *out)
{
    const step_bars *all[] = {&out->predicted, &out->measured};
    char subject[160];
    int code = 0;
    if (!files_fit(options, show)) return 2;
    out->count = show->measured ? 2 : 1;
    (void)snprintf(subject, sizeof(subject), "%s on %s", options->task.model, options->task.data);
    if (show->measured) code = step_bars_read(show->measured, &out->measured);
    if (code == 0)
        code = report_failure(
            weft_estimate_spans(context, options, cluster, step_bars_take, &out->predicted, step));
    (void)snprintf(out->predicted.title, sizeof(out->predicted.title), "predicted for %.120s",
                   cluster);
    if (code == 0 && out->predicted.failed) code = report_failure(WEFT_ERR_MEMORY);
    if (code == 0 && show->measured && !measured_fits(options, show, out)) code = 2;
    if (code == 0 && show->measured)
        note_processors(cluster, show->measured, out->measured.processor);
    if (code == 0 && show->plot)
        code = write_file(show->plot, step_bars_plot, all, out->count, subject);
    if (code == 0 && show->plot) note_part(show->plot, all, out->count);
    if (code == 0 && show->trace) code = write_file(show->trace, write_trace, all, 1, subject);
    return code;
}

void plan_steps_free(plan_steps *steps)
{
    step_bars_free(&steps->predicted);
    step_bars_free(&steps->measured);
}
