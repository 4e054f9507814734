#include <time.h>

#include "trainer_runs.h"

weft_context *context;
double stop_delay;

int setup(void **state)
{
    (void)state;
    return weft_context_create(&context) != WEFT_OK;
}

int teardown(void **state)
{
    (void)state;
    weft_context_destroy(&context);
    return 0;
}

static void *stop_later(void *user)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(stop_delay * 1e9)}, NULL);
    weft_trainer_stop(((log_of_run *)user)->trainer);
    return NULL;
}

static void stop(log_of_run *l)
{
    if (stop_delay > 0) {
        l->stops = pthread_create(&l->stopper, NULL, stop_later, l) == 0;
        return;
    }
    weft_trainer_stop(l->trainer);
    /* Gives learners that need not wait for others the time to get ahead. */
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

static void log_event(void *user, const weft_event *e)
{
    log_of_run *l = user;
    if (e->kind == WEFT_EVENT_STEP) {
        if (l->steps < 512) {
            l->loss[l->steps] = e->loss;
            l->rate[l->steps] = e->lr;
        }
        l->steps++;
        if (l->stop_after && l->steps == l->stop_after) stop(l);
    }
    if (e->kind == WEFT_EVENT_EVAL) {
        l->evaluations++;
        l->test_loss = e->report->loss;
        l->test_accuracy = e->report->accuracy;
        l->test_f1 = e->report->f1_macro;
        l->fit = e->report->fit;
    }
}

weft_status train(const char *words, const char *folder, int stop_after, log_of_run *l)
{
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    char copy[8192], *save = NULL;
    memset(l, 0, sizeof(*l));
    l->stop_after = stop_after;
    assert_ok(weft_train_options_init(context, &o));
    assert_true(snprintf(copy, sizeof(copy), "%s", words) < (int)sizeof(copy));
    if (folder) assert_ok(weft_options_set(table, &o, "checkpoint", folder));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_trainer_create(context, &o, &l->trainer);
    if (status == WEFT_OK) status = weft_trainer_run(l->trainer, log_event, l);
    if (l->stops) pthread_join(l->stopper, NULL);
    weft_trainer_destroy(&l->trainer);
    weft_options_free(table, &o);
    return status;
}
