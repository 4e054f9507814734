/* Runs a server of an elastic run, and a learner that joins or joins again. Both ask the
 * coordinator for the run configuration first. */
#include "train/elastic/elastic.h"

#include "compress/compress.h"
#include "device/device.h"
#include "exchange/exchange.h"
#include "weft/device.h"

/* --- keys --- */

static weft_status take_keys(weft_net_context *world, const weft_cluster_options *o)
{
    weft_key secret;
    if (o->open_unencrypted && o->key)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "key and open-unencrypted contradict each other; leave one of them out");
    if (o->open_unencrypted) weft_net_context_allow_unencrypted(world);
    if (!o->key) return WEFT_OK;
    WEFT_TRY(weft_key_load(o->key, &secret));
    WEFT_TRY(weft_net_context_set_keys(world, &secret));
    return o->allow ? weft_net_context_allow_file(world, o->allow) : WEFT_OK;
}

weft_status weft_elastic_enter(weft_context *context, const weft_cluster_options *o,
                               weft_net_context **world)
{
    WEFT_TRY(weft_net_context_of(context, world));
    return take_keys(*world, o);
}

/* --- joining --- */

static weft_status check_address(const char *address)
{
    if (*address) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "the address of the coordinator is empty; give HOST:PORT");
}

static weft_status fetch_config(weft_context *context, const char *address, weft_asking what,
                                const weft_cluster_options *o, const weft_stop *stop, uint64_t run,
                                weft_invitation *invitation, weft_elastic_config *config)
{
    weft_net_context *world;
    weft_waiting waiting = {context, stop, o->train.job.timeout};
    WEFT_TRY(weft_elastic_enter(context, o, &world));
    WEFT_TRY(weft_cluster_ask(&waiting, world, address, what, 0, weft_job_slot(), run, invitation));
    weft_status status = weft_elastic_config_read(context, invitation->configuration,
                                                  invitation->bytes, &o->train, config);
    if (status == WEFT_OK && (invitation->status.over || invitation->status.fault)) {
        status =
            weft_fail(WEFT_ERR_PEER, "the coordinator refuses this %s: %.300s",
                      what == WEFT_ASK_SLOT ? "learner" : "server",
                      invitation->status.fault ? invitation->status.fault : "this run is over");
        weft_elastic_config_free(context, config);
    }
    if (status != WEFT_OK) weft_invitation_free(invitation);
    return status;
}

/* A server that lacks a codec of the run is refused before it joins, since it could not read the
 * learners' messages. */
static weft_status check_codecs(weft_context *context, const weft_parallel_choice *o)
{
    if (o->compress) WEFT_TRY(weft_codec_check(context, o->compress));
    return o->compress_downlink ? weft_codec_check(context, o->compress_downlink) : WEFT_OK;
}

static weft_status serve(weft_context *context, const char *address, const weft_cluster_options *o,
                         const weft_stop *stop, const weft_elastic_config *config, uint64_t run,
                         weft_removal *removal)
{
    weft_net_context *world;
    weft_store *store;
    weft_optimizer_options optimizer;
    weft_waiting waiting = {context, stop, o->train.job.timeout};
    WEFT_TRY(weft_net_context_of(context, &world));
    WEFT_TRY(weft_optimizer_chosen(context, &config->options, &config->place, &optimizer));
    optimizer.clip_norm = 0;
    WEFT_TRY(weft_store_create(context, o->train.where.device, 0, &store));
    weft_serving serving = {.struct_size = sizeof(serving),
                            .context = context,
                            .store = store,
                            .optimizer = &optimizer,
                            .dtype = config->dtype,
                            .count = config->count,
                            .gaps = config->gaps,
                            .segments = config->segments,
                            .servers = config->servers,
                            .learners = config->learners,
                            .wished_slot = weft_job_slot() + 1,
                            .run = run,
                            .removal = removal,
                            .codec = config->options.parallel.compress,
                            .back = config->options.parallel.compress_downlink};
    optimizer.update = WEFT_UPDATE_HERE;
    char room[WEFT_ADDRESS];
    const char *listen = o->listen ? o->listen : weft_member_listens_at(world, address, room);
    weft_status status = weft_server_process(&waiting, world, config->options.parallel.exchange,
                                             address, listen, &serving);
    weft_store_destroy(&store);
    return status;
}

/* Joins the run of the coordinator once; *again: the coordinator was replaced between its answer
 * and the join, so the server has to ask for the options of the run again. */
static weft_status serve_run(weft_context *context, const char *address,
                             const weft_cluster_options *o, const weft_stop *stop, bool *again)
{
    weft_removal removal = {.removed = false};
    weft_invitation invitation;
    weft_elastic_config config;
    weft_context *own;
    WEFT_TRY(fetch_config(context, address, WEFT_ASK_TERMS, o, stop, 0, &invitation, &config));
    weft_status status = check_codecs(context, &config.options.parallel);
    if (status == WEFT_OK)
        status = weft_context_with_threads(context, (int)o->train.where.threads, &own);
    const weft_cluster_status *s = &invitation.status;
    if (status == WEFT_OK && weft_job_slot() < 0) /* a supervisor reports its servers itself */
        weft_log(context, WEFT_LOG_NOTE, "this server joins run %08llx: model %s, exchange %s",
                 (unsigned long long)(s->run & 0xffffffff), s->model, s->exchange);
    if (status == WEFT_OK) {
        status = serve(own, address, o, stop, &config, invitation.run, &removal);
        weft_context_destroy(&own);
    }
    *again = status == WEFT_ERR_PEER && atomic_load(&removal.ask_again);
    weft_elastic_config_free(context, &config);
    weft_invitation_free(&invitation);
    return status;
}

weft_status weft_server_run(weft_context *context, const char *address,
                            const weft_cluster_options *o, const weft_stop *stop)
{
    WEFT_NEED_AS("context, address, options", context, address, o);
    WEFT_TRY(weft_cluster_options_check(context, o));
    WEFT_TRY(check_address(address));
    bool again = true;
    weft_status status = WEFT_OK;
    while (again) {
        again = false;
        status = serve_run(context, address, o, stop, &again);
    }
    return status;
}

static weft_status accepts_connections(weft_context *context, const char *listen,
                                       const char *exchange)
{
    const weft_exchange_ops *ops;
    WEFT_TRY(weft_exchange_is_elastic(context, exchange, &ops));
    if (!WEFT_EXCHANGE_HAS(ops, serve)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "listen is '%s', but learners of exchange %s connect to servers and accept no "
                     "connections; leave --listen out (weft server takes it)",
                     listen, ops->name);
}

/* ARGUMENT: --listen is given to a learner that accepts no connections. Asks for the options of the
 * run alone, so that no slot is reserved for a learner that does not join. */
static weft_status check_listen(weft_context *context, const char *address,
                                const weft_cluster_options *o, const weft_stop *stop)
{
    weft_invitation invitation;
    weft_elastic_config config;
    if (!o->listen) return WEFT_OK;
    WEFT_TRY(fetch_config(context, address, WEFT_ASK_TERMS, o, stop, 0, &invitation, &config));
    weft_status status = accepts_connections(context, o->listen, config.options.parallel.exchange);
    weft_elastic_config_free(context, &config);
    weft_invitation_free(&invitation);
    return status;
}

/* One learner: without --mesh all ranks are on the data axis, as in a run of one learner. */
static weft_status take_mesh(weft_context *context, weft_train_options *o)
{
    char text[32];
    if (o->parallel.mesh || o->job.ranks < 2) return WEFT_OK;
    (void)snprintf(text, sizeof(text), "data=%lld", (long long)o->job.ranks);
    return weft_options_set(weft_train_table(context), o, "mesh", text);
}

/* Sets *out to the message of a learner whose parameters cannot be laid out as those of the run. */
static weft_status explain_layout(const weft_elastic_config *run, char **out)
{
    const weft_train_options *o = &run->options;
    const char *mine = o->parallel.mesh ? o->parallel.mesh : "data=1";
    const char *theirs = run->mesh ? run->mesh : "data=1";
    weft_text text = {0};
    weft_text_add(&text,
                  "this learner lays its parameters out otherwise than the run: its device is '%s' "
                  "and its mesh '%s', those of the run are '%s' and '%s'",
                  o->where.device, mine, run->device, theirs);
    if (o->parallel.zero > 0)
        weft_text_add(&text, ", and --zero %lld cuts them by mesh and device",
                      (long long)o->parallel.zero);
    if (strcmp(mine, theirs) != 0 && o->parallel.zero > 0)
        weft_text_add(&text, "; give --mesh %s", theirs);
    if (strcmp(o->where.device, run->device) != 0)
        weft_text_add(&text, "; give --device %s, or start the coordinator with --device %s,%s",
                      run->device, run->device, o->where.device);
    return weft_text_take(&text, out);
}

/* Creates the trainer of a learner that joins. run: id of the run that the learner was a member of;
 * 0: it joins for the first time. */
static weft_status join(weft_context *context, const char *address, const weft_cluster_options *o,
                        const weft_stop *stop, uint64_t run, weft_trainer **out)
{
    weft_invitation invitation;
    weft_elastic_config config;
    WEFT_TRY(check_listen(context, address, o, stop));
    WEFT_TRY(fetch_config(context, address, WEFT_ASK_SLOT, o, stop, run, &invitation, &config));
    weft_joining joining = {.coordinator = address,
                            .listen = o->listen,
                            .slot = invitation.slot,
                            .run = invitation.run,
                            .learners = config.learners,
                            .model = config.model,
                            .tuning = config.tuning,
                            .plain_parameters = config.plain_parameters,
                            .layout = config.layout,
                            .begun = config.begun,
                            .steps = config.steps,
                            .place = config.place,
                            .job = weft_job_slot() >= 0,
                            .rejoins = run != 0,
                            .advises_rejoin = !o->rejoin && weft_job_slot() < 0};
    char *otherwise = NULL;
    weft_status status = take_mesh(context, &config.options);
    if (status == WEFT_OK && config.device) status = explain_layout(&config, &otherwise);
    joining.otherwise = otherwise;
    joining.device = config.device;
    if (status == WEFT_OK && run && run != invitation.run)
        status = weft_fail(WEFT_ERR_PEER,
                           "the run from which this learner was removed is over, and the "
                           "coordinator at %s has begun another one; give weft join again to join "
                           "that one",
                           address);
    if (status == WEFT_OK)
        status = weft_trainer_create_joining(context, &config.options, &joining, out);
    free(otherwise);
    weft_elastic_config_free(context, &config);
    weft_invitation_free(&invitation);
    return status;
}

weft_status weft_trainer_join(weft_context *context, const char *address,
                              const weft_cluster_options *o, const weft_stop *stop,
                              weft_trainer **out)
{
    WEFT_NEED_AS("context, address, options, out", context, address, o, out);
    WEFT_TRY(weft_cluster_options_check(context, o));
    WEFT_TRY(check_address(address));
    return join(context, address, o, stop, 0, out);
}

weft_status weft_trainer_rejoin(weft_context *context, const char *address,
                                const weft_cluster_options *o, const weft_stop *stop,
                                weft_trainer **trainer)
{
    WEFT_NEED_AS("context, address, options, trainer", context, address, o, trainer);
    const weft_trainer *t = *trainer;
    WEFT_NEED_AS("*trainer", t);
    weft_status wrong = weft_cluster_options_check(context, o);
    if (wrong == WEFT_OK) wrong = check_address(address);
    if (wrong != WEFT_OK) {
        weft_trainer_destroy(trainer);
        return wrong;
    }
    uint64_t run = atomic_load(&t->removal.run);
    if (!run && t->rejoins) run = t->link.run; /* it was a member once, but not this time */
    weft_trainer_destroy(trainer);
    return join(context, address, o, stop, run, trainer);
}

bool weft_trainer_was_lost(const weft_trainer *t, double *quiet_seconds)
{
    WEFT_NEED_ELSE_AS(false, "trainer", t);
    if (quiet_seconds) *quiet_seconds = atomic_load(&t->removal.failure_timeout);
    return atomic_load(&t->removal.removed);
}

bool weft_trainer_was_overtaken(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(false, "trainer", t);
    return atomic_load(&t->removal.ask_again);
}

int weft_trainer_slot(const weft_trainer *t)
{
    WEFT_NEED_ELSE_AS(-1, "trainer", t);
    return t->link.slot;
}

weft_status weft_cluster_look(weft_context *context, const char *address,
                              const weft_cluster_options *o, const weft_stop *stop, uint32_t leave,
                              weft_cluster_status *out)
{
    WEFT_NEED_AS("context, address, options, out", context, address, o, out);
    WEFT_TRY(weft_cluster_options_check(context, o));
    WEFT_TRY(check_address(address));
    weft_net_context *world;
    weft_invitation invitation;
    weft_waiting waiting = {context, stop, o->train.job.timeout};
    WEFT_TRY(weft_elastic_enter(context, o, &world));
    WEFT_TRY(weft_cluster_ask(&waiting, world, address, WEFT_ASK_WHO, leave, -1, 0, &invitation));
    *out = invitation.status;
    invitation.status = (weft_cluster_status){0};
    weft_invitation_free(&invitation);
    return WEFT_OK;
}
