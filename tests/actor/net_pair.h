/* Two actors that talk over real sockets in one process. Each has a context and a net context of
 * its own, as if in a process of its own, and counts the messages that it receives. */
#ifndef WEFT_TESTS_NET_PAIR_H
#define WEFT_TESTS_NET_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/net.h"

enum { SERVER = 7, CLIENT = 8, STRANGER = 9 };

/* An actor that counts messages and, if `answers`, sends each message back to its sender. */
typedef struct echo {
    weft_actor head;
    bool answers;
    int heard;
    uint64_t sum; /* of the numbers in the messages */
} echo;

weft_actor *echo_new(bool answers);
const echo *echo_of(const weft_net *net);

/* One end of a connection: an actor, the net context with its keys, and the log of its context.
 * `lines` counts the log's lines, and `line` is the last one. */
typedef struct side {
    weft_context *context;
    weft_net_context *world;
    weft_key key; /* public */
    weft_net *net;
    int lines;
    char line[1024];
} side;

void side_open(side *s, bool armed, weft_actor_id id, bool answers);
void side_close(side *s);
void send_number(const side *s, weft_actor_id to, uint64_t number);
/* Lets the client send messages until the server has echoed `count`, or `limit` seconds have
 * passed. Returns the number of echoes that came back, at most `count`. */
int talk(side *client, side *server, weft_actor_id to, int count, double limit);
void pump_for(side *server, double seconds);

/* Opens a server and a client, both with keys. The server allows the client's key, the client knows
 * the server's address, and both have exchanged messages. */
void pair_open(side *server, side *client, char at[256]);
void pair_close(side *server, side *client);
/* Asserts that server and client still exchange messages after a disturbance, and that the server
 * has logged a warning if `told`, none otherwise. */
void goes_on(side *server, side *client, bool told);

#endif
