/* Tests of authentication over TCP (ZeroMQ's CURVE): connections without an allowed key, random
 * bytes and damaged messages reach no actor and leave a line in the log, while allowed clients go
 * on. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "actor/net_internal.h"
#include "net_pair.h"

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

/* Writes the greeting of ZeroMQ's protocol (ZMTP): signature, version and security mechanism. */
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
        /* The header of a ZMTP command with a length of 2^63 - 1 bytes. */
        memcpy(hello + 64, (uint8_t[]){6, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8);
        throw_bytes(at, &random, hello, i % 4 == 3 && bytes == 64 ? 72 : bytes);
        if (i % 10 == 0) assert_int_equal(talk(&client, &server, SERVER, 1, 10), 1);
    }
    goes_on(&server, &client, true);
    assert_true(weft_net_stats(server.net).refused > 0);
    pair_close(&server, &client);
}

/* Connections that members have broken off, as they do when a process that was stopped does not
 * answer, have not failed in the handshake; one without a key has. */
static void test_broken_off(void **state)
{
    (void)state;
    enum { BROKEN = 20 };
    side server, client;
    char at[256];
    uint8_t hello[64];
    pair_open(&server, &client, at);
    *strchr(at, '#') = '\0';
    for (int i = 0; i < BROKEN; i++) {
        int file = dial(at);
        greeting(hello, 3, "CURVE");
        ssize_t bytes = i % 2 ? 64 : i;
        assert_int_equal(send(file, hello, (size_t)bytes, MSG_NOSIGNAL), bytes);
        close(file);
    }
    int file = dial(at);
    greeting(hello, 3, "NULL");
    assert_int_equal(send(file, hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
    double until = weft_seconds() + 60;
    while (weft_net_stats(server.net).refused == 0 && weft_seconds() < until)
        assert_int_equal(weft_net_poll(server.net, 0.05), WEFT_OK);
    close(file);
    goes_on(&server, &client, true);
    assert_int_equal(weft_net_stats(server.net).refused, 1);
    pair_close(&server, &client);
}

/* Sends random bytes to a server without keys, which listens on this machine only. */
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
    assert_int_equal(weft_net_add_peer(client.net, SERVER, at), WEFT_OK);
    weft_random_start(&random, 2025, 1);
    for (int i = 0; i < 150; i++) {
        greeting(hello, (uint8_t)(i % 7), "NULL");
        throw_bytes(at, &random, hello, i % 2 ? 64 : 0);
        if (i % 10 == 0) assert_int_equal(talk(&client, &server, SERVER, 1, 10), 1);
    }
    goes_on(&server, &client, true);
    pair_close(&server, &client);
}

/* --- ZeroMQ clients without the right keys --- */

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
    assert_int_equal(weft_net_add_peer(stranger.net, SERVER, at), WEFT_OK);
    assert_int_equal(talk(&stranger, &server, SERVER, 1, 2), 0);
    assert_int_equal(echo_of(stranger.net)->heard, 0);
    bool listens;
    assert_non_null(weft_net_connect_error(stranger.net, SERVER, &listens));
    assert_true(listens);
    for (int i = 0; i < 5; i++) {
        /* The client tries again and again; its error message stays the same. */
        assert_string_equal(
            weft_net_connect_error(stranger.net, SERVER, &listens),
            armed && right_server_key ? "it does not admit the key of this process"
            : armed ? "its public key is not the one after '#' in the address, or it is not a Weft "
                      "process"
                    : "it accepts only connections with keys (give --key FILE, and the address "
                      "with #KEY as the coordinator printed it), or it is not a Weft process");
        assert_int_equal(talk(&stranger, &server, SERVER, 1, 0.3), 0);
    }
    goes_on(&server, &client, true);
    /* When its key is allowed, the client's next attempt succeeds. */
    if (armed && right_server_key) {
        assert_int_equal(weft_net_context_allow(server.world, &stranger.key), WEFT_OK);
        assert_int_equal(talk(&stranger, &server, SERVER, 1, 10), 1);
        assert_null(weft_net_connect_error(stranger.net, SERVER, &listens));
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

/* --- clients with an allowed key that send wrong messages --- */

/* A plain ZeroMQ socket with the keys `own`, whose routing id is that of actor `id`. */
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

/* Sends a message of `id` without head and payload. change: index of an envelope byte that is
 * damaged; below 0: none. inside: the envelope claims that the sender is in the same process. */
static void send_whole(void *socket, weft_actor_id id, int change, bool inside)
{
    uint8_t head[WEFT_ENVELOPE_BYTES];
    weft_message message = {.type = 3};
    weft_envelope e = weft_envelope_of(id, SERVER, &message, inside);
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
    assert_int_equal(weft_net_context_allow(server.world, &own.public_key), WEFT_OK);
    void *socket = raw_socket(zmq, at, &own, STRANGER);
    int heard = echo_of(server.net)->heard;
    send_whole(socket, STRANGER, -1, false); /* valid */
    pump_for(&server, 0.5);
    assert_int_equal(echo_of(server.net)->heard, heard + 1);
    assert_int_equal(weft_net_stats(server.net).damaged, 0);
    send_whole(socket, STRANGER, 0, false);  /* wrong magic */
    send_whole(socket, STRANGER, 4, false);  /* wrong version */
    send_whole(socket, STRANGER, 35, false); /* wrong checksum */
    send_whole(socket, CLIENT, -1, false);   /* id of another actor */
    send_whole(socket, STRANGER, -1, true);  /* claims the same process */
    pump_for(&server, 0.5);
    assert_int_equal(weft_net_stats(server.net).damaged, 5);
    assert_int_equal(echo_of(server.net)->heard, heard + 1);
    /* Another connection uses the client's routing id, but not its key. */
    void *second = raw_socket(zmq, at, &own, CLIENT);
    send_whole(second, CLIENT, -1, false);
    pump_for(&server, 0.5);
    assert_int_equal(weft_net_stats(server.net).damaged, 6);
    zmq_close(second);
    /* A payload that exceeds the message limit does not reach the actor, and the server goes on. */
    send_frames(socket, "", 0, (size_t)5 << 20);
    pump_for(&server, 0.5);
    assert_int_equal(echo_of(server.net)->heard, heard + 1);
    zmq_close(socket);
    goes_on(&server, &client, true);
    zmq_ctx_term(zmq);
    pair_close(&server, &client);
}

/* --- ids belong to keys --- */

/* The address of a process with this key, at which nobody listens. */
static const char *address_with(const weft_key *key, char out[128])
{
    char text[WEFT_KEY_TEXT];
    weft_key_text(key, text);
    (void)snprintf(out, 128, "tcp://127.0.0.1:9#%s", text);
    return out;
}

/* An admitted key sends as the coordinator, and as a member that has sent nothing yet. Their ids
 * belong to the keys in their addresses, so no such message counts, and those with the right key
 * do. */
static void test_ids_belong_to_keys(void **state)
{
    (void)state;
    static const weft_actor_id ids[] = {0, STRANGER};
    side server, client;
    char at[256], text[128];
    weft_key_pair own, right;
    void *zmq = zmq_ctx_new();
    pair_open(&server, &client, at);
    assert_int_equal(weft_key_pair_make(&own), WEFT_OK);
    assert_int_equal(weft_key_pair_make(&right), WEFT_OK);
    assert_int_equal(weft_net_context_allow(server.world, &own.public_key), WEFT_OK);
    int heard = echo_of(server.net)->heard;
    for (size_t i = 0; i < WEFT_COUNT(ids); i++) {
        const char *address = address_with(&right.public_key, text);
        assert_int_equal(weft_net_add_peer(server.net, ids[i], i ? strchr(address, '#') : address),
                         WEFT_OK);
        void *wrong = raw_socket(zmq, at, &own, ids[i]);
        send_whole(wrong, ids[i], -1, false);
        pump_for(&server, 0.5);
        assert_int_equal(echo_of(server.net)->heard, heard + (int)i);
        assert_int_equal(weft_net_stats(server.net).damaged, i + 1);
        zmq_close(wrong);
        void *fits = raw_socket(zmq, at, &right, ids[i]);
        send_whole(fits, ids[i], -1, false);
        pump_for(&server, 0.5);
        assert_int_equal(echo_of(server.net)->heard, heard + 1 + (int)i);
        zmq_close(fits);
    }
    goes_on(&server, &client, true);
    zmq_ctx_term(zmq);
    pair_close(&server, &client);
}

/* The process at the other end of an own connection answers in the name of another actor. */
static void test_answers_are_the_receivers(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    pair_open(&server, &client, at);
    int heard = echo_of(client.net)->heard;
    server.net->actor->id = 0;
    send_number(&server, CLIENT, 1);
    server.net->actor->id = SERVER;
    pump_for(&client, 0.5);
    assert_int_equal(echo_of(client.net)->heard, heard);
    assert_int_equal(weft_net_stats(client.net).damaged, 1);
    goes_on(&server, &client, false);
    pair_close(&server, &client);
}

/* A binding outlasts a silence after which other senders are forgotten, also in a table that grows;
 * it ends when the actor is gone. */
static void test_bindings_stay(void **state)
{
    (void)state;
    enum { MEMBERS = 200 };
    weft_inbound_table callers = {0};
    weft_key_pair keys;
    char text[128], name[WEFT_KEY_TEXT];
    double now = weft_seconds();
    uint64_t route;
    bool inside;
    assert_int_equal(weft_key_pair_make(&keys), WEFT_OK);
    weft_key_text(&keys.public_key, name);
    for (weft_actor_id id = 0; id < MEMBERS; id++)
        assert_true(weft_inbound_bind(&callers, id, address_with(&keys.public_key, text)));
    for (weft_actor_id id = 0; id < 4 * MEMBERS; id++) /* ids that are not bound */
        assert_true(weft_inbound_admit(&callers, 10000 + id, 1, "another", now + id, false));
    for (weft_actor_id id = 0; id < MEMBERS; id++) {
        assert_false(weft_inbound_admit(&callers, id, 1, "another", now + 9000, false));
        assert_false(weft_inbound_route(&callers, id, &route, &inside));
        assert_true(weft_inbound_admit(&callers, id, 2, name, now + 9000, false));
        assert_true(weft_inbound_route(&callers, id, &route, &inside) && route == 2);
    }
    /* An address with another key than that of the messages so far does not fit, and counts. */
    assert_false(weft_inbound_bind(&callers, 10000 + 4 * MEMBERS - 1, text));
    assert_true(weft_inbound_admit(&callers, 10000 + 4 * MEMBERS - 1, 1, name, now + 9000, false));
    weft_inbound_unbind(&callers, 0);
    assert_false(weft_inbound_admit(&callers, 0, 1, "another", now + 9001, false));
    free(callers.slots);
}

/* --- rate limit --- */

/* In each second of each sender, 100000 messages are admitted, and no more. */
static void test_rate(void **state)
{
    (void)state;
    enum { MOST = 100000, MORE = 50 };
    weft_inbound_table callers = {0};
    for (int second = 0; second < 3; second++) {
        double now = 5 + second;
        for (int i = 0; i < MOST + MORE; i++) {
            bool admitted =
                weft_inbound_admit(&callers, CLIENT, 1, NULL, now + 0.9 * i / (MOST + MORE), false);
            if (admitted != (i < MOST)) fail_msg("message %d in second %d", i, second);
        }
        assert_true(weft_inbound_admit(&callers, STRANGER, 2, NULL, now + 0.9, false));
    }
    free(callers.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bytes),       cmocka_unit_test(test_random_bytes_plain),
        cmocka_unit_test(test_broken_off),         cmocka_unit_test(test_key_not_allowed),
        cmocka_unit_test(test_wrong_server_key),   cmocka_unit_test(test_no_key),
        cmocka_unit_test(test_allowed_but_wrong),  cmocka_unit_test(test_rate),
        cmocka_unit_test(test_ids_belong_to_keys), cmocka_unit_test(test_answers_are_the_receivers),
        cmocka_unit_test(test_bindings_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
