/* One actor over ZeroMQ. A socket of its own takes in what others send, and answers them; for each
 * actor that is written to first there is one that goes to it. */
#include "actor/net.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#include "actor/address.h"
#include "actor/envelope.h"

enum { QUEUE = 1000, LINGER_MS = 1000, HEARTBEAT_MS = 1000, NAME_BYTES = 5 };

struct weft_net_world {
    void *zmq;
    uint64_t token;
};

/* Another actor. */
typedef struct far {
    weft_actor_id id;
    char *address; /* NULL: only through what it opened */
    void *socket;  /* to it; NULL: none yet */
} far;

struct weft_net {
    weft_host host;
    weft_net_world *world;
    weft_actor *actor;
    void *door;   /* NULL: nobody else comes in */
    char *places; /* where others reach it; NULL: nowhere */
    far *fars;
    size_t far_count, far_capacity;
    zmq_pollitem_t *polls;
    size_t poll_capacity;
    double timers[WEFT_ACTOR_TIMERS]; /* when they run out; INFINITY: never */
    bool wants;
    int64_t ticket;
    weft_net_report report;
};

static weft_status fail_zmq(const char *what)
{
    return weft_fail(WEFT_ERR_IO, "%s: %s", what, zmq_strerror(zmq_errno()));
}

weft_status weft_net_world_create(weft_net_world **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = WEFT_OK;
    (*out)->zmq = zmq_ctx_new();
    if (!(*out)->zmq) status = fail_zmq("ZeroMQ does not start");
    if (getentropy(&(*out)->token, sizeof((*out)->token)) != 0 && status == WEFT_OK)
        status = weft_fail(WEFT_ERR_IO, "the system gives no random numbers: %s", strerror(errno));
    if (status != WEFT_OK) weft_net_world_destroy(out);
    return status;
}

void weft_net_world_destroy(weft_net_world **world)
{
    if (!world || !*world) return;
    if ((*world)->zmq) zmq_ctx_term((*world)->zmq);
    free(*world);
    *world = NULL;
}

static weft_status make_world(void **out)
{
    return weft_net_world_create((weft_net_world **)out);
}

static void destroy_world(void *kept)
{
    weft_net_world *world = kept;
    weft_net_world_destroy(&world);
}

weft_status weft_net_world_of(weft_context *context, weft_net_world **out)
{
    static const weft_kept_kind kind = {make_world, destroy_world};
    void *kept;
    WEFT_TRY(weft_context_keep(context, &kind, &kept));
    *out = kept;
    return WEFT_OK;
}

uint64_t weft_net_world_token(const weft_net_world *world)
{
    return world->token;
}

/* --- sockets --- */

/* What a socket calls itself to the other side: it may not begin with a zero byte. */
static void name_of(weft_actor_id id, char name[NAME_BYTES])
{
    name[0] = 'W';
    memcpy(name + 1, &id, sizeof(id));
}

static weft_status open_socket(const weft_net *net, int kind, void **out)
{
    char name[NAME_BYTES];
    int linger = LINGER_MS, queue = QUEUE, beat = HEARTBEAT_MS, one = 1;
    void *socket = zmq_socket(net->world->zmq, kind);
    if (!socket) return fail_zmq("a socket cannot be opened");
    name_of(net->actor->id, name);
    bool done =
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger)) == 0 &&
        zmq_setsockopt(socket, ZMQ_SNDHWM, &queue, sizeof(queue)) == 0 &&
        zmq_setsockopt(socket, ZMQ_RCVHWM, &queue, sizeof(queue)) == 0 &&
        zmq_setsockopt(socket, ZMQ_HEARTBEAT_IVL, &beat, sizeof(beat)) == 0 &&
        (kind == ZMQ_ROUTER ? zmq_setsockopt(socket, ZMQ_ROUTER_HANDOVER, &one, sizeof(one))
                            : zmq_setsockopt(socket, ZMQ_ROUTING_ID, name, sizeof(name))) == 0;
    if (done) {
        *out = socket;
        return WEFT_OK;
    }
    weft_status status = fail_zmq("a socket cannot be set up");
    zmq_close(socket);
    return status;
}

static far *find_far(const weft_net *net, weft_actor_id id)
{
    for (size_t i = 0; i < net->far_count; i++)
        if (net->fars[i].id == id) return &net->fars[i];
    return NULL;
}

weft_status weft_net_know(weft_net *net, weft_actor_id id, const char *list)
{
    far *f = find_far(net, id);
    char *address;
    WEFT_TRY(weft_address_choose(list, net->world->token, &address));
    if (!address) return WEFT_OK;
    if (!f) {
        weft_status status = WEFT_GROW(&net->fars, &net->far_capacity, net->far_count);
        if (status != WEFT_OK) {
            free(address);
            return status;
        }
        f = &net->fars[net->far_count++];
        *f = (far){.id = id};
    }
    if (f->address && strcmp(f->address, address) == 0) {
        free(address);
        return WEFT_OK;
    }
    if (f->socket) zmq_close(f->socket);
    f->socket = NULL;
    free(f->address);
    f->address = address;
    return WEFT_OK;
}

static weft_status connect_to(weft_net *net, far *f)
{
    WEFT_TRY(open_socket(net, ZMQ_DEALER, &f->socket));
    if (zmq_connect(f->socket, f->address) == 0) return WEFT_OK;
    weft_status status =
        weft_fail(WEFT_ERR_IO, "cannot go to %s: %s", f->address, zmq_strerror(zmq_errno()));
    zmq_close(f->socket);
    f->socket = NULL;
    return status;
}

/* --- letters out --- */

static void drop_hold(void *data, void *hint)
{
    weft_blob *blob = hint;
    (void)data;
    weft_blob_drop(&blob);
}

static bool send_frame(void *socket, const void *data, size_t bytes, bool more)
{
    return zmq_send(socket, data, bytes, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

/* Between threads a payload goes without a copy. ZeroMQ orders what was written before it is sent
 * and what reads it, but it is not built for the thread sanitizer, which has to be told. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define PAYLOAD_LEAVES(data) __tsan_release(data)
#define PAYLOAD_COMES(data) __tsan_acquire(data)
#else
#define PAYLOAD_LEAVES(data) ((void)(data))
#define PAYLOAD_COMES(data) ((void)(data))
#endif

/* Without a copy: the message holds the blob until it has left. */
static bool send_blob(void *socket, weft_blob *blob)
{
    zmq_msg_t message;
    PAYLOAD_LEAVES(blob->data);
    if (zmq_msg_init_data(&message, blob->data, blob->bytes, drop_hold, weft_blob_hold(blob)) !=
        0) {
        drop_hold(NULL, blob);
        return false;
    }
    if (zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0) return true;
    zmq_msg_close(&message);
    return false;
}

/* The first frame may find no room; those after it belong to it and do. */
static bool send_letter(void *socket, const char *name, const weft_envelope *envelope,
                        const weft_letter *letter)
{
    uint8_t head[WEFT_ENVELOPE_BYTES];
    weft_envelope_write(envelope, head);
    if (name && !send_frame(socket, name, NAME_BYTES, true)) return false;
    if (!send_frame(socket, head, sizeof(head), true)) return false;
    if (!send_frame(socket, letter->head, letter->head_bytes, letter->payload)) return false;
    return !letter->payload || send_blob(socket, letter->payload);
}

static weft_status net_send(weft_actor *from, weft_actor_id to, const weft_letter *letter)
{
    weft_net *net = (weft_net *)from->host;
    weft_envelope envelope = weft_envelope_of(from->id, to, letter);
    char name[NAME_BYTES];
    far *f = find_far(net, to);
    name_of(to, name);
    if (f && f->address && !f->socket) WEFT_TRY(connect_to(net, f));
    bool there = f && f->socket ? send_letter(f->socket, NULL, &envelope, letter)
                 : net->door    ? send_letter(net->door, name, &envelope, letter)
                                : false;
    net->report.sent += there;
    net->report.dropped += !there;
    if (there) net->report.bytes_sent += weft_envelope_total(&envelope);
    return WEFT_OK;
}

/* --- letters in --- */

static void close_message(void *of, void *data)
{
    (void)data;
    zmq_msg_close(of);
    free(of);
}

/* What came, without a copy unless it lies crooked. */
static weft_status take_payload(zmq_msg_t *message, weft_blob **out)
{
    size_t bytes = zmq_msg_size(message);
    void *data = zmq_msg_data(message);
    zmq_msg_t *own;
    if ((uintptr_t)data % 8) {
        WEFT_TRY(weft_blob_new(bytes, out));
        memcpy((*out)->data, data, bytes);
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_NEW(&own, 1));
    zmq_msg_init(own);
    zmq_msg_move(own, message);
    return weft_blob_wrap(zmq_msg_data(own), bytes, close_message, own, out);
}

enum { FRAMES = 4 };

/* All frames of a message; those that are too many are thrown away. false: there is none. */
static bool receive(void *socket, zmq_msg_t *frames, int *count)
{
    int more = 1;
    size_t size = sizeof(more);
    *count = 0;
    while (more) {
        zmq_msg_t extra, *frame = *count < FRAMES ? &frames[*count] : &extra;
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(frame);
            return *count > 0;
        }
        if (frame == &extra) zmq_msg_close(frame);
        (*count)++;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) != 0) more = 0;
    }
    return true;
}

/* A letter from its frames: envelope, head and perhaps a payload. from: whom the socket knows. */
static weft_status deliver(weft_net *net, zmq_msg_t *frames, int count, const weft_actor_id *from)
{
    weft_envelope e;
    weft_blob *payload = NULL;
    if (count == 3) PAYLOAD_COMES(zmq_msg_data(&frames[2]));
    bool whole = count >= 2 && count <= 3 &&
                 weft_envelope_read(zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]), &e) &&
                 e.to == net->actor->id && (!from || e.from == *from);
    whole = whole && weft_envelope_fits(&e, zmq_msg_data(&frames[1]), zmq_msg_size(&frames[1]),
                                        count == 3 ? zmq_msg_data(&frames[2]) : NULL,
                                        count == 3 ? zmq_msg_size(&frames[2]) : 0);
    net->report.received += whole;
    net->report.damaged += !whole;
    if (!whole || net->actor->done) return WEFT_OK;
    net->report.bytes_received += weft_envelope_total(&e);
    if (count == 3) WEFT_TRY(take_payload(&frames[2], &payload));
    weft_status status =
        net->actor->ops->letter(net->actor, &(weft_letter){.from = e.from,
                                                           .type = e.type,
                                                           .head = zmq_msg_data(&frames[1]),
                                                           .head_bytes = zmq_msg_size(&frames[1]),
                                                           .payload = payload});
    weft_blob_drop(&payload);
    return status;
}

static bool read_name(zmq_msg_t *frame, weft_actor_id *id)
{
    const char *name = zmq_msg_data(frame);
    if (zmq_msg_size(frame) != NAME_BYTES || name[0] != 'W') return false;
    memcpy(id, name + 1, sizeof(*id));
    return true;
}

static weft_status take_in(weft_net *net, void *socket, bool named, bool *some)
{
    zmq_msg_t frames[FRAMES];
    weft_actor_id from = 0;
    weft_status status = WEFT_OK;
    int count;
    if (!receive(socket, frames, &count)) return WEFT_OK;
    *some = true;
    int kept = WEFT_MIN(count, FRAMES);
    if (count > FRAMES || (named && !read_name(&frames[0], &from)))
        net->report.damaged++;
    else
        status = deliver(net, frames + named, count - named, named ? &from : NULL);
    for (int i = 0; i < kept; i++) zmq_msg_close(&frames[i]);
    return status;
}

/* --- time --- */

static double net_now(weft_host *host)
{
    (void)host;
    return weft_seconds();
}

static weft_status net_set_timer(weft_actor *actor, int timer, double seconds)
{
    weft_net *net = (weft_net *)actor->host;
    if (timer < 0 || timer >= WEFT_ACTOR_TIMERS)
        return weft_fail(WEFT_ERR_INTERNAL, "there is no timer %d", timer);
    net->timers[timer] = seconds < 0 ? INFINITY : weft_seconds() + seconds;
    return WEFT_OK;
}

static weft_status net_compute(weft_actor *actor, int64_t ticket)
{
    weft_net *net = (weft_net *)actor->host;
    net->wants = true;
    net->ticket = ticket;
    return WEFT_OK;
}

static weft_status run_timers(weft_net *net, bool *some)
{
    for (int i = 0; i < WEFT_ACTOR_TIMERS && !net->actor->done; i++) {
        if (net->timers[i] > weft_seconds()) continue;
        net->timers[i] = INFINITY;
        *some = true;
        WEFT_TRY(net->actor->ops->timer(net->actor, i));
    }
    return WEFT_OK;
}

static weft_status net_know(weft_host *host, weft_actor_id id, const char *address)
{
    return weft_net_know((weft_net *)host, id, address);
}

static const char *net_address(weft_host *host)
{
    const weft_net *net = (const weft_net *)host;
    return net->places ? net->places : "";
}

static const weft_host_ops net_ops = {
    .now = net_now,
    .send = net_send,
    .set_timer = net_set_timer,
    .compute = net_compute,
    .know = net_know,
    .address = net_address,
};

/* --- pumping --- */

static weft_status list_polls(weft_net *net, int *count)
{
    *count = 0;
    while (net->poll_capacity < net->far_count + 1)
        WEFT_TRY(WEFT_GROW(&net->polls, &net->poll_capacity, net->poll_capacity));
    if (net->door)
        net->polls[(*count)++] = (zmq_pollitem_t){.socket = net->door, .events = ZMQ_POLLIN};
    for (size_t i = 0; i < net->far_count; i++)
        if (net->fars[i].socket)
            net->polls[(*count)++] =
                (zmq_pollitem_t){.socket = net->fars[i].socket, .events = ZMQ_POLLIN};
    return WEFT_OK;
}

static weft_status take_all(weft_net *net, bool *some)
{
    int count;
    WEFT_TRY(list_polls(net, &count));
    for (int i = 0; i < count; i++) {
        bool more = true;
        while (more) {
            more = false;
            WEFT_TRY(take_in(net, net->polls[i].socket, net->polls[i].socket == net->door, &more));
            *some = *some || more;
        }
    }
    return run_timers(net, some);
}

weft_status weft_net_pump(weft_net *net, double seconds)
{
    bool some = false;
    int count;
    double until = weft_seconds() + seconds;
    WEFT_TRY(take_all(net, &some));
    if (some || seconds <= 0) return WEFT_OK;
    for (int i = 0; i < WEFT_ACTOR_TIMERS; i++) until = WEFT_MIN(until, net->timers[i]);
    WEFT_TRY(list_polls(net, &count));
    double left = WEFT_MAX(until - weft_seconds(), 0);
    if (zmq_poll(net->polls, count, (long)ceil(left * 1e3)) < 0 && zmq_errno() != EINTR)
        return fail_zmq("waiting for letters");
    return take_all(net, &some);
}

/* --- the actor --- */

weft_status weft_net_bind(weft_net *net, const char *address, char *bound, size_t size)
{
    if (!net->door) WEFT_TRY(open_socket(net, ZMQ_ROUTER, &net->door));
    if (zmq_bind(net->door, address) != 0)
        return weft_fail(WEFT_ERR_IO, "cannot be reached at %s: %s", address,
                         zmq_strerror(zmq_errno()));
    char last[256];
    size_t room = sizeof(last);
    if (zmq_getsockopt(net->door, ZMQ_LAST_ENDPOINT, last, &room) != 0)
        return fail_zmq("the address of a socket");
    if (size > 0) (void)snprintf(bound, size, "%s", last);
    return weft_address_add(&net->places, last, net->world->token);
}

weft_status weft_net_open(weft_net_world *world, weft_actor *actor, weft_actor_id id,
                          const char *address, weft_net **out)
{
    weft_net *net;
    weft_status status = WEFT_NEW(&net, 1);
    if (status != WEFT_OK) {
        actor->ops->destroy(actor);
        return status;
    }
    net->host.ops = &net_ops;
    net->world = world;
    net->actor = actor;
    actor->host = &net->host;
    actor->id = id;
    for (int i = 0; i < WEFT_ACTOR_TIMERS; i++) net->timers[i] = INFINITY;
    if (address) status = weft_net_bind(net, address, NULL, 0);
    if (status == WEFT_OK)
        *out = net;
    else
        weft_net_close(&net);
    return status;
}

void weft_net_close(weft_net **net)
{
    if (!net || !*net) return;
    weft_net *n = *net;
    n->actor->ops->destroy(n->actor);
    if (n->door) zmq_close(n->door);
    for (size_t i = 0; i < n->far_count; i++) {
        if (n->fars[i].socket) zmq_close(n->fars[i].socket);
        free(n->fars[i].address);
    }
    free(n->fars);
    free(n->polls);
    free(n->places);
    free(n);
    *net = NULL;
}

weft_status weft_net_begin(weft_net *net)
{
    return net->actor->ops->begin(net->actor);
}

bool weft_net_wants(weft_net *net, int64_t *ticket)
{
    bool wants = net->wants;
    net->wants = false;
    *ticket = net->ticket;
    return wants;
}

weft_status weft_net_part(weft_net *net, int64_t ticket, int part)
{
    return net->actor->ops->part ? net->actor->ops->part(net->actor, ticket, part) : WEFT_OK;
}

weft_status weft_net_computed(weft_net *net, int64_t ticket)
{
    return net->actor->ops->computed(net->actor, ticket);
}

weft_actor *weft_net_actor(const weft_net *net)
{
    return net->actor;
}

weft_net_report weft_net_tell(const weft_net *net)
{
    return net->report;
}
