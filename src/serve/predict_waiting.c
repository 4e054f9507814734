/* A request whose caller waits for the answer. */
#include "serve/service_internal.h"

typedef struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    bool over;
    weft_error error;
    weft_request_result result;
} waiting;

static void answer(void *user, const weft_request_result *result)
{
    waiting *w = user;
    pthread_mutex_lock(&w->lock);
    w->over = true;
    w->result = *result;
    w->result.message = NULL;
    w->result.failed = NULL;
    w->error.status = result->status;
    (void)snprintf(w->error.message, sizeof(w->error.message), "%s", result->message);
    pthread_cond_signal(&w->answered);
    pthread_mutex_unlock(&w->lock);
}

weft_status weft_servable_predict(weft_servable *servable, const weft_inference_request *given,
                                  weft_request_result *result)
{
    WEFT_NEED_AS("servable, request", servable, given);
    weft_inference_request own;
    weft_inference_request_init(&own);
    WEFT_TAKE(weft_inference_request, given, prediction, &own);
    if (own.done || own.user)
        return weft_fail(WEFT_ERR_ARGUMENT, "the caller waits for the answer, so `done` and `user` "
                                            "of the request must be NULL");
    waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};
    own.done = answer;
    own.user = &w;
    weft_status status = weft_servable_submit(servable, &own, NULL);
    pthread_mutex_lock(&w.lock);
    while (status == WEFT_OK && !w.over) pthread_cond_wait(&w.answered, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_cond_destroy(&w.answered);
    pthread_mutex_destroy(&w.lock);
    if (status == WEFT_OK && result) *result = w.result;
    return status == WEFT_OK ? weft_error_raise(&w.error) : status;
}
