/* Submits inference requests to the batch queues of their model versions. */
#include <math.h>

#include "serve/batch/batch_internal.h"
#include "serve/service_internal.h"

static void forward_result(void *user, const weft_request_result *a)
{
    weft_inference_request *q = user;
    q->done(q->user, a);
    free(q);
}

/* Checks that the elements of all inputs of tokens are tokens, since a layer reads memory by them.
 */
static weft_status check_tokens(const weft_data_stats *stats, const weft_inference_request *q)
{
    int64_t at = 0;
    for (int k = 0; k < stats->inputs; k++) {
        const weft_input *in = &stats->input[k];
        int64_t size = weft_shape_elements(&in->shape);
        for (int64_t i = 0; in->values > 0 && i < q->rows * size; i++) {
            double x = q->x_double ? q->x_double[at + i] : (double)q->x[at + i];
            if (x >= 0 && x < in->values && x == (double)(int32_t)x) continue;
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "input '%s': number %lld of row %lld is %.*f, must be a whole number "
                             "from 0 to %d",
                             in->name, (long long)(i % size + 1), (long long)(i / size + 1),
                             x == floor(x) ? 0 : 6, x, in->values - 1);
        }
        at += q->rows * size;
    }
    return WEFT_OK;
}

static weft_status check_request(const weft_servable *servable, const weft_inference_request *q)
{
    if ((!q->x && !q->x_double) || !q->prediction || !q->done)
        return weft_fail(WEFT_ERR_ARGUMENT, "an inference request needs x, prediction and done");
    if (q->rows < 1 || q->rows > servable->limit)
        return weft_fail(WEFT_ERR_ARGUMENT, "a request has %lld rows, must be from 1 to %lld",
                         (long long)q->rows, (long long)servable->limit);
    return check_tokens(&servable->checkpoint.stats, q);
}

weft_status weft_servable_submit(weft_servable *servable, const weft_inference_request *given,
                                 uint64_t *ticket)
{
    WEFT_NEED_AS("servable, request", servable, given);
    weft_request request;
    weft_inference_request own, *q;
    weft_request_init(&request);
    weft_inference_request_init(&own);
    WEFT_TAKE(weft_inference_request, given, prediction, &own);
    WEFT_TRY(check_request(servable, &own));
    WEFT_TRY(WEFT_NEW(&q, 1));
    *q = own;
    request.rows = q->rows;
    request.queue_timeout = q->queue_timeout;
    request.priority = q->priority;
    request.no_wake = q->no_wake;
    request.user = q;
    request.done = forward_result;
    weft_status status = weft_batch_queue_submit(servable->queue, &request, ticket);
    if (status != WEFT_OK) free(q);
    return status;
}

bool weft_servable_cancel(weft_servable *servable, uint64_t ticket)
{
    WEFT_NEED_ELSE(false, servable);
    void *request = NULL;
    bool cancelled = weft_batch_queue_withdraw(servable->queue, ticket, &request);
    if (cancelled) free(request);
    return cancelled;
}

int weft_service_run_due(weft_service *service, double seconds)
{
    WEFT_NEED_ELSE(0, service);
    return weft_batcher_run_due(service->batcher, seconds);
}
