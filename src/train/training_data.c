/* Opens the data of a run, and finds its length from them. */
#include "models/models.h"
#include "train/trainer.h"

/* ARGUMENT: a resumed run has other data than the run that wrote its checkpoint. Tables and arrays
 * are split anew when their rows change, so samples of the test part would have been trained on. */
static weft_status check_splits(weft_trainer *t)
{
    const weft_checkpoint *c = &t->resumed;
    char how[128];
    for (int i = 0; i < WEFT_SPLITS; i++) {
        weft_split split = (weft_split)i;
        WEFT_TRY(weft_dataset_identify(t->data, split, &t->splits[i]));
        if (!c->path || c->splits[WEFT_TRAIN].samples == 0 ||
            !weft_split_differs(split, &c->splits[i], &t->splits[i], how, sizeof(how)))
            continue;
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data '%s' have changed since %s was written: %s; a resumed run must have "
                         "the same data, or another folder",
                         t->options.task.data, c->path, how);
    }
    return WEFT_OK;
}

/* Logs that most of the class numbers do not occur, as with labels that are identifiers. */
static weft_status note_gaps(const weft_trainer *t)
{
    const weft_data_stats *s = weft_dataset_stats(t->data);
    int32_t label;
    bool *seen;
    int present = 0;
    if (s->classes == 0 || s->class_names || s->positions > 0 || t->runs[0].rank.rank != 0)
        return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&seen, s->classes));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < t->samples && status == WEFT_OK; i++) {
        status = weft_dataset_read(t->data, WEFT_TRAIN, i, s->inputs, &label);
        present += !seen[label];
        seen[label] = true;
    }
    bool from_one = s->classes > 1 && !seen[0] && present == s->classes - 1;
    free(seen);
    WEFT_TRY(status);
    if (2 * present < s->classes || from_one)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "data '%s': %d of the %d classes occur in the training part, and the model has an "
                 "output for each; number the classes from 0 without gaps",
                 t->options.task.data, present, s->classes);
    return WEFT_OK;
}

/* Lets the data know which of their inputs the model reads up to a length alone, since positions
 * behind it, which may hold anything, must not count in the statistics. */
static weft_status find_lengths(weft_trainer *t)
{
    const weft_data_stats *s = weft_dataset_stats(t->data);
    weft_model_options model;
    weft_input input[WEFT_MAX_INPUTS];
    bool numbers = false; /* there is an input of one whole number a sample */
    for (int k = 0; k < s->inputs; k++)
        numbers = numbers || (s->input[k].values > 0 && s->input[k].shape.rank == 0);
    if (!numbers || t->resumed.path) return WEFT_OK;
    memcpy(input, s->input, sizeof(input));
    for (int k = 0; k < s->inputs; k++) input[k].lengths = 0; /* another model may have set them */
    weft_model_options_init(&model);
    model.model = t->options.task.model;
    weft_model_options_fit(&model, s);
    model.batch = 1;
    WEFT_TRY(weft_model_find_lengths(t->context, &model, &t->model, input, s->inputs));
    return weft_dataset_set_lengths(t->data, input);
}

/* Sets t->total_steps. Before a resume the run may have had another number of learners, and so
 * another number of steps in an epoch; so the remaining steps follow from the remaining samples.
 * They are negative if the checkpoint is beyond the end of this run. */
static weft_status find_steps(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    int64_t all = o->length.batch * t->learners, steps = (t->samples + all - 1) / all;
    weft_position *done = &t->resumed.position;
    if (done->samples < 0) done->samples = WEFT_MIN(done->batch, t->samples / all + 1) * all;
    done->samples = WEFT_MIN(done->samples, t->samples);
    int64_t rest = (t->samples - done->samples + all - 1) / all;
    int64_t epochs = o->length.epochs - done->epoch - 1, most = INT32_MAX / steps;
    int64_t left = (int64_t)INT32_MAX + 1;
    if (epochs <= most) left = WEFT_MAX(epochs, -most - 1) * steps + rest;
    t->total_steps = o->length.steps ? o->length.steps : WEFT_MAX(done->step + left, (int64_t)1);
    if (t->run_steps > 0) t->total_steps = t->run_steps;
    if (t->total_steps <= INT32_MAX) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the run would have %lld steps or more; a run can have at most %d",
                     (long long)t->total_steps, INT32_MAX);
}

weft_status weft_trainer_open_data(weft_trainer *t)
{
    const weft_train_options *o = &t->options;
    const weft_data_stats *stats = t->resumed.path ? &t->resumed.stats : NULL;
    const weft_source_request request = {.context = t->context,
                                         .stats = stats,
                                         .validation = o->task.validation,
                                         .seed = (uint64_t)o->task.seed,
                                         .augment = o->samples.augment,
                                         .class_weights = o->update.class_weights};
    WEFT_TRY(weft_dataset_open_kept(o->task.data, o->task.normalize, &request, &t->data));
    for (int i = 0; i < WEFT_SPLITS; i++) WEFT_TRY(weft_dataset_prepare(t->data, (weft_split)i));
    t->watched = weft_dataset_count(t->data, WEFT_VALIDATION) > 0 ? WEFT_VALIDATION : WEFT_TEST;
    WEFT_TRY(weft_watch_check(t));
    WEFT_TRY(check_splits(t));
    t->samples = weft_dataset_count(t->data, WEFT_TRAIN);
    if (t->samples == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "data '%s': the training part is empty", o->task.data);
    WEFT_TRY(weft_dataset_weigh_classes(t->data, o->update.class_weights));
    WEFT_TRY(note_gaps(t));
    WEFT_TRY(find_lengths(t));
    WEFT_TRY(weft_dataset_set_augment(t->data, o->samples.augment));
    if (o->length.batch > t->samples)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "batch is %lld, the training part has only %lld sample%s; give --batch %lld or "
            "less",
            (long long)o->length.batch, (long long)t->samples, weft_plural(t->samples),
            (long long)t->samples);
    WEFT_TRY(weft_trainer_share_out(t));
    WEFT_TRY(find_steps(t));
    weft_trainer_find_least(t);
    weft_trainer_find_place(t);
    return WEFT_OK;
}

weft_status weft_trainer_describe_data(weft_trainer *t)
{
    const weft_data_stats *s = weft_dataset_stats(t->data);
    char shape[80];
    uint64_t hash;
    WEFT_TRY(weft_dataset_hash(t->data, &hash));
    WEFT_TRY(weft_format(&t->link_texts[2], "%lld samples of %s with %d %s #%08x",
                         (long long)t->samples,
                         weft_shape_text(&s->input[0].shape, shape, sizeof(shape)),
                         s->targets ? s->targets : s->classes, s->targets ? "targets" : "classes",
                         (unsigned)(hash >> 32)));
    t->link.data = t->link_texts[2];
    return WEFT_OK;
}
