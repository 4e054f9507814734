/* Evaluates a checkpoint on a part of a data set, or predicts each of its samples. */
#include <math.h>
#include <stdlib.h>

#include "base/settings.h"
#include "data/data.h"
#include "models/models.h"
#include "program/program.h"
#include "train/mask_files.h"
#include "train/train.h"

/* A checkpoint with its data and a forward program. */
typedef struct session {
    weft_context *context; /* a context of its own, with the requested number of threads */
    weft_checkpoint checkpoint;
    weft_train_options run; /* options of the run that wrote it */
    weft_dataset *data;
    weft_store *store;
    weft_evaluator *evaluator;
    weft_split split;
    const char *part; /* "train", "validation", "test" or "all" */
} session;

static void session_close(session *s)
{
    weft_evaluator_destroy(&s->evaluator);
    weft_store_destroy(&s->store);
    weft_dataset_close(&s->data);
    if (s->context) weft_options_free(weft_train_table(s->context), &s->run);
    weft_checkpoint_close(&s->checkpoint);
    weft_context_destroy(&s->context);
}

/* Whether the specification is that of the run. An exported model does not name its data. */
static bool is_of_run(const session *s, const char *data)
{
    return !s->checkpoint.exported && strcmp(data, s->run.task.data) == 0;
}

/* Logs that the data of the run have changed since: samples that the model was trained on may now
 * be in the test part. */
static weft_status note_changed(const session *s, const char *data)
{
    const weft_checkpoint *c = &s->checkpoint;
    weft_split_id now;
    char how[128];
    if (strcmp(s->part, "all") == 0 || !is_of_run(s, data) || c->splits[WEFT_TRAIN].samples == 0 ||
        !weft_dataset_labelled(s->data))
        return WEFT_OK;
    WEFT_TRY(weft_dataset_identify(s->data, s->split, &now));
    if (weft_split_differs(s->split, &c->splits[s->split], &now, how, sizeof(how)))
        weft_log(s->context, WEFT_LOG_NOTE,
                 "data '%s' have changed since %s was written: %s; samples of the test part may "
                 "have been trained on",
                 data, c->path, how);
    return WEFT_OK;
}

/* The value of the key test= of a specification; below 0: it has none, or files. */
static double share_of(const char *spec)
{
    char *end;
    for (const char *at = spec; (at = strpbrk(at, ":,")) != NULL;) {
        at++;
        if (strncmp(at, "test=", 5) != 0) continue;
        double share = strtod(at + 5, &end);
        return end > at + 5 && (!*end || *end == ',') ? share : -1;
    }
    return -1;
}

/* Whether --validation names a share of the training data. */
static bool is_share(const char *validation)
{
    double share;
    return validation && weft_parse_real(validation, &share);
}

/* Finds out whether data of another specification seem to be those of the training: once they are
 * divided likewise, the test part has as many samples, and the same where they are compared. A test
 * part without samples shows nothing. */
static weft_status are_trained_on(session *s, bool *same)
{
    const weft_split_id *then = s->checkpoint.splits;
    int64_t train = weft_dataset_count(s->data, WEFT_TRAIN),
            test = weft_dataset_count(s->data, WEFT_TEST);
    int64_t all = then[WEFT_TRAIN].samples + then[WEFT_TEST].samples;
    if (is_share(s->run.task.validation)) all += then[WEFT_VALIDATION].samples;
    weft_split_id now;
    *same = false;
    bool shown = then[WEFT_TRAIN].samples > 0 && then[WEFT_TEST].samples > 0;
    if (!shown || !weft_dataset_labelled(s->data)) return WEFT_OK;
    double share = s->checkpoint.exported ? -1 : share_of(s->run.task.data);
    if (share >= 0 && share <= 1)
        WEFT_TRY(weft_dataset_divide(s->data, share));
    else if (test != then[WEFT_TEST].samples && train + test == all)
        WEFT_TRY(weft_dataset_divide(s->data, (double)then[WEFT_TEST].samples / (double)all));
    if (weft_dataset_count(s->data, WEFT_TEST) != then[WEFT_TEST].samples) return WEFT_OK;
    /* If the test part cannot be prepared, it is another, and the whole file is refused. */
    if (weft_dataset_prepare(s->data, WEFT_TEST) != WEFT_OK) return WEFT_OK;
    WEFT_TRY(weft_dataset_identify(s->data, WEFT_TEST, &now));
    *same = now.hash == then[WEFT_TEST].hash;
    return WEFT_OK;
}

/* Tells that data are those of the training part, whose test part has files of its own. */
static weft_status note_trained(const session *s, const char *data, bool *same)
{
    const weft_split_id *then = s->checkpoint.splits;
    weft_split_id now;
    *same = false;
    if (then[WEFT_TRAIN].samples == 0 || !weft_dataset_labelled(s->data) ||
        weft_dataset_count(s->data, WEFT_TEST) != then[WEFT_TRAIN].samples)
        return WEFT_OK;
    WEFT_TRY(weft_dataset_prepare(s->data, WEFT_TEST));
    WEFT_TRY(weft_dataset_identify_file(s->data, WEFT_TEST, &now));
    *same = now.hash == then[WEFT_TRAIN].hash;
    if (*same)
        weft_log(s->context, WEFT_LOG_NOTE,
                 "data '%s' have as many samples as the training part of %s, and the few that were "
                 "compared are the same: the model was trained on them",
                 data, s->checkpoint.path);
    return WEFT_OK;
}

/* Tells that rows of a table were trained on, of which the checkpoint knows a sample. */
static weft_status note_rows(const session *s, const char *data)
{
    const weft_split_id *then = &s->checkpoint.splits[WEFT_TRAIN];
    if (then->leasts == 0 || !weft_dataset_labelled(s->data)) return WEFT_OK;
    WEFT_TRY(weft_dataset_prepare(s->data, s->split));
    int found = weft_dataset_find_rows(s->data, s->split, then);
    bool exact = then->leasts == then->samples;
    if (found > 0)
        weft_log(s->context, WEFT_LOG_NOTE,
                 "data '%s' have rows on which %s was trained, %s%.0f of its %lld, so figures say "
                 "less of new data",
                 data, s->checkpoint.path, exact ? "" : "about ",
                 (double)then->samples * found / then->leasts, (long long)then->samples);
    return WEFT_OK;
}

static const char *const parts[WEFT_SPLITS] = {"train", "test", "validation"};

/* The split of a part's name; WEFT_SPLITS: it is "all". */
static weft_split split_of(const char *part)
{
    int split = 0;
    while (split < WEFT_SPLITS && strcmp(part, parts[split]) != 0) split++;
    return (weft_split)split;
}

/* Sets the part of the data that is taken. wanted: "train", "validation", "test" or "all"; NULL:
 * the test part of the training data and of data that name their parts themselves, or that of
 * validation where they have no test part; of another file all, unless the specification has test=.
 */
static weft_status choose_part(session *s, const char *wanted, const char *data)
{
    bool divisible = weft_dataset_divisible(s->data), same = is_of_run(s, data);
    bool asked = wanted || s->data->source->divided; /* for this part of these data */
    /* Data that have a validation part and no test part are judged by that one. */
    bool validates = s->data->source->validates && weft_dataset_count(s->data, WEFT_TEST) == 0;
    s->split = validates && !divisible ? WEFT_VALIDATION : WEFT_TEST;
    s->part = parts[s->split];
    if (!wanted && divisible && !same && !s->data->source->divided) {
        WEFT_TRY(are_trained_on(s, &same));
        if (same)
            weft_log(s->context, WEFT_LOG_NOTE,
                     "the test part of data '%s' has as many samples as that of %s, and the few "
                     "that were compared are the same: it is taken; --split all takes all of them",
                     data, s->checkpoint.path);
        else
            wanted = "all";
    }
    if (wanted && split_of(wanted) < WEFT_SPLITS) {
        s->split = split_of(wanted);
        s->part = parts[s->split];
    }
    if (s->split == WEFT_VALIDATION && !s->data->validation_spec && !s->data->source->validates)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "split is validation, and data '%s' have no such part%s; give --split test", data,
            same ? ", since the run had no --validation" : "");
    if (!wanted || strcmp(wanted, "all") != 0) return same || asked ? WEFT_OK : note_rows(s, data);
    s->part = "all";
    if (divisible) WEFT_TRY(weft_dataset_divide(s->data, 1));
    if (divisible && !same) WEFT_TRY(note_trained(s, data, &same));
    if (divisible) return same || asked ? WEFT_OK : note_rows(s, data);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "split is all, and data '%s' have their parts from elsewhere than one file; "
                     "give --split train or --split test",
                     data);
}

/* ARGUMENT: what is to be reported is not of what the checkpoint predicts. */
static weft_status check_reports(const session *s, const weft_eval_options *o)
{
    const weft_data_stats *stats = &s->checkpoint.stats;
    const char *path = s->checkpoint.path;
    if (o->by_class && stats->targets > 0 && !stats->binary)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "by-class has metrics of classes, and %s predicts numbers; leave it out",
                         path);
    if (o->confusion && stats->targets > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "confusion counts classes, and %s predicts %s; leave it out", path,
                         stats->binary ? "labels" : "numbers");
    if (o->confusion && stats->classes > WEFT_CONFUSION_CLASSES)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "confusion counts at most %d classes, and %s has %d; leave it out",
                         WEFT_CONFUSION_CLASSES, path, stats->classes);
    return weft_metrics_check(s->context, "metric", o->metric, stats);
}

static weft_status open_data(session *s, const weft_eval_options *o, bool unlabelled)
{
    const weft_train_options *t = &s->run;
    const char *data = o->data ? o->data : t->task.data;
    WEFT_TRY(weft_spec_refuse_overwrite(data, "output", o->output));
    weft_source_request request = {.context = s->context,
                                   .stats = &s->checkpoint.stats,
                                   .unlabelled = unlabelled,
                                   .each = unlabelled,
                                   .one_unit = true,
                                   .fields = o->join,
                                   .folder = o->data ? NULL : s->checkpoint.folder,
                                   .seed = (uint64_t)t->task.seed};
    /* The other parts are the same with and without samples that are held out. */
    weft_split split = o->split ? split_of(o->split) : WEFT_TEST;
    if (is_of_run(s, data) && (split == WEFT_TRAIN || split == WEFT_VALIDATION))
        request.validation = t->task.validation;
    WEFT_TRY(weft_dataset_open_for(data, NULL, &request, &s->data));
    if (o->join && !s->data->source->ops->fields)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "join is for tables, and data '%s' have no columns; leave it out", data);
    WEFT_TRY(choose_part(s, o->split, data));
    WEFT_TRY(weft_dataset_prepare(s->data, s->split));
    WEFT_TRY(note_changed(s, data));
    if (weft_dataset_count(s->data, s->split) > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "the %s part of the data is empty; give --split %s",
                     s->part,
                     parts[s->split == WEFT_TEST && s->data->source->validates ? WEFT_VALIDATION
                           : s->split == WEFT_TRAIN                            ? WEFT_TEST
                                                                               : WEFT_TRAIN]);
}

/* Builds a forward program, and loads its parameters. */
static weft_status build_program(session *s, const weft_eval_options *o)
{
    const weft_train_options *t = &s->run;
    weft_model_options model;
    weft_dtype real = WEFT_F32;
    (void)weft_dtype_parse(t->task.dtype, &real);
    weft_model_options_init(&model);
    model.model = t->task.model;
    weft_model_options_fit(&model, &s->checkpoint.stats);
    model.batch = WEFT_MIN(o->batch, weft_dataset_count(s->data, s->split));
    model.seed = (uint64_t)t->task.seed;
    model.loss = t->update.loss;
    WEFT_TRY(weft_store_create(s->context, o->device, (uint64_t)t->task.seed, &s->store));
    weft_store_leave_blank(s->store);
    WEFT_TRY(weft_checkpoint_tune(&s->checkpoint, s->store));
    WEFT_TRY(weft_evaluator_create(s->context, s->store, real, &model, &s->checkpoint.model, NULL,
                                   &s->evaluator));
    return weft_checkpoint_load(&s->checkpoint, s->store, NULL);
}

/* Opens the checkpoint and the data, and builds a forward program. unlabelled: the data may lack
 * the target. */
static weft_status session_open(weft_context *given, const weft_eval_options *o, bool unlabelled,
                                session *s)
{
    if (!o->checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "no checkpoint is given; add --checkpoint DIR/latest");
    WEFT_TRY(weft_checkpoint_refuse_overwrite("output", o->output));
    WEFT_TRY(weft_context_with_threads(given, (int)o->threads, &s->context));
    WEFT_TRY(
        weft_checkpoint_open_model(o->checkpoint, weft_train_table(s->context), &s->checkpoint));
    if (s->checkpoint.exported && !o->data)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: an exported model does not name its data; give --data SPEC",
                         s->checkpoint.path);
    WEFT_TRY(weft_settings_give(&s->checkpoint.settings, weft_train_table(s->context), &s->run));
    WEFT_TRY(check_reports(s, o));
    WEFT_TRY(open_data(s, o, unlabelled));
    return build_program(s, o);
}

/* Figures and classes that are made of numbers that are not finite look like any others, so they
 * are a failure. */
static weft_status check_lost(const session *s, const weft_not_finite *lost)
{
    int64_t count = weft_dataset_count(s->data, s->split);
    if (lost->samples == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_NUMERIC,
                     "%s: the predictions for %lld of %lld samples are not finite (the first one: "
                     "sample %lld); the parameters have diverged, or the features are too large",
                     s->checkpoint.path, (long long)lost->samples, (long long)count,
                     (long long)lost->first);
}

static weft_status check_loss(const session *s, const weft_report *r)
{
    if (isfinite(r->loss)) return WEFT_OK;
    return weft_fail(WEFT_ERR_NUMERIC, "%s: the loss is %g; the parameters have diverged",
                     s->checkpoint.path, r->loss);
}

weft_status weft_predict(weft_context *context, const weft_eval_options *options,
                         weft_predict_fn fn, void *user)
{
    WEFT_NEED(context, options);
    session s = {0};
    weft_eval_options own;
    weft_not_finite lost = {0};
    WEFT_TRY(weft_options_take(weft_predict_table(), options, &own));
    weft_mask_files *masks = NULL;
    if (own.mask_size && !own.masks)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "mask-size is %s, and no masks are written; give --masks DIR",
                         own.mask_size);
    weft_status status = session_open(context, &own, true, &s);
    const weft_mask_request request = {.context = s.context,
                                       .folder = own.masks,
                                       .stats = &s.checkpoint.stats,
                                       .data = s.data,
                                       .split = s.split,
                                       .sampled =
                                           own.mask_size && strcmp(own.mask_size, "sample") == 0,
                                       .fn = fn,
                                       .user = user};
    if (status == WEFT_OK && own.masks) status = weft_mask_files_open(&request, &masks);
    if (status == WEFT_OK)
        status = weft_evaluator_run(s.evaluator, s.data, s.split, NULL, NULL,
                                    masks ? weft_mask_files_take : fn, masks ? masks : user, &lost);
    if (masks) status = weft_mask_files_close(&masks, status);
    if (status == WEFT_OK) status = check_lost(&s, &lost);
    session_close(&s);
    return status;
}

weft_status weft_evaluate(weft_context *context, const weft_eval_options *options, weft_report *out)
{
    WEFT_NEED(context, options, out);
    session s = {0};
    weft_eval_options own;
    weft_not_finite lost = {0};
    weft_report report = {0};
    WEFT_TRY(weft_options_take(weft_eval_table(), options, &own));
    if (own.masks || own.mask_size)
        return weft_fail(WEFT_ERR_ARGUMENT, "masks and mask_size are options of weft_predict, and "
                                            "an evaluation writes none; leave them out");
    weft_status status = session_open(context, &own, false, &s);
    if (status == WEFT_OK)
        status = weft_evaluator_run(s.evaluator, s.data, s.split, own.metric, &report, NULL, NULL,
                                    &lost);
    if (status == WEFT_OK) status = check_lost(&s, &lost);
    if (status == WEFT_OK) status = check_loss(&s, &report);
    if (status == WEFT_OK)
        *out = report;
    else
        weft_report_free(&report);
    if (status == WEFT_OK) out->part = s.part;
    session_close(&s);
    return status;
}
