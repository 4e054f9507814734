/* Sends and receives messages as ZeroMQ frames: envelope, head, and payload if there is one. A
 * received message is dropped if its envelope, sender or checksum is wrong, or if net_limits.c does
 * not admit it. ZeroMQ has decrypted it before. */
#include "actor/net_internal.h"

/* --- sending --- */

static void drop_hold(void *data, void *hint)
{
    weft_buffer *blob = hint;
    (void)data;
    weft_buffer_unref(&blob);
}

/* Payloads between threads are not copied. ZeroMQ orders writes before a send and reads after the
 * receive, but is not built for the thread sanitizer, so these macros tell the sanitizer of that
 * order. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define FRAME_LEAVES(data) __tsan_release(data)
#define FRAME_COMES(data) __tsan_acquire(data)
#else
#define FRAME_LEAVES(data) ((void)(data))
#define FRAME_COMES(data) ((void)(data))
#endif

static bool send_frame(void *socket, const void *data, size_t bytes, bool more)
{
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, bytes) != 0) return false;
    if (bytes) memcpy(zmq_msg_data(&message), data, bytes);
    FRAME_LEAVES(zmq_msg_data(&message));
    if (zmq_msg_send(&message, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0) return true;
    zmq_msg_close(&message);
    return false;
}

/* Sends a payload without a copy: the ZeroMQ message references the buffer until it has left. */
static bool send_blob(void *socket, weft_buffer *blob)
{
    zmq_msg_t message;
    FRAME_LEAVES(blob->data);
    if (zmq_msg_init_data(&message, blob->data, blob->bytes, drop_hold, weft_buffer_ref(blob)) !=
        0) {
        drop_hold(NULL, blob);
        return false;
    }
    if (zmq_msg_send(&message, socket, ZMQ_DONTWAIT) >= 0) return true;
    zmq_msg_close(&message);
    return false;
}

/* Sends all frames of a message. false: the queue is full, which only the first frame may find,
 * since ZeroMQ takes all frames of a message or none. */
static bool send_message(void *socket, const char *name, const weft_envelope *envelope,
                         const weft_message *message)
{
    uint8_t head[WEFT_ENVELOPE_BYTES];
    weft_envelope_write(envelope, head);
    if (name && !send_frame(socket, name, WEFT_NAME_BYTES, true)) return false;
    if (!send_frame(socket, head, sizeof(head), true)) return false;
    if (!send_frame(socket, message->head, message->head_bytes, message->payload)) return false;
    return !message->payload || send_blob(socket, message->payload);
}

/* Fails if a message exceeds the bound: the receiver would close the connection, and again at each
 * retransmission. */
static weft_status check_size(const weft_net *net, const weft_message *message)
{
    size_t bytes =
        WEFT_MAX(message->head_bytes, message->payload ? message->payload->bytes : (size_t)0);
    size_t most = weft_net_context_max_message(net->world);
    if (bytes <= most) return WEFT_OK;
    char name[48];
    return weft_fail(WEFT_ERR_INTERNAL,
                     "%s sends a message of %zu bytes; messages of this run have at most %zu bytes",
                     weft_actor_name(net->actor, name), bytes, most);
}

weft_status weft_net_send(weft_actor *from, weft_actor_id to, const weft_message *message)
{
    weft_net *net = (weft_net *)from->host;
    weft_envelope envelope;
    char name[WEFT_NAME_BYTES];
    uint64_t route;
    bool there = false, inside;
    weft_connection *f = weft_net_connection(net, to);
    WEFT_TRY(check_size(net, message));
    if (f && f->address && !f->socket) WEFT_TRY(weft_net_connect(net, f));
    if (f && f->socket) {
        envelope = weft_envelope_of(from->id, to, message, f->inside);
        there = send_message(f->socket, NULL, &envelope, message);
    } else if (net->listener && weft_inbound_route(&net->callers, to, &route, &inside)) {
        envelope = weft_envelope_of(from->id, to, message, inside);
        weft_net_name(to, route, name);
        there = send_message(net->listener, name, &envelope, message);
    }
    net->report.sent += there;
    net->report.dropped += !there;
    if (there) net->report.bytes_sent += weft_envelope_total(&envelope);
    return WEFT_OK;
}

/* --- receiving --- */

static void close_message(void *of, void *data)
{
    (void)data;
    zmq_msg_close(of);
    free(of);
}

/* The received payload, without a copy unless it is misaligned. */
static weft_status take_payload(zmq_msg_t *message, weft_buffer **out)
{
    size_t bytes = zmq_msg_size(message);
    void *data = zmq_msg_data(message);
    zmq_msg_t *own;
    if ((uintptr_t)data % 8) {
        WEFT_TRY(weft_buffer_new(bytes, out));
        memcpy((*out)->data, data, bytes);
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_NEW(&own, 1));
    zmq_msg_init(own);
    zmq_msg_move(own, message);
    return weft_buffer_wrap(zmq_msg_data(own), bytes, close_message, own, out);
}

enum { FRAMES = 4 };

/* Receives all frames of a message; surplus ones are dropped. false: no message. */
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
        if (*count <= FRAMES) (*count)++;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) != 0) more = 0;
    }
    return true;
}

/* The sender of a message: from its routing id or, `own`, the actor at the other end of this
 * actor's own connection, whose key ZeroMQ has checked. */
typedef struct sender {
    weft_actor_id id;
    uint64_t route;
    bool own;
} sender;

/* Whether a frame came by inproc: frames over a wire have these properties. */
static bool is_inside(zmq_msg_t *frame)
{
    return !zmq_msg_gets(frame, "Peer-Address") && !zmq_msg_gets(frame, "Socket-Type");
}

/* Handles the frames of a message: envelope, head and perhaps a payload. */
static weft_status deliver(weft_net *net, zmq_msg_t *frames, int count, const sender *from)
{
    weft_envelope e;
    weft_buffer *payload = NULL;
    for (int i = 0; i < count && i < FRAMES; i++) FRAME_COMES(zmq_msg_data(&frames[i]));
    bool valid = count >= 2 && count <= 3 &&
                 weft_envelope_read(zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]), &e) &&
                 e.to == net->actor->id && e.from == from->id;
    valid = valid && (!e.inside || is_inside(&frames[0]));
    valid = valid &&
            weft_envelope_verify_checksum(&e, zmq_msg_data(&frames[1]), zmq_msg_size(&frames[1]),
                                          count == 3 ? zmq_msg_data(&frames[2]) : NULL,
                                          count == 3 ? zmq_msg_size(&frames[2]) : 0);
    if (valid && !from->own)
        valid = weft_inbound_admit(&net->callers, from->id, from->route,
                                   zmq_msg_gets(&frames[0], "User-Id"), weft_seconds(), e.inside);
    net->report.received += valid;
    net->report.damaged += !valid;
    if (!valid || net->actor->done) return WEFT_OK;
    net->report.bytes_received += weft_envelope_total(&e);
    if (count == 3) WEFT_TRY(take_payload(&frames[2], &payload));
    weft_status status =
        net->actor->ops->message(net->actor, &(weft_message){.from = e.from,
                                                             .type = e.type,
                                                             .head = zmq_msg_data(&frames[1]),
                                                             .head_bytes = zmq_msg_size(&frames[1]),
                                                             .payload = payload});
    weft_buffer_unref(&payload);
    return status;
}

static bool read_name(zmq_msg_t *frame, sender *from)
{
    const char *name = zmq_msg_data(frame);
    if (zmq_msg_size(frame) != WEFT_NAME_BYTES || name[0] != 'W') return false;
    memcpy(&from->id, name + 1, sizeof(from->id));
    memcpy(&from->route, name + 1 + sizeof(from->id), sizeof(from->route));
    return true;
}

weft_status weft_net_take(weft_net *net, const weft_connection *connection, bool *some)
{
    zmq_msg_t frames[FRAMES];
    bool named = !connection;
    sender from = {.id = named ? 0 : connection->id, .own = !named};
    weft_status status = WEFT_OK;
    int count;
    if (!receive(named ? net->listener : connection->socket, frames, &count)) return WEFT_OK;
    *some = true;
    int stored = WEFT_MIN(count, FRAMES);
    if (count > FRAMES || (named && !read_name(&frames[0], &from)))
        net->report.damaged++;
    else
        status = deliver(net, frames + named, count - named, &from);
    for (int i = 0; i < stored; i++) zmq_msg_close(&frames[i]);
    return status;
}
