/* A servable, one loaded version of a model: a checkpoint, and batch programs for several batch
 * sizes. All of them share one copy of the weights, or with a mesh one shard for each rank. */
#include "serve/servable.h"

#include "data/channel_layout.h"
#include "serve/generation.h"
#include "weft/train.h"

/* Floating-point operations that one core does in about a millisecond; a batch with fewer is
 * small. */
static const double SMALL_BATCH_FLOPS = 5e7;
/* Bytes that the largest value of a batch may have. */
static const size_t MOST_VALUE = (size_t)512 << 20;

static weft_status read_checkpoint(weft_servable *s, const char *path)
{
    const weft_option *table = weft_train_table(s->context);
    WEFT_TRY(weft_checkpoint_open_model(path, table, &s->checkpoint));
    WEFT_TRY(weft_settings_give(&s->checkpoint.settings, table, &s->run));
    s->real = WEFT_F32;
    (void)weft_dtype_parse(s->run.task.dtype, &s->real);
    const weft_data_stats *stats = &s->checkpoint.stats;
    WEFT_TRY(weft_layout_held(stats, &s->channels_last));
    s->outputs = WEFT_MAX(stats->positions, 1) * (stats->targets ? stats->targets : stats->classes);
    return WEFT_OK;
}

/* measures: what the file of --tune lacks is measured. */
static weft_status open_ranks(weft_servable *s, const weft_service_setup *setup, bool measures)
{
    static const double most_seconds = 60;
    const char *tune = setup->options->tune;
    WEFT_TRY(WEFT_NEW(&s->teams, s->executors));
    WEFT_TRY(weft_mesh_weights_open(s->context, s->device, 1, setup->options->mesh, &s->checkpoint,
                                    &s->weights));
    if (tune)
        WEFT_TRY(weft_mesh_weights_tune(&s->weights, tune,
                                        measures ? weft_seconds() + most_seconds : 0));
    for (int e = 0; e < s->executors; e++)
        WEFT_TRY(weft_rank_team_open(s->context, setup->ranks, setup->cores, e * setup->ranks,
                                     &s->teams[e]));
    return WEFT_OK;
}

/* Allocates the whole inputs and outputs of a batch for each executor, if several ranks compute it:
 * each rank reads its part of the inputs and adds its part of the outputs. */
static weft_status open_full_batches(weft_servable *s)
{
    size_t rows = (size_t)s->limit, numbers = rows * (size_t)s->outputs;
    const weft_data_stats *stats = &s->checkpoint.stats;
    if (s->weights.ranks == 1) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&s->full_batches, s->executors));
    for (int e = 0; e < s->executors; e++) {
        weft_full_batch *w = &s->full_batches[e];
        for (int k = 0; k < stats->inputs; k++)
            WEFT_TRY(weft_new_bytes(&w->x[k],
                                    rows * (size_t)weft_shape_elements(&stats->input[k].shape),
                                    weft_dtype_size(weft_servable_input_type(s, k))));
        WEFT_TRY(WEFT_NEW(&w->prediction, numbers));
        WEFT_TRY(WEFT_NEW(&w->logits, numbers));
        for (int k = 1; k < s->output_count; k++)
            WEFT_TRY(weft_new_bytes(&w->output[k], rows, weft_servable_output_bytes(s, k)));
    }
    return WEFT_OK;
}

/* Sets the number of threads of a rank. If the largest batch is little work, one thread is fastest:
 * several threads need microseconds to synchronize, and a batch of one thread can be computed by
 * the thread that has read the request (weft_batcher_run_due). The choice depends on the model and
 * not on a measurement, since the bits of the results depend on it. */
static weft_status choose_threads(weft_servable *s, const weft_service_setup *setup,
                                  double row_flops)
{
    int threads = weft_context_threads(setup->context) / (s->executors * setup->ranks);
    if (setup->options->threads)
        threads = setup->options->threads;
    else if (threads > 1 && setup->ranks == 1 && row_flops * (double)s->limit < SMALL_BATCH_FLOPS)
        threads = 1;
    return weft_context_set_threads(s->context, WEFT_MAX(threads, 1));
}

/* Lowers the limit of a batch if its values would need too much memory, as the logits of many
 * positions over a large vocabulary do. */
static void limit_rows(weft_servable *s, const weft_service_setup *setup, size_t row_bytes)
{
    int64_t fit = (int64_t)(MOST_VALUE / WEFT_MAX(row_bytes, 1));
    if (fit >= s->limit) return;
    s->limit = WEFT_MAX(fit, setup->ranks);
    weft_log(s->context, WEFT_LOG_WARNING,
             "model '%s': a batch has up to %lld row%s, since the largest value of a row has %.0f "
             "MiB",
             s->name, (long long)s->limit, weft_plural(s->limit), (double)row_bytes / 1048576);
}

static weft_status prepare(weft_servable *s, const weft_service_setup *setup, const char *path,
                           const weft_servable *like, bool measures)
{
    const weft_service_options *o = setup->options;
    double row_flops;
    size_t row_bytes;
    WEFT_TRY(weft_context_with_threads(setup->context, weft_context_threads(setup->context),
                                       &s->context));
    WEFT_TRY(read_checkpoint(s, path));
    WEFT_TRY(weft_servable_row_cost(s, &row_flops, &row_bytes));
    limit_rows(s, setup, row_bytes);
    WEFT_TRY(choose_threads(s, setup, row_flops));
    WEFT_TRY(weft_batch_times_file(s, o->times, &s->times_path));
    WEFT_TRY(open_ranks(s, setup, measures));
    WEFT_TRY(open_full_batches(s));
    WEFT_TRY(weft_servable_plan_sizes(s, o->measure, like));
    WEFT_TRY(weft_generation_engine_create(s, setup->cores, &s->generation));
    weft_checkpoint_unmap(&s->checkpoint);
    return WEFT_OK;
}

static weft_status open_once(const weft_service_setup *setup, const char *name, const char *path,
                             const weft_servable *like, bool measures, weft_servable **out)
{
    const weft_service_options *o = setup->options;
    weft_servable *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    pthread_mutex_init(&s->cut_lock, NULL);
    s->limit = s->sequences = o->limit;
    s->executors = o->instances;
    s->device = o->device;
    s->saved_batches = -1;
    weft_status status = weft_strdup(name, &s->name);
    if (status == WEFT_OK) status = weft_compute_stats_create(s->limit, &s->compute_stats);
    if (status == WEFT_OK) status = weft_strdup(o->policy, &s->policy);
    if (status == WEFT_OK) status = prepare(s, setup, path, like, measures);
    if (status == WEFT_OK) {
        *out = s;
        return WEFT_OK;
    }
    weft_servable_close(&s);
    return weft_fail_within(status, "model '%s'", name);
}

/* A model whose kernels have been measured is opened again, by the whole file: so it has the bits
 * that it will have after the next start. */
static weft_status open_tuned(const weft_service_setup *setup, const char *name, const char *path,
                              const weft_servable *like, weft_servable **out)
{
    bool grown = true;
    for (bool first = true; first || grown; first = false) {
        WEFT_TRY(open_once(setup, name, path, like, first, out));
        weft_status status = weft_mesh_weights_keep_tuning(&(*out)->weights, &grown);
        if (status != WEFT_OK || grown) weft_servable_close(out);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

weft_status weft_servable_open(const weft_service_setup *setup, const char *name, const char *path,
                               const weft_servable *like, weft_servable **out)
{
    int lock;
    if (!setup->options->tune) return open_once(setup, name, path, like, false, out);
    /* The first thread or process measures what the file lacks, and the others read it. */
    WEFT_TRY(weft_beside_lock(setup->options->tune, &lock));
    weft_status status = open_tuned(setup, name, path, like, out);
    weft_beside_unlock(lock);
    return status;
}

void weft_servable_close(weft_servable **servable)
{
    if (!servable || !*servable) return;
    weft_servable *s = *servable;
    weft_generation_engine_free(&s->generation);
    for (int i = 0; i < s->count; i++) weft_batch_program_free(s, &s->sizes[i]);
    free(s->sizes);
    for (int e = 0; s->full_batches && e < s->executors; e++) {
        for (int k = 0; k < WEFT_MAX_INPUTS; k++) free(s->full_batches[e].x[k]);
        for (int k = 0; k < WEFT_MODEL_OUTPUTS; k++) free(s->full_batches[e].output[k]);
        free(s->full_batches[e].prediction);
        free(s->full_batches[e].logits);
    }
    free(s->full_batches);
    for (int e = 0; s->teams && e < s->executors; e++) weft_rank_team_close(&s->teams[e]);
    free(s->teams);
    weft_mesh_weights_close(&s->weights);
    weft_batch_times_key_free(&s->key);
    if (s->context) weft_options_free(weft_train_table(s->context), &s->run);
    weft_checkpoint_close(&s->checkpoint);
    weft_context_destroy(&s->context);
    free(s->times_path);
    weft_compute_stats_free(&s->compute_stats);
    free(s->name);
    free(s->policy);
    pthread_mutex_destroy(&s->cut_lock);
    free(s);
    *servable = NULL;
}
