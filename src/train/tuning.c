/* Finds the table of measurements by which a run chooses its kernels (--tune): it is read, or
 * measured on the programs of all ranks and written, or taken from the checkpoint. One table serves
 * all ranks, so that they choose alike. */
#include <stdio.h>

#include "program/program.h"
#include "train/trainer.h"
#include "weft/device.h"

/* Measuring ends after so many seconds, and before the other ranks give up waiting. */
static const double most_seconds = 60;

static void take(weft_trainer *t, char *text, size_t size)
{
    free((void *)(uintptr_t)t->tuning.data);
    t->tuning = (weft_bytes){.data = (unsigned char *)text, .size = size};
}

/* Whether rank r may be the first with its part of the learner and its device. */
static weft_status is_new(const weft_trainer *t, int r, bool *out)
{
    char *mine, *first;
    WEFT_TRY(weft_device_of_rank(t->context, t->options.where.device, r, &mine));
    weft_status status =
        weft_device_of_rank(t->context, t->options.where.device, r % t->mesh, &first);
    *out = r < t->mesh || (status == WEFT_OK && strcmp(mine, first) != 0);
    if (status == WEFT_OK) free(first);
    free(mine);
    return status;
}

/* --- measuring --- */

/* Measures the groups of a rank's program that the table lacks. */
static weft_status measure_on(weft_trainer *t, weft_rank *r, weft_store *store, double until,
                              size_t *count)
{
    weft_program *program;
    char *text;
    WEFT_TRY(weft_rank_rewrite(r));
    if (t->tuning.size == 0) WEFT_TRY(weft_store_tune(store, NULL, t->tuned_by));
    weft_store_measure_until(store, until, weft_trainer_stop_requested, t);
    WEFT_TRY(weft_rank_dry_program_on(r, store, &program));
    weft_program_destroy(&program);
    WEFT_TRY(weft_rank_dry_evaluation_on(r, store, false, NULL, &program));
    weft_program_destroy(&program);
    WEFT_TRY(weft_store_tuning_text(store, &text, count));
    take(t, text, strlen(text));
    return WEFT_OK;
}

static weft_status measure_rank(weft_trainer *t, int r, double until, size_t *count)
{
    weft_rank rank = {.run_spec = &t->run_spec, .rank = r};
    weft_store *store;
    weft_status status = weft_rank_store(&rank, NULL, &store);
    /* The device of another rank may be one of another machine. */
    if (status != WEFT_OK) return r < t->local ? status : WEFT_OK;
    status = measure_on(t, &rank, store, until, count);
    weft_store_destroy(&store);
    weft_rank_free(&rank);
    return status;
}

static weft_status measure(weft_trainer *t)
{
    double begun = weft_seconds(), most = WEFT_MIN(most_seconds, t->options.job.timeout / 2);
    size_t count = 0;
    weft_log(t->context, WEFT_LOG_NOTE,
             "tuning: measures the kernels of this run for at most %.3g seconds, once; %s", most,
             t->tuned_by);
    for (int r = 0; r < t->size; r++) {
        bool fresh;
        WEFT_TRY(is_new(t, r, &fresh));
        if (fresh) WEFT_TRY(measure_rank(t, r, begun + most, &count));
    }
    t->tuning_took = weft_seconds() < begun + most ? 0 : most;
    WEFT_TRY(weft_file_replace(t->tuned_by, WEFT_OUTPUT_REPLACE, t->tuning.data, t->tuning.size));
    weft_log(t->context, WEFT_LOG_NOTE, "tuning: %zu measurements in %.1f seconds; %s has them",
             count, weft_seconds() - begun, t->tuned_by);
    return WEFT_OK;
}

/* --- reading --- */

/* Checks the table against the devices of this process's ranks. given: the user gives its file. */
static weft_status check(weft_trainer *t, bool given)
{
    weft_status status = WEFT_OK;
    for (int r = 0; r < WEFT_MIN(t->local, t->size) && status == WEFT_OK; r++) {
        weft_rank rank = {.run_spec = &t->run_spec, .rank = r};
        weft_store *store;
        WEFT_TRY(weft_rank_store(&rank, NULL, &store));
        status = weft_store_tuning_fits(store);
        if (status == WEFT_OK && given) status = weft_store_tuning_named(store);
        weft_store_destroy(&store);
    }
    return status;
}

weft_status weft_tuning_read_file(const char *file, weft_bytes *out)
{
    WEFT_TRY(weft_file_read(file, out));
    if (out->size > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: is empty; --tune with the name of a new file measures anew", file);
}

static weft_status read_or_measure(weft_trainer *t)
{
    WEFT_TRY(weft_strdup(t->options.where.tune, &t->tuned_by));
    t->run_spec.tuned_by = t->tuned_by;
    if (!weft_file_exists(t->tuned_by)) return measure(t);
    WEFT_TRY(weft_tuning_read_file(t->tuned_by, &t->tuning));
    return check(t, true);
}

/* A run that goes on on another machine is by the rule, since its kernels may be slow there. */
static weft_status take_resumed(weft_trainer *t)
{
    const weft_bytes *kept = &t->resumed.tuning;
    char *text;
    if (kept->size == 0) return WEFT_OK;
    WEFT_TRY(weft_format(&t->tuned_by, "%s/" WEFT_TUNING_FILE, t->resumed.path));
    t->run_spec.tuned_by = t->tuned_by;
    WEFT_TRY(weft_format(&text, "%.*s", (int)kept->size, (const char *)kept->data));
    take(t, text, strlen(text));
    weft_status status = check(t, false);
    if (status != WEFT_ERR_ARGUMENT) return status;
    weft_log(t->context, WEFT_LOG_NOTE, "kernels are chosen by the rule: %s", weft_last_message());
    take(t, NULL, 0);
    return WEFT_OK;
}

static weft_status fail_stopped(const weft_trainer *t)
{
    return weft_fail(WEFT_ERR_INTERRUPTED, "stopped while kernels were measured; %s is not written",
                     t->options.where.tune);
}

/* stopped: on rank 0, which tells the others by a size below 0. */
static weft_status receive(weft_trainer *t, bool stopped)
{
    int64_t size = stopped ? -1 : (int64_t)t->tuning.size;
    char *text = NULL;
    WEFT_TRY(
        weft_comm_run(t->worlds[0], WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_I64,
                                                  .what = "the size of the table of measurements",
                                                  .receive = &size, .count = 1)));
    if (size < 0) return fail_stopped(t);
    if (size == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&text, size + 1));
    if (t->tuning.size > 0) memcpy(text, t->tuning.data, t->tuning.size);
    weft_status status =
        weft_comm_run(t->worlds[0], WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_U8,
                                                  .what = "the table of measurements",
                                                  .receive = text, .count = size));
    take(t, text, (size_t)size);
    return status;
}

weft_status weft_trainer_tune(weft_trainer *t)
{
    bool several = t->worlds[0] && t->local < t->size; /* ranks are processes */
    bool decides = (!t->worlds[0] || t->runs[0].rank.rank == 0) && !t->link.coordinator;
    weft_status status = WEFT_OK;
    t->run_spec.tuning = &t->tuning;
    if (decides && t->options.where.tune)
        status = read_or_measure(t);
    else if (decides)
        status = take_resumed(t);
    if (status != WEFT_OK && status != WEFT_ERR_INTERRUPTED) return status;
    if (several) WEFT_TRY(receive(t, status != WEFT_OK));
    if (status != WEFT_OK) return fail_stopped(t);
    if (!t->tuned_by) WEFT_TRY(weft_strdup("the table of rank 0", &t->tuned_by));
    t->run_spec.tuned_by = t->tuned_by;
    return WEFT_OK;
}

void weft_trainer_note_untuned(const weft_trainer *t)
{
    const weft_rank *r = &t->runs[0].rank;
    int lacking = r->rank == 0 && r->store ? weft_store_untuned(r->store) : 0;
    if (lacking == 0) return;
    if (t->tuning_took < 0)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "tuning: %s lacks %d group%s of kernels of this run, which the rule chooses",
                 t->tuned_by, lacking, weft_plural(lacking));
    else
        weft_log(t->context, WEFT_LOG_NOTE,
                 "tuning: %d group%s of kernels could not be measured, and the rule chooses: %s",
                 lacking, weft_plural(lacking),
                 t->tuning_took == 0 ? "ranks found that they lay out values otherwise"
                 : t->tuning_took < most_seconds
                     ? "the time was over; a larger --timeout and a new file give more"
                     : "the time was over");
}
