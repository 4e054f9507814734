/* The authenticator is a thread that answers ZeroMQ's requests whether a peer may connect, by its
 * public key (ZAP, RFC 27). Over TCP a listener with a key (net_sockets.c) rejects peers without
 * one before they come here. */
#include "actor/net_internal.h"

/* Frames of a request: version, request id, domain, address, routing id, mechanism, key. */
enum { VERSION, NUMBER, DOMAIN, ADDRESS, ROUTE, MECHANISM, KEY, QUESTION };

static bool is_allowed(weft_net_context *world, const weft_key *key)
{
    bool found = false;
    pthread_mutex_lock(&world->lock);
    for (size_t i = 0; i < world->allowed_count && !found; i++)
        found = memcmp(&world->allowed[i], key, sizeof(*key)) == 0;
    pthread_mutex_unlock(&world->lock);
    return found;
}

static bool is_text(zmq_msg_t *frame, const char *text)
{
    return zmq_msg_size(frame) == strlen(text) &&
           memcmp(zmq_msg_data(frame), text, strlen(text)) == 0;
}

static void answer(weft_net_context *world, void *socket, zmq_msg_t *question, int count)
{
    char name[WEFT_KEY_TEXT] = "";
    bool asked = count >= KEY;
    /* A request without a key is about a peer over an unencrypted transport (ipc), which may
     * connect. */
    bool in = count == KEY && is_text(&question[MECHANISM], "NULL");
    bool keyed = count == QUESTION && is_text(&question[MECHANISM], "CURVE") &&
                 zmq_msg_size(&question[KEY]) == sizeof(weft_key);
    if (keyed) {
        weft_key key;
        memcpy(&key, zmq_msg_data(&question[KEY]), sizeof(key));
        in = is_allowed(world, &key);
        if (in) weft_key_text(&key, name);
    }
    const char *say[] = {in ? "200" : "400", in ? "OK" : "no such key is allowed", name, ""};
    (void)zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
    (void)zmq_send(socket, asked ? zmq_msg_data(&question[NUMBER]) : "",
                   asked ? zmq_msg_size(&question[NUMBER]) : 0, ZMQ_SNDMORE);
    for (size_t i = 0; i < WEFT_COUNT(say); i++)
        (void)zmq_send(socket, say[i], strlen(say[i]), i + 1 < WEFT_COUNT(say) ? ZMQ_SNDMORE : 0);
}

/* Answers one request; false: ZeroMQ has shut down. */
static bool serve_one(weft_net_context *world, void *socket)
{
    zmq_msg_t question[QUESTION];
    int count = 0, more = 1;
    size_t size = sizeof(more);
    while (more) {
        zmq_msg_t extra, *frame = count < QUESTION ? &question[count] : &extra;
        zmq_msg_init(frame);
        bool came = zmq_msg_recv(frame, socket, 0) >= 0;
        bool ended = !came && zmq_errno() == ETERM;
        if (!came || frame == &extra) zmq_msg_close(frame);
        if (!came && !ended) continue; /* a signal has interrupted the call */
        if (ended) {
            for (int i = 0; i < WEFT_MIN(count, QUESTION); i++) zmq_msg_close(&question[i]);
            return false;
        }
        count++;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) != 0) more = 0;
    }
    answer(world, socket, question, count);
    for (int i = 0; i < WEFT_MIN(count, QUESTION); i++) zmq_msg_close(&question[i]);
    return true;
}

typedef struct guard {
    weft_net_context *world;
    void *socket;
} guard;

static void *stand(void *user)
{
    guard *g = user;
    int linger = 0;
    (void)zmq_setsockopt(g->socket, ZMQ_LINGER, &linger, sizeof(linger));
    while (serve_one(g->world, g->socket)) continue;
    zmq_close(g->socket);
    free(g);
    return NULL;
}

static weft_status start(weft_net_context *world)
{
    guard *g;
    WEFT_TRY(WEFT_NEW(&g, 1));
    weft_status status = WEFT_OK;
    g->world = world;
    g->socket = zmq_socket(world->zmq, ZMQ_REP);
    if (!g->socket || zmq_bind(g->socket, "inproc://zeromq.zap.01") != 0)
        status = weft_fail_zmq("the socket that checks keys (ZAP) cannot be opened");
    if (status == WEFT_OK) status = weft_thread_start(&world->guard, stand, g);
    if (status == WEFT_OK) return WEFT_OK;
    if (g->socket) zmq_close(g->socket);
    free(g);
    return status;
}

weft_status weft_net_auth_start(weft_net_context *world)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&world->lock);
    if (!world->guarded) {
        status = start(world);
        world->guarded = status == WEFT_OK;
    }
    pthread_mutex_unlock(&world->lock);
    return status;
}

void weft_net_auth_end(weft_net_context *world)
{
    if (world->guarded) pthread_join(world->guard, NULL);
}
