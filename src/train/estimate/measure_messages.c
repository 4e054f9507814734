/* Measures what messages between actors of two machines cost the processors of both: their copies,
 * encryption and the system's share, as processor time of this process, which is both ends of a
 * connection. */
#include <time.h>

#include "actor/net.h"
#include "base/sort.h"
#include "train/estimate/measure.h"
#include "train/estimate/tracks.h"

enum { SENDER = 1, LISTENER, SAMPLES = 5, REPEATS = 4 };
static const size_t sizes[] = {1 << 10, 1 << 14, 1 << 18, 1 << 22}; /* bytes of payloads */
/* A message that has not come until then is lost. */
static const double most_seconds = 10;

typedef struct listener {
    weft_actor head;
    int heard;
} listener;

static weft_status nothing(weft_actor *actor)
{
    (void)actor;
    return WEFT_OK;
}

static weft_status hear(weft_actor *actor, const weft_message *message)
{
    (void)message;
    ((listener *)actor)->heard++;
    return WEFT_OK;
}

static weft_status no_timer(weft_actor *actor, int timer)
{
    (void)timer;
    return nothing(actor);
}

static void destroy(weft_actor *actor)
{
    free(actor);
}

static const weft_actor_ops ops = {
    .name = "listener", .begin = nothing, .message = hear, .timer = no_timer, .destroy = destroy};

typedef struct end {
    weft_net_context *world;
    weft_key key;
    weft_net *net;
} end;

static weft_status open_end(end *e, weft_actor_id id)
{
    listener *l;
    WEFT_TRY(weft_net_context_create(&e->world));
    WEFT_TRY(weft_net_context_set_keys(e->world, NULL));
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

static weft_status send_one(const end *from, const end *to, weft_buffer *payload)
{
    const listener *l = (const listener *)weft_net_actor(to->net);
    const weft_message message = {.type = 1, .payload = payload};
    int before = l->heard;
    double begun = weft_seconds();
    WEFT_TRY(weft_actor_send(weft_net_actor(from->net), LISTENER, &message));
    while (l->heard == before && weft_seconds() - begun < most_seconds) {
        WEFT_TRY(weft_net_poll(to->net, 0.05));
        WEFT_TRY(weft_net_poll(from->net, 0));
    }
    if (l->heard > before) return WEFT_OK;
    return weft_fail(WEFT_ERR_PEER, "a message over 127.0.0.1 has not come after %.0f s",
                     most_seconds);
}

static double processor_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status time_size(const end *from, const end *to, size_t bytes, weft_times *times)
{
    double samples[SAMPLES];
    weft_buffer *payload;
    WEFT_TRY(weft_buffer_new(bytes, &payload));
    weft_status status = send_one(from, to, payload);
    for (int s = 0; s < SAMPLES && status == WEFT_OK; s++) {
        double begin = processor_seconds();
        for (int i = 0; i < REPEATS && status == WEFT_OK; i++) status = send_one(from, to, payload);
        samples[s] = (processor_seconds() - begin) / REPEATS;
    }
    weft_buffer_unref(&payload);
    WEFT_TRY(status);
    weft_sort_doubles(samples, SAMPLES);
    /* Each end has the half, and reads and writes the payload. */
    const weft_timed what = {.kind = WEFT_MESSAGE_TIMED,
                             .group = "",
                             .threads = 1,
                             .ranks = weft_cores(),
                             .bytes = 2 * (double)bytes};
    return weft_times_add(times, &what, WEFT_MAX(samples[SAMPLES / 2] / 2, 1e-9));
}

static weft_status measure(end *from, end *to, weft_measure_end *ends, weft_times *times)
{
    char at[256];
    WEFT_TRY(open_end(to, LISTENER));
    WEFT_TRY(open_end(from, SENDER));
    WEFT_TRY(weft_net_bind(to->net, "tcp://127.0.0.1:*", at, sizeof(at)));
    WEFT_TRY(weft_net_context_allow(to->world, &from->key));
    WEFT_TRY(weft_net_add_peer(from->net, LISTENER, at));
    for (size_t s = 0; s < WEFT_COUNT(sizes); s++) {
        WEFT_TRY(weft_measure_go_on(ends));
        WEFT_TRY(time_size(from, to, sizes[s], times));
    }
    return WEFT_OK;
}

weft_status weft_measure_messages(weft_measure_end *ends, weft_times *times)
{
    end from = {.world = NULL}, to = {.world = NULL};
    weft_status status = measure(&from, &to, ends, times);
    close_end(&from);
    close_end(&to);
    /* Without encryption no machine sends messages to another one. */
    return status == WEFT_ERR_UNSUPPORTED ? WEFT_OK : status;
}
