/* Handles a plain prediction request: decodes the body in the loop's thread, or in a thread of its
 * own if it is a large picture, and queues the inference request. */
#include <stdio.h>

#include "serve/front/server_internal.h"

/* Large pictures that are decoded at a time; one may need 128 MiB. */
enum { MOST_PICTURES = 4 };

/* Queues the decoded request, or answers with the error. Afterwards the HTTP request may have been
 * freed. */
static void submit_decoded(weft_http_request *c, weft_status status)
{
    weft_inference_request *q = &c->inference.request;
    if (status == WEFT_OK) {
        q->queue_timeout = c->server->queue_timeout;
        q->user = c;
        q->done = weft_http_request_answered;
        status = weft_servable_submit(c->servable, q, NULL);
    }
    if (status != WEFT_OK) weft_http_request_refused(c, status);
}

static void *read_large(void *user)
{
    weft_http_request *c = user;
    weft_status status = weft_predict_read(&c->about, &c->plain, &c->inference);
    /* The counter is decremented before the HTTP request is answered, since the server may be freed
     * after that. */
    __atomic_fetch_sub(&c->server->pictures, 1, __ATOMIC_ACQ_REL);
    submit_decoded(c, status);
    return NULL;
}

/* Decodes a large picture in a thread of its own, so that other requests do not wait for it. */
static void predict_large(weft_http_request *c)
{
    pthread_t thread;
    int *pictures = &c->server->pictures;
    weft_status status = WEFT_OK;
    if (__atomic_add_fetch(pictures, 1, __ATOMIC_ACQ_REL) > MOST_PICTURES)
        status = weft_fail(WEFT_ERR_BUSY,
                           "%d large pictures are being decoded already; send this one again later",
                           MOST_PICTURES);
    if (status == WEFT_OK) status = weft_thread_start(&thread, read_large, c);
    if (status == WEFT_OK) {
        pthread_detach(thread);
        return;
    }
    __atomic_fetch_sub(pictures, 1, __ATOMIC_ACQ_REL);
    weft_http_request_refused(c, status);
}

void weft_http_request_predict(weft_http_request *request)
{
    const char *type = MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, "Content-Type"),
               *accept = MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, "Accept");
    weft_status status = weft_predict_detect(type, request->data, request->size, &request->plain);
    if (status != WEFT_OK) {
        weft_reply_error(&request->reply, weft_http_status_of(status), weft_last_message());
        return;
    }
    weft_predict_choose_format(accept, &request->inference);
    request->kind = WEFT_HTTP_PREDICT;
    if (weft_predict_is_long(&request->plain)) {
        weft_http_request_suspend(request);
        predict_large(request);
        return;
    }
    status = weft_predict_read(&request->about, &request->plain, &request->inference);
    if (status == WEFT_OK)
        weft_http_request_submit(request);
    else
        weft_reply_error(&request->reply, weft_http_status_of(status), weft_last_message());
}
