/* The runtime of real runs (`net`) runs one actor in the calling thread, over ZeroMQ, which
 * connects threads of a process (inproc://), processes of a machine (ipc://) and machines (tcp://).
 *
 * The runtime has no thread of its own: weft_net_poll receives messages and calls the actor. A
 * message to a full queue is dropped, like a lost one, so protocols retransmit messages until they
 * are acknowledged. An invalid message is dropped, too, and counted. */
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
/* Reads the secret key in a file. ARGUMENT: other users may access the file; FORMAT: it has no
 * secret key. */
weft_status weft_key_load(const char *path, weft_key *secret) WEFT_NODISCARD;
/* Write and read a key as 64 hexadecimal digits; false: the text is not a key. */
void weft_key_text(const weft_key *key, char text[WEFT_KEY_TEXT]);
bool weft_key_read(const char *text, weft_key *out);

/* --- transport contexts --- */

/* The net context holds what the runtimes of one process share: ZeroMQ, keys and limits. */
typedef struct weft_net_context weft_net_context;
weft_status weft_net_context_create(weft_net_context **out) WEFT_NODISCARD;
/* All runtimes of the net context must be closed before. */
void weft_net_context_destroy(weft_net_context **world);
/* The net context of a weft_context, created at the first call and destroyed with the
 * weft_context. */
weft_status weft_net_context_of(weft_context *context, weft_net_context **out) WEFT_NODISCARD;
/* A random id: actors whose net contexts have equal ids reach each other by inproc. */
uint64_t weft_net_context_id(const weft_net_context *world);
/* A number that was not drawn from this net context before. Addresses need such numbers, since an
 * address may stay in use for a while after its socket has been closed. */
uint64_t weft_net_context_draw(weft_net_context *world);
/* The id of this machine: processes with equal ids reach each other over its loopback interface. */
uint64_t weft_net_context_host(void);

/* Gives a net context keys, before its runtimes are opened: those of a secret key or, with NULL,
 * new ones if it has none yet. UNSUPPORTED: this ZeroMQ cannot encrypt. */
weft_status weft_net_context_set_keys(weft_net_context *world,
                                      const weft_key *secret) WEFT_NODISCARD;
/* Whether the net context has keys. public_key, unless NULL, receives the public one. */
bool weft_net_context_has_keys(weft_net_context *world, weft_key *public_key);
/* Allows peers with this public key to connect; _file: with the keys of a file, one in each
 * line. */
weft_status weft_net_context_allow(weft_net_context *world, const weft_key *key) WEFT_NODISCARD;
weft_status weft_net_context_allow_file(weft_net_context *world, const char *path) WEFT_NODISCARD;
bool weft_net_context_allows(weft_net_context *world); /* whether any key is allowed */
/* Allows connections from and to other machines without keys, so unencrypted. Called only if the
 * user has requested that (--open-unencrypted). */
void weft_net_context_allow_unencrypted(weft_net_context *world);
/* Whether other machines may connect: the net context has keys, or unencrypted connections are
 * allowed. */
bool weft_net_context_is_reached(weft_net_context *world);
/* Raises the bound on the payload of a message, which never falls: larger messages are neither sent
 * nor received. A call counts for sockets that are opened later. Without a call the bound is 64
 * MiB. */
void weft_net_context_set_max_message(weft_net_context *world, size_t bytes);
size_t weft_net_context_max_message(weft_net_context *world);
/* Lets at least so many messages, of any size, be queued for one receiver. A call counts for
 * sockets that are opened later. Without a call 16 to 1,000 messages are queued, the fewer the
 * larger the bound on messages. */
void weft_net_context_set_queue(weft_net_context *world, size_t messages);
size_t weft_net_context_queue(weft_net_context *world);

/* --- runtimes --- */

/* socket_folder.c: a folder for sockets in that of TMPDIR, or in /tmp where its path is too long
 * for one, which no other user can enter. Making one removes those of processes that were killed.
 * Removing takes the sockets in it along, and has no effect on a folder of zeros. */
typedef struct weft_socket_folder {
    char path[128];
    void *held; /* open and locked while its process lives; NULL where there are no locks */
} weft_socket_folder;
weft_status weft_socket_folder_make(weft_socket_folder *out) WEFT_NODISCARD;
void weft_socket_folder_remove(weft_socket_folder *folder);
/* The folder of a net context, which is made at the first call and removed with the context. */
weft_status weft_net_context_folder(weft_net_context *world, const char **path) WEFT_NODISCARD;
/* Random numbers. weft_draw_id: the actor id of an elastic member, above all ids that are given out
 * in order. */
uint64_t weft_draw(void);
weft_actor_id weft_draw_id(void);

typedef struct weft_net weft_net;

/* Opens the runtime of an actor, which gets the id `id` and is destroyed with the runtime, also if
 * this fails. address: where other actors reach it; NULL: only actors that it has written to reach
 * it. IO: the address cannot be bound. */
weft_status weft_net_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                          const char *address, weft_net **out) WEFT_NODISCARD;
/* Listens at another address. bound[size] receives the address for other processes, with the port
 * that the system chose for "*", and the public key if there is one; for all interfaces
 * ("tcp://\*:...") several addresses, separated by spaces. ARGUMENT: not an address, or one for
 * other machines without keys; IO: it cannot be bound. */
weft_status weft_net_bind(weft_net *net, const char *address, char *bound,
                          size_t size) WEFT_NODISCARD;
/* Closes the runtime and destroys its actor. ZeroMQ goes on sending queued messages for up to a
 * second, for which the end of the net context waits. */
void weft_net_close(weft_net **net);
/* Lets weft_net_close drop the messages that are not sent yet, so that nothing waits for them. */
void weft_net_discard_pending(weft_net *net);
/* Sets the address of actor `id`, which need not listen yet. `list` may have several addresses, as
 * weft_actor_address gives them: the runtime chooses one that can be reached from here, preferably
 * on this machine or in a network of this machine; without one, nothing changes. A peer with a key
 * in the address is allowed to connect, and messages of `id` count only with that key; "#KEY"
 * alone does only that. */
weft_status weft_net_add_peer(weft_net *net, weft_actor_id id, const char *list) WEFT_NODISCARD;
/* Closes the connection to actor `id`, whose address is then not known; it may be added again. */
void weft_net_forget_peer(weft_net *net, weft_actor_id id);
/* The reason why there is no connection to actor `id`, as far as is known; NULL: there is one, or
 * none was tried. *listens: a process listens at its address, and the reason is about that
 * process. */
const char *weft_net_connect_error(const weft_net *net, weft_actor_id id, bool *listens);
/* The reason why no attempt to connect to actor `id` can succeed, however often it is repeated: the
 * address is a path without a folder, that this user may not use, or of a file of another kind.
 * NULL: there is none. */
const char *weft_net_never_connects(const weft_net *net, weft_actor_id id);

/* Calls the actor's begin. */
weft_status weft_net_begin(weft_net *net) WEFT_NODISCARD;
/* Calls the actor with all messages that have arrived and timers that have run out; if there are
 * none, waits up to so many seconds for the first. Messages that the actor handles more slowly than
 * they arrive are left for the next call after a quarter of a second. */
weft_status weft_net_poll(weft_net *net, double seconds) WEFT_NODISCARD;

/* Returns true once for each computation that the actor has requested, when all its input parts are
 * there; *ticket is its number. A host that knows when it reads which part may begin earlier. */
bool weft_net_next_task(weft_net *net, int64_t *ticket);
/* The host reports that an output part of a computation is ready, and that the computation has
 * ended. */
weft_status weft_net_computed_part(weft_net *net, int64_t ticket, int part) WEFT_NODISCARD;
weft_status weft_net_computed(weft_net *net, int64_t ticket) WEFT_NODISCARD;

weft_actor *weft_net_actor(const weft_net *net);
typedef struct weft_net_report {
    /* Messages; dropped: not sent; damaged: invalid, not delivered. */
    uint64_t sent, received, dropped, damaged;
    uint64_t refused;                    /* connections without an allowed key */
    uint64_t bytes_sent, bytes_received; /* with envelopes */
} weft_net_report;
weft_net_report weft_net_stats(const weft_net *net);

#endif
