/* Implements the net context of a process: ZeroMQ, keys, and bounds on messages. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor/net_internal.h"

/* Bytes of the largest message before weft_net_context_set_max_message is called, and the least
 * bound after that. */
static const size_t ANY_MESSAGE = (size_t)64 << 20, SMALL_MESSAGE = (size_t)1 << 20;

/* Creates ZeroMQ and its threads, which start with the first socket. ZeroMQ aborts the process if
 * the system does not give them. */
static void start_zmq(void *user)
{
    weft_net_context *world = user;
    world->zmq = zmq_ctx_new();
    /* ZeroMQ's default limit of 1,023 sockets is often below the system's limit on files. A socket
     * that the system refuses is reported when it is opened. */
    if (world->zmq)
        (void)zmq_ctx_set(world->zmq, ZMQ_MAX_SOCKETS, zmq_ctx_get(world->zmq, ZMQ_SOCKET_LIMIT));
    void *first = world->zmq ? zmq_socket(world->zmq, ZMQ_PAIR) : NULL;
    if (first) (void)zmq_close(first);
}

weft_status weft_net_context_create(weft_net_context **out)
{
    enum { OF_ZEROMQ = 2 };
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_net_context *world = *out;
    weft_status status = weft_threads_start("messages", OF_ZEROMQ, start_zmq, world);
    pthread_mutex_init(&world->lock, NULL);
    if (!world->zmq && status == WEFT_OK) status = weft_fail_zmq("ZeroMQ does not start");
    if (status == WEFT_OK && getentropy(&world->token, sizeof(world->token)) != 0)
        status = weft_fail(WEFT_ERR_IO, "the operating system provides no random numbers: %s",
                           strerror(errno));
    if (status != WEFT_OK) weft_net_context_destroy(out);
    return status;
}

void weft_net_context_destroy(weft_net_context **world)
{
    if (!world || !*world) return;
    weft_net_context *w = *world;
    /* The shutdown ends the authenticator; zmq_ctx_term waits until its socket is closed. */
    if (w->zmq) {
        (void)zmq_ctx_shutdown(w->zmq);
        weft_net_auth_end(w);
        zmq_ctx_term(w->zmq);
    }
    weft_socket_folder_remove(&w->folder);
    pthread_mutex_destroy(&w->lock);
    explicit_bzero(&w->secret, sizeof(w->secret));
    free(w->allowed);
    free(w);
    *world = NULL;
}

static weft_status make_world(weft_context *context, void **out)
{
    weft_net_context *world;
    WEFT_TRY(weft_net_context_create(&world));
    world->context = context;
    *out = world;
    return WEFT_OK;
}

static void destroy_world(void *singleton)
{
    weft_net_context *world = singleton;
    weft_net_context_destroy(&world);
}

weft_status weft_net_context_of(weft_context *context, weft_net_context **out)
{
    static const weft_singleton_kind kind = {make_world, destroy_world};
    void *singleton;
    WEFT_TRY(weft_context_singleton(context, &kind, &singleton));
    *out = singleton;
    return WEFT_OK;
}

uint64_t weft_net_context_id(const weft_net_context *world)
{
    return world->token;
}

uint64_t weft_net_context_draw(weft_net_context *world)
{
    return atomic_fetch_add(&world->drawn, 1);
}

weft_status weft_net_context_folder(weft_net_context *world, const char **path)
{
    pthread_mutex_lock(&world->lock);
    weft_status status = world->folder.path[0] ? WEFT_OK : weft_socket_folder_make(&world->folder);
    pthread_mutex_unlock(&world->lock);
    *path = world->folder.path;
    return status;
}

/* Hash of boot id and network namespace: processes with both in common share the loopback
 * interface. */
uint64_t weft_net_context_host(void)
{
    char boot[64] = "";
    struct stat net = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof(boot), file)) boot[0] = '\0';
        fclose(file);
    }
    (void)stat("/proc/self/ns/net", &net);
    return weft_mix(weft_hash_text(boot), (uint64_t)net.st_ino);
}

uint64_t weft_draw(void)
{
    uint64_t number = 0;
    while (getentropy(&number, sizeof(number)) != 0 && errno == EINTR) continue;
    return number ? number : (uint64_t)getpid();
}

weft_actor_id weft_draw_id(void)
{
    return (weft_actor_id)(weft_draw() >> 32) | 1U << 31;
}

/* --- keys --- */

weft_status weft_net_context_set_keys(weft_net_context *world, const weft_key *secret)
{
    weft_key_pair pair;
    if (!zmq_has("curve"))
        return weft_fail(
            WEFT_ERR_UNSUPPORTED,
            "this ZeroMQ was built without CURVE, so messages to other machines cannot "
            "be encrypted; install one with libsodium");
    if (secret)
        WEFT_TRY(weft_key_pair_of(secret, &pair));
    else
        WEFT_TRY(weft_key_pair_make(&pair));
    WEFT_TRY(weft_net_auth_start(world));
    pthread_mutex_lock(&world->lock);
    if (!world->armed || secret) {
        world->secret = pair.secret;
        world->public_key = pair.public_key;
    }
    world->armed = true;
    pthread_mutex_unlock(&world->lock);
    explicit_bzero(&pair, sizeof(pair));
    return WEFT_OK;
}

bool weft_net_context_has_keys(weft_net_context *world, weft_key *public_key)
{
    pthread_mutex_lock(&world->lock);
    bool armed = world->armed;
    if (public_key) *public_key = world->public_key;
    pthread_mutex_unlock(&world->lock);
    return armed;
}

weft_status weft_net_context_allow(weft_net_context *world, const weft_key *key)
{
    bool known = false;
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&world->lock);
    for (size_t i = 0; i < world->allowed_count && !known; i++)
        known = memcmp(&world->allowed[i], key, sizeof(*key)) == 0;
    if (!known) status = WEFT_GROW(&world->allowed, &world->allowed_capacity, world->allowed_count);
    if (!known && status == WEFT_OK) world->allowed[world->allowed_count++] = *key;
    pthread_mutex_unlock(&world->lock);
    return status;
}

bool weft_net_context_allows(weft_net_context *world)
{
    pthread_mutex_lock(&world->lock);
    bool some = world->allowed_count > 0;
    pthread_mutex_unlock(&world->lock);
    return some;
}

void weft_net_context_allow_unencrypted(weft_net_context *world)
{
    pthread_mutex_lock(&world->lock);
    world->open = true;
    pthread_mutex_unlock(&world->lock);
}

bool weft_net_context_is_reached(weft_net_context *world)
{
    pthread_mutex_lock(&world->lock);
    bool reached = world->open || world->armed;
    pthread_mutex_unlock(&world->lock);
    return reached;
}

/* --- bounds --- */

void weft_net_context_set_max_message(weft_net_context *world, size_t bytes)
{
    pthread_mutex_lock(&world->lock);
    world->message_bytes = WEFT_MAX(WEFT_MAX(world->message_bytes, bytes), SMALL_MESSAGE);
    pthread_mutex_unlock(&world->lock);
}

void weft_net_context_set_queue(weft_net_context *world, size_t messages)
{
    pthread_mutex_lock(&world->lock);
    world->queue = WEFT_MAX(world->queue, messages);
    pthread_mutex_unlock(&world->lock);
}

size_t weft_net_context_queue(weft_net_context *world)
{
    pthread_mutex_lock(&world->lock);
    size_t messages = world->queue;
    pthread_mutex_unlock(&world->lock);
    return messages;
}

size_t weft_net_context_max_message(weft_net_context *world)
{
    pthread_mutex_lock(&world->lock);
    size_t bytes = world->message_bytes ? world->message_bytes : ANY_MESSAGE;
    pthread_mutex_unlock(&world->lock);
    return bytes;
}
