/* Learner groups: the calls of a group's kind, and the kind whose collectives are those of a
 * communicator between the learners. */
#include "exchange/learner_group.h"

void weft_learner_group_close(weft_learner_group **endpoint)
{
    if (!endpoint || !*endpoint) return;
    (*endpoint)->kind->close(*endpoint);
    *endpoint = NULL;
}

weft_status weft_learner_group_bind(weft_learner_group *endpoint, const weft_transfer *transfer,
                                    weft_group_request **out)
{
    WEFT_TRY(endpoint->kind->bind(endpoint, transfer, out));
    (*out)->endpoint = endpoint;
    return WEFT_OK;
}

weft_status weft_group_request_start(weft_group_request *request)
{
    return request->endpoint->kind->start(request);
}

weft_status weft_group_request_test(weft_group_request *request, bool *done)
{
    return request->endpoint->kind->test(request, done);
}

weft_status weft_group_request_wait(weft_group_request *request)
{
    return request->endpoint->kind->wait(request);
}

void weft_group_request_destroy(weft_group_request **request)
{
    if (!request || !*request) return;
    (*request)->endpoint->kind->destroy(*request);
    *request = NULL;
}

weft_status weft_learner_group_check(weft_learner_group *endpoint)
{
    return endpoint->kind->check ? endpoint->kind->check(endpoint) : WEFT_OK;
}

weft_status weft_learner_group_run(weft_learner_group *endpoint, const weft_transfer *transfer)
{
    weft_group_request *request;
    WEFT_TRY(weft_learner_group_bind(endpoint, transfer, &request));
    weft_status status = weft_group_request_start(request);
    if (status == WEFT_OK) status = weft_group_request_wait(request);
    weft_group_request_destroy(&request);
    return status;
}

/* --- a communicator --- */

typedef struct over_comm {
    weft_learner_group head;
    weft_comm *comm;
} over_comm;

typedef struct comm_request {
    weft_group_request head;
    weft_operation *operation;
} comm_request;

static void comm_close(weft_learner_group *endpoint)
{
    free(endpoint);
}

static weft_status comm_bind(weft_learner_group *endpoint, const weft_transfer *transfer,
                             weft_group_request **out)
{
    comm_request *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    weft_status status = weft_comm_prepare(((over_comm *)endpoint)->comm, transfer, &p->operation);
    if (status == WEFT_OK)
        *out = &p->head;
    else
        free(p);
    return status;
}

static weft_status comm_start(weft_group_request *request)
{
    return weft_operation_start(((comm_request *)request)->operation);
}

static weft_status comm_test(weft_group_request *request, bool *done)
{
    return weft_operation_test(((comm_request *)request)->operation, done);
}

static weft_status comm_wait(weft_group_request *request)
{
    return weft_operation_wait(((comm_request *)request)->operation);
}

static void comm_destroy(weft_group_request *request)
{
    weft_operation_destroy(&((comm_request *)request)->operation);
    free(request);
}

static weft_status comm_check(weft_learner_group *endpoint)
{
    return weft_comm_check(((over_comm *)endpoint)->comm);
}

static const weft_learner_group_kind communicator = {
    .struct_size = sizeof(communicator),
    .name = "communicator",
    .close = comm_close,
    .bind = comm_bind,
    .start = comm_start,
    .test = comm_test,
    .wait = comm_wait,
    .destroy = comm_destroy,
    .check = comm_check,
};

weft_status weft_learner_group_over(weft_comm *between, weft_learner_group **out)
{
    over_comm *e;
    WEFT_TRY(WEFT_NEW(&e, 1));
    *e = (over_comm){.head = {.kind = &communicator,
                              .learner = weft_comm_rank(between),
                              .learners = weft_comm_size(between),
                              .timeout = weft_comm_timeout(between)},
                     .comm = between};
    *out = &e->head;
    return WEFT_OK;
}
