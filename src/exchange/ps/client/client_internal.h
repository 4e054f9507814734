/* Internals of the client, the actor of a learner: its state, and its range requests to servers. */
#ifndef WEFT_EXCHANGE_PS_CLIENT_CLIENT_INTERNAL_H
#define WEFT_EXCHANGE_PS_CLIENT_CLIENT_INTERNAL_H

#include "exchange/ps/client/local_steps.h"
#include "exchange/ps/ps.h"
#include "actor/rto.h"
#include "actor/rpc.h"
#include "ps.pb-c.h"

/* A range request: the client's state for one range, with the push and the pull that are
 * outstanding at its server. */
typedef struct range_request {
    weft_server_range of;
    weft_actor_id server; /* primary of the range in the view; WEFT_NOBODY: none */
    /* Number of the last push; version of the parameters last pulled, -1: none; number of the last
     * pull. */
    int64_t sequence, version, request;
    weft_buffer *update; /* payload of push number `sequence`, until that is acknowledged */
    weft_buffer *spare;  /* the buffer of the previous push, for reuse */
    /* Payload of the next push, with the gradients that are ready; NULL: these are in the options'
     * `gradients`. */
    weft_buffer *next;
    weft_buffer *initial;                /* payload of Init, until that is acknowledged */
    int64_t update_version, update_step; /* of `update`: its version, and its step of the run */
    double update_weight;
    bool update_empty;  /* `update` has no samples */
    int64_t clock;      /* clock of the learner at its last push, or its start clock */
    int64_t begins;     /* start clock that the server offers to the learner */
    int64_t met, stale; /* the server's count of this learner's updates, and of their staleness */
    weft_grad_accumulator accrual;
    bool pushed, asked; /* this step's gradient is pushed or added up; a pull is outstanding */
    bool moved; /* `parameters` differ from those pulled, so the next pull asks for all of them */
} range_request;

typedef struct ps_client {
    weft_actor head;
    weft_ps_client_options options;
    weft_member *member;
    range_request *requests;
    int64_t clock;
    bool in;       /* the run has begun: the client has a view */
    bool arriving; /* its pulls request a start clock */
    bool computing;
    bool leaving;      /* the client leaves the servers */
    bool halt;         /* it requests that all learners leave */
    bool halted;       /* a server has reported that all learners are to leave */
    int64_t end, last; /* end clock that its pushes carry; that servers report; 0: none */
    bool idle;         /* no computation since the last elastic update had samples */
    bool responds;     /* the elastic update is due when all replies have arrived */
    bool with_state;   /* its pulls also request the optimizer state */
    bool gone;         /* it has left the servers, and only leaves the run now */
    bool stays;        /* it remains a member until weft_ps_client_release */
    weft_rto rto;
    double began;         /* time of the last new request */
    double sent_at;       /* time of the last send, or when a request was last seen in transit */
    bool awaiting_reply;  /* a reply is outstanding */
    bool retransmitted;   /* a request was retransmitted: the round trip is no sample (Karn) */
    uint64_t reply_count; /* replies of servers */
    double staleness[WEFT_STALENESS]; /* histogram of this learner's updates */
    weft_member_stats figures;
} ps_client;

/* client.c: if all requests are answered, begins the next step, or leaves the run after the last
 * one. */
weft_status weft_ps_client_advance(ps_client *c) WEFT_NODISCARD;
/* client_replies.c: the handlers of messages from servers. */
extern const weft_rpc_handler weft_range_request_handlers[];

/* client_requests.c */
range_request *weft_range_request_find(ps_client *c, uint32_t range);
/* Begin and size of a range in the flat parameters, in bytes. */
size_t weft_range_request_offset(const ps_client *c, const range_request *r);
size_t weft_range_request_bytes(const ps_client *c, const range_request *r);
/* Called when the gradient of a range in step `clock` is ready: pushes it, or accumulates it if no
 * push is due. A second call in a step does nothing. */
weft_status weft_range_request_push(ps_client *c, range_request *r, int64_t clock) WEFT_NODISCARD;
/* See weft_ps_client_write_gradient. */
weft_status weft_range_request_write(const ps_client *c, range_request *r, const void *gradient,
                                     int64_t at, int64_t n, bool *laid) WEFT_NODISCARD;
/* Pushes the accumulated gradients of all ranges, although no push is due. */
weft_status weft_range_request_flush_accumulated(ps_client *c) WEFT_NODISCARD;
/* The step of the run that the running computation, number `clock`, is. */
int64_t weft_range_request_step(const ps_client *c, int64_t clock);
/* Whether an action is due after step `clock` that is made every `every` steps and after the last
 * one. */
bool weft_range_request_due(const ps_client *c, int64_t every, int64_t clock);
/* Sends the initial parameters and optimizer state of a range to its server (Init). */
weft_status weft_range_request_send_initial(ps_client *c, range_request *r) WEFT_NODISCARD;
weft_status weft_range_request_pull(ps_client *c, range_request *r) WEFT_NODISCARD;
weft_status weft_range_request_pull_all(ps_client *c) WEFT_NODISCARD;
/* Whether a pull, a push or an Init of the range is not answered yet. */
bool weft_range_request_is_waiting(const range_request *r);
/* Retransmits the messages of a range that are not answered yet. */
weft_status weft_range_request_resend(ps_client *c, const range_request *r) WEFT_NODISCARD;
/* `_arm` arms the retransmission timer. `_resend_overdue` handles its end: it retransmits each
 * request that is not answered, unless its payload is still in transit inside this process. */
weft_status weft_range_request_arm(ps_client *c) WEFT_NODISCARD;
weft_status weft_range_request_resend_overdue(ps_client *c) WEFT_NODISCARD;
/* Disarms the timer when all requests are answered, and takes a sample of the round-trip time. */
weft_status weft_range_request_disarm_timer(ps_client *c) WEFT_NODISCARD;

#endif
