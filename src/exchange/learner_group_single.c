/* The learner group of an elastic learner, which is its only member: collectives involve no other
 * learner, and sends and receives are refused. */
#include "exchange/learner_group.h"

typedef struct single_request {
    weft_group_request head;
    weft_transfer transfer;
} single_request;

static void apart_close(weft_learner_group *endpoint)
{
    free(endpoint);
}

static weft_status apart_bind(weft_learner_group *endpoint, const weft_transfer *t,
                              weft_group_request **out)
{
    single_request *p;
    if (t->kind != WEFT_ALL_REDUCE && t->kind != WEFT_ALL_GATHER && t->kind != WEFT_BROADCAST &&
        t->kind != WEFT_BARRIER)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "learner %d needs messages from other learners for '%s', which an elastic "
                         "run does not support",
                         endpoint->learner, t->what ? t->what : "?");
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->transfer = *t;
    *out = &p->head;
    return WEFT_OK;
}

static weft_status apart_start(weft_group_request *request)
{
    const weft_transfer *t = &((single_request *)request)->transfer;
    size_t bytes = (size_t)t->count * weft_dtype_size(t->dtype);
    bool shared = t->kind == WEFT_ALL_REDUCE || t->kind == WEFT_ALL_GATHER;
    char *to = t->receive;
    const weft_learner_group *e = request->endpoint;
    if (!shared || bytes == 0 || (t->kind == WEFT_ALL_GATHER && e->learner >= e->learners))
        return WEFT_OK;
    if (t->kind == WEFT_ALL_GATHER) to += bytes * (size_t)e->learner;
    if (to != t->send) memcpy(to, t->send, bytes);
    return WEFT_OK;
}

static weft_status apart_test(weft_group_request *request, bool *done)
{
    (void)request;
    *done = true;
    return WEFT_OK;
}

static weft_status apart_wait(weft_group_request *request)
{
    (void)request;
    return WEFT_OK;
}

static void apart_destroy(weft_group_request *request)
{
    free(request);
}

static const weft_learner_group_kind apart = {
    .struct_size = sizeof(apart),
    .name = "apart",
    .close = apart_close,
    .bind = apart_bind,
    .start = apart_start,
    .test = apart_test,
    .wait = apart_wait,
    .destroy = apart_destroy,
};

weft_status weft_learner_group_single(int learner, int learners, double timeout,
                                      weft_learner_group **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    **out = (weft_learner_group){
        .kind = &apart, .learner = learner, .learners = learners, .timeout = timeout};
    return WEFT_OK;
}
