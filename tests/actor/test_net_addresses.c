/* Tests of the addresses of actors: without keys, addresses beyond this machine are refused;
 * malformed addresses and those in use are refused with a message, and that of an ended listener
 * may be used again; a process may have many sockets, up to the limit of open files; a message that
 * is too large is not sent; all interfaces are those of IPv4 and IPv6, a name may have only an IPv6
 * address, and a port may be one of a range. */
#include <dlfcn.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net_pair.h"

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
        assert_int_equal(weft_net_add_peer(s.net, 1, far[i]), WEFT_ERR_ARGUMENT);
    }
    weft_net_context_allow_unencrypted(s.world);
    assert_int_equal(weft_net_bind(s.net, "tcp://*:*", at, sizeof(at)), WEFT_OK);
    assert_null(strchr(at, '#'));
    assert_null(strstr(at, "0.0.0.0"));
    side_close(&s);
    /* With keys, listening on all interfaces is allowed, and the address contains the public
     * key. */
    side_open(&s, true, SERVER, true);
    assert_int_equal(weft_net_bind(s.net, "tcp://*:*", at, sizeof(at)), WEFT_OK);
    weft_key_text(&s.key, text);
    assert_non_null(strstr(at, text));
    assert_int_equal(weft_net_add_peer(s.net, 1, "tcp://10.1.2.3:77"), WEFT_ERR_ARGUMENT);
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
                                        "ipc://*",
                                        "ipc://@name",
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
        if (wrong[i][0]) assert_int_equal(weft_net_add_peer(s.net, 1, wrong[i]), WEFT_ERR_ARGUMENT);
        assert_int_equal(weft_net_bind(s.net, wrong[i], at, sizeof(at)), WEFT_ERR_ARGUMENT);
    }
    /* The space would end the address among those of a member. */
    assert_int_equal(weft_net_bind(s.net, "ipc:///tmp/a b/s", at, sizeof(at)), WEFT_ERR_ARGUMENT);
    side_close(&s);
}

/* A process may open as many sockets as its limit of open files allows; the error beyond that names
 * the limit. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 1300 };
    static weft_net *nets[MANY];
    struct rlimit before, now;
    weft_net_context *world;
    weft_net *one;
    char words[64];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = WEFT_MIN(before.rlim_max, (rlim_t)4 * MANY);
    if (now.rlim_cur < 2 * MANY) skip();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(weft_net_context_create(&world), WEFT_OK);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(words, sizeof(words), "inproc://many-%d", i);
        assert_int_equal(weft_net_open(world, echo_new(true), (weft_actor_id)i, words, &nets[i]),
                         WEFT_OK);
    }
    now.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(weft_net_open(world, echo_new(true), MANY, "inproc://one-more", &one),
                     WEFT_ERR_IO);
    assert_non_null(strstr(weft_last_message(), "limit of 64 open files"));
    assert_non_null(strstr(weft_last_message(), "ulimit -n"));
    for (int i = 0; i < MANY; i++) weft_net_close(&nets[i]);
    weft_net_context_destroy(&world);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The second listener on one port gets an error that says so. */
static void test_taken_port(void **state)
{
    (void)state;
    side a, b;
    char at[256];
    side_open(&a, false, SERVER, true);
    side_open(&b, false, SERVER, true);
    assert_int_equal(weft_net_bind(a.net, "tcp://127.0.0.1:*", at, sizeof(at)), WEFT_OK);
    assert_int_equal(weft_net_bind(b.net, at, NULL, 0), WEFT_ERR_IO);
    assert_non_null(strstr(weft_last_message(), "another process listens there already"));
    side_close(&a);
    side_close(&b);
}

/* A second listener at an ipc address gets that error, too, and takes nothing from the first one;
 * the socket that a killed process has left is replaced. */
static void test_taken_file(void **state)
{
    (void)state;
    side server, client, second;
    char folder[] = "/tmp/weft-net-XXXXXX", at[64];
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(at, sizeof(at), "ipc://%s/s", folder);
    (void)snprintf(path.sun_path, sizeof(path.sun_path), "%s/s", folder);
    int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(left, (struct sockaddr *)&path, sizeof(path)), 0);
    close(left);
    side_open(&server, false, SERVER, true);
    side_open(&client, false, CLIENT, false);
    side_open(&second, false, SERVER, true);
    assert_int_equal(weft_net_bind(server.net, at, NULL, 0), WEFT_OK);
    assert_int_equal(weft_net_bind(second.net, at, NULL, 0), WEFT_ERR_IO);
    assert_non_null(strstr(weft_last_message(), "another process listens there already"));
    side_close(&second);
    assert_int_equal(weft_net_add_peer(client.net, SERVER, at), WEFT_OK);
    assert_int_equal(talk(&client, &server, SERVER, 3, 10), 3);
    side_close(&client);
    side_close(&server);
    assert_int_equal(rmdir(folder), 0);
}

/* A server listens at the address of another one that is gone. The client's connection to the old
 * one reaches the new one as well, and must not take the place of the connection to the new one. */
static void test_reused_address(void **state)
{
    (void)state;
    enum { SUCCESSOR = 17 };
    side server, client, next;
    char at[256];
    side_open(&server, false, SERVER, true);
    side_open(&client, false, CLIENT, false);
    side_open(&next, false, SUCCESSOR, true);
    assert_int_equal(weft_net_bind(server.net, "tcp://127.0.0.1:*", at, sizeof(at)), WEFT_OK);
    assert_int_equal(weft_net_add_peer(client.net, SERVER, at), WEFT_OK);
    assert_int_equal(talk(&client, &server, SERVER, 3, 10), 3);
    side_close(&server);
    assert_int_equal(weft_net_bind(next.net, at, NULL, 0), WEFT_OK);
    assert_int_equal(weft_net_add_peer(client.net, SUCCESSOR, at), WEFT_OK);
    assert_int_equal(talk(&client, &next, SUCCESSOR, 3, 10), 3);
    /* The old connection is tried again in the meantime, and has messages. */
    double until = weft_seconds() + 30;
    while (weft_net_stats(next.net).damaged == 0 && weft_seconds() < until) {
        send_number(&client, SERVER, 1);
        assert_int_equal(weft_net_poll(client.net, 0.02), WEFT_OK);
        assert_int_equal(weft_net_poll(next.net, 0.02), WEFT_OK);
    }
    assert_true(weft_net_stats(next.net).damaged > 0);
    assert_int_equal(talk(&client, &next, SUCCESSOR, 20, 10), 20);
    side_close(&client);
    side_close(&next);
}

/* A name that has only an IPv6 address, ::1, and one that has an IPv4 address, too; all others are
 * resolved as they are. ZeroMQ resolves names with this function, too. */
static const char SIX[] = "six.weft.test", BOTH[] = "both.weft.test";

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real, &found, sizeof(real));
    bool six = name && strcmp(name, SIX) == 0;
    if (six && hints && hints->ai_family == AF_INET) return EAI_NONAME;
    bool both = name && strcmp(name, BOTH) == 0;
    if (both) name = hints && hints->ai_family == AF_INET6 ? "::1" : "127.0.0.1";
    return real(six ? "::1" : name, service, hints, out);
}

static bool has_six(void)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int one = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = one >= 0 && bind(one, (struct sockaddr *)&at, sizeof(at)) == 0;
    if (one >= 0) close(one);
    return bound;
}

/* A client reaches a listener at `host`, at the port of the address `at`. */
static void reach(side *server, const char *host, const char *at)
{
    side client;
    char to[256];
    (void)snprintf(to, sizeof(to), "tcp://%s%s", host, strrchr(at, ':'));
    side_open(&client, false, CLIENT, false);
    weft_net_context_allow_unencrypted(client.world);
    assert_int_equal(weft_net_add_peer(client.net, SERVER, to), WEFT_OK);
    assert_int_equal(talk(&client, server, SERVER, 3, 30), 3);
    side_close(&client);
}

static void test_both_families(void **state)
{
    (void)state;
    side server;
    char at[512];
    if (!has_six()) skip();
    side_open(&server, false, SERVER, true);
    weft_net_context_allow_unencrypted(server.world);
    assert_int_equal(weft_net_bind(server.net, "tcp://*:*", at, sizeof(at)), WEFT_OK);
    assert_null(strstr(at, "::]"));
    reach(&server, "127.0.0.1", at);
    reach(&server, "[::1]", at);
    reach(&server, SIX, at);
    reach(&server, "localhost", at);
    side_close(&server);
    side_open(&server, false, SERVER, true);
    weft_net_context_allow_unencrypted(server.world);
    assert_int_equal(weft_net_bind(server.net, "tcp://six.weft.test:*", at, sizeof(at)), WEFT_OK);
    reach(&server, "[::1]", at);
    side_close(&server);
    /* All addresses of a name are tried, until somebody listens at one. */
    for (int six = 0; six < 2; six++) {
        side_open(&server, false, SERVER, true);
        assert_int_equal(
            weft_net_bind(server.net, six ? "tcp://[::1]:*" : "tcp://127.0.0.1:*", at, sizeof(at)),
            WEFT_OK);
        reach(&server, BOTH, at);
        side_close(&server);
    }
}

/* Listeners take the first free port of a range; behind the last one a message says so. */
static void test_range(void **state)
{
    (void)state;
    enum { PORTS = 3 };
    static const char *const wrong[] = {"tcp://127.0.0.1:7-5", "tcp://127.0.0.1:0-5",
                                        "tcp://127.0.0.1:65535-65536", "tcp://127.0.0.1:5-",
                                        "tcp://127.0.0.1:5-6x"};
    side s[PORTS + 1];
    char at[256], range[64], port[16];
    int first = 0, taken = 0;
    for (int i = 0; i <= PORTS; i++) side_open(&s[i], false, SERVER, true);
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++)
        assert_int_equal(weft_net_bind(s[0].net, wrong[i], NULL, 0), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_net_add_peer(s[0].net, 1, "tcp://127.0.0.1:7100-7102"),
                     WEFT_ERR_ARGUMENT);
    /* Other programs may have some of the ports. */
    assert_int_equal(weft_net_bind(s[0].net, "tcp://127.0.0.1:20100-60100", at, sizeof(at)),
                     WEFT_OK);
    first = atoi(strrchr(at, ':') + 1);
    assert_true(first >= 20100);
    (void)snprintf(range, sizeof(range), "tcp://127.0.0.1:%d-%d", first, first + PORTS - 1);
    for (int i = 1; i <= PORTS; i++) {
        weft_status status = weft_net_bind(s[i].net, range, at, sizeof(at));
        taken += status == WEFT_OK;
        (void)snprintf(port, sizeof(port), ":%d", first);
        if (status == WEFT_OK) assert_null(strstr(at, port));
        if (status == WEFT_OK) continue;
        assert_int_equal(status, WEFT_ERR_IO);
        assert_non_null(strstr(weft_last_message(), "all of these ports are in use"));
    }
    assert_true(taken < PORTS);
    for (int i = 0; i <= PORTS; i++) side_close(&s[i]);
}

static void test_too_large_to_send(void **state)
{
    (void)state;
    side server, client;
    char at[256];
    weft_buffer *blob;
    pair_open(&server, &client, at);
    assert_int_equal(weft_buffer_new((size_t)5 << 20, &blob), WEFT_OK);
    weft_message message = {.type = 1, .payload = blob};
    assert_int_equal(weft_actor_send(weft_net_actor(client.net), SERVER, &message),
                     WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_last_message(), "message of 5242880 bytes"));
    weft_buffer_unref(&blob);
    pair_close(&server, &client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_large_to_send),
        cmocka_unit_test(test_beyond_this_machine),
        cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_taken_port),
        cmocka_unit_test(test_reused_address),
        cmocka_unit_test(test_taken_file),
        cmocka_unit_test(test_both_families),
        cmocka_unit_test(test_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
