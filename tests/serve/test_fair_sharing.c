/* Tests how queues share executors by weighted fair queueing: each gets its share of their time,
 * and none starves. */
#include <math.h>

#include "serve/batch/batch_internal.h"
#include "one_context.h"
#include "support.h"

static weft_status nothing(void *user, int executor, void *const *requests, int n, int64_t rows)
{
    (void)user, (void)executor, (void)requests, (void)n, (void)rows;
    return WEFT_OK;
}

static weft_batch_queue *line_of(weft_dispatch *d, double share, int64_t limit, double time)
{
    int64_t one = 1;
    weft_batch_queue *queue;
    weft_batch_queue_options o;
    weft_batch_queue_options_init(&o);
    o.policy = "greedy";
    o.share = share;
    o.limit = limit;
    o.curve_rows = &one;
    o.curve_times = &time;
    o.curve_sizes = 1;
    o.run = nothing;
    assert_ok(weft_dispatch_add(d, context, &o, &queue));
    return queue;
}

static void ask(weft_batch_queue *queue, double now)
{
    weft_request request;
    bool look;
    weft_request_init(&request);
    while (queue->requests.count < 20)
        assert_ok(weft_dispatch_put(queue, &request, now, &look, NULL));
}

/* Keeps the two queues filled until time `end`; a queue that is NULL gets no requests. used:
 * seconds of the executors for each queue. */
static void share_out(weft_dispatch *d, weft_batch_queue *lines[2], double *now, double end,
                      double used[2])
{
    weft_batch_job *job[3] = {NULL};
    double ends[3] = {0}, when;
    used[0] = used[1] = 0;
    while (*now < end) {
        for (int i = 0; i < 2; i++)
            if (lines[i]) ask(lines[i], *now);
        int first = 0;
        for (int e = 0; e < d->executors; e++) {
            if (!job[e]) {
                job[e] = weft_dispatch_next(d, e, *now, false, &when);
                assert_non_null(job[e]);
                double takes = weft_curve_time(&job[e]->queue->curve, (double)job[e]->rows);
                ends[e] = *now + takes;
                used[job[e]->queue == lines[1]] += takes;
            }
            if (ends[e] < ends[first]) first = e;
        }
        *now = ends[first];
        for (int i = 0; i < job[first]->count; i++) job[first]->requests[i].ended = *now;
        weft_dispatch_end(d, job[first], *now);
        job[first] = NULL;
    }
    for (int e = 0; e < d->executors; e++) /* ends the running batches */
        if (job[e]) weft_dispatch_end(d, job[e], *now);
}

static void test_shares(void **state)
{
    (void)state;
    for (int executors = 1; executors <= 3; executors++) {
        weft_dispatch d = {.executors = executors};
        weft_batch_queue *both[2] = {line_of(&d, 3, 8, 1e-3), line_of(&d, 1, 2, 5e-3)};
        weft_batch_queue *alone[2] = {both[0], NULL};
        double now = 0, used[2];
        share_out(&d, both, &now, 20, used);
        assert_true(fabs(used[0] / used[1] / 3 - 1) < 0.02);
        /* A queue that was empty for long gets only its share when it has requests again. */
        while (both[1]->requests.count > 0)
            weft_request_queue_remove(&both[1]->requests,
                                      weft_request_queue_first(&both[1]->requests));
        share_out(&d, alone, &now, 200, used);
        assert_true(used[1] == 0);
        share_out(&d, both, &now, now + 2, used);
        assert_true(fabs(used[0] / used[1] / 3 - 1) < 0.1);
        /* A new queue gets only its share, too. */
        weft_dispatch_remove(&d, &both[1]);
        both[1] = line_of(&d, 1, 2, 5e-3);
        share_out(&d, both, &now, now + 2, used);
        assert_true(fabs(used[0] / used[1] / 3 - 1) < 0.1);
        for (int i = 0; i < 2; i++) weft_dispatch_remove(&d, &both[i]);
        free(d.queues);
    }
}

/* Nine queues always have more requests than can be served, and one gets a request now and then.
 * That request is served within one round, and the other queues have equal shares. */
static void test_none_starves(void **state)
{
    (void)state;
    enum { LINES = 10, RARE = 9 };
    weft_dispatch d = {.executors = 1};
    weft_batch_queue *queue[LINES];
    double used[LINES] = {0}, now = 0, asked = -1, longest = 0, when;
    for (int i = 0; i < LINES; i++) queue[i] = line_of(&d, 1, 1 + i % 4, 1e-3 * (1 + i % 3));
    for (int turn = 0; turn < 20000; turn++) {
        for (int i = 0; i < RARE; i++) ask(queue[i], now);
        if (asked < 0 && turn % 50 == 0) {
            bool look;
            weft_request request;
            weft_request_init(&request);
            assert_ok(weft_dispatch_put(queue[RARE], &request, now, &look, NULL));
            asked = now;
        }
        weft_batch_job *job = weft_dispatch_next(&d, 0, now, false, &when);
        assert_non_null(job);
        double takes = weft_curve_time(&job->queue->curve, (double)job->rows);
        for (int i = 0; i < LINES; i++)
            if (job->queue == queue[i]) used[i] += takes;
        if (job->queue == queue[RARE]) {
            longest = fmax(longest, now - asked);
            asked = -1;
        }
        now += takes;
        for (int i = 0; i < job->count; i++) job->requests[i].ended = now;
        weft_dispatch_end(&d, job, now);
    }
    for (int i = 1; i < RARE; i++) assert_true(fabs(used[i] / used[0] - 1) < 0.02);
    assert_true(asked < 0 || now - asked < 0.1);
    assert_true(longest < 0.1); /* one batch of each other queue takes 72 ms in all */
    for (int i = 0; i < LINES; i++) weft_dispatch_remove(&d, &queue[i]);
    free(d.queues);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_none_starves),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
