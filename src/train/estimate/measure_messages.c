/* Measures what messages between actors of two processes cost the processors: their copies,
 * encryption and the system's share, as processor time of this process, which is both ends of a
 * connection. Messages are encrypted over TCP, and not over ipc sockets. */
#include <stdio.h>

#include "actor/net.h"
#include "base/sort.h"
#include "train/estimate/busy_cores.h"
#include "train/estimate/measure.h"
#include "train/estimate/tracks.h"

/* MESSAGES: most that are on their way at once, of which each has memory of its own, as the ranges
 * of a step have; IN_FLIGHT: bytes of them, but for two. */
enum { SENDER = 1, LISTENER, SAMPLES = 5, MESSAGES = 8, IN_FLIGHT = 1 << 25 };
/* Sizes of payloads. malloc keeps the memory of messages of up to 32 MB for the next ones, if the
 * command has asked for it, and maps larger ones anew. */
static const size_t sizes[] = {1 << 10, 1 << 14, 1 << 18, 1 << 22, 30 << 20, 40 << 20};
/* A message that has not come until then is lost. */
static const double most_seconds = 30;

typedef struct listener {
    weft_actor head;
    int heard;
    weft_buffer *kept[MESSAGES];
} listener;

static weft_status nothing(weft_actor *actor)
{
    (void)actor;
    return WEFT_OK;
}

static weft_status hear(weft_actor *actor, const weft_message *message)
{
    listener *l = (listener *)actor;
    l->kept[l->heard % MESSAGES] = weft_buffer_ref(message->payload);
    l->heard++;
    return WEFT_OK;
}

static weft_status no_timer(weft_actor *actor, int timer)
{
    (void)timer;
    return nothing(actor);
}

static void forget(listener *l)
{
    for (int i = 0; i < MESSAGES; i++) weft_buffer_unref(&l->kept[i]);
    l->heard = 0;
}

static void destroy(weft_actor *actor)
{
    forget((listener *)actor);
    free(actor);
}

static const weft_actor_ops ops = {
    .name = "listener", .begin = nothing, .message = hear, .timer = no_timer, .destroy = destroy};

typedef struct end {
    weft_net_context *world;
    weft_key key;
    weft_net *net;
} end;

static weft_status open_end(end *e, weft_actor_id id, bool encrypted)
{
    listener *l;
    WEFT_TRY(weft_net_context_create(&e->world));
    if (encrypted) WEFT_TRY(weft_net_context_set_keys(e->world, NULL));
    (void)weft_net_context_has_keys(e->world, &e->key);
    WEFT_TRY(WEFT_NEW(&l, 1));
    l->head.ops = &ops;
    return weft_net_open(e->world, &l->head, id, NULL, &e->net);
}

static void close_end(end *e)
{
    if (e->net) weft_net_discard_pending(e->net);
    weft_net_close(&e->net);
    weft_net_context_destroy(&e->world);
}

static weft_status send_all(const end *from, const end *to, weft_buffer *const *payloads, int count)
{
    const listener *l = (const listener *)weft_net_actor(to->net);
    double begun = weft_seconds();
    for (int i = 0; i < count; i++) {
        const weft_message message = {.type = 1, .payload = payloads[i]};
        WEFT_TRY(weft_actor_send(weft_net_actor(from->net), LISTENER, &message));
    }
    while (l->heard < count && weft_seconds() - begun < most_seconds) {
        WEFT_TRY(weft_net_poll(to->net, 0.05));
        WEFT_TRY(weft_net_poll(from->net, 0));
    }
    if (l->heard == count) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER, "a message within this machine has not come after %.0f s",
                     most_seconds);
}

static weft_status time_sample(const end *from, const end *to, weft_buffer *const *payloads,
                               int count, weft_busy_cores *busy, double *seconds)
{
    double begin = weft_busy_cores_beside(busy);
    weft_busy_cores_work(busy, true);
    weft_status status = send_all(from, to, payloads, count);
    weft_busy_cores_work(busy, false);
    WEFT_TRY(status);
    *seconds = (weft_busy_cores_beside(busy) - begin) / count;
    forget((listener *)weft_net_actor(to->net));
    return WEFT_OK;
}

static weft_status time_payloads(const end *from, const end *to, size_t bytes,
                                 weft_busy_cores *busy, weft_buffer **payloads, double *samples)
{
    int count = (int)WEFT_MIN(WEFT_MAX(IN_FLIGHT / bytes, (size_t)2), (size_t)MESSAGES);
    for (int i = 0; i < count; i++) WEFT_TRY(weft_buffer_new(bytes, &payloads[i]));
    WEFT_TRY(time_sample(from, to, payloads, count, busy, &samples[0]));
    for (int s = 0; s < SAMPLES; s++)
        WEFT_TRY(time_sample(from, to, payloads, count, busy, &samples[s]));
    return WEFT_OK;
}

static weft_status time_size(const end *from, const end *to, const char *kind, size_t bytes,
                             weft_busy_cores *busy, weft_times *times)
{
    double samples[SAMPLES];
    weft_buffer *payloads[MESSAGES] = {NULL};
    weft_status status = time_payloads(from, to, bytes, busy, payloads, samples);
    for (int i = 0; i < MESSAGES; i++) weft_buffer_unref(&payloads[i]);
    WEFT_TRY(status);
    weft_sort_doubles(samples, SAMPLES);
    /* Each end has the half, and reads and writes the payload. */
    const weft_timed what = {
        .kind = kind, .group = "", .threads = 1, .ranks = weft_cores(), .bytes = 2 * (double)bytes};
    return weft_times_add(times, &what, WEFT_MAX(samples[SAMPLES / 2] / 2, 1e-9));
}

static weft_status measure(end *from, end *to, const char *listen, weft_busy_cores *busy,
                           weft_measure_end *ends, weft_times *times)
{
    char at[256];
    bool encrypted = strncmp(listen, "ipc", 3) != 0;
    const char *kind = encrypted ? WEFT_MESSAGE_TIMED : WEFT_IPC_MESSAGE_TIMED;
    WEFT_TRY(open_end(to, LISTENER, encrypted));
    WEFT_TRY(open_end(from, SENDER, encrypted));
    WEFT_TRY(weft_net_bind(to->net, listen, at, sizeof(at)));
    if (encrypted) WEFT_TRY(weft_net_context_allow(to->world, &from->key));
    WEFT_TRY(weft_net_add_peer(from->net, LISTENER, at));
    for (size_t s = 0; s < WEFT_COUNT(sizes); s++) {
        WEFT_TRY(weft_measure_go_on(ends));
        WEFT_TRY(time_size(from, to, kind, sizes[s], busy, times));
    }
    return WEFT_OK;
}

static weft_status measure_at(const char *listen, weft_measure_end *ends, weft_times *times)
{
    end from = {.world = NULL}, to = {.world = NULL};
    weft_busy_cores *busy;
    WEFT_TRY(weft_busy_cores_start(&busy));
    weft_status status = measure(&from, &to, listen, busy, ends, times);
    weft_busy_cores_end(&busy);
    close_end(&from);
    close_end(&to);
    /* Without encryption no machine sends messages to another one. */
    return status == WEFT_ERR_UNSUPPORTED ? WEFT_OK : status;
}

weft_status weft_measure_messages(weft_measure_end *ends, weft_times *times)
{
    weft_socket_folder folder = {.held = NULL};
    char listen[160];
    WEFT_TRY(measure_at("tcp://127.0.0.1:*", ends, times));
    WEFT_TRY(weft_socket_folder_make(&folder));
    (void)snprintf(listen, sizeof(listen), "ipc://%s/socket", folder.path);
    weft_status status = measure_at(listen, ends, times);
    weft_socket_folder_remove(&folder);
    return status;
}
