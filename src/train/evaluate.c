/* Forward runs over a part of the data: evaluation and prediction. */
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

void weft_feed(const weft_graph *graph, const weft_program *program, weft_value input,
               const float *data, int64_t n)
{
    void *to = weft_program_input(program, input);
    if (!to) return; /* this graph does not read it */
    if (weft_graph_real(graph) == WEFT_F32)
        memcpy(to, data, (size_t)n * sizeof(float));
    else
        for (int64_t i = 0; i < n; i++) ((double *)to)[i] = (double)data[i];
}

void weft_feed_int(const weft_program *program, weft_value input, const int32_t *data, int64_t n)
{
    void *to = weft_program_input(program, input);
    if (to) memcpy(to, data, (size_t)n * sizeof(*data));
}

double weft_fetch(const weft_graph *graph, const weft_program *program, weft_value value, int64_t i)
{
    const void *data = weft_program_output(program, value);
    return weft_graph_real(graph) == WEFT_F32 ? (double)((const float *)data)[i]
                                              : ((const double *)data)[i];
}

struct weft_evaluator {
    weft_graph *graph;
    weft_program *program;
    weft_model_values values;
    int64_t batch;
    int classes;
    float *row; /* probabilities of one sample */
};

weft_status weft_evaluator_create(weft_context *context, weft_store *store,
                                  const weft_train_options *options, const weft_bytes *model,
                                  const weft_shape *sample, int classes, int64_t batch,
                                  weft_evaluator **out)
{
    weft_evaluator *e;
    weft_dtype real = WEFT_F32;
    weft_status status;
    WEFT_TRY(WEFT_NEW(&e, 1));
    e->batch = batch;
    e->classes = classes;
    (void)weft_dtype_parse(options->dtype, &real);
    WEFT_TRY_GOTO(WEFT_NEW(&e->row, classes), failed);
    WEFT_TRY_GOTO(weft_graph_create(context, real, &e->graph), failed);
    WEFT_TRY_GOTO(
        weft_build_model(e->graph, options, model, sample, classes, batch, false, &e->values),
        failed);
    weft_value fetch[] = {e->values.loss, e->values.probabilities};
    WEFT_TRY_GOTO(weft_program_create(store, e->graph, fetch, 2, &e->program), failed);
    *out = e;
    return WEFT_OK;
failed:
    weft_evaluator_destroy(&e);
    return status;
}

void weft_evaluator_destroy(weft_evaluator **evaluator)
{
    if (!evaluator || !*evaluator) return;
    weft_program_destroy(&(*evaluator)->program);
    weft_graph_destroy(&(*evaluator)->graph);
    free((*evaluator)->row);
    free(*evaluator);
    *evaluator = NULL;
}

/* Counts one batch; the loss of the program is the mean over its real samples. */
static void count_batch(weft_evaluator *e, const weft_batch *batch, int64_t first,
                        const weft_data_stats *stats, weft_report *r, weft_predict_fn fn,
                        void *user)
{
    r->loss += weft_fetch(e->graph, e->program, e->values.loss, 0) * (double)batch->valid;
    for (int64_t s = 0; s < batch->valid; s++) {
        int best = 0;
        for (int c = 0; c < e->classes; c++) {
            e->row[c] = (float)weft_fetch(e->graph, e->program, e->values.probabilities,
                                          s * e->classes + c);
            if (e->row[c] > e->row[best]) best = c;
        }
        r->confusion[(size_t)batch->labels[s] * (size_t)e->classes + (size_t)best]++;
        if (fn) fn(user, first + s, batch->labels[s], best, e->row, e->classes, stats->class_names);
    }
    r->samples += batch->valid;
}

weft_status weft_evaluator_run(weft_evaluator *e, const weft_dataset *data, weft_split split,
                               weft_report *out, weft_predict_fn fn, void *user)
{
    weft_report r;
    weft_loader *loader = NULL;
    weft_shape shape = weft_dataset_shape(data);
    int64_t each = weft_shape_elements(&shape), first = 0;
    WEFT_TRY(weft_report_init(&r, e->classes));
    weft_loader_options options = {.split = split, .batch = e->batch, .epochs = 1};
    weft_status status = weft_loader_start(data, &options, &loader);
    for (const weft_batch *b; status == WEFT_OK && (b = weft_loader_next(loader));
         first += b->valid) {
        weft_feed(e->graph, e->program, e->values.x, b->x, b->size * each);
        weft_feed(e->graph, e->program, e->values.weights, b->weights, b->size);
        weft_feed_int(e->program, e->values.labels, b->labels, b->size);
        status = weft_program_run(e->program, WEFT_PHASE_MICRO);
        if (status == WEFT_OK) count_batch(e, b, first, weft_dataset_stats(data), &r, fn, user);
    }
    weft_loader_stop(&loader);
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

static weft_status session_open(weft_context *context, const weft_eval_options *o, session *s)
{
    if (!o->checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "no checkpoint is given; add --checkpoint DIR/latest");
    WEFT_TRY(weft_context_set_threads(context, (int)o->threads));
    WEFT_TRY(weft_checkpoint_open(o->checkpoint, &s->checkpoint));
    const weft_train_options *t = &s->checkpoint.options;
    s->split = strcmp(o->split, "train") == 0 ? WEFT_TRAIN : WEFT_TEST;
    WEFT_TRY(weft_dataset_open(context, o->data ? o->data : t->data, t->normalize,
                               &s->checkpoint.stats, &s->data));
    WEFT_TRY(weft_dataset_prepare(s->data, s->split));
    if (weft_dataset_count(s->data, s->split) == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "the %s part of the data is empty; give --split %s",
                         o->split, s->split == WEFT_TRAIN ? "test" : "train");
    weft_shape shape = weft_dataset_shape(s->data);
    WEFT_TRY(weft_store_create(context, o->device, (uint64_t)t->seed, &s->store));
    int64_t batch = WEFT_MIN(o->batch, weft_dataset_count(s->data, s->split));
    WEFT_TRY(weft_evaluator_create(context, s->store, t, &s->checkpoint.model, &shape,
                                   s->checkpoint.stats.classes, batch, &s->evaluator));
    return weft_checkpoint_load(&s->checkpoint, s->store);
}

weft_status weft_predict(weft_context *context, const weft_eval_options *options,
                         weft_predict_fn fn, void *user)
{
    session s = {0};
    weft_report report = {0};
    weft_status status = session_open(context, options, &s);
    if (status == WEFT_OK)
        status = weft_evaluator_run(s.evaluator, s.data, s.split, &report, fn, user);
    weft_report_free(&report);
    session_close(&s);
    return status;
}

weft_status weft_evaluate(weft_context *context, const weft_eval_options *options, weft_report *out)
{
    session s = {0};
    weft_status status = session_open(context, options, &s);
    if (status == WEFT_OK)
        status = weft_evaluator_run(s.evaluator, s.data, s.split, out, NULL, NULL);
    session_close(&s);
    return status;
}
