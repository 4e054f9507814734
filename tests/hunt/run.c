/* Runs one training in this process, from the words of the `weft train` command line. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hunt.h"

typedef struct watch {
    result *result;
    weft_trainer *trainer;
    int stop;
} watch;

static double figure_of(const weft_report *r)
{
    return r->targets && !r->by_label ? r->fit.r2 : r->accuracy;
}

static void on_event(void *user, const weft_event *e)
{
    watch *w = user;
    if (e->kind == WEFT_EVENT_STEP && e->step <= MOST_STEPS) {
        w->result->losses[e->step - 1] = e->loss;
        w->result->steps = (int)e->step;
        if (w->stop && e->step == w->stop) weft_trainer_stop(w->trainer);
    }
    if (e->kind == WEFT_EVENT_EVAL) {
        w->result->test_loss = e->report->loss;
        w->result->figure = figure_of(e->report);
    }
}

static weft_status options_of(words *w, weft_train_options *options)
{
    int count = 0;
    const char *word;
    weft_status status = train_options_init(options);
    if (status != WEFT_OK) return status;
    return weft_options_parse(train_table(), options, w->count, w->word, 1, &word, &count);
}

static weft_status train(const weft_train_options *options, watch *w)
{
    weft_context *context = NULL;
    weft_status status = weft_context_create(&context);
    if (status == WEFT_OK) status = weft_trainer_create(context, options, &w->trainer);
    if (status == WEFT_OK) status = weft_trainer_run(w->trainer, on_event, w);
    weft_trainer_destroy(&w->trainer);
    weft_context_destroy(&context);
    return status;
}

void run_case(const hunt_case *c, const way *w, const char *folder, int stop, bool resume,
              result *out)
{
    static words line;
    weft_train_options options = {0};
    watch eye = {.result = out, .stop = stop};
    char latest[TEXT];
    memset(out, 0, sizeof(*out));
    case_words(c, w, folder, &line);
    out->status = options_of(&line, &options);
    options.output.resume = resume;
    options.job.timeout = 60; /* a hanging rank is reported before SECONDS_IDLE are over */
    if (out->status == WEFT_OK) out->status = train(&options, &eye);
    (void)snprintf(out->message, sizeof(out->message), "%s",
                   out->status == WEFT_OK ? "" : weft_last_message());
    weft_options_free(train_table(), &options);
    if (stop && out->status == WEFT_ERR_INTERRUPTED) out->status = WEFT_OK;
    if (out->status != WEFT_OK) return;
    (void)snprintf(latest, sizeof(latest), "%s/latest", folder);
    bool whole = tensors_read(latest, &out->tensors);
    (void)snprintf(latest, sizeof(latest), "%s/best", folder);
    /* A run that was stopped early, or has no finite metric, has no best checkpoint yet. */
    if (c->judging.best && access(latest, F_OK) == 0)
        whole = tensors_read(latest, &out->best) && whole;
    if (whole) return;
    out->status = WEFT_ERR_FORMAT;
    (void)snprintf(out->message, sizeof(out->message), "%s: there is no whole checkpoint", folder);
}

weft_status plan_case(const hunt_case *c, const way *w, char *message, size_t room)
{
    static words line;
    weft_train_options options = {0};
    weft_context *context = NULL;
    char *text = NULL;
    case_words(c, w, NULL, &line);
    weft_status status = options_of(&line, &options);
    if (status == WEFT_OK) status = weft_context_create(&context);
    if (status == WEFT_OK) status = weft_train_plan_text(context, &options, -1, &text);
    (void)snprintf(message, room, "%s", status == WEFT_OK ? text : weft_last_message());
    weft_free(text);
    weft_context_destroy(&context);
    weft_options_free(train_table(), &options);
    return status;
}

void evaluate_case(const hunt_case *c, const char *folder, result *out)
{
    char latest[TEXT];
    weft_eval_options options = {0};
    weft_context *context = NULL;
    weft_report report = {0};
    (void)snprintf(latest, sizeof(latest), "%s/%s", folder, c->judging.best ? "best" : "latest");
    memset(out, 0, sizeof(*out));
    out->status = weft_options_init(weft_eval_table(), &options);
    if (out->status == WEFT_OK)
        out->status = weft_options_set(weft_eval_table(), &options, "checkpoint", latest);
    if (out->status == WEFT_OK)
        out->status =
            weft_options_set(weft_eval_table(), &options, "device", lone_device(c, &c->way));
    options.batch = 1 + (int64_t)(c->samples.seed % 7);
    if (out->status == WEFT_OK) out->status = weft_context_create(&context);
    if (out->status == WEFT_OK) out->status = weft_evaluate(context, &options, &report);
    (void)snprintf(out->message, sizeof(out->message), "%s",
                   out->status == WEFT_OK ? "" : weft_last_message());
    out->test_loss = report.loss;
    out->figure = figure_of(&report);
    weft_report_free(&report);
    weft_context_destroy(&context);
    weft_options_free(weft_eval_table(), &options);
}

void result_free(result *r)
{
    tensors_free(&r->tensors);
    tensors_free(&r->best);
}
