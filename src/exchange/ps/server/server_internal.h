/* Internals of a server: the ranges that it hosts, as primary or as replica. */
#ifndef WEFT_EXCHANGE_PS_SERVER_SERVER_INTERNAL_H
#define WEFT_EXCHANGE_PS_SERVER_SERVER_INTERNAL_H

#include "exchange/ps/ps.h"
#include "actor/rpc.h"
#include "ps.pb-c.h"

/* A pending pull: the server answers it when the policy lets the learner begin its next step. The
 * fields are those of the message Pull. */
typedef struct pending_pull {
    weft_actor_id learner;
    int64_t request, clock, have, sequence, met;
    bool leaving, with_state, arriving;
} pending_pull;

/* A change of a range, and an entry of its replication log. Servers that apply equal entries in the
 * same order have equal ranges. The fields are those of the message Append. */
typedef struct change {
    Weft__Append__Kind kind;
    int64_t index;
    weft_actor_id learner;
    int slot;
    int64_t sequence, clock, version, step;
    double weight;
    bool empty;
    weft_buffer *update;
} change;

/* A deferred reply: the primary holds it until the replica has acknowledged the log entries that it
 * reveals (commit wait). */
typedef struct deferred {
    weft_actor_id to;
    weft_rpc_type type;
    int64_t number; /* number of the push or pull that the reply answers */
    int64_t index;  /* log index of the last entry that the reply reveals */
    size_t head_bytes;
    uint8_t head[96];
    weft_buffer *payload;
} deferred;

typedef struct hosted_range {
    weft_served of;
    bool primary;     /* this server is the primary of the range; false: its replica */
    bool initialized; /* the range has the parameters of the run */
    int64_t index;    /* log index of the last entry that was applied */
    int64_t halted;   /* end clock; INT64_MAX: none */
    pending_pull *pulls;
    size_t pull_count, pull_capacity;
    weft_buffer *copy; /* copy of the parameters at version `copied`, which all replies share */
    weft_buffer *last; /* the copy before that, which may be in transit */
    int64_t copied;
    /* On the primary: the replica (WEFT_NOBODY: none), the index that it has acknowledged (-1: it
     * has no snapshot yet), and the log after that index. */
    weft_actor_id replica;
    /* The replica gets its snapshot when no update is pending; until then replies go out as if
     * there were no replica. */
    bool postponed;
    int64_t acked_index;
    weft_buffer *state;  /* snapshot that the replica has not acknowledged; NULL: none */
    int64_t state_index; /* log index of that snapshot */
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
    bool halt;    /* a learner has requested that all learners leave */
    bool leaving; /* the server is leaving the run */
    bool failed;  /* see weft_server_give_up */
    /* Learners that have sent requests from a newer view, which this server has not installed
     * yet. */
    weft_actor_id *early;
    size_t early_count, early_capacity;
    double resend_timeout; /* present retransmission timeout, in seconds */
} server;

/* hosted_range.c */
hosted_range *weft_hosted_range_find(const server *s, uint32_t number);
/* Opens a range, which has no parameters and no learners yet, and adds it to the hosted ranges. */
weft_status weft_hosted_range_add(server *s, int number, bool primary,
                                  hosted_range **out) WEFT_NODISCARD;
void weft_hosted_range_remove(server *s, hosted_range *f);
/* Applies a change to the range; a primary also appends it to the log for the replica. result: that
 * of a push; may be NULL. */
weft_status weft_hosted_range_apply(server *s, hosted_range *f, const change *c,
                                    weft_push_result *result) WEFT_NODISCARD;
/* Sends a reply that reveals the state of the range: now, or, deferred, when the replica has that
 * state. number: of the push or pull that it answers. */
weft_status weft_hosted_range_send(server *s, hosted_range *f, weft_actor_id to, weft_rpc_type type,
                                   int64_t number, const void *message,
                                   weft_buffer *payload) WEFT_NODISCARD;
/* Copies the parameters of a range, and behind them its optimizer state, into a new buffer. */
weft_status weft_hosted_range_snapshot(const hosted_range *f, weft_buffer **out) WEFT_NODISCARD;
/* Installs such a snapshot, or parameters alone. FORMAT: its size is wrong. */
weft_status weft_hosted_range_restore(hosted_range *f, const weft_buffer *blob) WEFT_NODISCARD;

/* pending_pulls.c */
weft_status weft_hosted_range_add_pull(server *s, hosted_range *f,
                                       const pending_pull *q) WEFT_NODISCARD;
/* Answers the pending pulls whose learners may begin their next step by the policy. */
weft_status weft_hosted_range_answer_pulls(server *s, hosted_range *f) WEFT_NODISCARD;

/* replication.c, on the primary: `_set_replica` sets the replica that the view names;
 * `_begin_replica` sends it a snapshot, as soon as no update is pending; `_append` sends it a log
 * entry; `_flush` sends the deferred replies that its acknowledgements release. */
weft_status weft_hosted_range_set_replica(server *s, hosted_range *f,
                                          weft_actor_id replica) WEFT_NODISCARD;
weft_status weft_hosted_range_begin_replica(server *s, hosted_range *f) WEFT_NODISCARD;
weft_status weft_hosted_range_append(server *s, hosted_range *f, const change *c) WEFT_NODISCARD;
weft_status weft_hosted_range_flush(server *s, hosted_range *f) WEFT_NODISCARD;
/* Retransmits the snapshot and log entries that the replica has not acknowledged. Sets *some if any
 * are left. */
weft_status weft_hosted_range_resend(server *s, hosted_range *f, bool *some) WEFT_NODISCARD;
weft_rpc_handle weft_take_append_ack;
/* replication.c, on the replica. */
weft_rpc_handle weft_take_range_snapshot, weft_take_append;

#endif
