/* Creates coordinator, servers and learners of a simulated run: the same actors as in a real run,
 * with ids as in a job: 0 for the coordinator, then the servers from 1 on, then the learners. */
#include "exchange/simulated.h"
#include "exchange/ps/ps_exchange.h"

/* Data of a learner for local SGD or elastic averaging between its steps. */
typedef struct meanwhile {
    weft_local_sgd *descent; /* between two pulls; NULL: none */
    void *served, *force;    /* elastic averaging: the centre as last pulled; the next push */
} meanwhile;

/* Seconds between two heartbeats, whose answers also bring lost views again. */
static const double BEAT = 60;

/* A server opens ranges of its own, as a primary or a replica. */
typedef struct sim_server {
    struct sim_servers *of;
    weft_range_factory *ranges;
} sim_server;

typedef struct sim_servers {
    weft_sim_exchange head;
    weft_ps_options options;
    /* The exchange state of one learner for a checkpoint; only the fields that server_state.c
     * reads are set. `codec_states` also has the padding. */
    weft_ps_exchange saved;
    int stored_learner;   /* the learner whose codec state is in `saved`, plus 1; 0: none */
    meanwhile *meanwhile; /* [learners] */
    int servers, range_count;
    struct sim_server *hosts; /* [servers] */
    weft_server_range *reach; /* [learners][range_count]: the ranges with the codecs of a learner */
    double updates, *staleness; /* of all ranges: number of updates; histogram of their staleness */
    size_t staleness_count, staleness_capacity;
} sim_servers;

static void stop_meanwhile(meanwhile *m)
{
    weft_local_sgd_close(&m->descent);
    free(m->served);
    free(m->force);
    *m = (meanwhile){0};
}

static void sim_close(weft_sim_exchange *exchange)
{
    sim_servers *c = (sim_servers *)exchange;
    for (int i = 0; c->reach && i < c->head.sim_options.learners * c->range_count; i++)
        weft_codec_close(&c->reach[i].codec);
    for (int i = 0; c->meanwhile && i < c->head.sim_options.learners; i++)
        stop_meanwhile(&c->meanwhile[i]);
    for (int i = 0; i < c->saved.state_count; i++) free(c->saved.states[i].data);
    free(c->saved.states);
    free(c->saved.segments.at);
    free(c->saved.back);
    weft_codec_checkpoint_close(&c->saved.codec_states);
    free(c->meanwhile);
    for (int i = 0; c->hosts && i < c->servers; i++) free(c->hosts[i].ranges);
    free(c->hosts);
    free(c->reach);
    free(c->staleness);
    free(c);
}

static weft_actor_id learner_id(const sim_servers *c, int learner)
{
    return (weft_actor_id)(1 + c->servers + learner);
}

static int64_t begin_of(const sim_servers *c, int range)
{
    return weft_segments_cut(c->saved.segments, c->head.sim_options.count, range, c->range_count);
}

static weft_status open_range(void *user, int k, weft_served *out)
{
    const sim_server *host = user;
    const sim_servers *c = host->of;
    const weft_sim_exchange_options *s = &c->head.sim_options;
    WEFT_TRY(weft_range_factory_open(host->ranges, k, out));
    /* The range begins with the initial parameters, so that the result is defined before a learner
     * has initialized the range with the same values. */
    memcpy(weft_range_parameters(out->range),
           (const char *)s->parameters[0] + (size_t)begin_of(c, k) * weft_dtype_size(s->dtype),
           weft_range_bytes(out->range));
    return WEFT_OK;
}

static void close_range(void *user, int k)
{
    weft_range_factory_close(((const sim_server *)user)->ranges, k);
}

/* The factory of a server that has the range; the first one's if there is none. */
static const weft_range_factory *factory_of(const sim_servers *c, int k)
{
    int i = 0;
    while (i < c->servers && !weft_range_factory_range(c->hosts[i].ranges, k)) i++;
    return c->hosts[i < c->servers ? i : 0].ranges;
}

static weft_member_options member_of(weft_actor_id id, int slot)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = id,
                                 .requested_slot = slot,
                                 .heartbeat_interval = BEAT};
}

static weft_status make_coordinator(const sim_servers *c, weft_actor **out)
{
    weft_coordinator_options options = {.struct_size = sizeof(options),
                                        .run = 1,
                                        .expected = {c->head.sim_options.learners, c->servers},
                                        .ranges = c->range_count,
                                        .replicas = c->head.sim_options.replicas > 0,
                                        .limit = WEFT_NO_FAILURE_TIMEOUT};
    return weft_coordinator_create(&options, out);
}

static weft_status make_server(sim_servers *c, weft_actor_id id, weft_actor **out)
{
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = member_of(id, (int)id - 1),
                                   .first_timeout = 1,
                                   .open = open_range,
                                   .close = close_range,
                                   .user = &c->hosts[id - 1]};
    return weft_server_create(&options, out);
}

/* Allocates the data of learner i; a learner that restarts begins with new data. */
static weft_status start_meanwhile(const sim_servers *c, int i)
{
    const weft_sim_exchange_options *s = &c->head.sim_options;
    meanwhile *m = &c->meanwhile[i];
    size_t bytes = (size_t)s->count * weft_dtype_size(s->dtype);
    stop_meanwhile(m);
    if (!c->options.draw)
        return c->options.fetch > 1
                   ? weft_local_sgd_open(s->context, s->store, s->optimizer, s->dtype, s->count,
                                         c->saved.segments, &m->descent)
                   : WEFT_OK;
    WEFT_TRY(weft_new_aligned(bytes, &m->served));
    WEFT_TRY(weft_new_aligned(bytes, &m->force));
    memcpy(m->served, s->parameters[i], bytes);
    return WEFT_OK;
}

static weft_status make_learner(sim_servers *c, int i, weft_actor **out)
{
    const weft_sim_exchange_options *s = &c->head.sim_options;
    meanwhile *m = &c->meanwhile[i];
    bool draws = c->options.draw;
    WEFT_TRY(start_meanwhile(c, i));
    weft_server_range *reach = c->reach + (size_t)i * (size_t)c->range_count;
    const char *codec = weft_codec_back(s->codec, NULL);
    const weft_codec_ops *back;
    WEFT_TRY(weft_codec_find(s->context,
                             weft_range_factory_back(c->options.adds, s->codec, s->back), &back));
    for (int k = 0; k < c->range_count; k++) {
        reach[k] = (weft_server_range){
            .begin = begin_of(c, k),
            .count = begin_of(c, k + 1) - begin_of(c, k),
            .frozen = weft_segments_frozen(c->saved.segments, begin_of(c, k), begin_of(c, k + 1))};
        WEFT_TRY(weft_codec_open(s->context, codec, s->dtype, reach[k].count, &reach[k].codec));
        WEFT_TRY(weft_codec_checkpoint_exclude_padding(c->saved.codec_states, reach[k].codec,
                                                       reach[k].begin));
    }
    weft_ps_client_options options = {.struct_size = sizeof(options),
                                      .member = member_of(learner_id(c, i), i),
                                      .dtype = s->dtype,
                                      .back = back,
                                      .ranges = reach,
                                      .range_count = c->range_count,
                                      .steps = s->steps,
                                      .parameters = draws ? m->served : s->parameters[i],
                                      .gradients = s->gradients ? s->gradients[i] : m->force,
                                      .first_timeout = 1,
                                      .weight = s->weights ? &s->weights[i] : NULL,
                                      .empty = s->empty ? &s->empty[i] : NULL,
                                      .push = c->options.push,
                                      .fetch = c->options.fetch,
                                      .descent = m->descent,
                                      .elastic = {.options = draws ? &c->options : NULL,
                                                  .learners = s->learners,
                                                  .own = s->parameters[i],
                                                  .force = m->force}};
    return weft_ps_client_create(&options, out);
}

static weft_status sim_make(weft_sim_exchange *exchange, weft_actor_id id, weft_actor **out)
{
    sim_servers *c = (sim_servers *)exchange;
    if (id == WEFT_COORDINATOR) return make_coordinator(c, out);
    return (int)id <= c->servers ? make_server(c, id, out)
                                 : make_learner(c, (int)id - 1 - c->servers, out);
}

/* The parts of a computation are the ranges. With elastic averaging there are none, since learners
 * compute with parameters of their own. */
static bool sim_part(const weft_sim_exchange *exchange, int i, int64_t *begin, int64_t *count)
{
    const sim_servers *c = (const sim_servers *)exchange;
    if (c->options.draw || i >= c->range_count) return false;
    *begin = begin_of(c, i);
    *count = begin_of(c, i + 1) - *begin;
    return true;
}

/* Copies the optimizer state of range k into `saved`, as the pull of a learner that saves a
 * checkpoint would. */
static weft_status take_state(sim_servers *c, int k)
{
    int count;
    char *all, *to;
    const struct iovec *parts = weft_range_factory_states(factory_of(c, k), k, &count);
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    WEFT_TRY(weft_new_bytes(&all, 1, WEFT_MAX(bytes, (size_t)1)));
    to = all;
    for (int i = 0; i < count; i++) {
        memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    weft_status status = weft_ps_exchange_take_state(&c->saved, k, all, bytes);
    free(all);
    return status;
}

/* Copies the parameters of all ranges. After the run (`over`) all learners leave the ranges first,
 * so that no version waits for an update of a lost learner. */
static weft_status sim_result(weft_sim_exchange *exchange, bool over, void *parameters)
{
    sim_servers *c = (sim_servers *)exchange;
    char *to = parameters;
    c->stored_learner = 0;
    for (int k = 0; k < c->range_count; k++) {
        weft_range *range = weft_range_factory_range(factory_of(c, k), k);
        size_t size = weft_dtype_size(c->head.sim_options.dtype);
        if (!range) { /* the run has not begun */
            memcpy(to,
                   (const char *)c->head.sim_options.parameters[0] + (size_t)begin_of(c, k) * size,
                   (size_t)(begin_of(c, k + 1) - begin_of(c, k)) * size);
            to += (size_t)(begin_of(c, k + 1) - begin_of(c, k)) * size;
            continue;
        }
        for (int i = 0; over && i < c->head.sim_options.learners; i++)
            if (weft_range_clock(range, learner_id(c, i)) >= 0)
                WEFT_TRY(weft_range_leave(range, learner_id(c, i)));
        memcpy(to, weft_range_parameters(range), weft_range_bytes(range));
        to += weft_range_bytes(range);
        if (over) WEFT_TRY(take_state(c, k));
    }
    return WEFT_OK;
}

static bool sim_state(weft_sim_exchange *exchange, int learner, int i, weft_exchange_state *out)
{
    sim_servers *c = (sim_servers *)exchange;
    const weft_server_range *reach = c->reach + (size_t)learner * (size_t)c->range_count;
    for (int k = 0; k < c->range_count && c->stored_learner != learner + 1; k++)
        if (reach[k].codec)
            weft_codec_checkpoint_store(c->saved.codec_states, reach[k].codec, reach[k].begin);
    c->stored_learner = learner + 1;
    return weft_ps_exchange_state_at(&c->saved.head, i, out);
}

static weft_status count_staleness(sim_servers *c)
{
    c->updates = 0;
    c->staleness_count = 0;
    for (int k = 0; k < c->range_count; k++) {
        size_t size = 0;
        const weft_range *range = weft_range_factory_range(factory_of(c, k), k);
        const int64_t *counts = range ? weft_range_staleness(range, &size) : NULL;
        while (c->staleness_count < WEFT_MAX(size, (size_t)1)) {
            WEFT_TRY(WEFT_GROW(&c->staleness, &c->staleness_capacity, c->staleness_count));
            c->staleness[c->staleness_count++] = 0;
        }
        for (size_t i = 0; i < size; i++) {
            c->staleness[i] += (double)counts[i];
            c->updates += (double)counts[i];
        }
    }
    return WEFT_OK;
}

static bool sim_figure(weft_sim_exchange *exchange, int i, weft_series *out)
{
    sim_servers *c = (sim_servers *)exchange;
    if (i == 0 && count_staleness(c) != WEFT_OK) return false;
    const weft_series all[] = {{"server_updates", &c->updates, 1, false},
                               {"staleness", c->staleness, (int)c->staleness_count, true}};
    if (i >= (int)WEFT_COUNT(all)) return false;
    *out = all[i];
    return true;
}

static int sim_host(const weft_sim_exchange *exchange, weft_actor_id id)
{
    const sim_servers *c = (const sim_servers *)exchange;
    int learners = c->head.sim_options.learners, number = (int)id - 1;
    if (id == WEFT_COORDINATOR) return 0;
    return number < c->servers ? weft_ps_host_of(number, learners) : number - c->servers;
}

static const weft_sim_exchange_ops sim_ops = {
    .close = sim_close,
    .make = sim_make,
    .host = sim_host,
    .part = sim_part,
    .result = sim_result,
    .state = sim_state,
    .figure = sim_figure,
};

static weft_status open_ranges(sim_servers *c)
{
    const weft_sim_exchange_options *s = &c->head.sim_options;
    weft_range_factory_options options = {.context = s->context,
                                          .store = s->store,
                                          .optimizer = s->optimizer,
                                          .options = c->options,
                                          .dtype = s->dtype,
                                          .count = s->count,
                                          .range_count = c->range_count,
                                          .segments = c->saved.segments,
                                          .codec = s->codec,
                                          .back = s->back,
                                          .gaps =
                                              weft_codec_checkpoint_padding(c->saved.codec_states)};
    WEFT_TRY(WEFT_NEW(&c->hosts, c->servers));
    for (int i = 0; i < c->servers; i++) {
        c->hosts[i].of = c;
        WEFT_TRY(weft_range_factory_create(&options, &c->hosts[i].ranges));
    }
    return WEFT_OK;
}

static weft_status open_saved(sim_servers *c)
{
    const weft_sim_exchange_options *s = &c->head.sim_options;
    const char *back = weft_range_factory_back(c->options.adds, s->codec, s->back);
    weft_ps_exchange *x = &c->saved;
    WEFT_TRY(weft_codec_checkpoint_open(s->context, weft_codec_back(s->codec, NULL), back, s->store,
                                        NULL, &x->codec_states));
    WEFT_TRY(weft_codec_checkpoint_note_momentum(x->codec_states, s->context, s->store, s->codec,
                                                 s->optimizer));
    x->dtype = s->dtype;
    x->count = s->count;
    x->range_count = c->range_count;
    x->ranges = c->reach;
    WEFT_TRY(weft_strdup(back, &x->back));
    return c->options.adds ? WEFT_OK
                           : weft_ps_exchange_list_states(x, s->context, s->store, s->optimizer);
}

weft_status weft_ps_exchange_simulate(const weft_ps_options *options,
                                      const weft_sim_exchange_options *sim_options,
                                      weft_sim_exchange **out)
{
    sim_servers *c;
    WEFT_TRY(WEFT_NEW(&c, 1));
    c->head.ops = &sim_ops;
    c->head.sim_options = *sim_options;
    c->options = *options;
    c->servers = (int)WEFT_MIN(WEFT_MAX(sim_options->servers, 1), WEFT_MAX(sim_options->count, 1));
    c->head.actors = 1 + c->servers + sim_options->learners;
    c->head.first_learner = learner_id(c, 0);
    weft_status status = WEFT_OK;
    if (!options->adds)
        status = weft_segments_of(sim_options->store, sim_options->optimizer, c->servers,
                                  &c->saved.segments);
    int64_t period = options->push < 1 ? 1 : options->push;
    for (c->head.period = period; options->fetch > 1 && c->head.period % options->fetch;)
        c->head.period += period;
    double stands = (double)sim_options->count * (sim_options->scale > 0 ? sim_options->scale : 1);
    c->range_count = weft_segments_ranges(c->saved.segments, (int64_t)(stands + 0.5),
                                          sim_options->dtype, c->servers);
    c->range_count =
        (int)WEFT_MIN((int64_t)c->range_count, WEFT_MAX(sim_options->count, (int64_t)1));
    if (status == WEFT_OK)
        status = WEFT_NEW(&c->reach, (size_t)c->range_count * (size_t)sim_options->learners);
    if (status == WEFT_OK) status = open_saved(c);
    if (status == WEFT_OK) status = open_ranges(c);
    if (status == WEFT_OK) status = WEFT_NEW(&c->meanwhile, sim_options->learners);
    if (status == WEFT_OK)
        *out = &c->head;
    else
        sim_close(&c->head);
    return status;
}
