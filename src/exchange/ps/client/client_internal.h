/* Internals of a learner: its outstanding requests to servers. */
#ifndef WEFT_EXCHANGE_PS_CLIENT_CLIENT_INTERNAL_H
#define WEFT_EXCHANGE_PS_CLIENT_CLIENT_INTERNAL_H

#include "exchange/ps/client/local_steps.h"
#include "exchange/ps/ps.h"
#include "actor/rto.h"
#include "actor/rpc.h"
#include "ps.pb-c.h"

/* A range, and the requests to its server that are outstanding. */
typedef struct range_request {
    weft_server_range of;
    weft_actor_id server; /* of the view; WEFT_NOBODY: none */
    int64_t sequence, version, request;
    weft_buffer *update;  /* push number `sequence`, until it is acknowledged */
    weft_buffer *spare;   /* the buffer of the previous push, for reuse */
    weft_buffer *next;    /* the next push, with the gradients that are ready; NULL: they are in
                             the options' `gradients` */
    weft_buffer *initial; /* initial parameters, until they are acknowledged */
    int64_t update_version, update_step;
    double update_weight;
    int64_t clock;      /* of the learner, at the last push or its start */
    int64_t begins;     /* start clock, as the server says */
    int64_t met, stale; /* updates in versions, and their total staleness, as the server says */
    weft_grad_accumulator accrual;
    bool pushed, asked; /* in this step; a pull is outstanding */
    bool moved;         /* the learner's parameters differ from those that it has pulled */
} range_request;

typedef struct learner {
    weft_actor head;
    weft_ps_client_options options;
    weft_member *member;
    range_request *requests;
    int64_t clock;
    bool in;       /* the run has begun */
    bool arriving; /* its pulls request a start clock */
    bool computing;
    bool leaving, halt, halted; /* it leaves, and all are to; a server says that all are to */
    int64_t end, last;          /* end clock that it sends; that it has received; 0: none */
    bool responds;              /* it makes the elastic update when all replies have come */
    bool with_state;            /* it pulls the update state, too */
    bool gone;                  /* it only leaves the run now, */
    bool stays;                 /* or is held before that */
    weft_rto rto;
    double began;         /* time of the last request, */
    double sent_at;       /* of the last send, or when a request was last seen in transit; */
    bool awaiting_reply;  /* a reply is outstanding; */
    bool again;           /* and a request was retransmitted */
    uint64_t reply_count; /* messages of servers */
    double staleness[WEFT_STALENESS]; /* histogram of its updates */
    weft_member_stats figures;
} learner;

/* client.c: begins whatever the replies so far permit. */
weft_status weft_range_request_advance(learner *l) WEFT_NODISCARD;
/* client_replies.c: handlers of messages of servers. */
extern const weft_rpc_handler weft_range_request_handlers[];

/* client_requests.c */
range_request *weft_range_request_find(learner *l, uint32_t range);
/* Begin and size of a range in the flat parameters, in bytes. */
size_t weft_range_request_offset(const learner *l, const range_request *r);
size_t weft_range_request_bytes(const learner *l, const range_request *r);
/* The gradient of the range in step `clock` is ready: it is pushed, once a step, or accumulated. */
weft_status weft_range_request_push(learner *l, range_request *r, int64_t clock) WEFT_NODISCARD;
/* See weft_ps_client_write_gradient. */
weft_status weft_range_request_write(const learner *l, range_request *r, const void *gradient,
                                     int64_t at, int64_t n, bool *laid) WEFT_NODISCARD;
/* Pushes accumulated gradients. */
weft_status weft_range_request_push_rest(learner *l) WEFT_NODISCARD;
/* The step of the run at this clock. */
int64_t weft_range_request_step(const learner *l, int64_t clock);
/* Whether an action of every `every` steps is due after step `clock`. */
bool weft_range_request_due(const learner *l, int64_t every, int64_t clock);
/* Sends the initial parameters of a range. */
weft_status weft_range_request_send_initial(learner *l, range_request *r) WEFT_NODISCARD;
weft_status weft_range_request_pull(learner *l, range_request *r) WEFT_NODISCARD;
weft_status weft_range_request_pull_all(learner *l) WEFT_NODISCARD;
bool weft_range_request_is_waiting(const range_request *r);
/* Retransmits what is outstanding. */
weft_status weft_range_request_resend(learner *l, const range_request *r) WEFT_NODISCARD;
/* Arms the retransmission timer, and handles its end: retransmits, unless the request is still
 * leaving the process. */
weft_status weft_range_request_arm(learner *l) WEFT_NODISCARD;
weft_status weft_range_request_resend_overdue(learner *l) WEFT_NODISCARD;
/* All is acknowledged: disarms the timer. */
weft_status weft_range_request_rest(learner *l) WEFT_NODISCARD;

#endif
