/* Endpoints, and the kind that is a communicator. */
#include "exchange/exchange.h"

void weft_endpoint_close(weft_endpoint **endpoint)
{
    if (!endpoint || !*endpoint) return;
    (*endpoint)->kind->close(*endpoint);
    *endpoint = NULL;
}

weft_status weft_endpoint_bind(weft_endpoint *endpoint, const weft_transfer *transfer,
                               weft_passage **out)
{
    WEFT_TRY(endpoint->kind->bind(endpoint, transfer, out));
    (*out)->endpoint = endpoint;
    return WEFT_OK;
}

weft_status weft_passage_start(weft_passage *passage)
{
    return passage->endpoint->kind->start(passage);
}

weft_status weft_passage_test(weft_passage *passage, bool *done)
{
    return passage->endpoint->kind->test(passage, done);
}

weft_status weft_passage_wait(weft_passage *passage)
{
    return passage->endpoint->kind->wait(passage);
}

void weft_passage_destroy(weft_passage **passage)
{
    if (!passage || !*passage) return;
    (*passage)->endpoint->kind->destroy(*passage);
    *passage = NULL;
}

weft_status weft_endpoint_check(weft_endpoint *endpoint)
{
    return endpoint->kind->check ? endpoint->kind->check(endpoint) : WEFT_OK;
}

weft_status weft_endpoint_run(weft_endpoint *endpoint, const weft_transfer *transfer)
{
    weft_passage *passage;
    WEFT_TRY(weft_endpoint_bind(endpoint, transfer, &passage));
    weft_status status = weft_passage_start(passage);
    if (status == WEFT_OK) status = weft_passage_wait(passage);
    weft_passage_destroy(&passage);
    return status;
}

/* --- a communicator --- */

typedef struct over_comm {
    weft_endpoint head;
    weft_comm *comm;
} over_comm;

typedef struct comm_passage {
    weft_passage head;
    weft_operation *operation;
} comm_passage;

static void comm_close(weft_endpoint *endpoint)
{
    free(endpoint);
}

static weft_status comm_bind(weft_endpoint *endpoint, const weft_transfer *transfer,
                             weft_passage **out)
{
    comm_passage *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    weft_status status = weft_comm_prepare(((over_comm *)endpoint)->comm, transfer, &p->operation);
    if (status == WEFT_OK)
        *out = &p->head;
    else
        free(p);
    return status;
}

static weft_status comm_start(weft_passage *passage)
{
    return weft_operation_start(((comm_passage *)passage)->operation);
}

static weft_status comm_test(weft_passage *passage, bool *done)
{
    return weft_operation_test(((comm_passage *)passage)->operation, done);
}

static weft_status comm_wait(weft_passage *passage)
{
    return weft_operation_wait(((comm_passage *)passage)->operation);
}

static void comm_destroy(weft_passage *passage)
{
    weft_operation_destroy(&((comm_passage *)passage)->operation);
    free(passage);
}

static weft_status comm_check(weft_endpoint *endpoint)
{
    return weft_comm_check(((over_comm *)endpoint)->comm);
}

static const weft_endpoint_kind communicator = {
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

weft_status weft_endpoint_over(weft_comm *between, weft_endpoint **out)
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
