/* Measures training steps against their floor (floor.h): weft_bench MODEL DATA BATCH STEPS ROUNDS
 * [-v]
 *
 * Steps and floor take turns in one process, so that a noisy machine disturbs both alike. A step is
 * what the trainer does between two step events: loading, feeding, forward, backward, update. The
 * share of the floor is floor time divided by step time, in each round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "floor.h"
#include "weft/weft.h"

enum { MOST = 2000 };

typedef struct watch {
    double times[MOST], last;
    int count;
    size_t peak;
} watch;

static void on_event(void *user, const weft_event *e)
{
    watch *w = user;
    double now = seconds_now();
    if (e->kind == WEFT_EVENT_STEP && w->last > 0 && w->count < MOST)
        w->times[w->count++] = now - w->last;
    w->last = e->kind == WEFT_EVENT_STEP ? now : 0;
    if (e->kind == WEFT_EVENT_SUMMARY) w->peak = e->peak_memory;
}

static weft_status run(weft_context *context, const weft_train_options *o, int rounds, int threads,
                       int verbose)
{
    static watch w;
    double floors[16], steps[16];
    int batch = (int)o->length.batch;
    for (int r = 0; r < rounds; r++) {
        weft_trainer *t;
        weft_status status = weft_trainer_create(context, o, &t);
        if (status != WEFT_OK) return status;
        memset(&w, 0, sizeof(w));
        status = weft_trainer_run(t, on_event, &w);
        if (status == WEFT_OK) {
            steps[r] = median(w.times, w.count);
            floors[r] = floor_of_graph(weft_trainer_graph(t), threads, 30, verbose && r == 0);
        }
        weft_trainer_destroy(&t);
        if (status != WEFT_OK) return status;
    }
    double worst = 1e9, best = 0;
    for (int r = 0; r < rounds; r++) {
        double share = 100 * floors[r] / steps[r];
        worst = share < worst ? share : worst;
        best = share > best ? share : best;
    }
    double step = median(steps, rounds), least = median(floors, rounds);
    printf("%-10s batch %d, %d threads: step %.2f ms (%.0f samples/s), floor %.2f ms (%.0f "
           "samples/s), "
           "share of the floor %.1f %% (rounds: %.1f to %.1f %%)\n",
           o->task.model, batch, threads, step * 1e3, batch / step, least * 1e3, batch / least,
           100 * least / step, worst, best);
    printf("RESULT %s %.1f\n", o->task.model, batch / step);
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    weft_context *context = NULL;
    weft_train_options o = {0};
    if (argc < 6) {
        fprintf(stderr, "usage: weft_bench MODEL DATA BATCH STEPS ROUNDS [-v]\n");
        return 2;
    }
    int rounds = atoi(argv[5]) > 16 ? 16 : atoi(argv[5]);
    weft_status status = weft_context_create(&context);
    const weft_option *table = context ? weft_train_table(context) : NULL;
    if (status == WEFT_OK) status = weft_train_options_init(context, &o);
    if (status == WEFT_OK) status = weft_options_set(table, &o, "model", argv[1]);
    if (status == WEFT_OK) status = weft_options_set(table, &o, "data", argv[2]);
    if (status == WEFT_OK) status = weft_options_set(table, &o, "batch", argv[3]);
    if (status == WEFT_OK) status = weft_options_set(table, &o, "steps", argv[4]);
    if (status == WEFT_OK)
        status = run(context, &o, rounds, weft_context_threads(context), argc > 6);
    if (status != WEFT_OK) fprintf(stderr, "weft_bench: %s\n", weft_last_message());
    if (table) weft_options_free(table, &o);
    weft_context_destroy(&context);
    return status != WEFT_OK;
}
