/* Measures what a learner's step costs beside its computation: 64 MiB of gradients are pushed to a
 * server and 64 MiB of parameters pulled back, by the actors of a training run, without
 * compression. weft_servers [ROUNDS [tcp|inproc]]
 *
 * Over tcp on this machine the comparison is an echo by ZeroMQ alone: as many bytes in as many
 * frames, which ZeroMQ carries without reading or writing their contents. Between threads (inproc)
 * the comparison is two memcpy of as many bytes. The server either adds the gradients to the
 * parameters, as that of easgd does, or takes a step of gradient descent; the latter is more than a
 * push and a pull, so it has no goal. All measurements take turns. A share is the time of the
 * comparison divided by that of push and pull, as the median over the rounds.
 *
 * The least traffic through memory is this. The learner copies its gradients, since its next step
 * overwrites them. The server reads the copy, and reads and writes the parameters. The server
 * copies the parameters for the reply, since the next update overwrites them. The learner copies
 * the reply into its own parameters. Over tcp the system also copies into and out of its buffers
 * both ways, and both sides read each message for its checksum. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/tree_sum.h"
#include "membership/coordinator.h"
#include "exchange/actor_thread.h"
#include "exchange/flat_optimizer.h"
#include "exchange/ps/ps.h"

enum { COUNT = 1 << 24, MOST = 99, FRAMES = 3, HEAD = 40 };
static const size_t BYTES = COUNT * sizeof(float);

static void stop_on(weft_status status)
{
    if (status == WEFT_OK) return;
    (void)fprintf(stderr, "weft_servers: %s\n", weft_last_message());
    exit(1);
}

static void stop_unless(bool right, const char *what)
{
    if (right) return;
    (void)fprintf(stderr, "weft_servers: %s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(const double *x, int n)
{
    double sorted[MOST];
    memcpy(sorted, x, (size_t)n * sizeof(*x));
    qsort(sorted, (size_t)n, sizeof(*sorted), by_size);
    return sorted[n / 2];
}

static float *numbers(float value)
{
    float *all;
    stop_on(weft_new_aligned(BYTES, (void **)&all));
    for (int64_t i = 0; i < COUNT; i++) all[i] = value;
    return all;
}

/* --- a learner and a server --- */

typedef struct rig {
    weft_context *context;
    weft_store *store; /* store of the server's optimizer; NULL: the server adds */
    weft_flat_optimizer **optimizers;
    weft_net_context *here, *there; /* of learner and server: the same one, or connected by tcp */
    weft_actor_thread *coordinator, *server;
    weft_server_range *ranges;
    int range_count;
    weft_net *learner;
    float *gradients, *parameters;
    int64_t step;
} rig;

static weft_status add(void *user, void *parameters, const void *mean, double rate)
{
    (void)rate;
    weft_tree_add(WEFT_F32, parameters, mean, parameters, (int64_t)(intptr_t)user);
    return WEFT_OK;
}

static weft_status descend(void *user, void *parameters, const void *mean, double rate)
{
    (void)parameters;
    weft_flat_optimizer_scale_rate(user, rate);
    return weft_flat_optimizer_run(user, mean);
}

static weft_status open_range(void *user, int number, weft_served *out)
{
    rig *r = user;
    weft_range_options options = {.struct_size = sizeof(options),
                                  .dtype = WEFT_F32,
                                  .count = r->ranges[number].count,
                                  .update = r->store ? descend : add,
                                  .user = (void *)(intptr_t)r->ranges[number].count};
    weft_optimizer_options sgd;
    WEFT_TRY(weft_policy_make(r->context, "async", -1, -1, NULL, -1, &options.policy));
    if (r->store) {
        weft_optimizer_options_init(&sgd);
        sgd.name = "sgd";
        sgd.lr = 1;
        WEFT_TRY(weft_flat_optimizer_open(r->context, r->store, &sgd, WEFT_F32, options.count,
                                          (weft_segment_list){0}, 0, &r->optimizers[number]));
        options.user = r->optimizers[number];
        weft_flat_optimizer_buffers(r->optimizers[number], &options.parameters, &options.gradient);
    }
    return weft_range_create(&options, &out->range);
}

static weft_member_options member_of(weft_actor_id id)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = id,
                                 .requested_slot = 0,
                                 .fingerprint = {.version = "bench"},
                                 .heartbeat_interval = 1};
}

static void open_servers(rig *r, bool tcp)
{
    weft_actor *actor;
    weft_coordinator_options coordinator = {.struct_size = sizeof(coordinator),
                                            .run = 1,
                                            .expected = {1, 1},
                                            .ranges = r->range_count,
                                            .limit = 1e9,
                                            .fingerprint = {.version = "bench"}};
    weft_server_options server = {.struct_size = sizeof(server),
                                  .member = member_of(WEFT_COORDINATOR + 1),
                                  .first_timeout = 60,
                                  .open = open_range,
                                  .user = r};
    stop_on(weft_coordinator_create(&coordinator, &actor));
    stop_on(weft_actor_thread_start(r->there, actor, WEFT_COORDINATOR, NULL, tcp, &r->coordinator));
    stop_on(weft_server_create(&server, &actor));
    stop_on(weft_actor_thread_start(r->there, actor, WEFT_COORDINATOR + 1,
                                    weft_actor_thread_address(r->coordinator), tcp, &r->server));
}

static void wait_for_servers(rig *r)
{
    while (weft_ps_client_is_waiting(weft_net_actor(r->learner))) {
        stop_on(weft_net_poll(r->learner, 1));
        stop_on(weft_actor_thread_check(r->coordinator));
        stop_on(weft_actor_thread_check(r->server));
    }
}

static void open_learner(rig *r)
{
    weft_actor *actor;
    weft_ps_client_options options = {.struct_size = sizeof(options),
                                      .member = member_of(WEFT_COORDINATOR + 2),
                                      .dtype = WEFT_F32,
                                      .ranges = r->ranges,
                                      .range_count = r->range_count,
                                      .steps = INT64_MAX,
                                      .parameters = r->parameters,
                                      .gradients = r->gradients,
                                      .first_timeout = 60};
    stop_on(weft_ps_client_create(&options, &actor));
    stop_on(weft_net_open(r->here, actor, WEFT_COORDINATOR + 2, NULL, &r->learner));
    stop_on(
        weft_net_add_peer(r->learner, WEFT_COORDINATOR, weft_actor_thread_address(r->coordinator)));
    stop_on(weft_net_begin(r->learner));
    wait_for_servers(r);
}

/* Cuts the parameters into ranges, as the exchange does for one server. */
static void cut(rig *r)
{
    r->range_count = weft_server_ranges(COUNT, WEFT_F32, 1);
    stop_on(WEFT_NEW(&r->ranges, r->range_count));
    stop_on(WEFT_NEW(&r->optimizers, r->range_count));
    for (int k = 0; k < r->range_count; k++) {
        weft_server_range *range = &r->ranges[k];
        range->begin = weft_part_start(COUNT, k, r->range_count);
        range->count = weft_part_start(COUNT, k + 1, r->range_count) - range->begin;
        stop_on(weft_codec_open(r->context, "none", WEFT_F32, range->count, &range->codec));
    }
}

static void expect(const rig *r, weft_net_context *world)
{
    weft_net_context_set_max_message(world, 2 * BYTES / (size_t)r->range_count);
    weft_net_context_set_queue(world, weft_server_messages(r->range_count));
}

static void open_rig(weft_context *context, bool tcp, bool descends, rig *r)
{
    *r = (rig){.context = context, .gradients = numbers(-1), .parameters = numbers(0)};
    if (descends) stop_on(weft_store_create(context, "cpu", 0, &r->store));
    cut(r);
    stop_on(weft_net_context_create(&r->here));
    r->there = r->here;
    if (tcp) stop_on(weft_net_context_create(&r->there));
    expect(r, r->here);
    expect(r, r->there);
    open_servers(r, tcp);
    open_learner(r);
}

/* Returns the seconds from the gradient being ready until the learner has the next parameters. */
static double push_and_pull(rig *r)
{
    double began = weft_seconds();
    stop_on(weft_net_computed(r->learner, ++r->step));
    wait_for_servers(r);
    return weft_seconds() - began;
}

static void close_rig(rig *r)
{
    float want = r->store ? (float)r->step : -(float)r->step;
    for (int64_t i = 0; i < COUNT; i += 4097)
        if (r->parameters[i] != want) {
            (void)fprintf(stderr, "weft_servers: %g came back, not %g\n", r->parameters[i], want);
            exit(1);
        }
    weft_net_close(&r->learner);
    stop_on(weft_actor_thread_stop(&r->server));
    stop_on(weft_actor_thread_stop(&r->coordinator));
    if (r->there != r->here) weft_net_context_destroy(&r->there);
    weft_net_context_destroy(&r->here);
    for (int k = 0; k < r->range_count; k++) {
        weft_flat_optimizer_close(&r->optimizers[k]);
        weft_codec_close(&r->ranges[k].codec);
    }
    free((void *)r->optimizers);
    free(r->ranges);
    weft_store_destroy(&r->store);
    free(r->gradients);
    free(r->parameters);
}

/* --- an echo --- */

typedef struct echo {
    void *zmq, *dealer;
    pthread_t thread;
    char at[64];
    float *data;
} echo;

/* Sends every message back, until a message is a single byte. */
static void *answer(void *user)
{
    void *router = user;
    bool more = true, last = false;
    while (!last || more) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        stop_unless(zmq_msg_recv(&frame, router, 0) >= 0, "an echo");
        more = zmq_msg_more(&frame);
        last = !more && zmq_msg_size(&frame) == 1;
        stop_unless(zmq_msg_send(&frame, router, more ? ZMQ_SNDMORE : 0) >= 0, "an echo");
    }
    zmq_close(router);
    return NULL;
}

static void open_echo(echo *e)
{
    size_t bytes = sizeof(e->at);
    e->data = numbers(1);
    e->zmq = zmq_ctx_new();
    void *router = zmq_socket(e->zmq, ZMQ_ROUTER);
    e->dealer = zmq_socket(e->zmq, ZMQ_DEALER);
    stop_unless(router && zmq_bind(router, "tcp://127.0.0.1:*") == 0, "an echo");
    stop_unless(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, e->at, &bytes) == 0, "an echo");
    stop_unless(e->dealer && zmq_connect(e->dealer, e->at) == 0, "an echo");
    if (pthread_create(&e->thread, NULL, answer, router) != 0) exit(1);
}

static void ignore(void *data, void *hint)
{
    (void)data;
    (void)hint;
}

static double round_trip(const echo *e)
{
    zmq_msg_t frame;
    char head[HEAD] = {0};
    double began = weft_seconds();
    for (int i = 0; i + 1 < FRAMES; i++)
        stop_unless(zmq_send(e->dealer, head, sizeof(head), ZMQ_SNDMORE) >= 0, "an echo");
    zmq_msg_init_data(&frame, e->data, BYTES, ignore, NULL);
    stop_unless(zmq_msg_send(&frame, e->dealer, 0) >= 0, "an echo");
    for (int i = 0; i < FRAMES; i++) {
        zmq_msg_init(&frame);
        stop_unless(zmq_msg_recv(&frame, e->dealer, 0) >= 0, "an echo");
        zmq_msg_close(&frame);
    }
    return weft_seconds() - began;
}

static void close_echo(echo *e)
{
    stop_unless(zmq_send(e->dealer, "", 1, 0) >= 0, "an echo");
    pthread_join(e->thread, NULL);
    zmq_close(e->dealer);
    zmq_ctx_term(e->zmq);
    free(e->data);
}

/* --- measurement --- */

typedef struct copies {
    float *from, *to;
} copies;

static double copy_twice(const copies *c)
{
    double began = weft_seconds();
    memcpy(c->to, c->from, BYTES);
    memcpy(c->from, c->to, BYTES);
    return weft_seconds() - began;
}

static void measure(weft_context *context, bool tcp, int rounds)
{
    enum { ADDS, DESCENDS, KINDS };
    static const char *const names[] = {"the server adds", "the server takes a step of sgd"};
    double floors[MOST], ours[KINDS][MOST], shares[KINDS][MOST];
    rig rigs[KINDS];
    echo e = {.zmq = NULL};
    copies c = {numbers(1), numbers(1)};
    for (int k = 0; k < KINDS; k++) open_rig(context, tcp, k == DESCENDS, &rigs[k]);
    if (tcp) open_echo(&e);
    for (int i = -2; i < rounds; i++) {
        int at = i < 0 ? 0 : i;
        floors[at] = tcp ? round_trip(&e) : copy_twice(&c);
        for (int k = 0; k < KINDS; k++) {
            ours[k][at] = push_and_pull(&rigs[k]);
            shares[k][at] = floors[at] / ours[k][at];
        }
    }
    for (int k = 0; k < KINDS; k++)
        printf("  %-6s  %-31s %6.1f ms, %3.0f %% of %s %5.1f ms%s\n", tcp ? "tcp" : "inproc",
               names[k], 1e3 * median(ours[k], rounds), 100 * median(shares[k], rounds),
               tcp ? "an echo's" : "two copies'", 1e3 * median(floors, rounds),
               k == ADDS ? " (goal: 60 %)" : "");
    if (tcp) close_echo(&e);
    for (int k = 0; k < KINDS; k++) close_rig(&rigs[k]);
    free(c.from);
    free(c.to);
}

int main(int argc, char **argv)
{
    weft_context *context;
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    rounds = rounds < 1 ? 1 : rounds > MOST ? MOST : rounds;
    stop_on(weft_context_create(&context));
    stop_on(weft_context_set_threads(context, 1));
    if (argc < 3 || strcmp(argv[2], "tcp") == 0) measure(context, true, rounds);
    if (argc < 3 || strcmp(argv[2], "inproc") == 0) measure(context, false, rounds);
    weft_context_destroy(&context);
    return 0;
}
