/* The runtime of real runs: one actor, in the calling thread, over ZeroMQ, which connects threads
 * of a process (inproc://), processes of a machine (ipc://) and machines (tcp://).
 *
 * Nothing happens by itself: weft_net_poll receives messages and calls the actor. A message to a
 * full queue is dropped, like a lost one; protocols retransmit what is not acknowledged. An invalid
 * message is dropped, too, and counted. */
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
/* The secret key in a file. ARGUMENT: others may read the file; FORMAT: it has no secret key. */
weft_status weft_key_load(const char *path, weft_key *secret) WEFT_NODISCARD;
/* As 64 hexadecimal digits; false: not a key. */
void weft_key_text(const weft_key *key, char text[WEFT_KEY_TEXT]);
bool weft_key_read(const char *text, weft_key *out);

/* --- transport contexts --- */

/* State that the runtimes of one process share. */
typedef struct weft_net_context weft_net_context;
weft_status weft_net_context_create(weft_net_context **out) WEFT_NODISCARD;
/* After all of its runtimes. */
void weft_net_context_destroy(weft_net_context **world);
/* The transport context of a context, created at the first call and destroyed with it. */
weft_status weft_net_context_of(weft_context *context, weft_net_context **out) WEFT_NODISCARD;
/* A unique id: actors with equal ids reach each other by inproc. */
uint64_t weft_net_context_id(const weft_net_context *world);
/* A number that was not drawn from this transport context before, for addresses: an address may
 * stay in use for a while after its socket has been closed. */
uint64_t weft_net_context_draw(weft_net_context *world);
/* The id of this machine: processes with equal ids reach each other by its loopback. */
uint64_t weft_net_context_host(void);

/* Sets the keys of a context before its runtimes are opened: those of a secret key, or with NULL
 * new ones, if it has none yet. UNSUPPORTED: this ZeroMQ cannot encrypt. */
weft_status weft_net_context_set_keys(weft_net_context *world,
                                      const weft_key *secret) WEFT_NODISCARD;
/* Whether it has keys, and the public one; NULL is allowed. */
bool weft_net_context_has_keys(weft_net_context *world, weft_key *public_key);
/* Allows peers with this key to connect; or with the keys of a file, one in a line. */
weft_status weft_net_context_allow(weft_net_context *world, const weft_key *key) WEFT_NODISCARD;
weft_status weft_net_context_allow_file(weft_net_context *world, const char *path) WEFT_NODISCARD;
bool weft_net_context_allows(weft_net_context *world); /* any key at all */
/* Lets other machines connect, and connects to them, without keys. Only at a user's request. */
void weft_net_context_allow_unencrypted(weft_net_context *world);
/* Whether other machines may connect: it has keys, or needs none. */
bool weft_net_context_is_reached(weft_net_context *world);
/* Bound on the payload of a message, which only grows; larger messages are not read. For runtimes
 * opened afterwards. Without a call 64 MiB. */
void weft_net_context_set_max_message(weft_net_context *world, size_t bytes);
size_t weft_net_context_max_message(weft_net_context *world);
/* At least so many messages, of any size, may be queued for one receiver; for runtimes opened
 * afterwards. Without a call as many as have room. */
void weft_net_context_set_queue(weft_net_context *world, size_t messages);
size_t weft_net_context_queue(weft_net_context *world);

/* --- runtimes --- */

/* Random numbers; `_id`: an id of an elastic member, above the ids that are given out in order. */
uint64_t weft_draw(void);
weft_actor_id weft_draw_id(void);

typedef struct weft_net weft_net;

/* Takes the actor, which it destroys with itself, as actor `id`. address: where others reach it;
 * NULL: only actors that it has written to can. IO: the address cannot be bound. */
weft_status weft_net_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                          const char *address, weft_net **out) WEFT_NODISCARD;
/* Binds another address. bound[size]: for others, with the port that the system chose for "*", and
 * the key if there is one; for every interface ("tcp://\*:...") several, separated by spaces.
 * ARGUMENT: not an address, or one for other machines without keys; IO: it cannot be bound. */
weft_status weft_net_bind(weft_net *net, const char *address, char *bound,
                          size_t size) WEFT_NODISCARD;
/* Waits up to a second for sent messages to leave. */
void weft_net_close(weft_net **net);
/* Drops the messages that are not sent yet, so that closing does not wait for them. */
void weft_net_discard_pending(weft_net *net);
/* The address of actor `id`, which need not be there yet. If there are several, as
 * weft_actor_address gives them, the runtime chooses one that can be reached from here, preferably
 * in a network of this machine; without one, nothing changes. A key in the address is allowed;
 * "#KEY" alone does only that. */
weft_status weft_net_add_peer(weft_net *net, weft_actor_id id, const char *list) WEFT_NODISCARD;
/* Why there is no connection to actor `id`, as far as is known; NULL: there is one, or it was not
 * tried. *listens: a process listens at its address, and the sentence is about that process. */
const char *weft_net_connect_error(const weft_net *net, weft_actor_id id, bool *listens);

/* Calls the actor's begin. */
weft_status weft_net_begin(weft_net *net) WEFT_NODISCARD;
/* Calls the actor with all messages that have arrived and timers that have run out; if there are
 * none, waits up to so many seconds for the first. */
weft_status weft_net_poll(weft_net *net, double seconds) WEFT_NODISCARD;

/* The ticket, once, of the computation that the actor has requested and all of whose input parts
 * are there. A caller that knows when it reads which part may begin earlier. */
bool weft_net_next_task(weft_net *net, int64_t *ticket);
/* Reports an output part, and the end, of a computation. */
weft_status weft_net_part(weft_net *net, int64_t ticket, int part) WEFT_NODISCARD;
weft_status weft_net_computed(weft_net *net, int64_t ticket) WEFT_NODISCARD;

weft_actor *weft_net_actor(const weft_net *net);
typedef struct weft_net_report {
    uint64_t sent, received, dropped, damaged; /* messages: not sent for want of room; not valid */
    uint64_t refused;                          /* connections without an allowed key */
    uint64_t bytes_sent, bytes_received;       /* with envelopes */
} weft_net_report;
weft_net_report weft_net_stats(const weft_net *net);

#endif
