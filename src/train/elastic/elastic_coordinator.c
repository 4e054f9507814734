/* Runs the coordinator of an elastic run: chooses the layout of the parameters, writes the run
 * configuration for those that join, and goes on where an earlier coordinator of a job ended. */
#include "train/elastic/elastic.h"

#include "device/device.h"
#include "exchange/exchange.h"
#include "weft/device.h"

static const char HERE[] = "tcp://127.0.0.1:7070";

/* ARGUMENT: the coordinator has a key and admits no other key. Every process contacts the
 * coordinator first, which tells the servers which keys to admit, so nobody could join. */
static weft_status check_allowed(weft_net_context *world, const weft_cluster_options *o)
{
    if (!o->key || weft_net_context_allows(world)) return WEFT_OK;
    if (o->allow)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "allow is '%s', which has no key, so no process could join; put the lines "
                         "of .pub files there (weft keygen makes them)",
                         o->allow);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "key is '%s', but no other key is admitted, so no process could join; give "
                     "--allow FILE, with the lines of .pub files (weft keygen makes them)",
                     o->key);
}

/* State of the run that an earlier coordinator process of this job has left on the status page, for
 * a restarted coordinator. */
typedef struct past {
    bool known;                /* an earlier coordinator has run */
    int64_t begun[WEFT_BEGUN]; /* as record_begin writes them */
    int64_t step;              /* last step of a learner; 0: the run has taken none */
} past;

static void read_past(past *p)
{
    weft_supervisor_channel line;
    weft_status_page_open(&line);
    p->known = weft_status_page_begun(&line, p->begun);
    int64_t done = weft_status_page_furthest(&line) - 1;
    p->step = p->known && done > p->begun[0] ? done : 0;
    weft_status_page_close(&line);
}

static void take_past(const past *p, weft_joining *j)
{
    const int64_t *n = p->begun;
    j->begun = (weft_position){.step = n[0], .epoch = n[1], .batch = n[2], .samples = n[3]};
    j->steps = n[4];
    memcpy(&j->place, n + 7, sizeof(j->place));
}

_Static_assert(sizeof(weft_schedule_place) == (WEFT_BEGUN - 7) * sizeof(int64_t),
               "the place in the schedule fits behind the other numbers");

/* Writes to the status page where the run began: position, total steps, checksum and step of the
 * checkpoint, and the place in the schedule. The checkpoint is that which the coordinator compares
 * with that of each joining learner. */
static void record_begin(weft_trainer *t, const past *before)
{
    if (t->resumed.path) t->begun = t->resumed.position;
    if (before->known) {
        t->link.checkpoint = (uint64_t)before->begun[5];
        t->link.step = before->begun[6];
    }
    weft_position p = t->begun;
    int64_t n[WEFT_BEGUN] = {p.step,      p.epoch,        p.batch,
                             p.samples,   t->total_steps, (int64_t)t->link.checkpoint,
                             t->link.step};
    memcpy(n + 7, &t->place, sizeof(t->place));
    weft_status_page_begin(&t->line, n);
}

static bool shares_out(const char *mesh)
{
    int64_t tensor = 1, pipeline = 1;
    return mesh && weft_mesh_axis(mesh, "tensor", &tensor) == WEFT_OK &&
           weft_mesh_axis(mesh, "pipeline", &pipeline) == WEFT_OK && tensor * pipeline > 1;
}

/* Chooses the layout in which members exchange parameters: that of the coordinator's device, or the
 * plain one if members have several devices, or one with memory of its own, whose layouts no other
 * kind of device has. */
static weft_status choose_layout(weft_context *context, weft_train_options *o, bool *plain)
{
    weft_device *device;
    char *list = o->where.device;
    *plain = weft_device_list_count(list) > 1;
    WEFT_TRY(weft_device_of_rank(context, list, 0, &o->where.device));
    free(list);
    if (*plain) return WEFT_OK;
    WEFT_TRY(weft_device_open(context, o->where.device, &device));
    *plain = !weft_device_shares(device);
    weft_device_close(&device);
    return WEFT_OK;
}

/* Creates, for the coordinator, a trainer with the options of a learner. The trainer never trains:
 * its data, model and store give the run configuration. */
static weft_status look_at_run(weft_context *context, const weft_train_options *o,
                               const weft_stop *stop, const past *before, int *learners,
                               weft_trainer **out)
{
    const weft_option *table = weft_train_table(context);
    weft_train_options one = {0};
    int64_t mesh = 1;
    char text[32];
    WEFT_TRY(weft_train_learners(o, o->job.ranks, &mesh, learners));
    WEFT_TRY(weft_train_options_copy(context, o, &one));
    /* Learners whose meshes shard the parameters exchange them whole, in the layout of a single
     * rank (unsharded_exchange.c). The run configuration has the options of the learners. */
    bool shares = shares_out(one.parallel.mesh);
    if (shares) {
        free(one.parallel.mesh);
        one.parallel.mesh = NULL;
        one.parallel.zero = 0;
    }
    free(one.parallel.shard);
    one.parallel.shard = NULL;
    weft_real_text(shares ? 1 : (double)mesh, text, sizeof(text));
    weft_joining joining = {.learners = *learners, .stop = stop};
    weft_status status = choose_layout(context, &one, &joining.plain_parameters);
    if (status == WEFT_OK) status = weft_options_set(table, &one, "ranks", text);
    if (before->known) {
        take_past(before, &joining);
        free(one.output.checkpoint); /* the run has gone on since its checkpoint */
        one.output.checkpoint = NULL;
        one.output.resume = one.output.drop_state = false;
    }
    if (status == WEFT_OK) status = weft_trainer_create_joining(context, &one, &joining, out);
    if (status == WEFT_OK) record_begin(*out, before);
    weft_options_free(table, &one);
    return status;
}

static weft_status find_config(weft_context *context, const weft_trainer *t,
                               const weft_train_options *o, const weft_exchange_ops *ops,
                               weft_elastic_config *config)
{
    void *data;
    size_t bytes;
    bool serves = WEFT_EXCHANGE_HAS(ops, serve);
    weft_optimizer_options optimizer;
    weft_store *store = t->runs[0].rank.store;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &config->dtype, &data, &bytes));
    weft_store_unmap_read(store, data);
    int64_t servers = o->parallel.servers;
    config->learners = t->learners;
    config->plain_parameters = t->run_spec.plain_parameters;
    config->layout = weft_store_form(store);
    config->count = (int64_t)(bytes / weft_dtype_size(config->dtype));
    config->servers = serves ? (int)WEFT_MIN(WEFT_MAX(servers, 1), WEFT_MAX(config->count, 1)) : 0;
    config->steps = t->total_steps;
    config->begun = t->begun;
    config->place = t->place;
    if (serves && (o->parallel.compress || o->parallel.compress_downlink))
        WEFT_TRY(weft_parameter_gaps(store, &config->gaps));
    WEFT_TRY(weft_optimizer_chosen(context, o, &t->place, &optimizer));
    if (serves && ops->owns_update)
        WEFT_TRY(weft_segments_of(store, &optimizer, config->servers, &config->segments));
    WEFT_TRY(weft_train_options_copy(context, o, &config->options));
    WEFT_TRY(weft_strdup(t->options.where.device, &config->device));
    if (o->parallel.mesh) WEFT_TRY(weft_strdup(o->parallel.mesh, &config->mesh));
    if (t->tuning.size > 0)
        WEFT_TRY(weft_format(&config->tuning, "%.*s", (int)t->tuning.size,
                             (const char *)t->tuning.data));
    if (t->model.size == 0) return WEFT_OK;
    return weft_format(&config->model, "%.*s", (int)t->model.size, (const char *)t->model.data);
}

static int64_t count_starts(void *line, bool server, int slot)
{
    return weft_status_page_starts(line, server ? WEFT_PART_SERVER : WEFT_PART_LEARNER, slot);
}

weft_status weft_coordinator_run(weft_context *context, const weft_cluster_options *o,
                                 const weft_stop *stop, weft_cluster_fn tell, void *user)
{
    WEFT_NEED_AS("context, options", context, o);
    WEFT_TRY(weft_cluster_options_check(context, o));
    weft_net_context *world;
    weft_trainer *t = NULL;
    weft_elastic_config config = {.dtype = WEFT_F32};
    weft_text text = {0};
    int learners = 0;
    past before;
    const weft_exchange_ops *ops;
    weft_waiting waiting = {context, stop, o->train.job.timeout};
    WEFT_TRY(weft_exchange_is_elastic(context, o->train.parallel.exchange, &ops));
    WEFT_TRY(weft_coordinator_check(&o->train, ops));
    WEFT_TRY(weft_elastic_enter(context, o, &world));
    WEFT_TRY(check_allowed(world, o));
    read_past(&before);
    weft_status status = look_at_run(context, &o->train, stop, &before, &learners, &t);
    if (status == WEFT_OK) status = find_config(context, t, &o->train, ops, &config);
    if (status == WEFT_OK) status = weft_elastic_config_write(context, &config, &text);
    if (status == WEFT_OK) {
        weft_trainer_release(t);
        weft_trim_memory();
        weft_coordinating what = {.listen = o->listen ? o->listen : HERE,
                                  .learners = learners,
                                  .servers = config.servers,
                                  .dtype = config.dtype,
                                  .count = config.count,
                                  .segments = config.segments,
                                  .replicas = o->train.parallel.replicas > 0,
                                  .failure_timeout = o->failure_timeout,
                                  .job = weft_job_slot() >= 0,
                                  .starts = weft_job_slot() >= 0 ? count_starts : NULL,
                                  .line = &t->line,
                                  .model = t->link.model,
                                  .data = t->link.data,
                                  .parameters = config.layout,
                                  .checkpoint = t->link.checkpoint,
                                  .step = t->link.step,
                                  .steps = t->total_steps,
                                  .done = before.step,
                                  .exchange = o->train.parallel.exchange,
                                  .advice = weft_coordinator_advice(&o->train),
                                  .configuration = text.data,
                                  .bytes = text.size,
                                  .tell = tell,
                                  .user = user};
        status = weft_coordinator_process(&waiting, world, &what);
    }
    free(text.data);
    weft_elastic_config_free(context, &config);
    weft_trainer_destroy(&t);
    return status;
}
