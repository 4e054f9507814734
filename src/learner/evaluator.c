/* The evaluator: runs a forward program over a split of the data, for evaluation and prediction.
 * All ranks of a mesh run it together and add up their metric sums. */
#include <math.h>
#include <stdio.h>

#include "learner/learner_internal.h"
#include "learner/metrics.h"
#include "models/models.h"
#include "optim/optim.h"

struct weft_evaluator {
    weft_graph *whole;       /* forward graph of the whole model */
    weft_rewritten *mine;    /* this rank's part of `whole`; NULL: a single rank */
    const weft_graph *graph; /* the graph that is run: that of `mine`, or `whole` */
    weft_comm *ranks;        /* ranks whose metric sums are added up; NULL: a single rank */
    weft_instance *instance;
    weft_model_values values; /* in `graph` */
    weft_value loss, prediction;
    int further; /* outputs beside the prediction */
    weft_model_output output[WEFT_MODEL_OUTPUTS];
    weft_value output_value[WEFT_MODEL_OUTPUTS];
    bool counts_loss, counts_rows; /* this rank adds its loss, and its rows, to the sums */
    int64_t batch;
    int outputs;       /* numbers in a prediction: probabilities of classes, or targets */
    int64_t positions; /* of a sample with a prediction each; 0: one prediction a sample */
    double *number;    /* of one sample: prediction, then target, in the units of the target */
    float *row;        /* probabilities of one sample */
};

/* Fails if this rank has a part of the numbers of a prediction, which the evaluator reads whole. */
static weft_status check_whole(const weft_evaluator *e)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    if (e->prediction == WEFT_NO_VALUE) return WEFT_OK;
    weft_graph_part(e->graph, e->prediction, &whole, start);
    int last = whole.rank - 1;
    if (weft_graph_value_type(e->graph, e->prediction).shape.dim[last] == whole.dim[last])
        return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "this mesh cuts the numbers of a prediction, and the loss gives them as they "
                     "are; mark the last dimension of its operator as whole (n!)");
}

/* Cuts the graph for this rank by the plan of the training graph, so that parameters are sharded as
 * in training. Without communicators the program is only planned. */
static weft_status take_part(weft_evaluator *e, const weft_eval_ranks *share)
{
    weft_model_values *v = &e->values;
    WEFT_TRY(weft_plan_rewrite(share->plan, e->whole, share->rank, &e->mine));
    e->graph = weft_rewritten_graph(e->mine);
    e->ranks = share->comms ? share->comms->learner : NULL;
    e->counts_loss = weft_rewritten_counts(e->mine, e->loss);
    e->counts_rows = weft_rewritten_counts(e->mine, e->prediction);
    e->loss = weft_rewritten_value(e->mine, e->loss);
    e->prediction = weft_rewritten_value(e->mine, e->prediction);
    for (int i = 0; i < v->count; i++)
        v->ports[i].value = weft_rewritten_value(e->mine, v->ports[i].value);
    return check_whole(e);
}

/* The program's values to fetch; fetch has room for all. */
static void program_options(const weft_evaluator *e, weft_value *fetch, weft_program_options *o)
{
    weft_program_options_init(o);
    if (e->loss != WEFT_NO_VALUE) fetch[o->fetch_count++] = e->loss;
    if (e->prediction != WEFT_NO_VALUE) fetch[o->fetch_count++] = e->prediction;
    for (int i = 0; i < e->further; i++) fetch[o->fetch_count++] = e->output_value[i];
    o->fetch = fetch;
}

static weft_status build(weft_context *context, weft_dtype real, const weft_model_options *model,
                         const weft_bytes *text, const weft_eval_ranks *share, weft_evaluator *e)
{
    weft_model_options o = *model;
    o.training = false;
    e->batch = o.batch;
    e->outputs = o.targets ? o.targets : o.classes;
    e->positions = o.positions;
    WEFT_TRY(WEFT_NEW(&e->row, e->outputs));
    WEFT_TRY(WEFT_NEW(&e->number, 2 * (size_t)e->outputs));
    WEFT_TRY(weft_graph_create(context, real, &e->whole));
    if (share && share->bf16_weights) WEFT_TRY(weft_graph_keep_weights_narrow(e->whole, 0, false));
    WEFT_TRY(weft_build_model(e->whole, &o, text, &e->values));
    e->graph = e->whole;
    e->loss = weft_model_value(&e->values, WEFT_PORT_LOSS);
    e->prediction = weft_model_value(&e->values, WEFT_PORT_PREDICTION);
    e->counts_loss = e->counts_rows = true;
    if (share && share->trained) WEFT_TRY(weft_average_take(e->whole, share->trained));
    if (share) WEFT_TRY(take_part(e, share));
    /* Ranks that evaluate together only count. */
    while (!share && weft_model_output_at(e->whole, &e->values, e->further + 1,
                                          &e->output[e->further], &e->output_value[e->further]))
        e->further++;
    return WEFT_OK;
}

/* Builds an evaluator that has no program yet, and the options of the program; fetch has room for
 * all values. */
static weft_status begin(weft_context *context, weft_dtype real, const weft_model_options *model,
                         const weft_bytes *text, const weft_eval_ranks *share,
                         weft_value fetch[2 + WEFT_MODEL_OUTPUTS], weft_program_options *o,
                         weft_evaluator **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = build(context, real, model, text, share, *out);
    if (status == WEFT_OK)
        program_options(*out, fetch, o);
    else
        weft_evaluator_destroy(out);
    return status;
}

weft_status weft_evaluator_create(weft_context *context, weft_store *store, weft_dtype real,
                                  const weft_model_options *model, const weft_bytes *text,
                                  const weft_eval_ranks *share, weft_evaluator **out)
{
    weft_evaluator *e;
    weft_program_options o;
    weft_value fetch[2 + WEFT_MODEL_OUTPUTS];
    WEFT_TRY(begin(context, real, model, text, share, fetch, &o, &e));
    weft_status status =
        weft_instance_build_with(store, e->graph, &o, share ? share->comms : NULL, &e->instance);
    if (status == WEFT_OK)
        *out = e;
    else
        weft_evaluator_destroy(&e);
    return status;
}

weft_status weft_evaluator_dry_program(weft_context *context, weft_store *store, weft_dtype real,
                                       const weft_model_options *model, const weft_bytes *text,
                                       const weft_eval_ranks *share, double *graphs,
                                       weft_program **out)
{
    weft_evaluator *e;
    weft_program_options o;
    weft_value fetch[2 + WEFT_MODEL_OUTPUTS];
    WEFT_TRY(begin(context, real, model, text, share, fetch, &o, &e));
    o.dry = true;
    double before = graphs ? (double)weft_allocated_memory() : 0;
    if (e->mine) weft_graph_destroy(&e->whole);
    double whole = graphs ? before - (double)weft_allocated_memory() : 0;
    weft_status status = weft_program_create_with(store, e->graph, &o, out);
    before = graphs ? (double)weft_allocated_memory() : 0;
    weft_evaluator_destroy(&e);
    if (graphs) *graphs = whole + before - (double)weft_allocated_memory();
    return status;
}

void weft_evaluator_destroy(weft_evaluator **evaluator)
{
    if (!evaluator || !*evaluator) return;
    weft_instance_destroy(&(*evaluator)->instance);
    weft_rewritten_destroy(&(*evaluator)->mine);
    weft_graph_destroy(&(*evaluator)->whole);
    free((*evaluator)->row);
    free((*evaluator)->number);
    free(*evaluator);
    *evaluator = NULL;
}

/* --- a part of the data --- */

/* An evaluation in progress, and its callback. */
typedef struct evaluation {
    weft_evaluator *e;
    const weft_dataset *data;
    weft_split split;
    weft_metric_sums sums;
    char *const *class_names; /* [classes]; NULL: classes are numbers */
    weft_predict_fn fn;
    void *user;
    weft_not_finite *lost;
    weft_status status; /* of the first row of a table that could not be read again */
} evaluation;

/* Counts a sample with a prediction that is not finite. */
static void count_lost(const evaluation *v, int64_t sample)
{
    weft_not_finite *l = v->lost;
    if (!l || (l->samples > 0 && l->last == sample)) return;
    if (l->samples++ == 0) l->first = sample;
    l->last = sample;
}

/* Fills *p with the predicted class in row `row` of this rank's predictions and with its label (-1:
 * none, or it counts nowhere), and counts it. */
static void take_class(evaluation *v, int64_t row, int64_t sample, int32_t label,
                       weft_prediction *p)
{
    weft_evaluator *e = v->e;
    int best = 0;
    for (int c = 0; c < e->outputs; c++) {
        e->row[c] = (float)weft_fetch(e->graph, e->instance, e->prediction, row * e->outputs + c);
        if (e->row[c] > e->row[best]) best = c;
        if (!isfinite(e->row[c])) count_lost(v, p->sample);
    }
    p->classes = e->outputs;
    p->label = label;
    p->predicted = best;
    p->probabilities = e->row;
    p->class_names = v->class_names;
    if (!v->sums.cell || label < 0) return;
    int64_t position = WEFT_MAX(p->position, (int64_t)0);
    int64_t each = WEFT_MAX(weft_dataset_stats(v->data)->positions, (int64_t)1);
    const weft_scored scored = {.index = sample * each + position,
                                .weight = weft_dataset_weight(v->data, v->split, sample, position),
                                .label = label,
                                .classes = e->outputs,
                                .scores = e->row};
    weft_metric_sums_class(&v->sums, &scored, best);
}

/* Fills *p with the predicted numbers of row `row`, in the units of the targets, and counts the
 * sample. */
static void take_numbers(evaluation *v, int64_t row, int64_t sample, weft_prediction *p)
{
    weft_evaluator *e = v->e;
    const weft_data_stats *stats = weft_dataset_stats(v->data);
    double *said = e->number, *target = e->number + e->outputs;
    bool known = weft_dataset_labelled(v->data);
    for (int j = 0; j < e->outputs; j++) {
        double x = weft_fetch(e->graph, e->instance, e->prediction, row * e->outputs + j);
        said[j] = x * stats->target_deviation[j] + stats->target_mean[j];
        if (!isfinite(said[j])) count_lost(v, p->sample);
    }
    if (known) weft_dataset_targets(v->data, v->split, sample, target);
    p->label = -1;
    p->targets = e->outputs;
    p->numbers = said;
    p->target = known ? target : NULL;
    p->binary = stats->binary;
    p->target_names = stats->target_names;
    const weft_scored scored = {.index = sample,
                                .weight = weft_dataset_weight(v->data, v->split, sample, 0),
                                .label = -1,
                                .classes = e->outputs,
                                .target = p->target,
                                .said = said};
    if (v->sums.cell && stats->binary)
        weft_metric_sums_labels(&v->sums, &scored);
    else if (v->sums.cell)
        weft_metric_sums_numbers(&v->sums, scored.weight, stats, p->target, said);
}

/* The part of a batch of predictions [rows, positions, outputs] that this rank has. */
typedef struct part {
    int64_t first, rows, first_position, positions;
} part;

static part part_of(const weft_evaluator *e)
{
    weft_shape whole, mine;
    int64_t start[WEFT_MAX_RANK] = {0};
    if (!e->counts_rows) return (part){0};
    weft_graph_part(e->graph, e->prediction, &whole, start);
    mine = weft_graph_value_type(e->graph, e->prediction).shape;
    bool each = mine.rank > 2;
    return (part){start[0], mine.dim[0], each ? start[1] : 0, each ? mine.dim[1] : 1};
}

/* Sets value[] to the further outputs of the sample in row `row`, and counts one of which a number
 * is not finite. */
static void take_outputs(evaluation *v, int64_t row, const void **value, weft_prediction *p)
{
    const weft_evaluator *e = v->e;
    for (int i = 0; i < e->further; i++) {
        const weft_type type = {e->output[i].dtype, e->output[i].shape};
        size_t size = weft_type_bytes(&type);
        value[i] = (const char *)weft_instance_output(e->instance, e->output_value[i]) +
                   (size_t)row * size;
        if (!weft_all_finite(type.dtype, value[i], size)) count_lost(v, p->sample);
    }
    p->outputs = e->further;
    p->output = e->output;
    p->value = value;
}

/* The label of a position of row s of a batch; -1: it has none, or counts nowhere. */
static int32_t label_of(const evaluation *v, const weft_batch *batch, int64_t s, int64_t position)
{
    int labels = weft_batch_find(batch, WEFT_PORT_TARGET, "labels");
    int64_t at = s * WEFT_MAX(v->e->positions, (int64_t)1) + position;
    if (labels < 0) return -1;
    bool ignored =
        v->data->source->ignores &&
        weft_number_get(batch->column[batch->weights].dtype, batch->data[batch->weights], at) == 0;
    return ignored ? -1 : ((const int32_t *)batch->data[labels])[at];
}

/* Takes the predictions of row s of a batch, whose first sample is number `first`; they begin in
 * row `row` of this rank's predictions. */
static void take_sample(evaluation *v, const part *mine, int64_t row, const weft_batch *batch,
                        int64_t s, int64_t first)
{
    const weft_data_stats *stats = weft_dataset_stats(v->data);
    const void *value[WEFT_MODEL_OUTPUTS];
    double weight = 0; /* of this rank's predictions */
    int64_t sample = first + s;
    for (int64_t j = 0; j < mine->positions; j++)
        if (!v->data->source->ignores || label_of(v, batch, s, mine->first_position + j) >= 0)
            weight += weft_dataset_weight(v->data, v->split, sample, mine->first_position + j);
    if (v->sums.cell) weft_metric_sums_sample(&v->sums, weight);
    for (int64_t j = 0; j < mine->positions; j++) {
        int64_t position = mine->first_position + j;
        weft_prediction p = {.sample = weft_dataset_row(v->data, v->split, sample),
                             .id = weft_dataset_id(v->data, v->split, sample),
                             .file = weft_dataset_file(v->data, v->split, sample),
                             .position = stats->positions ? position : -1};
        if (stats->targets > 0)
            take_numbers(v, row, sample, &p);
        else
            take_class(v, row * mine->positions + j, sample,
                       label_of(v, batch, s, WEFT_MAX(p.position, (int64_t)0)), &p);
        if (v->fn && j == 0) take_outputs(v, row, value, &p);
        weft_table_row fields = {0};
        if (v->fn && v->status == WEFT_OK)
            v->status = weft_dataset_fields(v->data, v->split, sample, &fields);
        p.fields = fields.count;
        p.field = fields.fields;
        p.field_name = fields.names;
        if (v->fn) v->fn(v->user, &p);
    }
}

/* Adds a batch to the sums. The program's loss is the weighted mean over the valid targets, so it
 * is multiplied by their weight. first: number of the batch's first sample in the split. */
static void count_batch(evaluation *v, const weft_batch *batch, int64_t first)
{
    const weft_evaluator *e = v->e;
    const part mine = part_of(e);
    if (v->sums.cell && e->counts_loss)
        weft_metric_sums_loss(&v->sums,
                              weft_fetch(e->graph, e->instance, e->loss, 0) * batch->weight);
    for (int64_t row = 0; row < mine.rows && mine.first + row < batch->valid; row++)
        take_sample(v, &mine, row, batch, mine.first + row, first);
}

/* Adds up the metric sums of all ranks. */
static weft_status add_ranks(const weft_evaluator *e, weft_metric_sums *t)
{
    if (!e->ranks || weft_comm_size(e->ranks) == 1) return WEFT_OK;
    return weft_comm_run(e->ranks,
                         WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .dtype = WEFT_F64,
                                       .what = "counts of the evaluation", .send = t->cell,
                                       .receive = t->cell, .count = t->cells));
}

/* Feeds each input of the program its column of the batch. The program computes a loss even if the
 * data have no targets: then it gets `zeros` as targets, and the loss is ignored. */
static weft_status feed_batch(const evaluation *v, const weft_batch *b, const void *zeros)
{
    const weft_evaluator *e = v->e;
    for (int i = 0; i < e->values.count; i++) {
        const weft_port *p = &e->values.ports[i];
        if (p->role == WEFT_PORT_TARGET && zeros && p->value != WEFT_NO_VALUE)
            weft_feed(e->graph, e->instance, p->value, zeros,
                      weft_graph_value_type(e->graph, p->value).dtype);
        else
            WEFT_TRY(weft_feed_port(e->graph, e->instance, p, p->value, b, 0));
    }
    return WEFT_OK;
}

static weft_loader_options loader_of(weft_split split, int64_t batch, weft_dtype real)
{
    return (weft_loader_options){.split = split, .batch = batch, .epochs = 1, .real = real};
}

static weft_status run_batches(evaluation *v)
{
    weft_evaluator *e = v->e;
    weft_loader *loader = NULL;
    double *zeros = NULL; /* targets of 0, in the widest type, for data without targets */
    int64_t first = 0;
    weft_loader_options options = loader_of(v->split, e->batch, weft_graph_real(e->whole));
    weft_status status = WEFT_OK;
    if (!weft_dataset_labelled(v->data))
        status = WEFT_NEW(&zeros, (size_t)e->batch * (size_t)WEFT_MAX(e->outputs, e->positions));
    if (status == WEFT_OK) status = weft_loader_start(v->data, &options, &loader);
    for (const weft_batch *b; status == WEFT_OK && (b = weft_loader_next(loader));
         first += b->valid) {
        status = weft_batch_check(b, v->data, v->split);
        if (status == WEFT_OK) status = feed_batch(v, b, zeros);
        if (status == WEFT_OK) status = weft_instance_run(e->instance, WEFT_PHASE_MICRO);
        if (status == WEFT_OK) count_batch(v, b, first);
        if (status == WEFT_OK) status = v->status;
    }
    weft_loader_stop(&loader);
    free(zeros);
    return status == WEFT_OK ? weft_instance_drain(e->instance) : status;
}

weft_instance *weft_evaluator_instance(weft_evaluator *e)
{
    return e->instance;
}

/* The names of the classes; NULL if they are numbers from 0, as names are where a table has such
 * labels. */
static char *const *names_of(const weft_data_stats *stats)
{
    char number[16];
    for (int c = 0; stats->class_names && c < stats->classes; c++) {
        (void)snprintf(number, sizeof(number), "%d", c);
        if (strcmp(stats->class_names[c], number) != 0) return stats->class_names;
    }
    return NULL;
}

static weft_status begin_sums(const weft_context *context, const weft_dataset *data,
                              weft_split split, const char *metrics, weft_metric_sums *out)
{
    const weft_data_stats *stats = weft_dataset_stats(data);
    int64_t each = WEFT_MAX(stats->positions, (int64_t)1);
    return weft_metric_sums_init(out, context, stats, weft_dataset_count(data, split) * each,
                                 metrics);
}

weft_status weft_evaluator_bytes(const weft_context *context, const weft_dataset *data,
                                 weft_split split, int64_t batch, weft_dtype real,
                                 const char *metrics, size_t *out)
{
    weft_metric_sums sums;
    data = weft_dataset_part(data, &split);
    const weft_loader_options loader = loader_of(split, batch, real);
    weft_status status = begin_sums(context, data, split, metrics, &sums);
    *out = weft_loader_bytes(data, &loader) + (size_t)sums.cells * sizeof(*sums.cell);
    weft_metric_sums_free(&sums);
    return status;
}

weft_status weft_evaluator_run(weft_evaluator *e, const weft_dataset *data, weft_split split,
                               const char *metrics, weft_report *out, weft_predict_fn fn,
                               void *user, weft_not_finite *lost)
{
    data = weft_dataset_part(data, &split);
    evaluation v = {.e = e, .data = data, .split = split, .fn = fn, .user = user, .lost = lost};
    const weft_data_stats *stats = weft_dataset_stats(data);
    v.class_names = names_of(stats);
    weft_status status = WEFT_OK;
    if (out) status = begin_sums(e->whole->context, data, split, metrics, &v.sums);
    if (status == WEFT_OK) status = run_batches(&v);
    if (status == WEFT_OK && out) status = add_ranks(e, &v.sums);
    if (status == WEFT_OK && out) status = weft_metric_sums_report(&v.sums, out);
    if (status == WEFT_OK && out) {
        status = stats->targets > 0
                     ? weft_strings_copy(stats->target_names, stats->targets, &out->class_names)
                     : weft_strings_copy(v.class_names, stats->classes, &out->class_names);
        if (status != WEFT_OK) weft_report_free(out);
    }
    weft_metric_sums_free(&v.sums);
    return status;
}
