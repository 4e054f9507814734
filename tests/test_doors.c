/* Who may come in where letters come by tcp: strangers of every kind do nothing but a line in the
 * log, while those whose keys are allowed go on. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "actor/envelope.h"
#include "actor/net.h"

/* --- an actor that answers every letter with the same one --- */

typedef struct echo {
    weft_actor head;
    bool answers;
    int heard;
    uint64_t sum; /* of what letters said */
} echo;

static weft_status echo_begin(weft_actor *actor)
{
    (void)actor;
    return WEFT_OK;
}

static weft_status echo_letter(weft_actor *actor, const weft_letter *letter)
{
    echo *e = (echo *)actor;
    uint64_t number = 0;
    memcpy(&number, letter->head, WEFT_MIN(letter->head_bytes, sizeof(number)));
    e->heard++;
    e->sum += number;
    return e->answers ? weft_actor_send(actor, letter->from, letter) : WEFT_OK;
}

static weft_status echo_timer(weft_actor *actor, int timer)
{
    (void)actor;
    (void)timer;
    return WEFT_OK;
}

static void echo_destroy(weft_actor *actor)
{
    free(actor);
}

static const weft_actor_ops echo_ops = {
    .name = "echo",
    .begin = echo_begin,
    .letter = echo_letter,
    .timer = echo_timer,
    .destroy = echo_destroy,
};

static weft_actor *echo_new(bool answers)
{
    echo *e;
    assert_int_equal(WEFT_NEW(&e, 1), WEFT_OK);
    e->head.ops = &echo_ops;
    e->answers = answers;
    return &e->head;
}

static const echo *echo_of(const weft_net *net)
{
    return (const echo *)weft_net_actor(net);
}

/* --- a side: a world of its own, as in a process of its own --- */

typedef struct side {
    weft_context *context;
    weft_net_world *world;
    weft_key key; /* public */
    weft_net *net;
    int lines;
    char line[1024];
} side;

static void on_log(void *user, weft_log_level level, const char *text)
{
    side *s = user;
    (void)level;
    s->lines++;
    (void)snprintf(s->line, sizeof(s->line), "%s", text);
}

static void side_open(side *s, bool armed, weft_actor_id id, bool answers)
{
    *s = (side){0};
    assert_int_equal(weft_context_create(&s->context), WEFT_OK);
    weft_context_set_log(s->context, on_log, s);
    assert_int_equal(weft_net_world_of(s->context, &s->world), WEFT_OK);
    weft_net_world_expect(s->world, 4 << 20);
    if (armed) assert_int_equal(weft_net_world_arm(s->world, NULL), WEFT_OK);
    assert_int_equal(weft_net_world_armed(s->world, &s->key), armed);
    assert_int_equal(weft_net_open(s->world, echo_new(answers), id, NULL, &s->net), WEFT_OK);
}

static void side_close(side *s)
{
    weft_net_close(&s->net);
    weft_context_destroy(&s->context);
}

static void send_number(const side *s, weft_actor_id to, uint64_t number)
{
    weft_letter letter = {.type = 1, .head = &number, .head_bytes = sizeof(number)};
    assert_int_equal(weft_actor_send(weft_net_actor(s->net), to, &letter), WEFT_OK);
}

/* So many letters there and back; how many came back in time. */
static int talk(side *client, side *server, weft_actor_id to, int count, double limit)
{
    double until = weft_seconds() + limit, again = 0;
    int before = echo_of(client->net)->heard;
    while (echo_of(client->net)->heard - before < count && weft_seconds() < until) {
        if (weft_seconds() >= again) {
            send_number(client, to, 1);
            again = weft_seconds() + 0.01;
        }
        assert_int_equal(weft_net_pump(server->net, 0.002), WEFT_OK);
        assert_int_equal(weft_net_pump(client->net, 0.002), WEFT_OK);
    }
    return WEFT_MIN(echo_of(client->net)->heard - before, count);
}

static void pump_for(side *server, double seconds)
{
    double until = weft_seconds() + seconds;
    while (weft_seconds() < until) assert_int_equal(weft_net_pump(server->net, 0.02), WEFT_OK);
}

enum { SERVER = 7, CLIENT = 8, STRANGER = 9 };

/* A server and a client who know each other. */
static void pair_open(side *server, side *client, char at[256])
{
    side_open(server, true, SERVER, true);
    side_open(client, true, CLIENT, false);
    assert_int_equal(weft_net_bind(server->net, "tcp://127.0.0.1:*", at, 256), WEFT_OK);
    assert_int_equal(weft_net_world_allow(server->world, &client->key), WEFT_OK);
    assert_int_equal(weft_net_know(client->net, SERVER, at), WEFT_OK);
    assert_int_equal(talk(client, server, SERVER, 3, 10), 3);
}

static void pair_close(side *server, side *client)
{
    side_close(client);
    side_close(server);
}

/* Whatever was done, those who know each other go on; and the log has been told, if it was to be.
 */
static void goes_on(side *server, side *client, bool told)
{
    pump_for(server, 1.2);
    assert_int_equal(talk(client, server, SERVER, 20, 10), 20);
    assert_int_equal(server->lines > 0, told);
    if (told) assert_non_null(strstr(server->line, "echo 7 at tcp://127.0.0.1:"));
}

/* --- bytes over plain TCP --- */

static int dial(const char *at)
{
    int port = atoi(strrchr(at, ':') + 1), one = 1;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof(to)), 0);
    (void)setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    return file;
}

static void throw_bytes(const char *at, weft_random *random, const void *first, size_t first_bytes)
{
    uint8_t bytes[4096];
    int file = dial(at);
    size_t count = weft_random_u32(random) % sizeof(bytes);
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)weft_random_u32(random);
    if (first_bytes) memcpy(bytes, first, first_bytes);
    (void)send(file, bytes, WEFT_MAX(count, first_bytes), MSG_NOSIGNAL);
    close(file);
}

/* The greeting of ZeroMQ's protocol: a signature, a version, how it will be secured, and as what.
 */
static void greeting(uint8_t out[64], uint8_t major, const char *mechanism)
{
    memset(out, 0, 64);
    out[0] = 0xff;
    out[8] = 1;
    out[9] = 0x7f;
    out[10] = major;
    (void)snprintf((char *)out + 12, 20, "%s", mechanism);
}

static void test_random_bytes(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    uint8_t hello[72];
    weft_random random;
    static const char *const mechanisms[] = {"NULL", "PLAIN", "CURVE", "", "GSSAPI"};
    pair_open(&server, &client, at);
    *strchr(at, '#') = '\0';
    weft_random_start(&random, 2024, 1);
    for (int i = 0; i < 150; i++) {
        size_t bytes = 0;
        greeting(hello, (uint8_t)(i % 7), mechanisms[i % 5]);
        if (i % 3 == 1) bytes = 64;
        if (i % 3 == 2) bytes = weft_random_u32(&random) % 64;
        /* A command that says it is longer than all memory. */
        memcpy(hello + 64, (uint8_t[]){6, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8);
        throw_bytes(at, &random, hello, i % 4 == 3 && bytes == 64 ? 72 : bytes);
        if (i % 10 == 0) assert_int_equal(talk(&client, &server, SERVER, 1, 10), 1);
    }
    goes_on(&server, &client, true);
    assert_true(weft_net_tell(server.net).refused > 0);
    pair_close(&server, &client);
}

/* The same where there are no keys, inside of a machine. */
static void test_random_bytes_plain(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    uint8_t hello[64];
    weft_random random;
    side_open(&server, false, SERVER, true);
    side_open(&client, false, CLIENT, false);
    assert_int_equal(weft_net_bind(server.net, "tcp://127.0.0.1:*", at, sizeof(at)), WEFT_OK);
    assert_int_equal(weft_net_know(client.net, SERVER, at), WEFT_OK);
    weft_random_start(&random, 2025, 1);
    for (int i = 0; i < 150; i++) {
        greeting(hello, (uint8_t)(i % 7), "NULL");
        throw_bytes(at, &random, hello, i % 2 ? 64 : 0);
        if (i % 10 == 0) assert_int_equal(talk(&client, &server, SERVER, 1, 10), 1);
    }
    goes_on(&server, &client, true);
    pair_close(&server, &client);
}

/* --- others who speak the protocol --- */

static void stays_out(bool armed, bool right_server_key)
{
    side server, client, stranger;
    char at[256], text[WEFT_KEY_TEXT];
    pair_open(&server, &client, at);
    side_open(&stranger, armed, STRANGER, false);
    char *key = strchr(at, '#');
    if (!armed) *key = '\0';
    if (armed && !right_server_key) {
        weft_key_text(&client.key, text);
        memcpy(key + 1, text, WEFT_KEY_TEXT);
    }
    assert_int_equal(weft_net_know(stranger.net, SERVER, at), WEFT_OK);
    assert_int_equal(talk(&stranger, &server, SERVER, 1, 2), 0);
    assert_int_equal(echo_of(stranger.net)->heard, 0);
    assert_non_null(weft_net_trouble(stranger.net, SERVER));
    for (int i = 0; i < 5; i++) {
        /* It says the same as long as it tries. */
        assert_string_equal(weft_net_trouble(stranger.net, SERVER),
                            armed && right_server_key ? "it does not allow the key of this side"
                                                      : "who is there has not the key that is "
                                                        "expected, or is none of this program");
        assert_int_equal(talk(&stranger, &server, SERVER, 1, 0.3), 0);
    }
    goes_on(&server, &client, true);
    /* Once it is allowed it comes in, by itself. */
    if (armed && right_server_key) {
        assert_int_equal(weft_net_world_allow(server.world, &stranger.key), WEFT_OK);
        assert_int_equal(talk(&stranger, &server, SERVER, 1, 10), 1);
        assert_null(weft_net_trouble(stranger.net, SERVER));
    }
    side_close(&stranger);
    pair_close(&server, &client);
}

static void test_key_not_allowed(void **state)
{
    (void)state;
    stays_out(true, true);
}

static void test_wrong_server_key(void **state)
{
    (void)state;
    stays_out(true, false);
}

static void test_no_key(void **state)
{
    (void)state;
    stays_out(false, false);
}

/* --- those who are allowed and do what they may not --- */

/* A socket of ZeroMQ's own, with the keys of `own`, that calls itself as actor `id` does. */
static void *raw_socket(void *zmq, const char *at, const weft_key_pair *own, weft_actor_id id)
{
    char where[256], name[13] = {'W'};
    weft_key server;
    int linger = 500;
    void *socket = zmq_socket(zmq, ZMQ_DEALER);
    memcpy(name + 1, &id, 4);
    (void)snprintf(where, sizeof(where), "%s", at);
    char *key = strchr(where, '#');
    *key = '\0';
    assert_true(weft_key_read(key + 1, &server));
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_ROUTING_ID, name, sizeof(name)), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, &server, 32), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, &own->public_key, 32), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, &own->secret, 32), 0);
    assert_int_equal(zmq_connect(socket, where), 0);
    return socket;
}

static void send_frames(void *socket, const void *head, size_t head_bytes, size_t payload_bytes)
{
    void *payload = calloc(payload_bytes + 1, 1);
    assert_non_null(payload);
    assert_true(zmq_send(socket, head, head_bytes, ZMQ_SNDMORE) >= 0);
    assert_true(zmq_send(socket, "", 0, payload_bytes ? ZMQ_SNDMORE : 0) >= 0);
    if (payload_bytes) assert_true(zmq_send(socket, payload, payload_bytes, 0) >= 0);
    free(payload);
}

/* A letter from `id` without head and payload, whole. */
static void send_whole(void *socket, weft_actor_id id, int change, bool inside)
{
    uint8_t head[WEFT_ENVELOPE_BYTES];
    weft_letter letter = {.type = 3};
    weft_envelope e = weft_envelope_of(id, SERVER, &letter, inside);
    weft_envelope_write(&e, head);
    if (change >= 0) head[change] ^= 0x40;
    send_frames(socket, head, sizeof(head), 0);
}

static void test_allowed_but_wrong(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    weft_key_pair own;
    void *zmq = zmq_ctx_new();
    pair_open(&server, &client, at);
    assert_int_equal(weft_key_pair_make(&own), WEFT_OK);
    assert_int_equal(weft_net_world_allow(server.world, &own.public_key), WEFT_OK);
    void *socket = raw_socket(zmq, at, &own, STRANGER);
    int heard = echo_of(server.net)->heard;
    send_whole(socket, STRANGER, -1, false); /* as it must be */
    pump_for(&server, 0.5);
    assert_int_equal(echo_of(server.net)->heard, heard + 1);
    assert_int_equal(weft_net_tell(server.net).damaged, 0);
    send_whole(socket, STRANGER, 0, false);  /* another magic */
    send_whole(socket, STRANGER, 4, false);  /* another version */
    send_whole(socket, STRANGER, 35, false); /* another checksum */
    send_whole(socket, CLIENT, -1, false);   /* in another one's name */
    send_whole(socket, STRANGER, -1, true);  /* as if it were in this process */
    pump_for(&server, 0.5);
    assert_int_equal(weft_net_tell(server.net).damaged, 5);
    assert_int_equal(echo_of(server.net)->heard, heard + 1);
    /* Of another connection that calls itself as the client does, with a key of its own. */
    void *second = raw_socket(zmq, at, &own, CLIENT);
    send_whole(second, CLIENT, -1, false);
    pump_for(&server, 0.5);
    assert_int_equal(weft_net_tell(server.net).damaged, 6);
    zmq_close(second);
    /* More bytes than anybody expects, and then the server is still there. */
    send_frames(socket, "", 0, (size_t)5 << 20);
    pump_for(&server, 0.5);
    assert_int_equal(echo_of(server.net)->heard, heard + 1);
    zmq_close(socket);
    goes_on(&server, &client, true);
    zmq_ctx_term(zmq);
    pair_close(&server, &client);
}

static void test_too_large_to_send(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    weft_blob *blob;
    pair_open(&server, &client, at);
    assert_int_equal(weft_blob_new((size_t)5 << 20, &blob), WEFT_OK);
    weft_letter letter = {.type = 1, .payload = blob};
    assert_int_equal(weft_actor_send(weft_net_actor(client.net), SERVER, &letter),
                     WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_last_message(), "letter of 5242880 bytes"));
    weft_blob_drop(&blob);
    pair_close(&server, &client);
}

/* --- one that sends without end --- */

static void test_rate(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    pair_open(&server, &client, at);
    double until = weft_seconds() + 1.5;
    int heard = echo_of(server.net)->heard;
    while (weft_seconds() < until) {
        for (int i = 0; i < 500; i++) send_number(&client, SERVER, 1);
        assert_int_equal(weft_net_pump(server.net, 0), WEFT_OK);
        assert_int_equal(weft_net_pump(client.net, 0), WEFT_OK);
    }
    /* As many as a second may have, in each that began. */
    assert_true(echo_of(server.net)->heard - heard <= 300000);
    goes_on(&server, &client, weft_net_tell(server.net).damaged > 0);
    pair_close(&server, &client);
}

/* --- addresses --- */

static void test_beyond_this_machine(void **state)
{
    (void)state;
    side s;
    char at[512], text[WEFT_KEY_TEXT];
    static const char *const far[] = {"tcp://*:*", "tcp://0.0.0.0:*", "tcp://10.1.2.3:77",
                                      "tcp://127.example.org:77", "tcp://[::]:*"};
    side_open(&s, false, SERVER, true);
    for (size_t i = 0; i < WEFT_COUNT(far); i++) {
        assert_int_equal(weft_net_bind(s.net, far[i], at, sizeof(at)), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(weft_last_message(), "--open-unencrypted"));
        assert_int_equal(weft_net_know(s.net, 1, far[i]), WEFT_ERR_ARGUMENT);
    }
    weft_net_world_open(s.world);
    assert_int_equal(weft_net_bind(s.net, "tcp://*:*", at, sizeof(at)), WEFT_OK);
    assert_null(strchr(at, '#'));
    assert_null(strstr(at, "0.0.0.0"));
    side_close(&s);
    /* With keys there is no need to open anything, and the address says which key it is. */
    side_open(&s, true, SERVER, true);
    assert_int_equal(weft_net_bind(s.net, "tcp://*:*", at, sizeof(at)), WEFT_OK);
    weft_key_text(&s.key, text);
    assert_non_null(strstr(at, text));
    assert_int_equal(weft_net_know(s.net, 1, "tcp://10.1.2.3:77"), WEFT_ERR_ARGUMENT);
    side_close(&s);
}

static void test_no_address(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "tcp://",
                                        "tcp://x",
                                        "tcp://:5",
                                        "udp://a:5",
                                        "a:5",
                                        "ipc://",
                                        "tcp://a:5#",
                                        "tcp://a:5#12",
                                        "tcp://127.0.0.1:",
                                        "tcp://127.0.0.1:65536",
                                        "tcp://127.0.0.1:99999",
                                        "tcp://127.0.0.1:x",
                                        "tcp://[::1]:-1"};
    side s;
    char at[256];
    side_open(&s, true, SERVER, true);
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        if (wrong[i][0]) assert_int_equal(weft_net_know(s.net, 1, wrong[i]), WEFT_ERR_ARGUMENT);
        assert_int_equal(weft_net_bind(s.net, wrong[i], at, sizeof(at)), WEFT_ERR_ARGUMENT);
    }
    side_close(&s);
}

/* As many in one process as the system gives files; and then the limit is named that is met. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 1300 };
    static weft_net *nets[MANY];
    struct rlimit before, now;
    weft_net_world *world;
    weft_net *one;
    char words[64];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = WEFT_MIN(before.rlim_max, (rlim_t)4 * MANY);
    if (now.rlim_cur < 2 * MANY) skip();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(weft_net_world_create(&world), WEFT_OK);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(words, sizeof(words), "inproc://many-%d", i);
        assert_int_equal(weft_net_open(world, echo_new(true), (weft_actor_id)i, words, &nets[i]),
                         WEFT_OK);
    }
    now.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(weft_net_open(world, echo_new(true), MANY, "inproc://one-more", &one),
                     WEFT_ERR_IO);
    assert_non_null(strstr(weft_last_message(), "may have 64 open files"));
    assert_non_null(strstr(weft_last_message(), "ulimit -n"));
    for (int i = 0; i < MANY; i++) weft_net_close(&nets[i]);
    weft_net_world_destroy(&world);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Two at one port: the second is told so. */
static void test_taken_port(void **state)
{
    (void)state;
    side a, b;
    char at[256];
    side_open(&a, false, SERVER, true);
    side_open(&b, false, SERVER, true);
    assert_int_equal(weft_net_bind(a.net, "tcp://127.0.0.1:*", at, sizeof(at)), WEFT_OK);
    assert_int_equal(weft_net_bind(b.net, at, NULL, 0), WEFT_ERR_IO);
    assert_non_null(strstr(weft_last_message(), "another one is there already"));
    side_close(&a);
    side_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_random_bytes_plain),
        cmocka_unit_test(test_key_not_allowed),
        cmocka_unit_test(test_wrong_server_key),
        cmocka_unit_test(test_no_key),
        cmocka_unit_test(test_allowed_but_wrong),
        cmocka_unit_test(test_too_large_to_send),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_beyond_this_machine),
        cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_taken_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
