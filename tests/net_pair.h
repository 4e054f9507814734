/* Two sides that speak over sockets: worlds of their own, as in processes of their own, each with
 * an actor that counts what it hears. */
#ifndef WEFT_TESTS_NET_PAIR_H
#define WEFT_TESTS_NET_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/net.h"

enum { SERVER = 7, CLIENT = 8, STRANGER = 9 };

/* An actor that answers every message with the same one, if it answers. */
typedef struct echo {
    weft_actor head;
    bool answers;
    int heard;
    uint64_t sum; /* of what messages said */
} echo;

weft_actor *echo_new(bool answers);
const echo *echo_of(const weft_net *net);

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
/* So many messages there and back; how many came back in time. */
int talk(side *client, side *server, weft_actor_id to, int count, double limit);
void pump_for(side *server, double seconds);

/* A server and a client who know each other. */
void pair_open(side *server, side *client, char at[256]);
void pair_close(side *server, side *client);
/* Whatever was done, those who know each other go on; and the log has been told, if it was to be.
 */
void goes_on(side *server, side *client, bool told);

#endif
