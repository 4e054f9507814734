/*
 * The host that speaks to others: one actor, in the thread that calls, over ZeroMQ. Between threads
 * of a process (inproc://), processes of a machine (ipc://) and machines (tcp://).
 *
 * Nothing happens by itself: weft_net_poll takes in what has come and calls the actor. A message
 * that finds the queue to its receiver full is dropped, as one that is lost on the way; protocols
 * send again what is not acknowledged. A message that is not as it must be is dropped, too, and
 * counted.
 */
#ifndef WEFT_ACTOR_NET_H
#define WEFT_ACTOR_NET_H

#include "actor/actor.h"
#include "weft/keys.h"

/* --- keys --- */

typedef struct weft_key {
    uint8_t bytes[32];
} weft_key;
typedef struct weft_key_pair {
    weft_key secret, public_key;
} weft_key_pair;
weft_status weft_key_pair_make(weft_key_pair *out) WEFT_NODISCARD;
weft_status weft_key_pair_of(const weft_key *secret, weft_key_pair *out) WEFT_NODISCARD;
/* The secret key of a file. ARGUMENT: others may read it; FORMAT: it has none. */
weft_status weft_key_load(const char *path, weft_key *secret) WEFT_NODISCARD;
/* As 64 hexadecimal digits; false: these are none. */
void weft_key_text(const weft_key *key, char text[WEFT_KEY_TEXT]);
bool weft_key_read(const char *text, weft_key *out);

/* --- worlds --- */

/* What the hosts of one process share. */
typedef struct weft_net_context weft_net_context;
weft_status weft_net_context_create(weft_net_context **out) WEFT_NODISCARD;
/* After all of its hosts. */
void weft_net_context_destroy(weft_net_context **world);
/* The one of a context, which is made when it is first asked for and goes with it. */
weft_status weft_net_context_of(weft_context *context, weft_net_context **out) WEFT_NODISCARD;
/* A number that no other one has: those for whom it is the same reach each other by inproc. */
uint64_t weft_net_context_id(const weft_net_context *world);
/* A number that was not drawn in this world before, for addresses: one may be taken for a while
 * after its socket has been closed. */
uint64_t weft_net_context_draw(weft_net_context *world);
/* A number of this machine: those for whom it is the same reach each other by its loopback. */
uint64_t weft_net_context_host(void);

/* Gives a world its keys, before its hosts are opened: those of a secret one, or with NULL some of
 * its own, if it has none yet. UNSUPPORTED: ZeroMQ here cannot encrypt. */
weft_status weft_net_context_set_keys(weft_net_context *world,
                                      const weft_key *secret) WEFT_NODISCARD;
/* Whether it has keys, and the public one; NULL is allowed. */
bool weft_net_context_has_keys(weft_net_context *world, weft_key *public_key);
/* From now on whoever has this key comes in; the keys of a file, each on a line of its own. */
weft_status weft_net_context_allow(weft_net_context *world, const weft_key *key) WEFT_NODISCARD;
weft_status weft_net_context_allow_file(weft_net_context *world, const char *path) WEFT_NODISCARD;
bool weft_net_context_allows(weft_net_context *world); /* anybody at all */
/* Lets other machines come, and goes to them, without keys. Only where a user has asked for it. */
void weft_net_context_allow_unencrypted(weft_net_context *world);
/* Whether it has keys, or needs none: other machines may come. */
bool weft_net_context_is_reached(weft_net_context *world);
/* Messages may have payloads of so many bytes, and whatever else was expected before; larger ones
 * are not read. Of hosts that open afterwards. 64 MiB, as long as nothing is said. */
void weft_net_context_set_max_message(weft_net_context *world, size_t bytes);
size_t weft_net_context_max_message(weft_net_context *world);
/* So many messages may wait for one receiver, however large they may be; of hosts that open
 * afterwards. Otherwise as many as have room. */
void weft_net_context_set_queue(weft_net_context *world, size_t messages);
size_t weft_net_context_queue(weft_net_context *world);

/* --- hosts --- */

/* Numbers that nobody can guess or has had before; of actors that come and go, above those that are
 * given out in order. */
uint64_t weft_draw(void);
weft_actor_id weft_draw_id(void);

typedef struct weft_net weft_net;

/* Takes the actor, which it destroys with itself, as number `id`. address: where others reach it;
 * NULL: only those whom it has written to do. IO: the address cannot be had. */
weft_status weft_net_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                          const char *address, weft_net **out) WEFT_NODISCARD;
/* Another address where it is reached. bound[size]: as others write it, with the port where that
 * was left to the system ("*") and the key if it has one; for every interface ("tcp://\*:...")
 * several, with spaces between. ARGUMENT: it is no address, or one for other machines without keys;
 * IO: it cannot be had. */
weft_status weft_net_bind(weft_net *net, const char *address, char *bound,
                          size_t size) WEFT_NODISCARD;
/* Waits up to a second for what has been sent to leave. */
void weft_net_close(weft_net **net);
/* What has not left by now need not: nobody has answered, and closing waits for nothing. */
void weft_net_discard_pending(weft_net *net);
/* Where actor `id` is reached; it need not be there yet. Of several addresses, as
 * weft_actor_address gives them, one is taken that can be reached from here, in a network of this
 * machine if there is one; where none can, nothing changes. Who has that key is allowed; "#KEY"
 * alone says no more than that. */
weft_status weft_net_add_peer(weft_net *net, weft_actor_id id, const char *list) WEFT_NODISCARD;
/* Why actor `id` is not reached, as far as is known, in words; NULL: it is, or nobody has tried.
 * listens: somebody is there, and the words are about him. */
const char *weft_net_connect_error(const weft_net *net, weft_actor_id id, bool *listens);

/* Tells the actor to begin. */
weft_status weft_net_begin(weft_net *net) WEFT_NODISCARD;
/* Gives the actor all messages that are there and timers that have run out; if there are none,
 * waits up to so many seconds for the first. */
weft_status weft_net_poll(weft_net *net, double seconds) WEFT_NODISCARD;

/* The computation that the actor has asked for, nobody has begun and all of whose parts are there:
 * its ticket, once. Whoever knows when it reads which part may begin before, when it likes. */
bool weft_net_next_task(weft_net *net, int64_t *ticket);
/* As the moments of a computation come. */
weft_status weft_net_part(weft_net *net, int64_t ticket, int part) WEFT_NODISCARD;
weft_status weft_net_computed(weft_net *net, int64_t ticket) WEFT_NODISCARD;

weft_actor *weft_net_actor(const weft_net *net);
typedef struct weft_net_report {
    uint64_t sent, received, dropped, damaged; /* messages: not sent for want of room; not read */
    uint64_t refused;                          /* connections: without a key that is allowed */
    uint64_t bytes_sent, bytes_received;       /* with envelopes */
} weft_net_report;
weft_net_report weft_net_stats(const weft_net *net);

#endif
