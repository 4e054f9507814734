/* Progress of training: a bar that is redrawn on a terminal, plain lines elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

struct progress {
    const weft_train_options *options;
    bool terminal, quiet, drawn;
    double last, rate, loss; /* time of the last output, smoothed samples a second and loss */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

progress *progress_new(const weft_train_options *options)
{
    progress *p = calloc(1, sizeof(*p));
    if (!p) return NULL;
    p->options = options;
    p->quiet = options->quiet;
    p->terminal = isatty(STDOUT_FILENO) != 0;
    return p;
}

void progress_end(progress *p)
{
    if (p && p->drawn) printf("\r\033[K");
    fflush(stdout);
    free(p);
}

static void clear_bar(progress *p)
{
    if (p->drawn) printf("\r\033[K");
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

static void draw_bar(progress *p, const weft_event *e)
{
    enum { WIDTH = 24 };
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    char left[32];
    double share = e->total_steps ? (double)e->step / (double)e->total_steps : 0;
    int part = (int)(share * WIDTH * 8);
    double steps_left = (double)(e->total_steps - e->step);
    time_text(left, sizeof(left),
              p->rate > 0 ? steps_left * (double)p->options->batch / p->rate : 0);
    printf("\r\033[Kepoch %lld/%lld ▕", (long long)e->epoch + 1, (long long)e->epochs);
    for (int i = 0; i < WIDTH; i++)
        fputs(part >= 8 * (i + 1) ? "█" : part > 8 * i ? eighths[part - 8 * i] : " ", stdout);
    printf("▏ %3.0f%%  loss %.4f  %.0f samples/s  %s left", share * 100, p->loss, p->rate, left);
    fflush(stdout);
    p->drawn = true;
}

static void on_step(progress *p, const weft_event *e)
{
    double keep = p->rate > 0 ? 0.95 : 0, time = now();
    p->rate = keep * p->rate + (1 - keep) * e->samples_per_second;
    p->loss = keep * p->loss + (1 - keep) * e->loss;
    if (time - p->last < (p->terminal ? 0.1 : 10)) return;
    bool first = p->last == 0;
    p->last = time;
    if (p->terminal)
        draw_bar(p, e);
    else if (!first)
        printf("epoch %lld, step %lld of %lld: loss %.4f, %.0f samples/s\n",
               (long long)e->epoch + 1, (long long)e->step, (long long)e->total_steps, p->loss,
               p->rate);
}

static void on_start(const progress *p, const weft_event *e)
{
    printf("%s on %s: %lld parameters, %lld training samples, %lld steps of %lld\n",
           p->options->model, p->options->data, (long long)e->parameters, (long long)e->samples,
           (long long)e->total_steps, (long long)p->options->batch);
    if (e->step > 0) printf("resumed after step %lld\n", (long long)e->step);
}

void progress_event(void *user, const weft_event *e)
{
    progress *p = user;
    if (p->quiet) return;
    if (e->kind != WEFT_EVENT_STEP) clear_bar(p);
    switch (e->kind) {
    case WEFT_EVENT_START: on_start(p, e); break;
    case WEFT_EVENT_STEP: on_step(p, e); break;
    case WEFT_EVENT_EVAL:
        printf("step %-6lld test loss %.4f  accuracy %.4f  macro F1 %.4f\n", (long long)e->step,
               e->report->loss, e->report->accuracy, e->report->f1_macro);
        break;
    case WEFT_EVENT_CHECKPOINT: printf("wrote %s\n", e->path); break;
    case WEFT_EVENT_SUMMARY:
        printf("%lld steps in %.1f s, %.0f samples/s in training, %.0f MB at the most\n",
               (long long)e->step, e->seconds, e->samples_per_second, (double)e->peak_memory / 1e6);
        break;
    }
    fflush(stdout);
}
