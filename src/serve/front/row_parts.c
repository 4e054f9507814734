/* Requests of more rows than a batch may have: they are cut into parts, each of which is an
 * inference request of its own in the batch queue. The reply is written when all are answered. */
#include <stdio.h>

#include "serve/front/server_internal.h"

typedef struct row_part {
    weft_http_request *request;
    weft_inference_request inference;
    uint64_t ticket;
    bool submitted;
} row_part;

struct weft_row_parts {
    float *x; /* inputs of the parts one after the other; NULL: those of the request serve */
    double *x_double;
    int count;
    pthread_mutex_t lock;
    int left; /* parts without an answer; guarded by the lock, as what follows */
    weft_error error;
    row_part part[];
};

/* Counts parts as answered, with the first failure of any. The last one answers the request. */
static void count_off(weft_http_request *c, int count, weft_status status, const char *message,
                      bool *failed)
{
    weft_row_parts *p = c->parts;
    pthread_mutex_lock(&p->lock);
    if (status != WEFT_OK && p->error.status == WEFT_OK) {
        p->error.status = status;
        (void)snprintf(p->error.message, sizeof(p->error.message), "%s", message);
    }
    p->left -= count;
    bool last = p->left == 0 && count > 0;
    const weft_request_result result = {
        .status = p->error.status, .message = p->error.message, .failed = failed};
    pthread_mutex_unlock(&p->lock);
    if (last) weft_http_request_answered(c, &result);
}

static void part_answered(void *user, const weft_request_result *result)
{
    const row_part *part = user;
    count_off(part->request, 1, result->status, result->message, result->failed);
}

/* Copies the rows of a part from each input; the inputs of a request follow one another. */
static void gather(const weft_http_request *c, weft_row_parts *p, int64_t first, int64_t rows)
{
    const weft_inference_request *q = &c->inference.request;
    int64_t before = 0, all = 0;
    for (int k = 0; k < c->about.inputs; k++) all += weft_shape_elements(&c->about.input[k].shape);
    for (int k = 0; k < c->about.inputs; k++) {
        int64_t size = weft_shape_elements(&c->about.input[k].shape);
        int64_t from = q->rows * before + first * size, to = first * all + rows * before;
        if (p->x_double)
            memcpy(p->x_double + to, q->x_double + from, (size_t)(rows * size) * sizeof(double));
        else
            memcpy(p->x + to, q->x + from, (size_t)(rows * size) * sizeof(float));
        before += size;
    }
}

static weft_status make_parts(weft_http_request *c)
{
    const weft_inference_request *q = &c->inference.request;
    int64_t most = c->batch_rows, count = (q->rows + most - 1) / most, all = 0;
    weft_row_parts *p = calloc(1, sizeof(*p) + (size_t)count * sizeof(*p->part));
    if (!p) return weft_fail_memory(sizeof(*p));
    c->parts = p;
    p->count = p->left = (int)count;
    pthread_mutex_init(&p->lock, NULL);
    for (int k = 0; k < c->about.inputs; k++) all += weft_shape_elements(&c->about.input[k].shape);
    if (c->about.inputs > 1 && q->x_double) WEFT_TRY(WEFT_NEW(&p->x_double, q->rows * all));
    if (c->about.inputs > 1 && !q->x_double) WEFT_TRY(WEFT_NEW(&p->x, q->rows * all));
    for (int i = 0; i < p->count; i++) {
        weft_inference_request *part = &p->part[i].inference;
        int64_t first = i * most;
        p->part[i].request = c;
        *part = *q;
        part->rows = WEFT_MIN(most, q->rows - first);
        if (c->about.inputs > 1) gather(c, p, first, part->rows);
        const float *x = p->x ? p->x : q->x;
        const double *x_double = p->x_double ? p->x_double : q->x_double;
        part->x = x ? x + first * all : NULL;
        part->x_double = x_double ? x_double + first * all : NULL;
        part->prediction = q->prediction + first * c->about.outputs;
        part->user = &p->part[i];
        part->done = part_answered;
    }
    return WEFT_OK;
}

weft_status weft_row_parts_submit(weft_http_request *request)
{
    WEFT_TRY(make_parts(request));
    weft_row_parts *p = request->parts;
    int i = 0;
    weft_status status = WEFT_OK;
    for (; i < p->count && status == WEFT_OK; i++) {
        status = weft_servable_submit(request->servable, &p->part[i].inference, &p->part[i].ticket);
        p->part[i].submitted = status == WEFT_OK;
    }
    if (status == WEFT_OK) return WEFT_OK;
    int count = p->count - i + 1;
    weft_error error = {0};
    weft_error_catch(&error, status);
    for (int k = 0; k < i; k++)
        if (p->part[k].submitted && weft_servable_cancel(request->servable, p->part[k].ticket))
            count++;
    count_off(request, count, status, error.message, NULL);
    return WEFT_OK;
}

bool weft_row_parts_cancel(weft_http_request *request)
{
    weft_row_parts *p = request->parts;
    int count = 0;
    for (int k = 0; k < p->count; k++)
        count += p->part[k].submitted && weft_servable_cancel(request->servable, p->part[k].ticket);
    if (count > 0) request->cancelled = true;
    pthread_mutex_lock(&p->lock);
    p->left -= count;
    bool none = p->left == 0 && count > 0;
    pthread_mutex_unlock(&p->lock);
    return none;
}

void weft_row_parts_free(weft_row_parts **parts)
{
    if (!*parts) return;
    pthread_mutex_destroy(&(*parts)->lock);
    free((*parts)->x);
    free((*parts)->x_double);
    free(*parts);
    *parts = NULL;
}
