/* Forward runs over a part of the data: evaluation and prediction. */
#include <math.h>

#include "data/data.h"
#include "train/train.h"

weft_status weft_build_model(weft_graph *graph, const weft_train_options *options,
                             const weft_bytes *model, const weft_shape *sample, int classes,
                             int64_t batch, bool training, weft_model_values *out)
{
    weft_model_options o;
    weft_model_options_init(&o);
    o.model = options->model;
    o.sample = *sample;
    o.batch = batch;
    o.classes = classes;
    o.training = training;
    o.seed = (uint64_t)options->seed;
    if (model && model->size > 0)
        return weft_model_build_text(graph, &o, options->model, model->data, model->size, out);
    return weft_model_build(graph, &o, out);
}

void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    if (v == WEFT_NO_VALUE) return;
    char *to = weft_instance_input(instance, v);
    weft_type type = weft_graph_value_type(graph, v);
    if (!to) return;
    weft_graph_part(graph, v, &whole, start);
    weft_type from = {dtype, whole};
    int64_t count = weft_shape_elements(&type.shape);
    weft_copy_part(&from, start, &type.shape, (void *)(uintptr_t)rows, to, true);
    if (type.dtype == WEFT_F64 && dtype == WEFT_F32) /* widened from the end */
        for (int64_t i = count; i-- > 0;) {
            float x;
            memcpy(&x, to + (size_t)i * sizeof(x), sizeof(x));
            ((double *)(void *)to)[i] = (double)x;
        }
}

double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i)
{
    const void *data = weft_instance_output(instance, value);
    double x = weft_graph_real(graph) == WEFT_F32 ? (double)((const float *)data)[i]
                                                  : ((const double *)data)[i];
    return isnan(x) ? fabs(x) : x; /* whose sign means nothing, and would be printed */
}

struct weft_evaluator {
    weft_graph *whole;       /* of all ranks together */
    weft_rewritten *mine;    /* this rank's part; NULL where there is one rank */
    const weft_graph *graph; /* the one that is run */
    weft_comm *ranks;        /* that add up their counts; NULL: one */
    weft_instance *instance;
    weft_model_values values; /* in `graph` */
    bool counts_loss, counts_rows;
    int64_t batch;
    int classes;
    float *row; /* probabilities of one sample */
};

/* Rewrites the graph for this rank; parameters lie as the training graph has put them. */
static weft_status take_part(weft_evaluator *e, const weft_share *share)
{
    weft_model_values *v = &e->values;
    WEFT_TRY(weft_plan_rewrite(share->plan, e->whole, share->rank, &e->mine));
    e->graph = weft_rewritten_graph(e->mine);
    e->ranks = share->comms->learner;
    e->counts_loss = weft_rewritten_counts(e->mine, v->loss);
    e->counts_rows = weft_rewritten_counts(e->mine, v->probabilities);
    weft_value *const all[] = {&v->x,      &v->labels, &v->weights,      &v->first_sample,
                               &v->logits, &v->loss,   &v->probabilities};
    for (size_t i = 0; i < WEFT_COUNT(all); i++) *all[i] = weft_rewritten_value(e->mine, *all[i]);
    return WEFT_OK;
}

static weft_status make_program(weft_evaluator *e, weft_store *store, const weft_share *share)
{
    weft_program_options o;
    weft_value fetch[2];
    weft_program_options_init(&o);
    if (e->values.loss != WEFT_NO_VALUE) fetch[o.fetch_count++] = e->values.loss;
    if (e->values.probabilities != WEFT_NO_VALUE) fetch[o.fetch_count++] = e->values.probabilities;
    o.fetch = fetch;
    return weft_instance_build_with(store, e->graph, &o, share ? share->comms : NULL, &e->instance);
}

weft_status weft_evaluator_create(weft_context *context, weft_store *store,
                                  const weft_train_options *options, const weft_bytes *model,
                                  const weft_shape *sample, int classes, int64_t batch,
                                  const weft_share *share, weft_evaluator **out)
{
    weft_evaluator *e;
    weft_dtype real = WEFT_F32;
    weft_status status;
    WEFT_TRY(WEFT_NEW(&e, 1));
    e->batch = batch;
    e->classes = classes;
    (void)weft_dtype_parse(options->dtype, &real);
    WEFT_TRY_GOTO(WEFT_NEW(&e->row, classes), failed);
    WEFT_TRY_GOTO(weft_graph_create(context, real, &e->whole), failed);
    WEFT_TRY_GOTO(
        weft_build_model(e->whole, options, model, sample, classes, batch, false, &e->values),
        failed);
    e->graph = e->whole;
    e->counts_loss = e->counts_rows = true;
    if (share) WEFT_TRY_GOTO(take_part(e, share), failed);
    WEFT_TRY_GOTO(make_program(e, store, share), failed);
    *out = e;
    return WEFT_OK;
failed:
    weft_evaluator_destroy(&e);
    return status;
}

void weft_evaluator_destroy(weft_evaluator **evaluator)
{
    if (!evaluator || !*evaluator) return;
    weft_instance_destroy(&(*evaluator)->instance);
    weft_rewritten_destroy(&(*evaluator)->mine);
    weft_graph_destroy(&(*evaluator)->whole);
    free((*evaluator)->row);
    free(*evaluator);
    *evaluator = NULL;
}

/* Counts one batch; the loss of the program is the mean over its real samples. */
static void count_batch(weft_evaluator *e, const weft_batch *batch, int64_t first,
                        const weft_data_stats *stats, weft_report *r, weft_predict_fn fn,
                        void *user)
{
    weft_shape whole = {0};
    int64_t start[WEFT_MAX_RANK] = {0}, rows = 0;
    if (e->counts_loss)
        r->loss += weft_fetch(e->graph, e->instance, e->values.loss, 0) * (double)batch->valid;
    if (e->counts_rows) {
        weft_graph_part(e->graph, e->values.probabilities, &whole, start);
        rows = weft_graph_value_type(e->graph, e->values.probabilities).shape.dim[0];
    }
    for (int64_t row = 0; row < rows && start[0] + row < batch->valid; row++) {
        int64_t s = start[0] + row;
        int best = 0;
        for (int c = 0; c < e->classes; c++) {
            e->row[c] = (float)weft_fetch(e->graph, e->instance, e->values.probabilities,
                                          row * e->classes + c);
            if (e->row[c] > e->row[best]) best = c;
        }
        int32_t label = batch->labels[s];
        if (label >= 0) r->confusion[(size_t)label * (size_t)e->classes + (size_t)best]++;
        if (fn) fn(user, first + s, label, best, e->row, e->classes, stats->class_names);
        r->samples++;
    }
}

/* Loss, samples and confusion of all ranks. */
static weft_status add_ranks(weft_evaluator *e, weft_report *r)
{
    double *all;
    size_t cells = (size_t)e->classes * (size_t)e->classes;
    if (!e->ranks || weft_comm_size(e->ranks) == 1) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&all, cells + 2));
    all[0] = r->loss;
    all[1] = (double)r->samples;
    for (size_t i = 0; i < cells; i++) all[2 + i] = (double)r->confusion[i];
    weft_status status =
        weft_comm_run(e->ranks, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                 .dtype = WEFT_F64,
                                                 .what = "what the evaluation counted",
                                                 .send = all,
                                                 .receive = all,
                                                 .count = (int64_t)cells + 2,
                                                 .reproducible = true});
    r->loss = all[0];
    r->samples = (int64_t)all[1];
    for (size_t i = 0; i < cells; i++) r->confusion[i] = (int64_t)all[2 + i];
    free(all);
    return status;
}

weft_status weft_evaluator_run(weft_evaluator *e, const weft_dataset *data, weft_split split,
                               weft_report *out, weft_predict_fn fn, void *user)
{
    weft_report r;
    weft_loader *loader = NULL;
    int64_t first = 0;
    int32_t *none = NULL; /* the program has a loss, which nobody asks for then */
    WEFT_TRY(weft_report_init(&r, e->classes));
    weft_loader_options options = {
        .split = split, .batch = e->batch, .epochs = 1, .real = weft_graph_real(e->whole)};
    weft_status status = WEFT_OK;
    if (!weft_dataset_labelled(data)) status = WEFT_NEW(&none, e->batch);
    if (status == WEFT_OK) status = weft_loader_start(data, &options, &loader);
    for (const weft_batch *b; status == WEFT_OK && (b = weft_loader_next(loader));
         first += b->valid) {
        weft_feed(e->graph, e->instance, e->values.x, b->x, WEFT_F32);
        weft_feed(e->graph, e->instance, e->values.weights, b->weights, options.real);
        weft_feed(e->graph, e->instance, e->values.labels, none ? none : b->labels, WEFT_I32);
        status = weft_instance_run(e->instance, WEFT_PHASE_MICRO);
        if (status == WEFT_OK) count_batch(e, b, first, weft_dataset_stats(data), &r, fn, user);
    }
    weft_loader_stop(&loader);
    free(none);
    if (status == WEFT_OK) status = weft_instance_drain(e->instance);
    if (status == WEFT_OK) status = add_ranks(e, &r);
    if (status != WEFT_OK) {
        weft_report_free(&r);
        return status;
    }
    r.loss = r.samples ? r.loss / (double)r.samples : 0;
    weft_report_finish(&r);
    *out = r;
    return WEFT_OK;
}

/* A checkpoint with its data and a forward program. */
typedef struct session {
    weft_checkpoint checkpoint;
    weft_dataset *data;
    weft_store *store;
    weft_evaluator *evaluator;
    weft_split split;
} session;

static void session_close(session *s)
{
    weft_evaluator_destroy(&s->evaluator);
    weft_store_destroy(&s->store);
    weft_dataset_close(&s->data);
    weft_checkpoint_close(&s->checkpoint);
}

/* unlabelled: labels may be missing. */
static weft_status session_open(weft_context *context, const weft_eval_options *o, bool unlabelled,
                                session *s)
{
    if (!o->checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "no checkpoint is given; add --checkpoint DIR/latest");
    WEFT_TRY(weft_context_set_threads(context, (int)o->threads));
    WEFT_TRY(weft_checkpoint_open(o->checkpoint, &s->checkpoint));
    const weft_train_options *t = &s->checkpoint.options;
    s->split = strcmp(o->split, "train") == 0 ? WEFT_TRAIN : WEFT_TEST;
    const char *data = o->data ? o->data : t->data;
    WEFT_TRY(weft_spec_spares(data, "output", o->output));
    WEFT_TRY(unlabelled
                 ? weft_dataset_open_unlabelled(context, data, &s->checkpoint.stats, &s->data)
                 : weft_dataset_open(context, data, NULL, &s->checkpoint.stats, &s->data));
    WEFT_TRY(weft_dataset_prepare(s->data, s->split));
    if (weft_dataset_count(s->data, s->split) == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "the %s part of the data is empty; give --split %s",
                         o->split, s->split == WEFT_TRAIN ? "test" : "train");
    weft_shape shape = weft_dataset_shape(s->data);
    WEFT_TRY(weft_store_create(context, o->device, (uint64_t)t->seed, &s->store));
    int64_t batch = WEFT_MIN(o->batch, weft_dataset_count(s->data, s->split));
    WEFT_TRY(weft_evaluator_create(context, s->store, t, &s->checkpoint.model, &shape,
                                   s->checkpoint.stats.classes, batch, NULL, &s->evaluator));
    return weft_checkpoint_load(&s->checkpoint, s->store, NULL);
}

weft_status weft_predict(weft_context *context, const weft_eval_options *options,
                         weft_predict_fn fn, void *user)
{
    session s = {0};
    weft_report report = {0};
    weft_status status = session_open(context, options, true, &s);
    if (status == WEFT_OK)
        status = weft_evaluator_run(s.evaluator, s.data, s.split, &report, fn, user);
    weft_report_free(&report);
    session_close(&s);
    return status;
}

weft_status weft_evaluate(weft_context *context, const weft_eval_options *options, weft_report *out)
{
    session s = {0};
    weft_status status = session_open(context, options, false, &s);
    if (status == WEFT_OK)
        status = weft_evaluator_run(s.evaluator, s.data, s.split, out, NULL, NULL);
    session_close(&s);
    return status;
}
