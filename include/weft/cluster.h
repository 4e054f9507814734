/* Elastic runs: learners and servers are processes that join and leave, on any machines. A
 * coordinator maintains the membership and gives joining processes the run configuration, so that
 * they need only data.
 *
 * Every process has a secret key and a list of allowed public keys (weft/keys.h). A process without
 * keys connects only to processes of its own machine, unless open_unencrypted is set. */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include "weft/members.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of processes of an elastic run. */
typedef enum weft_cluster_kind {
    WEFT_CLUSTER_COORDINATOR,
    WEFT_CLUSTER_SERVER,
    WEFT_CLUSTER_LEARNER,
    WEFT_CLUSTER_GUEST /* membership client: queries the status, is no member */
} weft_cluster_kind;

/* Options of a process of an elastic run. The struct owns its strings. */
typedef struct weft_cluster_options {
    /* Options of the run, for a coordinator; otherwise those that this process chooses. */
    weft_train_options train;
    size_t struct_size; /* sizeof(weft_cluster_options) */
    /* Address for other members, "tcp://HOST:PORT"; NULL: port 7070 of this machine for a
     * coordinator, any free port for a server. */
    char *listen;
    char *key, *allow;     /* files: the secret key, and the list of allowed public keys */
    bool open_unencrypted; /* without keys, other machines may connect too */
    /* Coordinator: seconds without a heartbeat after which it removes a member. */
    double failure_timeout;
    /* Learner: whether the command joins again after weft_trainer_was_lost. */
    bool rejoin;
    uint64_t room[8]; /* of later versions: 0 */
} weft_cluster_options;

/* The table of the options that a process of this kind takes. The context owns the table, which is
 * empty if there is no memory for it. NULL: there is no such kind. */
WEFT_API const weft_option *weft_cluster_table(weft_context *context, weft_cluster_kind kind);
/* Sets defaults in zeroed options; weft_cluster_options_free frees them. */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_options_init(weft_context *context,
                                                              weft_cluster_kind kind,
                                                              weft_cluster_options *options);
WEFT_API void weft_cluster_options_free(weft_context *context, weft_cluster_options *options);

/* Runs a coordinator until the run is over. `tell` gets its address and the status of the run.
 * ARGUMENT: options contradict each other, the exchange has no elastic learners, or the address is
 * for other machines and there are no keys; IO: the address is in use; INTERRUPTED: `stop` was
 * set. */
WEFT_API WEFT_NODISCARD weft_status weft_coordinator_run(weft_context *context,
                                                         const weft_cluster_options *options,
                                                         const weft_stop *stop,
                                                         weft_cluster_fn tell, void *user);
/* Runs a server of the run whose coordinator is at `address`, until the run is over or the server
 * is asked to leave. When `stop` is set, the server hands its parameters over and leaves; it stays
 * while it may have the last copy of some, until another server has them, the run is over, or
 * `stop` is set again (a second increment). PEER: the coordinator cannot be reached or rejects the
 * server, or the run cannot continue; INTERRUPTED: `stop` was set. */
WEFT_API WEFT_NODISCARD weft_status weft_server_run(weft_context *context, const char *address,
                                                    const weft_cluster_options *options,
                                                    const weft_stop *stop);
/* Creates a trainer that is a learner of the run whose coordinator is at `address`. All but the
 * data comes from the coordinator. weft_trainer_run runs the trainer; weft_trainer_stop makes it
 * leave, and the run continues. ARGUMENT, of either: the version, the data, or the layout of the
 * parameters is not that of the run, so another attempt would be rejected as well. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_join(weft_context *context, const char *address,
                                                      const weft_cluster_options *options,
                                                      const weft_stop *stop, weft_trainer **out);
/* Whether weft_trainer_run failed because the other members removed this learner. *quiet_seconds
 * (may be NULL) is for how many seconds it had sent no heartbeats; 0: unknown. The learner may join
 * again: it is a new member then, and takes the state of the run, never that of this trainer. */
WEFT_API bool weft_trainer_was_lost(const weft_trainer *trainer, double *quiet_seconds);
/* Whether weft_trainer_run failed before this learner had taken part, because meanwhile another
 * learner had joined with its slot, or a coordinator with another run had replaced the one that
 * weft_trainer_join asked. The learner may join again at once with weft_trainer_rejoin. */
WEFT_API bool weft_trainer_was_overtaken(const weft_trainer *trainer);
/* As weft_trainer_join, in place of a trainer that was lost or overtaken: destroys *trainer in any
 * case. If the learner has been a member of a run, it joins that run, and the new trainer continues
 * its output files. PEER: as weft_trainer_join, or that run is over and the coordinator has begun
 * another one. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_rejoin(weft_context *context, const char *address,
                                                        const weft_cluster_options *options,
                                                        const weft_stop *stop,
                                                        weft_trainer **trainer);
/* The slot of a trainer among the learners of its run, from 0. Valid once the trainer has
 * joined. */
WEFT_API int weft_trainer_slot(const weft_trainer *trainer);
/* Queries the status of the run whose coordinator is at `address`; weft_cluster_status_free frees
 * it. leave: the id of a member that is asked to leave; 0: none. */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_look(weft_context *context, const char *address,
                                                      const weft_cluster_options *options,
                                                      const weft_stop *stop, uint32_t leave,
                                                      weft_cluster_status *out);

#ifdef __cplusplus
}
#endif
#endif
