/*
 * Runs whose learners and servers are processes that come and go, on any machines: a coordinator
 * says who is there and what a joiner needs to know; a joiner needs only data.
 *
 * Every process has a secret key and a list of the public ones that it lets in (weft/keys.h), or it
 * speaks to others of its own machine alone.
 */
#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#include "weft/members.h"
#include "weft/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a process of a cluster is. */
typedef enum weft_cluster_kind {
    WEFT_CLUSTER_COORDINATOR,
    WEFT_CLUSTER_SERVER,
    WEFT_CLUSTER_LEARNER,
    WEFT_CLUSTER_GUEST /* who only asks */
} weft_cluster_kind;

/* Strings are owned by the struct. */
typedef struct weft_cluster_options {
    weft_train_options train; /* the run's, of a coordinator; of others what is their own */
    char *listen;             /* where others come to it; NULL: it is chosen */
    char *key, *allow;        /* files: the secret key, and the public ones that are let in */
    bool open_unencrypted;    /* other machines may come without keys */
    double failure_timeout;   /* seconds after which the coordinator takes a member for gone */
    bool rejoin;              /* of a learner: see weft_trainer_was_lost */
} weft_cluster_options;

/* The options that a process of this kind takes; the table is the context's, and empty where there
 * is no memory for it. */
WEFT_API const weft_option *weft_cluster_table(weft_context *context, weft_cluster_kind kind);
/* Defaults, into options that are zeroed; freed with weft_cluster_options_free. */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_options_init(weft_context *context,
                                                              weft_cluster_kind kind,
                                                              weft_cluster_options *options);
WEFT_API void weft_cluster_options_free(weft_context *context, weft_cluster_options *options);

/* Runs a coordinator until the run is over. ARGUMENT: options that do not fit together, an exchange
 * whose learners cannot come and go, an address for other machines without keys; IO: the address
 * is taken; INTERRUPTED: stopped. */
WEFT_API WEFT_NODISCARD weft_status weft_coordinator_run(weft_context *context,
                                                         const weft_cluster_options *options,
                                                         const weft_stop *stop,
                                                         weft_cluster_fn tell, void *user);
/* Runs a server of the run whose coordinator is at an address. PEER: that is not reached, refuses
 * it, or the run cannot go on. */
WEFT_API WEFT_NODISCARD weft_status weft_server_run(weft_context *context, const char *address,
                                                    const weft_cluster_options *options,
                                                    const weft_stop *stop);
/* A trainer that is a learner of the run; everything but the data comes from there. The trainer
 * goes on as any other (weft_trainer_run), and stops without stopping the run. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_join(weft_context *context, const char *address,
                                                      const weft_cluster_options *options,
                                                      const weft_stop *stop, weft_trainer **out);
/* Whether weft_trainer_run failed because the others have gone on without this learner, which they
 * have not heard of for so many seconds (0: it does not know). It may join again: then it is
 * another member, and takes what the run has come to, never what this trainer has. */
WEFT_API bool weft_trainer_was_lost(const weft_trainer *trainer, double *quiet_seconds);
/* Whether weft_trainer_run failed before it had taken part in anything, since another learner has
 * taken its slot meanwhile: it may join again at once, in whatever way it has joined. */
WEFT_API bool weft_trainer_was_overtaken(const weft_trainer *trainer);
/* As weft_trainer_join, in the place of a trainer that was lost, which is destroyed in any case:
 * what it has written is gone on with. PEER: also if the coordinator has begun another run. */
WEFT_API WEFT_NODISCARD weft_status weft_trainer_rejoin(weft_context *context, const char *address,
                                                        const weft_cluster_options *options,
                                                        const weft_stop *stop,
                                                        weft_trainer **trainer);
/* Which learner of its run a trainer is, from 0; that it has joined. */
WEFT_API int weft_trainer_slot(const weft_trainer *trainer);
/* Who is there; freed with weft_cluster_status_free. leave: asks that this member goes (0: nobody).
 */
WEFT_API WEFT_NODISCARD weft_status weft_cluster_look(weft_context *context, const char *address,
                                                      const weft_cluster_options *options,
                                                      const weft_stop *stop, uint32_t leave,
                                                      weft_cluster_status *out);

#ifdef __cplusplus
}
#endif
#endif
