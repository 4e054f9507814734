/* A service: creates and destroys it, and counts the references to its model versions. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "serve/generation.h"
#include "serve/service_internal.h"
#include "weft/device.h"

void weft_service_options_init_size(weft_service_options *options, size_t size)
{
    const weft_service_options ours = {.struct_size = sizeof(weft_service_options),
                                       .device = "cpu",
                                       .instances = 1,
                                       .policy = "adaptive",
                                       .limit = 64,
                                       .waiting = 4096,
                                       .measure = 2};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

void weft_inference_request_init_size(weft_inference_request *request, size_t size)
{
    const weft_inference_request ours = {.struct_size = sizeof(weft_inference_request), .rows = 1};
    weft_give_struct(request, size, &ours, sizeof(ours));
}

static weft_status check(const weft_service_options *o)
{
    if (o->instances < 1 || o->instances > 64)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d instances, must be from 1 to 64", o->instances);
    if (o->threads < 0 || o->threads > 1024)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d threads, must be from 1 to 1024 (0: by the cores)",
                         o->threads);
    if (o->limit < 1 || o->limit > 4096)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the limit of a batch is %lld rows, must be from 1 to 4096",
                         (long long)o->limit);
    if (o->waiting < 1 || o->waiting > INT32_MAX)
        return weft_fail(WEFT_ERR_ARGUMENT, "%lld rows may wait, must be from 1 to %d",
                         (long long)o->waiting, INT32_MAX);
    if (!(o->watch >= 0) || !(o->measure >= 0) || isinf(o->watch) || isinf(o->measure))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the repository is scanned each %g s and a model measured for %g s; both "
                         "must be 0 or more",
                         o->watch, o->measure);
    return weft_shares_check(o->shares);
}

/* Checks the names in the options, so that they are refused before a model is loaded. */
static weft_status check_names(weft_context *context, const weft_service_options *o)
{
    char *device;
    const struct {
        const char *what, *text;
        bool needed;
    } texts[] = {{"device", o->device, true},  {"policy", o->policy, true},
                 {"models", o->models, false}, {"mesh", o->mesh, false},
                 {"shares", o->shares, false}, {"times", o->times, false},
                 {"tune", o->tune, false}};
    for (size_t i = 0; i < WEFT_COUNT(texts); i++)
        if (texts[i].text ? !*texts[i].text : texts[i].needed)
            return weft_fail(WEFT_ERR_ARGUMENT, "the option '%s' of a service is %s; %s",
                             texts[i].what, texts[i].text ? "empty" : "NULL",
                             texts[i].needed ? "give a name" : "NULL leaves it out");
    WEFT_TRY(weft_device_of_rank(context, o->device, 0, &device));
    free(device);
    return WEFT_OK;
}

static weft_status run_nothing(void *user, int executor, void *const *requests, int count,
                               int64_t rows)
{
    (void)user;
    (void)executor;
    (void)requests;
    (void)count;
    (void)rows;
    return WEFT_OK;
}

/* Checks the policy by a queue that is removed at once. */
static weft_status check_policy(weft_batcher *batcher, const weft_service_options *o)
{
    weft_batch_queue_options queue;
    weft_batch_queue *made;
    weft_batch_queue_options_init(&queue);
    queue.policy = o->policy;
    queue.limit = o->limit;
    queue.max_waiting = o->waiting;
    queue.run = run_nothing;
    WEFT_TRY(weft_batch_queue_add(batcher, &queue, &made));
    weft_batch_queue_remove(&made, false);
    return WEFT_OK;
}

static void bind_executor(void *user, int executor)
{
    weft_service *s = user;
    if (s->cores) s->bound[executor] = weft_core_sets_enter(s->cores, executor * s->ranks);
}

static void leave_executor(void *user, int executor)
{
    weft_service *s = user;
    if (s->cores) weft_core_sets_leave(s->cores, s->bound[executor]);
}

static void start_locks(weft_service *s)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&s->released, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->poll_lock, NULL);
}

static weft_status copy_options(weft_service *s)
{
    weft_service_options *o = &s->options;
    const struct {
        const char **from;
        char **to;
    } texts[] = {{&o->device, &s->device}, {&o->policy, &s->policy}, {&o->models, &s->models},
                 {&o->mesh, &s->mesh},     {&o->times, &s->times},   {&o->shares, &s->shares},
                 {&o->tune, &s->tune}};
    for (size_t i = 0; i < WEFT_COUNT(texts); i++) {
        if (!*texts[i].from) continue;
        WEFT_TRY(weft_strdup(*texts[i].from, texts[i].to));
        *texts[i].from = *texts[i].to;
    }
    return WEFT_OK;
}

/* Logs a warning if the instances, or the threads of all instances, outnumber the cores. */
static void warn(const weft_service *s)
{
    int cores = weft_context_threads(s->context), instances = s->options.instances;
    int64_t each = (int64_t)s->ranks * WEFT_MAX(s->options.threads, 1), all = instances * each;
    if (instances > cores)
        weft_log(s->context, WEFT_LOG_WARNING,
                 "%d instances share %d core%s; as many as there are cores are usually faster",
                 instances, cores, weft_plural(cores));
    else if (all > cores)
        weft_log(s->context, WEFT_LOG_WARNING,
                 "%d instance%s of %d rank%s with %d thread%s each are %lld threads on %d core%s; "
                 "no more than there are cores are usually faster",
                 instances, weft_plural(instances), s->ranks, weft_plural(s->ranks),
                 WEFT_MAX(s->options.threads, 1), weft_plural(WEFT_MAX(s->options.threads, 1)),
                 (long long)all, cores, weft_plural(cores));
}

weft_status weft_service_create(weft_context *context, const weft_service_options *options,
                                weft_service **out)
{
    WEFT_NEED(context, options, out);
    weft_service *s;
    weft_status status;
    weft_batcher_options batcher;
    weft_service_options own;
    weft_service_options_init(&own);
    WEFT_TAKE(weft_service_options, options, instances, &own);
    options = &own;
    WEFT_TRY(check(options));
    WEFT_TRY(check_names(context, options));
    WEFT_TRY(WEFT_NEW(&s, 1));
    start_locks(s);
    s->context = context;
    s->options = own;
    WEFT_TRY_GOTO(copy_options(s), failed);
    WEFT_TRY_GOTO(weft_mesh_rank_count(s->mesh, &s->ranks), failed);
    warn(s);
    if (options->instances * s->ranks > 1)
        WEFT_TRY_GOTO(weft_core_sets_make(options->instances * s->ranks, false, &s->cores), failed);
    WEFT_TRY_GOTO(WEFT_NEW(&s->bound, options->instances), failed);
    weft_batcher_options_init(&batcher);
    batcher.executors = options->instances;
    batcher.begin = bind_executor;
    batcher.end = leave_executor;
    batcher.user = s;
    WEFT_TRY_GOTO(weft_batcher_create(context, &batcher, &s->batcher), failed);
    WEFT_TRY_GOTO(check_policy(s->batcher, options), failed);
    bool keeps = !options->times || strcmp(options->times, "none") != 0;
    if (keeps || (s->models && options->watch > 0))
        WEFT_TRY_GOTO(weft_service_start_background(s), failed);
    *out = s;
    return WEFT_OK;
failed:
    weft_service_destroy(&s);
    return status;
}

void weft_servable_remove_queues(weft_servable *servable)
{
    if (servable->generation) weft_batch_queue_remove(&servable->generation->queue, true);
    weft_batch_queue_remove(&servable->queue, true);
}

void weft_service_end(weft_service *s, weft_servable *servable)
{
    if (!servable) return;
    pthread_mutex_lock(&s->lock);
    while (servable->references > 0) pthread_cond_wait(&s->released, &s->lock);
    pthread_mutex_unlock(&s->lock);
    weft_batch_times_write(servable);
    weft_servable_remove_queues(servable);
    weft_servable_close(&servable);
}

void weft_service_destroy(weft_service **service)
{
    if (!service || !*service) return;
    weft_service *s = *service;
    weft_service_stop_background(s);
    while (s->count > 0) {
        weft_service_end(s, s->entries[0]->servable);
        weft_model_entry_remove(s, s->entries[0]);
    }
    weft_batcher_destroy(&s->batcher);
    weft_core_sets_free(&s->cores);
    pthread_cond_destroy(&s->released);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->poll_lock);
    pthread_mutex_destroy(&s->lock);
    free(s->complaints.data);
    free(s->entries);
    free(s->bound);
    free(s->device);
    free(s->policy);
    free(s->models);
    free(s->mesh);
    free(s->times);
    free(s->shares);
    free(s->tune);
    free(s);
    *service = NULL;
}

/* --- references and requests --- */

bool weft_service_entry(weft_service *s, int i, weft_service_item *out)
{
    WEFT_NEED_ELSE_AS(false, "service, out", s, out);
    pthread_mutex_lock(&s->lock);
    bool there = i >= 0 && i < s->count;
    if (there) {
        const weft_model_entry *p = s->entries[i];
        *out = (weft_service_item){
            .version = p->version, .ready = p->servable != NULL, .unloaded = p->unloaded};
        out->state = p->servable  ? WEFT_SERVABLE_READY
                     : p->loading ? WEFT_SERVABLE_LOADING
                                  : WEFT_SERVABLE_UNAVAILABLE;
        (void)snprintf(out->name, sizeof(out->name), "%s", p->name);
        (void)snprintf(out->reason, sizeof(out->reason), "%s",
                       p->loading ? "it is being loaded" : p->reason);
    }
    pthread_mutex_unlock(&s->lock);
    return there;
}

weft_servable *weft_service_hold(weft_service *s, const char *name, int64_t version)
{
    WEFT_NEED_ELSE_AS(NULL, "service, name", s, name);
    weft_servable *servable = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->count; i++) {
        const weft_model_entry *p = s->entries[i];
        if (!p->servable || strcmp(p->name, name) != 0) continue;
        if (version ? p->servable->version == version
                    : !servable || p->servable->version > servable->version)
            servable = p->servable;
    }
    if (servable) servable->references++;
    pthread_mutex_unlock(&s->lock);
    return servable;
}

weft_servable *weft_service_hold_entry(weft_service *s, int i)
{
    WEFT_NEED_ELSE_AS(NULL, "service", s);
    pthread_mutex_lock(&s->lock);
    weft_servable *servable = i >= 0 && i < s->count ? s->entries[i]->servable : NULL;
    if (servable) servable->references++;
    pthread_mutex_unlock(&s->lock);
    return servable;
}

void weft_servable_hold(weft_servable *servable)
{
    weft_service *s = servable->service;
    pthread_mutex_lock(&s->lock);
    servable->references++;
    pthread_mutex_unlock(&s->lock);
}

void weft_servable_release(weft_servable **servable)
{
    if (!servable || !*servable) return;
    weft_service *s = (*servable)->service;
    pthread_mutex_lock(&s->lock);
    if (--(*servable)->references == 0) pthread_cond_broadcast(&s->released);
    pthread_mutex_unlock(&s->lock);
    *servable = NULL;
}

void weft_servable_describe(const weft_servable *servable, weft_servable_info *out)
{
    WEFT_NEED_VOID(servable, out);
    const weft_data_stats *stats = &servable->checkpoint.stats;
    *out = (weft_servable_info){.name = servable->name,
                                .version = servable->version,
                                .model = servable->run.task.model,
                                .real = weft_servable_real(servable),
                                .inputs = stats->inputs,
                                .classes = stats->targets ? 0 : stats->classes,
                                .targets = stats->targets,
                                .binary = stats->binary,
                                .target_names = stats->target_names,
                                .positions = stats->positions,
                                .outputs = servable->outputs,
                                .class_names = stats->class_names,
                                .column_names = stats->column_names,
                                .label_name = stats->label_name,
                                .table = weft_servable_is_table(servable),
                                .label_column = stats->label_column,
                                .weight_name = stats->weight_name,
                                .weight_column = stats->weight_column,
                                .id_name = stats->id_name,
                                .id_column = stats->id_column,
                                .bytes = stats->bytes,
                                .range = stats->range,
                                .limit = servable->limit,
                                .policy = servable->policy,
                                .most_rows = weft_servable_most_rows(servable),
                                .channels_last = servable->channels_last,
                                .fills = weft_reads_pictures(stats),
                                .output = servable->output,
                                .output_count = servable->output_count,
                                .table_columns = stats->table};
    memcpy(out->input, stats->input, sizeof(out->input));
    for (int k = 0; k < stats->inputs; k++) out->tokens |= stats->input[k].values > 0;
}

weft_batch_queue *weft_servable_queue(const weft_servable *servable)
{
    WEFT_NEED_ELSE(NULL, servable);
    return servable->queue;
}

bool weft_service_has_folder(const weft_service *s)
{
    return s->models != NULL;
}

weft_context *weft_service_context(const weft_service *service)
{
    return service->context;
}
