/* Builds the actors of fuzz_messages.c, and the runtime (host) that holds their messages back. */
#include "messages.h"

static weft_context *context;

/* --- the host --- */

static double host_now(weft_runtime *host)
{
    return ((cluster *)host)->now;
}

static weft_status host_send(weft_actor *from, weft_actor_id to, const weft_message *message)
{
    cluster *c = (cluster *)from->host;
    if (c->message_count == HELD) return WEFT_OK; /* a full queue loses the message */
    held *h = &c->messages[c->message_count++];
    *h = (held){
        .from = from->id, .to = to, .type = message->type, .head_bytes = message->head_bytes};
    if (message->head_bytes > sizeof(h->head)) abort();
    if (message->head_bytes) memcpy(h->head, message->head, message->head_bytes);
    h->payload = weft_buffer_ref(message->payload);
    return WEFT_OK;
}

static weft_status host_set_timer(weft_actor *actor, int timer, double seconds)
{
    (void)actor;
    if (timer < 0 || timer >= WEFT_ACTOR_TIMERS || seconds != seconds) abort();
    return WEFT_OK;
}

static weft_status host_compute(weft_actor *actor, int64_t ticket)
{
    cluster *c = (cluster *)actor->host;
    if (c->computes[actor->id]) abort();
    c->computes[actor->id] = true;
    c->tickets[actor->id] = ticket;
    return WEFT_OK;
}

static weft_status host_know(weft_runtime *host, weft_actor_id id, const char *address)
{
    (void)host;
    (void)id;
    if (!*address) abort();
    return WEFT_OK;
}

static void host_forget(weft_runtime *host, weft_actor_id id)
{
    (void)host;
    (void)id;
}

static bool host_bind(weft_runtime *host, weft_actor_id id, const char *address)
{
    (void)host;
    return id != 0 && address;
}

static const char *host_address(weft_runtime *host)
{
    (void)host;
    return "inproc://here";
}

static const weft_runtime_ops host_ops = {host_now,  host_send,   host_set_timer, host_compute,
                                          host_know, host_forget, host_bind,      host_address,
                                          NULL,      NULL};

/* --- actors --- */

static weft_status descend(void *user, void *parameters, const void *mean, double rate)
{
    (void)user;
    (void)rate;
    for (int i = 0; i < COUNT / RANGES; i++)
        ((float *)parameters)[i] -= 0.125F * ((const float *)mean)[i];
    return WEFT_OK;
}

static weft_status open_range(void *user, int number, weft_served *out)
{
    static const struct {
        const char *name, *scale;
        double count, bound;
    } policies[][RANGES] = {
        {{"bsp", NULL, -1, -1}, {"async", "inverse", -1, -1}},
        {{"softsync", NULL, 2, -1}, {"ssp", "exp", -1, 3}},
    };
    weft_policy policy;
    const cluster *c = user;
    if (number >= RANGES) return weft_fail(WEFT_ERR_FORMAT, "there is no range %d", number);
    WEFT_TRY(weft_policy_make(context, policies[c->kind][number].name,
                              policies[c->kind][number].count, policies[c->kind][number].bound,
                              policies[c->kind][number].scale, -1, &policy));
    weft_range_options o = {.struct_size = sizeof(o),
                            .policy = policy,
                            .dtype = WEFT_F32,
                            .count = COUNT / RANGES,
                            .update = descend};
    return weft_range_create(&o, &out->range);
}

static weft_member_options member_of(int id)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = (uint64_t)id,
                                 .requested_slot = -1,
                                 .heartbeat_interval = 1};
}

static void make_coordinator(cluster *c)
{
    weft_coordinator_options o = {.struct_size = sizeof(o),
                                  .run = 1,
                                  .expected = {2, 2},
                                  .ranges = RANGES,
                                  .replicas = true,
                                  .limit = 2};
    if (c->elastic) o.expected[WEFT_MEMBER_LEARNER] = ACTORS - PEER;
    if (c->elastic) o.expected[WEFT_MEMBER_SERVER] = o.ranges = 0;
    o.replicas = !c->elastic;
    must(weft_coordinator_create(&o, &c->actors[COORDINATOR]));
}

static void make_server(cluster *c, int id)
{
    weft_server_options o = {.struct_size = sizeof(o),
                             .member = member_of(id),
                             .first_timeout = 1,
                             .open = open_range,
                             .user = c};
    must(weft_server_create(&o, &c->actors[id]));
}

static weft_status take_state(void *user, int range, const void *data, size_t bytes)
{
    (void)user;
    (void)data;
    if (range < 0 || range >= RANGES) abort();
    return bytes == 0 ? WEFT_OK : weft_fail(WEFT_ERR_FORMAT, "no state is kept here");
}

static void make_learner(cluster *c, int id)
{
    static const char *const specs[RANGES] = {"none", "topk:ratio=0.3"};
    for (int k = 0; k < RANGES; k++) {
        must(weft_codec_open(context, specs[k], WEFT_F32, COUNT / RANGES, &c->codecs[id][k]));
        c->reach[id][k] =
            (weft_server_range){k * COUNT / RANGES, COUNT / RANGES, c->codecs[id][k], false};
    }
    weft_ps_client_options o = {.struct_size = sizeof(o),
                                .member = member_of(id),
                                .dtype = WEFT_F32,
                                .ranges = c->reach[id],
                                .range_count = RANGES,
                                .steps = 1000,
                                .parameters = c->parameters[id],
                                .gradients = c->gradients,
                                .first_timeout = 1,
                                .take_state = take_state};
    must(weft_ps_client_create(&o, &c->actors[id]));
}

static void create_peer(cluster *c, int id, weft_peer_options *o)
{
    must(weft_codec_open(context, "threshold:tau=0.25", WEFT_F32, COUNT, &c->codecs[id][0]));
    o->codec = c->codecs[id][0];
    o->dtype = WEFT_F32;
    o->count = COUNT;
    o->parameters = c->parameters[id];
    o->steps = 1000;
    o->min_rto = 1;
    must(weft_peer_create(o, &c->actors[id]));
}

static void make_peer(cluster *c, int id, const weft_peer_mode *mode)
{
    int first = mode == &weft_peer_updates ? PEER : NEIGHBOUR;
    /* The topology has three peers, but only two of each mode are created; the third one is
     * absent. */
    if (!c->topologies[mode == &weft_peer_average].list)
        must(weft_topology_make("all", 3, mode == &weft_peer_average, 1,
                                &c->topologies[mode == &weft_peer_average]));
    weft_peer_options o = {.struct_size = sizeof(o),
                           .mode = mode,
                           .me = id - first,
                           .first = (weft_actor_id)first,
                           .topology = &c->topologies[mode == &weft_peer_average]};
    create_peer(c, id, &o);
}

static void make_comer(cluster *c, int id)
{
    weft_peer_options o = {.struct_size = sizeof(o),
                           .mode = c->mode,
                           .topology_name = "ring",
                           .member = member_of(id)};
    create_peer(c, id, &o);
}

static void make_job(cluster *c)
{
    make_server(c, SERVER);
    make_server(c, OTHER_SERVER);
    make_learner(c, LEARNER);
    make_learner(c, OTHER_LEARNER);
    for (int id = PEER; id < ACTORS; id++)
        make_peer(c, id, id < NEIGHBOUR ? &weft_peer_updates : &weft_peer_average);
}

void cluster_begin(cluster *c, int kind)
{
    if (!context) must(weft_context_create(&context));
    c->host.ops = &host_ops;
    for (int i = 0; i < COUNT; i++) c->gradients[i] = 0.25F * (float)(i % 5 - 2);
    c->kind = kind & 1;
    c->elastic = kind & 4;
    c->mode = kind & 8 ? &weft_peer_average : &weft_peer_updates;
    make_coordinator(c);
    if (!c->elastic) make_job(c);
    for (int id = PEER; id < ACTORS && c->elastic; id++) make_comer(c, id);
    for (int i = 0; i < ACTORS; i++) {
        if (!c->actors[i]) continue;
        c->actors[i]->host = &c->host;
        c->actors[i]->id = (weft_actor_id)i;
        must(c->actors[i]->ops->begin(c->actors[i]));
    }
}

void cluster_forget(cluster *c, int i)
{
    weft_buffer_unref(&c->messages[i].payload);
    c->message_count--;
    memmove(c->messages + i, c->messages + i + 1, (size_t)(c->message_count - i) * sizeof(held));
}

void cluster_end(cluster *c)
{
    while (c->message_count > 0) cluster_forget(c, c->message_count - 1);
    for (int i = 0; i < ACTORS; i++) {
        if (c->actors[i]) c->actors[i]->ops->destroy(c->actors[i]);
        for (int k = 0; k < RANGES; k++) weft_codec_close(&c->codecs[i][k]);
    }
    for (int i = 0; i < 2; i++) weft_topology_free(&c->topologies[i]);
}
