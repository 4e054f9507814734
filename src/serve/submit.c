/* Submits inference requests to the batch queues of their model versions. A request of more rows
 * than a batch is cut into parts, each a request of its own in the queue; it is answered when all
 * of them are. */
#include <math.h>
#include <stdio.h>

#include "serve/batch/batch_internal.h"
#include "serve/request_rows.h"
#include "serve/service_internal.h"

/* A part of a submission. The queue and its batches know it by its request, which is first. */
typedef struct part {
    weft_inference_request request;
    weft_submission *whole;
    int64_t first; /* row of the submission with which it begins */
    uint64_t ticket;
    bool queued;
} part;

struct weft_submission {
    weft_servable *servable;
    weft_inference_request request; /* the caller's */
    float *x; /* inputs of the parts one after the other; NULL: those of the request serve */
    double *x_double;
    weft_submission *next; /* in the list of the version, which has those of several parts */
    uint64_t ticket;
    /* Parts without an answer, and calls that are at work on it; answered ones; the first failure,
     * and the longest times. Guarded by the version's lock. */
    int left, answered;
    weft_error error;
    weft_request_result result;
    int count;
    part part[];
};

static void free_submission(weft_submission *s)
{
    free(s->x);
    free(s->x_double);
    free(s);
}

/* --- answers --- */

/* The first row of a part that has a number that is not finite in output *which; -1: there is
 * none. */
static int64_t lost_row(const part *p, int *which)
{
    const weft_servable *s = p->whole->servable;
    int64_t count = p->request.rows * s->outputs;
    *which = 0;
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(p->request.prediction[i])) return i / s->outputs;
    for (int k = 1; k < s->output_count; k++) {
        const char *at = p->request.output[k];
        size_t row = weft_servable_output_bytes(s, k);
        *which = k;
        for (int64_t i = 0; at && i < p->request.rows; i++, at += row)
            if (!weft_all_finite(s->output[k].dtype, at, row)) return i;
    }
    return -1;
}

/* Takes a submission out of the list of its version. The caller holds the lock. */
static void leave_list(weft_submission *s)
{
    weft_submission **at = &s->servable->cut;
    while (*at && *at != s) at = &(*at)->next;
    if (*at) *at = s->next;
}

static void fail(weft_submission *s, weft_status status, const char *message)
{
    if (status == WEFT_OK || s->error.status != WEFT_OK) return;
    s->error.status = status;
    (void)snprintf(s->error.message, sizeof(s->error.message), "%s", message);
}

/* Subtracts `count` pending parts, with the answer of a part (NULL: none) or a failure. At zero it
 * calls `done` if any part was answered, and frees the submission. Returns true if the submission
 * ended without a call of `done`. */
static bool finish_part(weft_submission *s, int count, const weft_request_result *answer,
                        weft_status status, const char *message)
{
    weft_servable *servable = s->servable;
    pthread_mutex_lock(&servable->cut_lock);
    fail(s, status, message);
    if (answer) {
        s->answered++;
        fail(s, answer->status, answer->message);
        s->result.queue_seconds = fmax(s->result.queue_seconds, answer->queue_seconds);
        s->result.compute_seconds = fmax(s->result.compute_seconds, answer->compute_seconds);
        s->result.rows = WEFT_MAX(s->result.rows, answer->rows);
    }
    s->left -= count;
    bool over = s->left == 0, untold = over && s->answered == 0;
    if (over) leave_list(s);
    pthread_mutex_unlock(&servable->cut_lock);
    if (over && !untold) {
        s->result.status = s->error.status;
        s->result.message = s->error.message;
        s->result.failed = answer ? answer->failed : NULL;
        s->request.done(s->request.user, &s->result);
    }
    if (over) free_submission(s);
    return untold;
}

static void part_answered(void *user, const weft_request_result *result)
{
    const part *p = user;
    weft_submission *s = p->whole;
    weft_request_result a = *result;
    char message[256];
    int which;
    int64_t lost = a.status == WEFT_OK ? lost_row(p, &which) : -1;
    if (lost >= 0) { /* a class read off such a number looks like any other */
        (void)snprintf(message, sizeof(message),
                       "output '%s' of row %lld is not finite: a number of the row is too "
                       "large for the model, or the model has diverged",
                       s->servable->output[which].name, (long long)(p->first + lost + 1));
        a.status = WEFT_ERR_NUMERIC;
        a.message = message;
        if (a.failed) *a.failed = true;
    }
    if (s->count > 1) {
        (void)finish_part(s, 1, &a, WEFT_OK, "");
        return;
    }
    s->request.done(s->request.user, &a);
    free_submission(s);
}

/* --- checks --- */

int64_t weft_servable_most_rows(const weft_servable *servable)
{
    return WEFT_MAX(servable->limit, servable->service->options.waiting);
}

static weft_status check_request(const weft_servable *servable, const weft_inference_request *q)
{
    if ((!q->x && !q->x_double) || !q->prediction || !q->done)
        return weft_fail(WEFT_ERR_ARGUMENT, "an inference request needs x, prediction and done");
    if (q->rows < 1 || q->rows > weft_servable_most_rows(servable))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "a request has %lld rows, must be from 1 to %lld, which may wait",
                         (long long)q->rows, (long long)weft_servable_most_rows(servable));
    return weft_request_check_rows(&servable->checkpoint.stats, weft_servable_is_table(servable),
                                   q);
}

/* --- parts --- */

/* Copies the rows of a part from each input; the inputs of a request follow one another. row:
 * elements of a row of all inputs. */
static void gather(weft_submission *s, const part *p, int64_t row)
{
    const weft_data_stats *stats = &s->servable->checkpoint.stats;
    const weft_inference_request *q = &s->request;
    int64_t before = 0, rows = p->request.rows;
    for (int k = 0; k < stats->inputs; k++) {
        int64_t size = weft_shape_elements(&stats->input[k].shape);
        int64_t from = q->rows * before + p->first * size, to = p->first * row + rows * before;
        if (s->x_double)
            memcpy(s->x_double + to, q->x_double + from, (size_t)(rows * size) * sizeof(double));
        else
            memcpy(s->x + to, q->x + from, (size_t)(rows * size) * sizeof(float));
        before += size;
    }
}

static weft_status make_parts(weft_submission *s)
{
    const weft_inference_request *q = &s->request;
    const weft_data_stats *stats = &s->servable->checkpoint.stats;
    int64_t most = s->servable->limit, outputs = s->servable->outputs, row = 0;
    bool gathers = s->count > 1 && stats->inputs > 1;
    for (int k = 0; k < stats->inputs; k++) row += weft_shape_elements(&stats->input[k].shape);
    if (gathers && q->x_double) WEFT_TRY(WEFT_NEW(&s->x_double, q->rows * row));
    if (gathers && !q->x_double) WEFT_TRY(WEFT_NEW(&s->x, q->rows * row));
    for (int i = 0; i < s->count; i++) {
        part *p = &s->part[i];
        *p = (part){.request = *q, .whole = s, .first = i * most};
        p->request.rows = WEFT_MIN(most, q->rows - p->first);
        if (gathers) gather(s, p, row);
        const float *x = s->x ? s->x : q->x;
        const double *x_double = s->x_double ? s->x_double : q->x_double;
        p->request.x = x ? x + p->first * row : NULL;
        p->request.x_double = x_double ? x_double + p->first * row : NULL;
        p->request.prediction = q->prediction + p->first * outputs;
        p->request.logits = q->logits ? q->logits + p->first * outputs : NULL;
        for (int k = 1; k < s->servable->output_count; k++)
            if (q->output[k])
                p->request.output[k] =
                    (char *)q->output[k] +
                    (size_t)p->first * weft_servable_output_bytes(s->servable, k);
    }
    return WEFT_OK;
}

/* A single part may be answered and freed as soon as it is queued. */
static weft_status queue_part(part *p, uint64_t *ticket)
{
    weft_request request;
    weft_request_init(&request);
    request.rows = p->request.rows;
    request.queue_timeout = p->request.queue_timeout;
    request.priority = p->request.priority;
    request.no_wake = p->request.no_wake;
    request.user = p;
    request.done = part_answered;
    return weft_batch_queue_submit(p->whole->servable->queue, &request, ticket);
}

/* Takes the parts that wait out of the queue, and returns their number. */
static int withdraw(weft_submission *s)
{
    void *user;
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += s->part[i].queued &&
                 weft_batch_queue_withdraw(s->servable->queue, s->part[i].ticket, &user);
    return count;
}

/* Queues the parts of a submission, which has one more on what is left until this returns. */
static weft_status queue_parts(weft_submission *s, uint64_t *ticket)
{
    weft_servable *servable = s->servable;
    weft_error error = {0};
    int queued = 0;
    weft_status status = WEFT_OK;
    while (queued < s->count && status == WEFT_OK) {
        part *p = &s->part[queued];
        status = queue_part(p, &p->ticket);
        p->queued = status == WEFT_OK;
        queued += p->queued;
    }
    weft_error_catch(&error, status);
    if (status == WEFT_OK) {
        pthread_mutex_lock(&servable->cut_lock);
        s->ticket = s->part[0].ticket;
        s->next = servable->cut;
        servable->cut = s;
        if (ticket) *ticket = s->ticket;
        pthread_mutex_unlock(&servable->cut_lock);
        (void)finish_part(s, 1, NULL, WEFT_OK, "");
        return WEFT_OK;
    }
    int off = s->count - queued + withdraw(s) + 1;
    return finish_part(s, off, NULL, status, error.message) ? weft_error_raise(&error) : WEFT_OK;
}

weft_status weft_servable_submit(weft_servable *servable, const weft_inference_request *given,
                                 uint64_t *ticket)
{
    WEFT_NEED_AS("servable, request", servable, given);
    weft_inference_request own;
    weft_inference_request_init(&own);
    WEFT_TAKE(weft_inference_request, given, prediction, &own);
    WEFT_TRY(check_request(servable, &own));
    int64_t count = (own.rows + servable->limit - 1) / servable->limit;
    weft_submission *s = calloc(1, sizeof(*s) + (size_t)count * sizeof(*s->part));
    if (!s) return weft_fail_memory(sizeof(*s) + (size_t)count * sizeof(*s->part));
    s->servable = servable;
    s->request = own;
    s->count = (int)count;
    s->left = s->count + 1;
    weft_status status = make_parts(s);
    if (status != WEFT_OK) {
        free_submission(s);
        return status;
    }
    if (s->count > 1) return queue_parts(s, ticket);
    status = queue_part(&s->part[0], ticket);
    if (status != WEFT_OK) free_submission(s);
    return status;
}

bool weft_servable_cancel(weft_servable *servable, uint64_t ticket)
{
    WEFT_NEED_ELSE(false, servable);
    void *request = NULL;
    pthread_mutex_lock(&servable->cut_lock);
    weft_submission *s = servable->cut;
    while (s && s->ticket != ticket) s = s->next;
    if (s) s->left++;
    pthread_mutex_unlock(&servable->cut_lock);
    if (s) {
        int count = withdraw(s);
        return finish_part(s, count + 1, NULL, count ? WEFT_ERR_INTERRUPTED : WEFT_OK,
                           "the request was cancelled");
    }
    bool cancelled = weft_batch_queue_withdraw(servable->queue, ticket, &request);
    if (cancelled) free_submission(((part *)request)->whole);
    return cancelled;
}

int weft_service_run_due(weft_service *service, double seconds)
{
    WEFT_NEED_ELSE(0, service);
    return weft_batcher_run_due(service->batcher, seconds);
}
