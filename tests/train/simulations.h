/* Runs weft_simulate with options given as text, and records its events and metrics. */
#ifndef WEFT_TESTS_SIMULATIONS_H
#define WEFT_TESTS_SIMULATIONS_H

#include <math.h>

#include "exchange_runs.h"

/* Results of a simulated run: step events, the last evaluation, and the series of the summary. */
typedef struct told {
    int steps, evaluations;
    double loss, accuracy, first, last, seconds, rate, utilisation, bytes, messages, lost,
        mean_staleness;
    double told_bytes;       /* bytes of the steps so far */
    double bytes_per_second; /* the greatest rate of bytes to virtual time of any event */
    double staleness[2000];
    int staleness_count;
} told;

static void take_series(told *t, const weft_series *s)
{
    const struct {
        const char *name;
        double *to;
    } all[] = {{"exchange_bytes", &t->bytes},
               {"exchange_messages", &t->messages},
               {"exchange_messages_lost", &t->lost},
               {"utilisation", &t->utilisation}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(s->name, all[i].name) == 0) *all[i].to = s->numbers[0];
    if (strcmp(s->name, "staleness") != 0) return;
    double updates = 0;
    for (int i = 0; i < s->count; i++) {
        t->staleness[i] = s->numbers[i];
        t->mean_staleness += i * s->numbers[i];
        updates += s->numbers[i];
    }
    t->staleness_count = s->count;
    t->mean_staleness /= updates;
}

static void take_event(void *user, const weft_event *e)
{
    told *t = user;
    t->steps += e->kind == WEFT_EVENT_STEP;
    if (e->kind == WEFT_EVENT_STEP) t->told_bytes += e->comm_bytes;
    if (e->seconds > 0) t->bytes_per_second = fmax(t->bytes_per_second, t->told_bytes / e->seconds);
    if (e->kind == WEFT_EVENT_STEP) t->loss = e->loss;
    if (e->kind == WEFT_EVENT_STEP) t->last = e->seconds;
    if (e->kind == WEFT_EVENT_STEP && t->steps == 1) t->first = e->seconds;
    if (e->kind == WEFT_EVENT_EVAL) {
        t->evaluations++;
        t->accuracy = e->report->accuracy;
    }
    if (e->kind != WEFT_EVENT_SUMMARY) return;
    t->seconds = e->seconds;
    t->rate = e->samples_per_second;
    for (int i = 0; i < e->series_count; i++) take_series(t, &e->series[i]);
    if (t->seconds > 0) t->bytes_per_second = fmax(t->bytes_per_second, t->bytes / t->seconds);
}

/* Options as words "name=value"; folder: of the checkpoint, may be NULL. */
static inline weft_status simulate(const char *words, const char *more, const char *folder, told *t)
{
    weft_simulate_options o = {.cluster = NULL};
    const weft_option *table = weft_simulate_table(context);
    char copy[9600], *save = NULL;
    memset(t, 0, sizeof(*t));
    assert_ok(weft_simulate_options_init(context, &o));
    if (folder) assert_ok(weft_options_set(table, &o, "checkpoint", folder));
    assert_true(snprintf(copy, sizeof(copy), "%s %s", words, more) < (int)sizeof(copy));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_simulate(context, &o, NULL, take_event, t);
    weft_options_free(table, &o);
    return status;
}

static inline const char *cluster_file(const char *root, const char *name, const char *text)
{
    const char *path = made(root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

#endif
