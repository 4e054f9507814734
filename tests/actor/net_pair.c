/* Opens and closes the two ends of net_pair.h, and exchanges numbered messages between them. */
#include "net_pair.h"

static weft_status echo_begin(weft_actor *actor)
{
    (void)actor;
    return WEFT_OK;
}

static weft_status echo_message(weft_actor *actor, const weft_message *message)
{
    echo *e = (echo *)actor;
    uint64_t number = 0;
    memcpy(&number, message->head, WEFT_MIN(message->head_bytes, sizeof(number)));
    e->heard++;
    e->sum += number;
    return e->answers ? weft_actor_send(actor, message->from, message) : WEFT_OK;
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
    .message = echo_message,
    .timer = echo_timer,
    .destroy = echo_destroy,
};

weft_actor *echo_new(bool answers)
{
    echo *e;
    assert_int_equal(WEFT_NEW(&e, 1), WEFT_OK);
    e->head.ops = &echo_ops;
    e->answers = answers;
    return &e->head;
}

const echo *echo_of(const weft_net *net)
{
    return (const echo *)weft_net_actor(net);
}

static void on_log(void *user, weft_log_level level, const char *text)
{
    side *s = user;
    (void)level;
    s->lines++;
    (void)snprintf(s->line, sizeof(s->line), "%s", text);
}

void side_open(side *s, bool armed, weft_actor_id id, bool answers)
{
    *s = (side){0};
    assert_int_equal(weft_context_create(&s->context), WEFT_OK);
    weft_context_set_log(s->context, on_log, s);
    assert_int_equal(weft_net_context_of(s->context, &s->world), WEFT_OK);
    weft_net_context_set_max_message(s->world, 4 << 20);
    if (armed) assert_int_equal(weft_net_context_set_keys(s->world, NULL), WEFT_OK);
    assert_int_equal(weft_net_context_has_keys(s->world, &s->key), armed);
    assert_int_equal(weft_net_open(s->world, echo_new(answers), id, NULL, &s->net), WEFT_OK);
}

void side_close(side *s)
{
    weft_net_close(&s->net);
    weft_context_destroy(&s->context);
}

void send_number(const side *s, weft_actor_id to, uint64_t number)
{
    weft_message message = {.type = 1, .head = &number, .head_bytes = sizeof(number)};
    assert_int_equal(weft_actor_send(weft_net_actor(s->net), to, &message), WEFT_OK);
}

int talk(side *client, side *server, weft_actor_id to, int count, double limit)
{
    double until = weft_seconds() + limit, again = 0;
    int before = echo_of(client->net)->heard;
    while (echo_of(client->net)->heard - before < count && weft_seconds() < until) {
        if (weft_seconds() >= again) {
            send_number(client, to, 1);
            again = weft_seconds() + 0.01;
        }
        assert_int_equal(weft_net_poll(server->net, 0.002), WEFT_OK);
        assert_int_equal(weft_net_poll(client->net, 0.002), WEFT_OK);
    }
    return WEFT_MIN(echo_of(client->net)->heard - before, count);
}

void pump_for(side *server, double seconds)
{
    double until = weft_seconds() + seconds;
    while (weft_seconds() < until) assert_int_equal(weft_net_poll(server->net, 0.02), WEFT_OK);
}

void pair_open(side *server, side *client, char at[256])
{
    side_open(server, true, SERVER, true);
    side_open(client, true, CLIENT, false);
    assert_int_equal(weft_net_bind(server->net, "tcp://127.0.0.1:*", at, 256), WEFT_OK);
    assert_int_equal(weft_net_context_allow(server->world, &client->key), WEFT_OK);
    assert_int_equal(weft_net_add_peer(client->net, SERVER, at), WEFT_OK);
    assert_int_equal(talk(client, server, SERVER, 3, 10), 3);
}

void pair_close(side *server, side *client)
{
    side_close(client);
    side_close(server);
}

void goes_on(side *server, side *client, bool told)
{
    pump_for(server, 1.2);
    assert_int_equal(talk(client, server, SERVER, 20, 10), 20);
    assert_int_equal(server->lines > 0, told);
    if (told) assert_non_null(strstr(server->line, "the echo with number 7 at tcp://127.0.0.1:"));
}
