/* Displays the progress of training: a bar that is redrawn on a terminal, lines elsewhere. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

struct progress {
    const weft_train_options *options;
    bool terminal, quiet, drawn;
    bool simulated;       /* the times of events are virtual */
    double last, stepped; /* real times of the last display (0: none) and of the last step's end */
    double rate, loss;    /* samples a second; smoothed loss */
    /* Sums over the steps since the last line or, for a bar, over all steps, decaying by 0.95. */
    double steps, samples, seconds;
    int64_t checkpoints; /* written in this run */
};

const char *progress_kind(const weft_show_choice *show)
{
    if (strcmp(show->progress, "auto") != 0) return show->progress;
    return weft_job_rank() < 0 && isatty(STDOUT_FILENO) ? "bar" : "lines";
}

int progress_columns(void)
{
    struct winsize size = {0};
    const char *said = getenv("COLUMNS");
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    int columns = said ? atoi(said) : 0;
    return columns > 0 ? columns : 80;
}

progress *progress_new(const weft_train_options *options, bool simulated)
{
    progress *p = calloc(1, sizeof(*p));
    if (!p) return NULL;
    p->options = options;
    p->quiet = options->show.quiet;
    p->simulated = simulated;
    p->stepped = clock_seconds();
    p->terminal = strcmp(progress_kind(&options->show), "bar") == 0;
    p->drawn = p->terminal && !p->quiet; /* the supervisor may have printed a line to be cleared */
    return p;
}

void progress_end(progress *p)
{
    if (p && p->drawn) printf(CLEAR_LINE);
    flush_stdout();
    free(p);
}

static void clear_bar(progress *p)
{
    if (p->drawn) printf(CLEAR_LINE);
    p->drawn = false;
}

static void time_text(char *out, size_t size, double seconds)
{
    long s = seconds > 0 && seconds < 1e8 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        (void)snprintf(out, size, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        (void)snprintf(out, size, "%ldm%02lds", s / 60, s % 60);
    else
        (void)snprintf(out, size, "%lds", s);
}

const char *score_text(double score, char *out, size_t size)
{
    (void)snprintf(out, size, fabs(score) < 1e6 ? "%.4f" : "%.3e", score);
    return out;
}

/* The texts beside the bar, from left to right. */
enum { EPOCH, SHARE, LOSS, RATE, LEFT, PIECES };

static void pieces_text(const progress *p, const weft_event *e, double share, char piece[][48])
{
    char left[32], loss[32];
    double steps_left = (double)(e->total_steps - e->step);
    time_text(left, sizeof(left), p->steps > 0 ? steps_left * p->seconds / p->steps : 0);
    int size = snprintf(piece[EPOCH], 48, "epoch %lld", (long long)e->epoch);
    if (e->epochs > 0) /* else the run has a number of steps */
        size += snprintf(piece[EPOCH] + size, 48 - (size_t)size, "/%lld", (long long)e->epochs);
    (void)snprintf(piece[EPOCH] + size, 48 - (size_t)size, " ");
    (void)snprintf(piece[SHARE], 48, " %3.0f%%", share * 100);
    (void)snprintf(piece[LOSS], 48, "  loss %s", score_text(p->loss, loss, sizeof(loss)));
    (void)snprintf(piece[RATE], 48, "  %.0f samples/s", p->rate);
    (void)snprintf(piece[LEFT], 48, "  %s left", left);
}

/* Empties texts, the least important first, until a bar of at least LEAST characters fits beside
 * the others. Returns the width of the bar; negative: there is no room for one. The last column of
 * the terminal stays free, since some terminals wrap when it is filled. */
static int fit_width(char piece[][48], int columns)
{
    enum { FRAME = 2, LEAST = 8 };
    static const int first_to_go[] = {RATE, EPOCH, LOSS, LEFT};
    for (size_t gone = 0;; gone++) {
        int room = columns - 1 - FRAME;
        for (int i = 0; i < PIECES; i++) room -= (int)strlen(piece[i]);
        if (room >= LEAST) return room;
        if (gone == sizeof(first_to_go) / sizeof(first_to_go[0])) break;
        piece[first_to_go[gone]][0] = '\0';
    }
    if ((int)strlen(piece[SHARE]) >= columns) piece[SHARE][0] = '\0';
    return -1;
}

static void draw_bar(progress *p, const weft_event *e)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    char piece[PIECES][48];
    double share = e->total_steps ? (double)e->step / (double)e->total_steps : 0;
    pieces_text(p, e, share, piece);
    int width = fit_width(piece, progress_columns()), part = (int)(share * width * 8);
    printf(CLEAR_LINE "%s", piece[EPOCH]);
    if (width > 0) printf("▕");
    for (int i = 0; i < width; i++)
        fputs(part >= 8 * (i + 1) ? "█" : part > 8 * i ? eighths[part - 8 * i] : " ", stdout);
    if (width > 0) printf("▏");
    printf("%s%s%s%s", piece[SHARE], piece[LOSS], piece[RATE], piece[LEFT]);
    flush_stdout();
    p->drawn = true;
}

/* Adds a step to the sums. Samples and seconds are summed separately, so that the rate is a mean in
 * which steps count by their duration. */
static void add_step(progress *p, const weft_event *e, double time)
{
    double keep = p->terminal ? 0.95 : 1;
    p->steps = keep * p->steps + 1;
    p->samples = keep * p->samples + e->samples_per_second * e->step_seconds;
    p->seconds = keep * p->seconds + (p->simulated ? time - p->stepped : e->step_seconds);
    p->stepped = time;
}

static void on_step(progress *p, const weft_event *e)
{
    double keep = p->last > 0 ? 0.95 : 0, time = clock_seconds();
    if (isfinite(e->loss)) p->loss = keep * p->loss + (1 - keep) * e->loss;
    add_step(p, e, time);
    if (p->last > 0 && time - p->last < (p->terminal ? 0.1 : 10)) return;
    bool first = p->last == 0;
    char loss[32];
    p->rate =
        p->terminal || first ? p->samples / fmax(p->seconds, 1e-9) : p->samples / (time - p->last);
    if (!p->terminal) p->steps = p->samples = p->seconds = 0;
    p->last = time;
    if (p->terminal)
        draw_bar(p, e);
    else if (!first)
        printf("epoch %lld, step %lld of %lld: loss %s, %.0f samples/s\n", (long long)e->epoch,
               (long long)e->step, (long long)e->total_steps,
               score_text(p->loss, loss, sizeof(loss)), p->rate);
}

/* Prints model, data and steps. A step takes a batch for each learner. */
static void on_start(const progress *p, const weft_event *e)
{
    int64_t batch = p->options->length.batch, all = batch * e->learners;
    printf("%s on %s: %lld parameter%s, %lld training sample%s, %lld step%s of %lld sample%s",
           p->options->task.model, p->options->task.data, (long long)e->parameters,
           weft_plural(e->parameters), (long long)e->samples, weft_plural(e->samples),
           (long long)e->total_steps, weft_plural(e->total_steps), (long long)all,
           weft_plural(all));
    if (e->learners > 1) printf(", %lld by each of %d learners", (long long)batch, e->learners);
    if (e->learners > 1 && p->options->parallel.exchange)
        printf(", exchange %s", p->options->parallel.exchange);
    printf("\n");
    if (e->device) printf("on %s\n", e->device);
    if (e->threads_by)
        printf("%d thread%s%s, as %s has it\n", e->threads, weft_plural(e->threads),
               e->ranks > 1 ? " a rank" : "", e->threads_by);
}

/* Prints where the run goes on, if it is resumed or is an elastic run that was under way. */
static void on_begin(const weft_event *e)
{
    if (e->step == 0) return;
    printf("resumed after step %lld", (long long)e->step);
    if (e->step < e->total_steps) printf(", in epoch %lld", (long long)e->epoch);
    printf("\n");
}

/* Prints the statistics of this part of the run, which begins after step e->since. */
static void on_summary(const progress *p, const weft_event *e)
{
    int64_t done = e->step - e->since;
    if (done == 0 && e->since >= e->total_steps) {
        printf(
            "%s: step %lld is done, and the run ends after step %lld; a run with more --steps or "
            "--epochs goes on\n",
            p->checkpoints > 0 ? "the checkpoint has the end of the run now, with the mean of "
                                 "learners that differed"
                               : "nothing to do",
            (long long)e->since, (long long)e->total_steps);
        return;
    }
    printf("%lld step%s", (long long)done, weft_plural(done));
    if (e->since > 0) printf(" since step %lld", (long long)e->since);
    printf(" in %.1f s, %.0f samples/s in training, peak memory %.0f MB", e->seconds,
           e->samples_per_second, (double)e->peak_memory / 1e6);
    bool learner = e->process_ranks * e->learners == e->ranks; /* this process is one learner */
    if (e->process_ranks < e->ranks && learner)
        printf(" of this learner alone");
    else if (e->process_ranks < e->ranks)
        printf(" in this one of %d processes", e->ranks / e->process_ranks);
    printf("\n");
}

static void on_evaluation(const weft_event *e)
{
    weft_figure f;
    char number[64];
    printf("step %-6lld %s", (long long)e->step, e->report->part);
    for (int i = 0; weft_report_figure(e->report, i, &f); i++)
        printf("%s%s %s", i ? "  " : " ", f.title, figure_text(&f, number, sizeof(number)));
    if (!isnan(e->train_loss))
        printf("  training loss %s", score_text(e->train_loss, number, sizeof(number)));
    if (e->path) printf("  (weights of %s)", e->path);
    printf("%s\n", e->best ? "  (best)" : "");
}

void progress_event(void *user, const weft_event *e)
{
    progress *p = user;
    if (p->quiet) return;
    if (e->kind != WEFT_EVENT_STEP) clear_bar(p);
    switch (e->kind) {
    case WEFT_EVENT_START: on_start(p, e); break;
    case WEFT_EVENT_BEGIN: on_begin(e); break;
    case WEFT_EVENT_STEP: on_step(p, e); break;
    case WEFT_EVENT_EVAL: on_evaluation(e); break;
    case WEFT_EVENT_CHECKPOINT:
        p->checkpoints++;
        printf("wrote %s\n", e->path);
        break;
    case WEFT_EVENT_CHOICE: break; /* the log says it */
    case WEFT_EVENT_SUMMARY: on_summary(p, e); break;
    }
    flush_stdout();
}
