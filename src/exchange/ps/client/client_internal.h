/* The inside of a learner: what it asks of servers, and has not been answered yet. */
#ifndef WEFT_EXCHANGE_PS_CLIENT_CLIENT_INTERNAL_H
#define WEFT_EXCHANGE_PS_CLIENT_CLIENT_INTERNAL_H

#include "exchange/ps/client/local_steps.h"
#include "exchange/ps/ps.h"
#include "actor/rto.h"
#include "actor/rpc.h"
#include "ps.pb-c.h"

/* A range, and what is under way to its server. */
typedef struct range_request {
    weft_server_range of;
    weft_actor_id server; /* as the view says; WEFT_NOBODY: there is none */
    int64_t sequence, version, request;
    weft_buffer *update;  /* of push number `sequence`, until it is acknowledged */
    weft_buffer *spare;   /* the one before it */
    weft_buffer *next;    /* the one after it, as far as its gradients are there; NULL: it goes by
                           * those of the options */
    weft_buffer *initial; /* what the run is to begin with, until it is acknowledged */
    int64_t update_version, update_step;
    double update_weight;
    int64_t clock;      /* of the learner, with the last update or where it began */
    int64_t begins;     /* at which the server lets it begin */
    int64_t met, stale; /* updates in versions, and their staleness in all, as the server says */
    weft_grad_accumulator accrual;
    bool pushed, asked; /* in this step; a pull that is not answered */
    bool moved;         /* the learner's own parameters are no longer what it has pulled */
} range_request;

typedef struct learner {
    weft_actor head;
    weft_ps_client_options options;
    weft_member *member;
    range_request *requests;
    int64_t clock;
    bool in;       /* the run has begun */
    bool arriving; /* it asks where it may begin */
    bool computing;
    bool leaving, halt, halted; /* it leaves, and all are to; it was told to */
    int64_t end, last; /* the clock that all end with, as it says; as it was told; 0: none */
    bool responds;     /* it does when it has what it has asked for */
    bool whole;        /* it asks for the state, too */
    bool gone;         /* it does nothing any more but take its leave, */
    bool stays;        /* and not yet that */
    weft_rto trip;
    double began;   /* when something was asked last, */
    double hoped;   /* when something was asked last, or was last seen on its way out of here; */
    bool hopes;     /* it is not answered; */
    bool again;     /* something of it was sent again */
    uint64_t heard; /* messages of servers */
    double staleness[WEFT_STALENESS]; /* of its updates: how many had that */
    weft_member_stats figures;
} learner;

/* learner.c: whatever can begin now that something has been answered. */
weft_status weft_range_request_advance(learner *l) WEFT_NODISCARD;
/* client_replies.c: a message that is not the member's. */
weft_status weft_range_request_message(learner *l, const weft_message *message) WEFT_NODISCARD;

/* client_requests.c */
range_request *weft_range_request_find(learner *l, uint32_t range);
/* Where the range begins in the flat numbers, in bytes, and how many they are. */
size_t weft_range_request_offset(const learner *l, const range_request *r);
size_t weft_range_request_bytes(const learner *l, const range_request *r);
/* The gradient of the range in step number `clock` is there: it goes, once a step, or with those of
 * others. */
weft_status weft_range_request_push(learner *l, range_request *r, int64_t clock) WEFT_NODISCARD;
/* As weft_ps_client_write_gradient says. */
weft_status weft_range_request_write(const learner *l, range_request *r, const void *gradient,
                                     int64_t at, int64_t n, bool *laid) WEFT_NODISCARD;
/* Nothing is kept back. */
weft_status weft_range_request_push_rest(learner *l) WEFT_NODISCARD;
/* Whether, after step number `clock`, it is time for what happens every so many. */
bool weft_range_request_due(const learner *l, int64_t every, int64_t clock);
/* Makes what the learner gives of its parameters, and sends it. */
weft_status weft_range_request_send_initial(learner *l, range_request *r) WEFT_NODISCARD;
weft_status weft_range_request_pull(learner *l, range_request *r) WEFT_NODISCARD;
weft_status weft_range_request_pull_all(learner *l) WEFT_NODISCARD;
bool weft_range_request_is_waiting(const range_request *r);
/* Sends all again that is not answered. */
weft_status weft_range_request_resend(learner *l, const range_request *r) WEFT_NODISCARD;
/* Sends again if nobody answers in time: longer than that takes after what was asked has left. */
weft_status weft_range_request_arm(learner *l) WEFT_NODISCARD;
weft_status weft_range_request_is_overdue(learner *l) WEFT_NODISCARD;
/* All is answered. */
weft_status weft_range_request_rest(learner *l) WEFT_NODISCARD;

#endif
