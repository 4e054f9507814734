/*
 * Letters that come to actors: of those who belong to them, in order, late, changed or made up, and
 * of strangers. A coordinator, servers with replicas, learners and peers of both modes live here on
 * a host that holds their letters back; the bytes say what comes next. Whatever that is: no actor
 * ends by it but by the word of the coordinator or of a server whom it has to believe, and none
 * keeps more than it has been given.
 */
#include "fuzz.h"

#include <sanitizer/allocator_interface.h>

#include "exchange/cluster/coordinator.h"
#include "exchange/gossip/gossip.h"
#include "exchange/server/server.h"
#include "exchange/wire.h"

enum { COUNT = 20, RANGES = 2, HELD = 64, MOST_PAYLOAD = 512 };
enum {
    COORDINATOR,
    SERVER,
    OTHER_SERVER,
    LEARNER,
    OTHER_LEARNER,
    PEER,
    OTHER_PEER,
    NEIGHBOUR,
    OTHER_NEIGHBOUR,
    ACTORS
};

/* A letter that was sent and not given to anybody yet. */
typedef struct held {
    weft_actor_id from, to;
    uint32_t type;
    size_t head_bytes;
    uint8_t head[1024];
    weft_blob *payload;
} held;

typedef struct cluster {
    weft_host host;
    int kind;              /* of policies */
    bool elastic;          /* all are peers that come and go by the coordinator */
    weft_gossip_mode mode; /* theirs */
    double now;
    weft_actor *actors[ACTORS]; /* NULL: it has ended */
    bool computes[ACTORS];
    int64_t tickets[ACTORS];
    float parameters[ACTORS][COUNT], gradients[COUNT];
    weft_codec *codecs[ACTORS][RANGES];
    weft_topology topologies[2]; /* of each mode */
    weft_server_range reach[ACTORS][RANGES];
    held letters[HELD];
    int letter_count;
    const uint8_t *data;
    size_t size;
} cluster;

static weft_context *context;

/* --- the host --- */

static double host_now(weft_host *host)
{
    return ((cluster *)host)->now;
}

static weft_status host_send(weft_actor *from, weft_actor_id to, const weft_letter *letter)
{
    cluster *c = (cluster *)from->host;
    if (c->letter_count == HELD) return WEFT_OK; /* lost */
    held *h = &c->letters[c->letter_count++];
    *h = (held){.from = from->id, .to = to, .type = letter->type, .head_bytes = letter->head_bytes};
    if (letter->head_bytes > sizeof(h->head)) abort();
    if (letter->head_bytes) memcpy(h->head, letter->head, letter->head_bytes);
    h->payload = weft_blob_hold(letter->payload);
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

static weft_status host_know(weft_host *host, weft_actor_id id, const char *address)
{
    (void)host;
    (void)id;
    if (!*address) abort();
    return WEFT_OK;
}

static const char *host_address(weft_host *host)
{
    (void)host;
    return "inproc://here";
}

static const weft_host_ops host_ops = {host_now,     host_send, host_set_timer,
                                       host_compute, host_know, host_address};

/* --- who is there --- */

static void must(weft_status status)
{
    if (status != WEFT_OK) abort();
}

static weft_status descend(void *user, void *parameters, const void *mean)
{
    (void)user;
    for (int i = 0; i < COUNT / RANGES; i++)
        ((float *)parameters)[i] -= 0.125F * ((const float *)mean)[i];
    return WEFT_OK;
}

static weft_status open_range(void *user, int number, weft_served *out)
{
    static const weft_policy policies[][RANGES] = {
        {{.count = 0, .bound = 0},
         {.count = 1, .bound = WEFT_NO_BOUND, .scale = WEFT_SCALE_INVERSE}},
        {{.count = 2, .bound = WEFT_NO_BOUND}, {.count = 1, .bound = 3, .scale = WEFT_SCALE_EXP}},
    };
    const cluster *c = user;
    if (number >= RANGES) return weft_fail(WEFT_ERR_FORMAT, "there is no range %d", number);
    weft_range_options o = {.struct_size = sizeof(o),
                            .policy = policies[c->kind][number],
                            .dtype = WEFT_F32,
                            .count = COUNT / RANGES,
                            .update = descend};
    return weft_range_create(&o, &out->range);
}

static weft_member_options member_of(int id)
{
    return (weft_member_options){
        .struct_size = sizeof(weft_member_options), .key = (uint64_t)id, .wish = -1, .beat = 1};
}

static void make_coordinator(cluster *c)
{
    weft_coordinator_options o = {.struct_size = sizeof(o),
                                  .run = 1,
                                  .expected = {2, 2, 0},
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
                             .patience = 1,
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
        c->reach[id][k] = (weft_server_range){k * COUNT / RANGES, COUNT / RANGES, c->codecs[id][k]};
    }
    weft_server_learner_options o = {.struct_size = sizeof(o),
                                     .member = member_of(id),
                                     .dtype = WEFT_F32,
                                     .ranges = c->reach[id],
                                     .range_count = RANGES,
                                     .steps = 1000,
                                     .parameters = c->parameters[id],
                                     .gradients = c->gradients,
                                     .patience = 1,
                                     .take_state = take_state};
    must(weft_server_learner_create(&o, &c->actors[id]));
}

static void make_peer(cluster *c, int id, weft_gossip_mode mode)
{
    int first = mode == WEFT_GOSSIP_UPDATES ? PEER : NEIGHBOUR;
    /* Of the three the third is never there. */
    if (!c->topologies[mode].list)
        must(weft_topology_make("all", 3, mode == WEFT_GOSSIP_AVERAGE, 1, &c->topologies[mode]));
    weft_peer_options o = {.struct_size = sizeof(o),
                           .mode = mode,
                           .me = id - first,
                           .first = (weft_actor_id)first,
                           .topology = &c->topologies[mode],
                           .dtype = WEFT_F32,
                           .count = COUNT,
                           .parameters = c->parameters[id],
                           .steps = 1000,
                           .patience = 1};
    must(weft_codec_open(context, "threshold:tau=0.25", WEFT_F32, COUNT, &c->codecs[id][0]));
    o.codec = c->codecs[id][0];
    must(weft_peer_create(&o, &c->actors[id]));
}

static void make_comer(cluster *c, int id)
{
    weft_peer_options o = {.struct_size = sizeof(o),
                           .mode = c->mode,
                           .shape = "ring",
                           .member = member_of(id),
                           .dtype = WEFT_F32,
                           .count = COUNT,
                           .parameters = c->parameters[id],
                           .steps = 1000,
                           .patience = 1};
    must(weft_codec_open(context, "threshold:tau=0.25", WEFT_F32, COUNT, &c->codecs[id][0]));
    o.codec = c->codecs[id][0];
    must(weft_peer_create(&o, &c->actors[id]));
}

static void make_job(cluster *c)
{
    make_server(c, SERVER);
    make_server(c, OTHER_SERVER);
    make_learner(c, LEARNER);
    make_learner(c, OTHER_LEARNER);
    for (int id = PEER; id < ACTORS; id++)
        make_peer(c, id, id < NEIGHBOUR ? WEFT_GOSSIP_UPDATES : WEFT_GOSSIP_AVERAGE);
}

static void begin(cluster *c, int kind)
{
    c->host.ops = &host_ops;
    for (int i = 0; i < COUNT; i++) c->gradients[i] = 0.25F * (float)(i % 5 - 2);
    c->kind = kind & 1;
    c->elastic = kind & 4;
    c->mode = kind & 8 ? WEFT_GOSSIP_AVERAGE : WEFT_GOSSIP_UPDATES;
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

static void forget(cluster *c, int i)
{
    weft_blob_drop(&c->letters[i].payload);
    c->letter_count--;
    memmove(c->letters + i, c->letters + i + 1, (size_t)(c->letter_count - i) * sizeof(held));
}

static void end(cluster *c)
{
    while (c->letter_count > 0) forget(c, c->letter_count - 1);
    for (int i = 0; i < ACTORS; i++) {
        if (c->actors[i]) c->actors[i]->ops->destroy(c->actors[i]);
        for (int k = 0; k < RANGES; k++) weft_codec_close(&c->codecs[i][k]);
    }
    for (int i = 0; i < 2; i++) weft_topology_free(&c->topologies[i]);
}

/* --- what comes --- */

static uint8_t next(cluster *c)
{
    if (c->size == 0) return 0;
    c->size--;
    return *c->data++;
}

/* Of whom an actor must believe what he says, so that it may end by it. */
static bool is_believed(const cluster *c, int id, weft_actor_id from)
{
    if (c->elastic) return id >= PEER && (from == COORDINATOR || from >= PEER);
    bool server = from == SERVER || from == OTHER_SERVER;
    return id >= SERVER && id <= OTHER_LEARNER && (from == COORDINATOR || server);
}

static void judge(cluster *c, int id, weft_status status, bool believed)
{
    if (status == WEFT_OK) return;
    if (!believed) abort();
    c->actors[id]->ops->destroy(c->actors[id]);
    c->actors[id] = NULL;
}

static void deliver(cluster *c, int to, const weft_letter *letter)
{
    if (to >= ACTORS || !c->actors[to] || c->actors[to]->done || (int)letter->from == to) return;
    judge(c, to, c->actors[to]->ops->letter(c->actors[to], letter),
          is_believed(c, to, letter->from));
}

/* One that was sent, as it is or with a byte changed. */
static void deliver_held(cluster *c, int i, bool bent)
{
    if (i >= c->letter_count) return;
    held h = c->letters[i];
    weft_blob *payload = NULL;
    weft_letter letter = {h.from, h.type, h.head, h.head_bytes, h.payload};
    if (bent && h.payload) {
        size_t at = (size_t)next(c) | (size_t)next(c) << 8;
        must(weft_blob_new(h.payload->bytes, &payload));
        memcpy(payload->data, h.payload->data, h.payload->bytes);
        if (payload->bytes) ((uint8_t *)payload->data)[at % payload->bytes] = next(c);
        payload->bytes -= payload->bytes ? next(c) % payload->bytes : 0;
        letter.payload = payload;
    } else if (bent && h.head_bytes) {
        h.head[next(c) % h.head_bytes] = next(c);
    }
    weft_blob_hold(h.payload);
    deliver(c, (int)h.to, &letter);
    weft_blob_drop(&h.payload);
    weft_blob_drop(&payload);
}

static void deliver_made_up(cluster *c, int to)
{
    weft_blob *payload = NULL;
    uint8_t from = next(c), type = next(c), head_bytes = next(c), unit = next(c);
    size_t payload_bytes = WEFT_MIN((size_t)unit * 4, (size_t)MOST_PAYLOAD);
    weft_letter letter = {.from = from, .type = type, .head = c->data};
    letter.head_bytes = WEFT_MIN((size_t)head_bytes, c->size);
    c->data += letter.head_bytes;
    c->size -= letter.head_bytes;
    payload_bytes = WEFT_MIN(payload_bytes, c->size);
    if (unit) {
        must(weft_blob_new(payload_bytes, &payload));
        memcpy(payload->data, c->data, payload_bytes);
        c->data += payload_bytes;
        c->size -= payload_bytes;
    }
    letter.payload = payload;
    deliver(c, to, &letter);
    weft_blob_drop(&payload);
}

static void compute(cluster *c, int id)
{
    if (!c->computes[id] || !c->actors[id]) return;
    c->computes[id] = false;
    for (int i = 0; i < COUNT && id >= PEER; i++) c->parameters[id][i] += c->gradients[i];
    weft_actor *a = c->actors[id];
    if (id < PEER && next(c) % 2) judge(c, id, a->ops->part(a, c->tickets[id], 1), false);
    judge(c, id, a->ops->computed(a, c->tickets[id]), false);
}

static void go_on(cluster *c)
{
    uint8_t what = next(c);
    int id = (what >> 3) % ACTORS, i = next(c);
    weft_actor *a = id < ACTORS ? c->actors[id] : NULL;
    c->now += 0.01;
    switch (what & 7) {
    case 0:
    case 1: /* the oldest, which is then gone, or any, which comes again */
        deliver_held(c, what & 1 ? i % HELD : 0, false);
        if (!(what & 1) && c->letter_count) forget(c, 0);
        break;
    case 2: deliver_held(c, i % HELD, true); break;
    case 3: deliver_made_up(c, id); break;
    case 4: /* a member has another timer, too */
        if (a && (id <= OTHER_LEARNER || c->elastic) && i & 1 && id != COORDINATOR)
            judge(c, id, a->ops->timer(a, WEFT_MEMBER_TIMER), c->elastic);
        else if (a)
            judge(c, id, a->ops->timer(a, 0), c->elastic);
        break;
    case 5: compute(c, id % ACTORS); break;
    case 6:
        if (c->letter_count) forget(c, i % c->letter_count);
        break;
    case 7:
        if (a && (id == LEARNER || id == OTHER_LEARNER))
            judge(c, id,
                  i & 1 ? weft_server_learner_fetch(a) : weft_server_learner_leave(a, i & 2, i & 4),
                  false);
        break;
    default: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!context && weft_context_create(&context) != WEFT_OK) return 0;
    cluster *c = calloc(1, sizeof(*c));
    if (!c || size == 0) {
        free(c);
        return 0;
    }
    begin(c, data[0]);
    while (c->letter_count > 0 && c->letter_count < HELD && data[0] & 2) { /* all have come */
        deliver_held(c, 0, false);
        forget(c, 0);
    }
    c->data = data + 1;
    c->size = size - 1;
    size_t at_first = __sanitizer_get_current_allocated_bytes();
    while (c->size > 0) {
        size_t left = c->size;
        go_on(c);
        size_t now = __sanitizer_get_current_allocated_bytes();
        /* A letter of a few hundred bytes, at most, for each two that have been read, and how often
         * each staleness was met, for the ranges of both servers. */
        size_t counts = (size_t)2 * RANGES * 2 * WEFT_MOST_STALE * sizeof(int64_t);
        if (now > at_first + counts + (1 << 16) + 512 * (size - left)) abort();
    }
    end(c);
    free(c);
    return 0;
}
