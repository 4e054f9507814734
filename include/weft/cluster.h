/* Elastic runs: learners and servers are processes that join and leave, on any machines. A
 * coordinator maintains the membership and gives joining members the run configuration; they need
 * only data.
 *
 * Every process has a secret key and a list of allowed public keys (weft/keys.h), or it talks to
 * others of its own machine only. */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include "weft/members.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of processes. */
typedef enum weft_cluster_kind {
    WEFT_CLUSTER_COORDINATOR,
    WEFT_CLUSTER_SERVER,
    WEFT_CLUSTER_LEARNER,
    WEFT_CLUSTER_GUEST /* status client, no member */
} weft_cluster_kind;

/* Strings are owned by the struct. */
typedef struct weft_cluster_options {
    weft_train_options train; /* the run's, of a coordinator; its own, of another process */
    char *listen;             /* address for other members; NULL: chosen */
    char *key, *allow;        /* files: the secret key, and the allowed public ones */
    bool open_unencrypted;    /* other machines may connect without keys */
    double failure_timeout;   /* failure timeout of members, in seconds */
    bool rejoin;              /* for learners: see weft_trainer_was_lost */
} weft_cluster_options;

/* The options that a process of this kind takes; the table is the context's, and empty if there is
 * no memory for it. */
WEFT_API const weft_option *weft_cluster_table(weft_context *context, weft_cluster_kind kind);
/* Sets defaults in zeroed options; free them with weft_cluster_options_free. */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_options_init(weft_context *context,
                                                              weft_cluster_kind kind,
                                                              weft_cluster_options *options);
WEFT_API void weft_cluster_options_free(weft_context *context, weft_cluster_options *options);

/* Runs a coordinator until the run is over. ARGUMENT: options that do not fit together, an exchange
 * without elastic learners, an address for other machines without keys; IO: the address is in use;
 * INTERRUPTED: stopped. */
WEFT_API WEFT_NODISCARD weft_status weft_coordinator_run(weft_context *context,
                                                         const weft_cluster_options *options,
                                                         const weft_stop *stop,
                                                         weft_cluster_fn tell, void *user);
/* Runs a server of the run whose coordinator is at an address. PEER: the coordinator is not reached
 * or rejects it, or the run cannot go on. */
WEFT_API WEFT_NODISCARD weft_status weft_server_run(weft_context *context, const char *address,
                                                    const weft_cluster_options *options,
                                                    const weft_stop *stop);
/* A trainer that is a learner of the run; everything but the data comes from the coordinator. The
 * trainer runs like any other (weft_trainer_run), and stops without stopping the run. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_join(weft_context *context, const char *address,
                                                      const weft_cluster_options *options,
                                                      const weft_stop *stop, weft_trainer **out);
/* Whether weft_trainer_run failed because the other members have removed this learner, after so
 * many seconds without its heartbeats (0: not known). The learner may join again: then it is
 * another member, and takes the state of the run, never that of this trainer. */
WEFT_API bool weft_trainer_was_lost(const weft_trainer *trainer, double *quiet_seconds);
/* Whether weft_trainer_run failed before it had taken part, since another learner has taken its
 * slot meanwhile: it may join again at once, as it has joined before. */
WEFT_API bool weft_trainer_was_overtaken(const weft_trainer *trainer);
/* As weft_trainer_join, in place of a trainer that was lost, which is destroyed in any case: its
 * output files are continued. PEER: also if the coordinator has begun another run. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_rejoin(weft_context *context, const char *address,
                                                        const weft_cluster_options *options,
                                                        const weft_stop *stop,
                                                        weft_trainer **trainer);
/* The slot of a trainer among the learners of its run, from 0, once it has joined. */
WEFT_API int weft_trainer_slot(const weft_trainer *trainer);
/* Queries the status; freed with weft_cluster_status_free. leave: requests that this member leaves
 * (0: none). */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_look(weft_context *context, const char *address,
                                                      const weft_cluster_options *options,
                                                      const weft_stop *stop, uint32_t leave,
                                                      weft_cluster_status *out);

#ifdef __cplusplus
}
#endif
#endif
