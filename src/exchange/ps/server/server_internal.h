/* Internals of a server: the ranges that it hosts, as primary or as replica. */
#ifndef WEFT_EXCHANGE_PS_SERVER_SERVER_INTERNAL_H
#define WEFT_EXCHANGE_PS_SERVER_SERVER_INTERNAL_H

#include "exchange/ps/ps.h"
#include "actor/rpc.h"
#include "ps.pb-c.h"

/* A pull that is not answered yet. */
typedef struct pending_pull {
    weft_actor_id learner;
    int64_t request, clock, have, sequence;
    bool leaving, with_state, arriving;
} pending_pull;

/* An entry of the replication log. Equal entries in the same order give equal ranges. */
typedef struct change {
    Weft__Append__Kind kind;
    int64_t index;
    weft_actor_id learner;
    int slot;
    int64_t sequence, clock, version, step;
    double weight;
    weft_buffer *update;
} change;

/* A reply that is held until the replica has acknowledged what it reveals (commit wait). */
typedef struct deferred {
    weft_actor_id to;
    weft_rpc_type type;
    int64_t number; /* of the request */
    int64_t index;  /* of the log */
    size_t head_bytes;
    uint8_t head[96];
    weft_buffer *payload;
} deferred;

typedef struct hosted_range {
    weft_served of;
    bool primary;     /* else replica of another server's range */
    bool initialized; /* it has parameters */
    int64_t index;
    int64_t halted; /* end clock; INT64_MAX: none */
    pending_pull *pulls;
    size_t pull_count, pull_capacity;
    weft_buffer *copy; /* of the parameters at version `copied`, for all pulls */
    weft_buffer *last; /* the copy before it, which may be in transit */
    int64_t copied;
    /* Primary: the replica, the index that it has acknowledged, and the log after that. */
    weft_actor_id replica;
    int64_t acked_index;
    weft_buffer *state; /* snapshot in transit */
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
    bool halt;    /* a learner requests that all leave */
    bool leaving; /* the server is leaving */
    /* Senders of requests from a view that this server has not installed yet. */
    weft_actor_id *early;
    size_t early_count, early_capacity;
    double resend_timeout;
} server;

/* hosted_range.c */
hosted_range *weft_hosted_range_find(const server *s, uint32_t number);
/* Opens the range; without parameters and learners. */
weft_status weft_hosted_range_add(server *s, int number, bool primary,
                                  hosted_range **out) WEFT_NODISCARD;
void weft_hosted_range_remove(server *s, hosted_range *f);
/* Applies an entry to the range, and replicates it. result: of a push; may be NULL. */
weft_status weft_hosted_range_apply(server *s, hosted_range *f, const change *c,
                                    weft_push_result *result) WEFT_NODISCARD;
/* Sends a reply that reveals the state of the range, when the replica has that state. number: of
 * the request. */
weft_status weft_hosted_range_send(server *s, hosted_range *f, weft_actor_id to, weft_rpc_type type,
                                   int64_t number, const void *message,
                                   weft_buffer *payload) WEFT_NODISCARD;
/* Parameters, and behind them the update's state. */
weft_status weft_hosted_range_snapshot(const hosted_range *f, weft_buffer **out) WEFT_NODISCARD;
/* Installs such a snapshot. FORMAT: it does not fit. */
weft_status weft_hosted_range_restore(hosted_range *f, const weft_buffer *blob) WEFT_NODISCARD;

/* pending_pulls.c */
weft_status weft_hosted_range_add_pull(server *s, hosted_range *f,
                                       const pending_pull *q) WEFT_NODISCARD;
/* Answers the pulls that the policy permits. */
weft_status weft_hosted_range_answer_pulls(server *s, hosted_range *f) WEFT_NODISCARD;

/* replication.c: of the primary; */
weft_status weft_hosted_range_set_replica(server *s, hosted_range *f,
                                          weft_actor_id replica) WEFT_NODISCARD;
weft_status weft_hosted_range_begin_replica(server *s, hosted_range *f) WEFT_NODISCARD;
weft_status weft_hosted_range_append(server *s, hosted_range *f, const change *c) WEFT_NODISCARD;
weft_status weft_hosted_range_flush(server *s, hosted_range *f) WEFT_NODISCARD;
/* retransmits unacknowledged entries and snapshots; */
weft_status weft_hosted_range_resend(server *s, hosted_range *f, bool *some) WEFT_NODISCARD;
weft_rpc_handle weft_take_append_ack;
/* of the replica. */
weft_rpc_handle weft_take_range_snapshot, weft_take_append;

#endif
