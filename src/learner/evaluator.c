/* Forward runs over a part of the data: evaluation and prediction. */
#include "learner/step.h"
#include "models/models.h"

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

weft_status weft_evaluator_create(weft_context *context, weft_store *store, weft_dtype real,
                                  const weft_model_options *model, const weft_bytes *text,
                                  const weft_share *share, weft_evaluator **out)
{
    weft_evaluator *e;
    weft_model_options o = *model;
    weft_status status;
    WEFT_TRY(WEFT_NEW(&e, 1));
    o.training = false;
    e->batch = o.batch;
    e->classes = o.classes;
    WEFT_TRY_GOTO(WEFT_NEW(&e->row, e->classes), failed);
    WEFT_TRY_GOTO(weft_graph_create(context, real, &e->whole), failed);
    WEFT_TRY_GOTO(weft_build_model(e->whole, &o, text, &e->values), failed);
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
