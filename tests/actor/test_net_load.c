/* A runtime over ZeroMQ whose messages come faster than its actor handles them, so that the queue
 * of one socket is never empty: its timers run, its other sockets are read, and each call of
 * weft_net_poll ends. */
#include <time.h>

#include "actor/net.h"
#include "scripted_actor.h"

enum { SERVER = 0, PEER = 1, LEARNER = 2, ACTORS = 3, MOST = 2000, TIMER = 0, REPLY = -1 };
static const char *const addresses[ACTORS] = {"inproc://server", "inproc://peer"};

static weft_net *nets[ACTORS];

static weft_status send_from(int sender, weft_actor_id to)
{
    weft_message message = {.type = 1, .head = "push", .head_bytes = 4};
    return weft_actor_send(weft_net_actor(nets[sender]), to, &message);
}

static weft_status server_begin(player *p)
{
    WEFT_TRY(weft_actor_set_timer(&p->head, TIMER, 0));
    return send_from(SERVER, PEER);
}

/* Handles a push in no less than a millisecond, in which the learner sends the next one. */
static weft_status server_message(player *p, const weft_message *message)
{
    const struct timespec update = {.tv_nsec = 1000000};
    if (message->from == PEER) {
        note(p, REPLY);
        return WEFT_OK;
    }
    (void)nanosleep(&update, NULL);
    return ++p->seen < MOST ? send_from(LEARNER, SERVER) : WEFT_OK;
}

static weft_status server_timer(player *p, int timer)
{
    assert_int_equal(timer, TIMER);
    note(p, p->seen);
    return WEFT_OK;
}

static weft_status answer(player *p, const weft_message *message)
{
    return weft_actor_send(&p->head, message->from, message);
}

static void test_flooded_server(void **state)
{
    (void)state;
    weft_net_context *world;
    script scripts[ACTORS] = {
        [SERVER] = {.begin = server_begin, .message = server_message, .timer = server_timer},
        [PEER] = {.message = answer}};
    assert_int_equal(weft_net_context_create(&world), WEFT_OK);
    for (int i = 0; i < ACTORS; i++) {
        weft_actor *actor;
        assert_int_equal(make(scripts, (weft_actor_id)i, 0, &actor), WEFT_OK);
        assert_int_equal(weft_net_open(world, actor, (weft_actor_id)i, addresses[i], &nets[i]),
                         WEFT_OK);
    }
    assert_int_equal(weft_net_add_peer(nets[SERVER], PEER, addresses[PEER]), WEFT_OK);
    assert_int_equal(weft_net_add_peer(nets[LEARNER], SERVER, addresses[SERVER]), WEFT_OK);
    assert_int_equal(weft_net_begin(nets[SERVER]), WEFT_OK);
    assert_int_equal(weft_net_poll(nets[PEER], 0), WEFT_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(send_from(LEARNER, SERVER), WEFT_OK);
    assert_int_equal(weft_net_poll(nets[SERVER], 0), WEFT_OK);
    const player *server = (const player *)weft_net_actor(nets[SERVER]);
    const script *noted = &scripts[SERVER];
    print_message("%d messages in one poll\n", (int)server->seen);
    assert_true(server->seen > 0 && server->seen < MOST / 2);
    assert_int_equal(noted->notes, 2);
    assert_int_equal(noted->what[0], REPLY);
    assert_int_equal(noted->what[1], server->seen);
    for (int i = 0; i < ACTORS; i++) weft_net_close(&nets[i]);
    weft_net_context_destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flooded_server)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
