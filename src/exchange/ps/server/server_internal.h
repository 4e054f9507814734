/* The inside of a server: the ranges that it has, as their primary or for another server. */
#ifndef WEFT_EXCHANGE_PS_SERVER_SERVER_INTERNAL_H
#define WEFT_EXCHANGE_PS_SERVER_SERVER_INTERNAL_H

#include "exchange/ps/ps.h"
#include "actor/rpc.h"
#include "ps.pb-c.h"

/* A pull that is not answered yet. */
typedef struct pending_pull {
    weft_actor_id learner;
    int64_t request, clock, have, sequence;
    bool leaving, whole, arriving;
} pending_pull;

/* Something that changes a range. The same changes in the same order make the same range. */
typedef struct change {
    Weft__Append__Kind kind;
    int64_t index;
    weft_actor_id learner;
    int slot;
    int64_t sequence, clock, version, step;
    double weight;
    weft_buffer *update;
} change;

/* A message that leaves when the replica has what it tells of. */
typedef struct deferred {
    weft_actor_id to;
    weft_rpc_type type;
    int64_t number; /* of what it answers */
    int64_t index;  /* of the change */
    size_t head_bytes;
    uint8_t head[96];
    weft_buffer *payload;
} deferred;

typedef struct hosted_range {
    weft_served of;
    bool primary; /* or else it has the replica of another server's */
    bool given;   /* the parameters of the run are there */
    int64_t index;
    int64_t halted; /* all are to leave, who have come so far */
    pending_pull *pulls;
    size_t pull_count, pull_capacity;
    weft_buffer *copy; /* of the parameters at version `copied`, for all who pull it */
    weft_buffer *last; /* the one before it, which may be under way still */
    int64_t copied;
    /* of a primary: who has its replica, up to which change, and what that one does not have */
    weft_actor_id replica;
    int64_t kept;
    weft_buffer *state; /* is on its way */
    int64_t state_index;
    change *log;
    size_t log_count, log_capacity;
    deferred *deferred;
    size_t deferred_count, deferred_capacity;
} hosted_range;

typedef struct server {
    weft_actor head;
    weft_server_options options;
    weft_member *member;
    hosted_range *hosted;
    size_t count, capacity;
    bool halt;    /* somebody wants all to leave */
    bool leaving; /* it is not needed any more */
    /* Who wrote of a view that this server does not have yet. */
    weft_actor_id *early;
    size_t early_count, early_capacity;
    double patience;
} server;

/* hosted_range.c */
hosted_range *weft_hosted_range_find(const server *s, uint32_t number);
/* Opens the range; empty, with nobody there. */
weft_status weft_hosted_range_add(server *s, int number, bool primary,
                                  hosted_range **out) WEFT_NODISCARD;
void weft_hosted_range_remove(server *s, hosted_range *f);
/* Changes the range, and its replica. fate: of a push; may be NULL. */
weft_status weft_hosted_range_apply(server *s, hosted_range *f, const change *c,
                                    weft_push_result *fate) WEFT_NODISCARD;
/* Sends a message that tells of what the range has come to: when the replica has come there, too.
 * number: of what it answers. */
weft_status weft_hosted_range_send(server *s, hosted_range *f, weft_actor_id to, weft_rpc_type type,
                                   int64_t number, const void *message,
                                   weft_buffer *payload) WEFT_NODISCARD;
/* Parameters, and behind them what the update keeps. */
weft_status weft_hosted_range_snapshot(const hosted_range *f, weft_buffer **out) WEFT_NODISCARD;
/* The same, taken. FORMAT: it does not fit. */
weft_status weft_hosted_range_restore(hosted_range *f, const weft_buffer *blob) WEFT_NODISCARD;

/* pending_pulls.c */
weft_status weft_hosted_range_add_pull(server *s, hosted_range *f,
                                       const pending_pull *q) WEFT_NODISCARD;
/* Answers those that may be. */
weft_status weft_hosted_range_answer_pulls(server *s, hosted_range *f) WEFT_NODISCARD;

/* replication.c: the primary's side, */
weft_status weft_hosted_range_set_replica(server *s, hosted_range *f,
                                          weft_actor_id replica) WEFT_NODISCARD;
weft_status weft_hosted_range_begin_replica(server *s, hosted_range *f) WEFT_NODISCARD;
weft_status weft_hosted_range_append(server *s, hosted_range *f, const change *c) WEFT_NODISCARD;
weft_status weft_hosted_range_flush(server *s, hosted_range *f) WEFT_NODISCARD;
/* sends again what the replica has not answered, */
weft_status weft_hosted_range_resend(server *s, hosted_range *f, bool *some) WEFT_NODISCARD;
weft_status weft_take_replicated(server *s, const weft_message *message,
                                 const Weft__AppendAck *m) WEFT_NODISCARD;
/* and the other one's. */
weft_status weft_take_state(server *s, const weft_message *message,
                            const Weft__RangeSnapshot *m) WEFT_NODISCARD;
weft_status weft_take_replicate(server *s, const weft_message *message,
                                const Weft__Append *m) WEFT_NODISCARD;

#endif
