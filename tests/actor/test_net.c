/* Parameter servers and learners in threads, over ZeroMQ's inproc, ipc and tcp: the parameters have
 * the bits of synchronous training, although server 0 is sent damaged messages and, in one test, a
 * server dies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>
#include <zmq.h>

#include "actor/envelope.h"
#include "actor/net.h"
#include "base/tree_sum.h"
#include "range_update.h"
#include "exchange/ps/ps.h"

enum {
    COUNT = 1003,
    LEARNERS = 3,
    SERVERS = 2,
    STEPS = 25,
    FIRST_SERVER = 1,
    FIRST_LEARNER = 10,
    DAMAGED = 200
};

static const double LR = 0.125;

typedef struct job {
    weft_context *context;
    weft_net_context *world;
    const char *address; /* prefix of the addresses; each server appends its number */
    bool loses;          /* one server dies in the middle of the run */
    atomic_int stop, failures;
    double began;
    double w[LEARNERS][COUNT];
    weft_net_report reports[SERVERS + 1];
} job;

typedef struct member {
    job *job;
    int number;
    pthread_t thread;
} member;

static int64_t begin_of(int server)
{
    return weft_part_start(COUNT, server, SERVERS);
}

static void gradient(int learner, int64_t step, const double *w, double *g)
{
    for (int i = 0; i < COUNT; i++)
        g[i] = (w[i] - sin(1.0 + learner + i)) + 0.01 * cos((double)(step * (i + 1)));
}

/* --- a server --- */

static weft_member_options member_of(int id, int slot)
{
    return (weft_member_options){.struct_size = sizeof(weft_member_options),
                                 .key = (uint64_t)id,
                                 .requested_slot = slot,
                                 .heartbeat_interval = 0.5};
}

static descent descents[SERVERS];

static weft_status open_range(void *user, int number, weft_served *out)
{
    const job *j = user;
    weft_range_options options = {.struct_size = sizeof(options),
                                  .dtype = WEFT_F64,
                                  .count = descents[number].count,
                                  .update = descend,
                                  .user = &descents[number]};
    WEFT_TRY(weft_policy_make(j->context, "bsp", -1, -1, NULL, -1, &options.policy));
    return weft_range_create(&options, &out->range);
}

/* Servers 0 to SERVERS - 1 are parameter servers; the last one is the coordinator. */
static weft_status make_server(const member *m, weft_actor **out)
{
    weft_coordinator_options coordinator = {.struct_size = sizeof(coordinator),
                                            .run = 5,
                                            .expected = {LEARNERS, SERVERS},
                                            .ranges = SERVERS,
                                            .replicas = m->job->loses,
                                            .limit = m->job->loses ? 5 : 60};
    weft_server_options options = {.struct_size = sizeof(options),
                                   .member = member_of(FIRST_SERVER + m->number, m->number),
                                   .first_timeout = 0.5,
                                   .open = open_range,
                                   .user = m->job};
    return m->number == SERVERS ? weft_coordinator_create(&coordinator, out)
                                : weft_server_create(&options, out);
}

static weft_status open_server(const member *m, weft_net **out)
{
    char address[128];
    weft_actor *actor;
    int id = m->number == SERVERS ? WEFT_COORDINATOR : FIRST_SERVER + m->number;
    WEFT_TRY(make_server(m, &actor));
    (void)snprintf(address, sizeof(address), "%s%d", m->job->address, m->number);
    WEFT_TRY(weft_net_open(m->job->world, actor, (weft_actor_id)id, address, out));
    (void)snprintf(address, sizeof(address), "%s%d", m->job->address, SERVERS);
    if (m->number < SERVERS) WEFT_TRY(weft_net_add_peer(*out, WEFT_COORDINATOR, address));
    return weft_net_begin(*out);
}

/* Server 0 goes on until it has counted all damaged messages, or for 20 seconds. */
static bool has_heard_all(const member *m, const weft_net *net)
{
    return m->number > 0 || weft_net_stats(net).damaged >= DAMAGED ||
           weft_seconds() > m->job->began + 20;
}

/* Whether this server is to die now: it then closes its sockets without leaving the run. */
static bool dies(const member *m, const weft_net *net)
{
    if (!m->job->loses || m->number != SERVERS - 1) return false;
    const weft_range *range = weft_server_range_of(weft_net_actor(net), m->number, true);
    return range && weft_range_version(range) >= STEPS / 3;
}

static void *serve(void *user)
{
    member *m = user;
    weft_net *net = NULL;
    weft_status status = open_server(m, &net);
    while (status == WEFT_OK && !(net && dies(m, net)) &&
           (!atomic_load(&m->job->stop) || !has_heard_all(m, net)))
        status = weft_net_poll(net, 0.02);
    if (status != WEFT_OK) {
        fprintf(stderr, "server %d: %s\n", m->number, weft_last_message());
        atomic_fetch_add(&m->job->failures, 1);
    }
    if (net) m->job->reports[m->number] = weft_net_stats(net);
    weft_net_close(&net);
    return NULL;
}

/* --- a learner --- */

static weft_status open_learner(const member *m, weft_server_range *ranges, const double *g,
                                weft_net **out)
{
    char address[128];
    weft_actor *actor;
    for (int k = 0; k < SERVERS; k++) {
        ranges[k] =
            (weft_server_range){.begin = begin_of(k), .count = begin_of(k + 1) - begin_of(k)};
        WEFT_TRY(
            weft_codec_open(m->job->context, "none", WEFT_F64, ranges[k].count, &ranges[k].codec));
    }
    weft_ps_client_options options = {.struct_size = sizeof(options),
                                      .member = member_of(FIRST_LEARNER + m->number, m->number),
                                      .dtype = WEFT_F64,
                                      .ranges = ranges,
                                      .range_count = SERVERS,
                                      .steps = STEPS,
                                      .parameters = m->job->w[m->number],
                                      .gradients = g,
                                      .first_timeout = 0.5};
    WEFT_TRY(weft_ps_client_create(&options, &actor));
    WEFT_TRY(
        weft_net_open(m->job->world, actor, (weft_actor_id)(FIRST_LEARNER + m->number), NULL, out));
    (void)snprintf(address, sizeof(address), "%s%d", m->job->address, SERVERS);
    WEFT_TRY(weft_net_add_peer(*out, WEFT_COORDINATOR, address));
    return weft_net_begin(*out);
}

static weft_status learn(const member *m, weft_net *net, double *g)
{
    while (!weft_net_actor(net)->done && atomic_load(&m->job->failures) == 0) {
        int64_t ticket;
        WEFT_TRY(weft_net_poll(net, 0.05));
        if (!weft_net_next_task(net, &ticket)) continue;
        gradient(m->number, ticket, m->job->w[m->number], g);
        WEFT_TRY(weft_net_computed_part(net, ticket, 0));
        WEFT_TRY(weft_net_computed(net, ticket));
    }
    return WEFT_OK;
}

static void *train(void *user)
{
    member *m = user;
    weft_net *net = NULL;
    weft_server_range ranges[SERVERS] = {{0}};
    double *g;
    weft_status status = WEFT_NEW(&g, COUNT);
    if (status == WEFT_OK) status = open_learner(m, ranges, g, &net);
    if (status == WEFT_OK) status = learn(m, net, g);
    if (status != WEFT_OK) {
        fprintf(stderr, "learner %d: %s\n", m->number, weft_last_message());
        atomic_fetch_add(&m->job->failures, 1);
    }
    weft_net_close(&net);
    for (int k = 0; k < SERVERS; k++) weft_codec_close(&ranges[k].codec);
    free(g);
    return NULL;
}

/* --- a job --- */

static void synchronous(double *w)
{
    double *all[LEARNERS], *sum;
    const void *source[LEARNERS];
    assert_int_equal(WEFT_NEW(&sum, COUNT), WEFT_OK);
    for (int i = 0; i < LEARNERS; i++) {
        assert_int_equal(WEFT_NEW(&all[i], COUNT), WEFT_OK);
        source[i] = all[i];
    }
    void *room = malloc(weft_tree_room(LEARNERS, 1));
    for (int64_t t = 1; t <= STEPS; t++) {
        for (int i = 0; i < LEARNERS; i++) gradient(i, t, w, all[i]);
        weft_tree tree = {.dtype = WEFT_F64,
                          .ranks = LEARNERS,
                          .leaves = LEARNERS,
                          .source = source,
                          .stride = COUNT,
                          .room = room};
        weft_tree_sum(&tree, 0, COUNT, sum);
        for (int i = 0; i < COUNT; i++) w[i] -= LR * (sum[i] / LEARNERS);
    }
    for (int i = 0; i < LEARNERS; i++) free(all[i]);
    free(sum);
    free(room);
}

/* Sends server 0 arbitrary bytes, and envelopes whose sender and checksum are wrong. */
static void disturb(const job *j)
{
    char address[128];
    uint8_t bytes[WEFT_ENVELOPE_BYTES] = {0};
    weft_envelope e = {.from = 11, .to = FIRST_SERVER, .type = 1};
    int linger = 10000;
    void *socket = zmq_socket(*(void **)j->world, ZMQ_DEALER);
    (void)snprintf(address, sizeof(address), "%s0", j->address);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    assert_int_equal(zmq_connect(socket, address), 0);
    for (int i = 0; i < DAMAGED; i++) {
        for (size_t k = 0; k < sizeof(bytes); k++) bytes[k] = (uint8_t)(k * 31 + i);
        if (i % 3) weft_envelope_write(&e, bytes); /* wrong sender and wrong checksum */
        int frames = i % 6;
        for (int f = 0; f <= frames; f++)
            zmq_send(socket, bytes, (size_t)(f ? i % 40 : 40), f < frames ? ZMQ_SNDMORE : 0);
    }
    zmq_close(socket);
}

static void run_job(const char *address, bool loses, double *expected)
{
    job *j;
    member servers[SERVERS + 1], learners[LEARNERS];
    assert_int_equal(WEFT_NEW(&j, 1), WEFT_OK);
    j->address = address;
    j->loses = loses;
    for (int k = 0; k < SERVERS; k++) descents[k] = (descent){LR, begin_of(k + 1) - begin_of(k)};
    j->began = weft_seconds();
    assert_int_equal(weft_context_create(&j->context), WEFT_OK);
    assert_int_equal(weft_net_context_create(&j->world), WEFT_OK);
    weft_net_context_set_max_message(j->world, (size_t)1 << 20); /* more than the largest message */
    /* Learners start first; they must wait until the coordinator listens. */
    for (int i = 0; i < LEARNERS; i++) {
        learners[i] = (member){.job = j, .number = i};
        assert_int_equal(pthread_create(&learners[i].thread, NULL, train, &learners[i]), 0);
    }
    for (int k = 0; k <= SERVERS; k++) {
        servers[k] = (member){.job = j, .number = k};
        assert_int_equal(pthread_create(&servers[k].thread, NULL, serve, &servers[k]), 0);
    }
    disturb(j);
    for (int i = 0; i < LEARNERS; i++) pthread_join(learners[i].thread, NULL);
    atomic_store(&j->stop, 1);
    for (int k = 0; k <= SERVERS; k++) pthread_join(servers[k].thread, NULL);
    assert_int_equal(atomic_load(&j->failures), 0);
    for (int i = 0; i < LEARNERS; i++)
        assert_memory_equal(j->w[i], expected, COUNT * sizeof(double));
    print_message("%s: %d messages, %d damaged\n", address, (int)j->reports[0].received,
                  (int)j->reports[0].damaged);
    assert_int_equal(j->reports[0].damaged, DAMAGED);
    weft_net_context_destroy(&j->world);
    weft_context_destroy(&j->context);
    free(j);
}

static void test_connections(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-net-XXXXXX", ipc[64];
    double *w;
    assert_int_equal(WEFT_NEW(&w, COUNT), WEFT_OK);
    synchronous(w);
    run_job("inproc://server-", false, w);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(ipc, sizeof(ipc), "ipc://%s/s", folder);
    run_job(ipc, false, w);
    for (int k = 0; k <= SERVERS; k++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/s%d", folder, k);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
    (void)snprintf(ipc, sizeof(ipc), "tcp://127.0.0.1:%d", 2000 + (int)(getpid() % 600));
    run_job(ipc, false, w);
    free(w);
}

/* A server dies, and the replica of its range on the other server becomes primary: the parameters
 * have the bits of an undisturbed run. */
static void test_lost_server(void **state)
{
    (void)state;
    char tcp[64];
    double *w;
    assert_int_equal(WEFT_NEW(&w, COUNT), WEFT_OK);
    synchronous(w);
    run_job("inproc://lost-", true, w);
    (void)snprintf(tcp, sizeof(tcp), "tcp://127.0.0.1:%d", 2600 + (int)(getpid() % 600));
    run_job(tcp, true, w);
    free(w);
}

static void test_address(void **state)
{
    (void)state;
    weft_net_context *world;
    weft_actor *actor;
    weft_net *net;
    assert_int_equal(weft_net_context_create(&world), WEFT_OK);
    weft_server_options options = {.struct_size = sizeof(options), .member = member_of(1, 0)};
    assert_int_equal(weft_server_create(&options, &actor), WEFT_OK);
    assert_int_equal(weft_net_open(world, actor, 1, "tcp://127.0.0.1:x", &net), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_message(), "tcp://127.0.0.1:x: 'x' is no port"));
    weft_net_context_destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_lost_server),
        cmocka_unit_test(test_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
