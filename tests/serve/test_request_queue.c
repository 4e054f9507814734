/* Compares the request queue of dynamic batching with a plain list, and runs it with 100000 waiting
 * requests. */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "serve/batch/batch_internal.h"
#include "support.h"

enum { MOST = 200, KINDS = 5 };
typedef struct plain {
    weft_request request;
    double came, until;
    uint64_t ticket;
    bool there;
} plain;

static bool has_turn(const plain *a, const plain *b)
{
    return a->request.priority != b->request.priority ? a->request.priority > b->request.priority
                                                      : a->came < b->came;
}

/* Does by a search of the list what weft_request_queue_due does. A kind is due if it has `need`
 * rows or its oldest request has waited for `wait`. Returns the first request by priority and time
 * of the due kinds, or -1; *when: when the next kind becomes due by waiting. */
static int plain_due(const plain *list, int64_t need, double wait, double now, double *when)
{
    int due = -1;
    *when = INFINITY;
    for (uint64_t like = 0; like < KINDS; like++) {
        int64_t rows = 0;
        double oldest = INFINITY;
        int head = -1;
        for (int i = 0; i < MOST; i++) {
            if (!list[i].there || list[i].request.batch_key != like) continue;
            rows += list[i].request.rows;
            oldest = fmin(oldest, list[i].came);
            if (head < 0 || has_turn(&list[i], &list[head])) head = i;
        }
        if (head < 0) continue;
        if (rows >= need || oldest + wait <= now) {
            if (due < 0 || has_turn(&list[head], &list[due])) due = head;
        } else {
            *when = fmin(*when, oldest + wait);
        }
    }
    return due;
}

static void test_queue(void **state)
{
    (void)state;
    static plain list[MOST];
    weft_request_queue q = {0};
    weft_random r;
    weft_request_queue_init(&q);
    weft_random_start(&r, 3, 0);
    int64_t count = 0;
    for (int step = 0; step < 20000; step++) {
        int i = (int)(weft_random_u32(&r) % MOST), slot = -1;
        double now = step, when, expected;
        plain *p = &list[i];
        bool crowded = step / 2000 % 2; /* fills up and empties in turns */
        if (!p->there && (crowded || weft_random_u32(&r) % 4 == 0)) {
            weft_request_init(&p->request);
            p->request.rows = 1 + weft_random_u32(&r) % 4;
            p->request.batch_key = weft_random_u32(&r) % KINDS;
            p->request.priority = (int)(weft_random_u32(&r) % 3) - 1;
            p->request.queue_timeout = weft_random_u32(&r) % 2 ? 0 : 1 + weft_random_u32(&r) % 300;
            p->came = now;
            p->until = p->request.queue_timeout > 0 ? now + p->request.queue_timeout : INFINITY;
            p->there = true;
            assert_ok(weft_request_queue_add(&q, &p->request, now, &p->ticket));
            count++;
        } else if (weft_request_queue_find(&q, p->ticket) >= 0 && weft_random_u32(&r) % 2 == 0) {
            assert_true(p->there);
            weft_request_queue_remove(&q, weft_request_queue_find(&q, p->ticket));
            assert_int_equal(weft_request_queue_find(&q, p->ticket), -1);
            p->there = false;
            count--;
        }
        int64_t need = 1 + weft_random_u32(&r) % 60;
        double wait = weft_random_u32(&r) % 400;
        int due = plain_due(list, need, wait, now, &expected);
        int kind = weft_request_queue_due(&q, need, wait, now, &when);
        assert_int_equal(kind >= 0, due >= 0);
        if (kind >= 0) slot = weft_request_queue_head(&q, kind);
        if (kind >= 0) assert_int_equal(slot, weft_request_queue_find(&q, list[due].ticket));
        assert_true(when == expected);
        int late = weft_request_queue_next_deadline(&q);
        double least = INFINITY;
        for (int k = 0; k < MOST; k++)
            if (list[k].there) least = fmin(least, list[k].until);
        assert_true((late < 0 ? INFINITY : q.slots[late].deadline) == least);
        assert_int_equal(q.count, count);
        assert_int_equal(weft_request_queue_first(&q) >= 0, count > 0);
    }
    weft_request_queue_free(&q);
}

/* With 100000 waiting requests of 10000 kinds, no operation of the queue may look at all of them;
 * otherwise this test would take minutes. */
static void test_scale(void **state)
{
    (void)state;
    enum { WAIT = 100000, SHAPES = 10000 };
    weft_request_queue q = {0};
    weft_random r;
    uint64_t *ticket;
    double when, now = 0;
    struct timespec begun, ended;
    int taken = 0;
    weft_request_queue_init(&q);
    weft_random_start(&r, 6, 0);
    assert_ok(WEFT_NEW(&ticket, WAIT));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    for (int i = 0; i < WAIT; i++, now += 1e-5) {
        weft_request request;
        weft_request_init(&request);
        request.batch_key = weft_random_u32(&r) % SHAPES * 64;
        request.priority = (int)(weft_random_u32(&r) % 5);
        request.queue_timeout = weft_random_u32(&r) % 2 ? 10 + weft_random_unit(&r) : 0;
        assert_ok(weft_request_queue_add(&q, &request, now, &ticket[i]));
        assert_int_equal(weft_request_queue_due(&q, 1000, 100, now, &when), -1);
        assert_true(when == 100);
    }
    for (int i = 0; i < WAIT; i += 2) {
        weft_request_queue_remove(&q, weft_request_queue_find(&q, ticket[i]));
        assert_int_equal(weft_request_queue_due(&q, 1000, 100, now, &when), -1);
    }
    double until = 0;
    for (int slot = weft_request_queue_next_deadline(&q); slot >= 0;
         slot = weft_request_queue_next_deadline(&q), taken++) {
        assert_true(q.slots[slot].deadline >= until);
        until = q.slots[slot].deadline;
        weft_request_queue_remove(&q, slot);
    }
    for (now += 100;; taken++) {
        int kind = weft_request_queue_due(&q, 1000, 100, now, &when);
        if (kind < 0) break;
        weft_request_queue_remove(&q, weft_request_queue_head(&q, kind));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
    assert_int_equal(taken, WAIT / 2);
    assert_int_equal(q.count, 0);
    double seconds =
        (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec);
    if (seconds > 5) fail_msg("%g s for %d requests", seconds, WAIT);
    print_message("%d requests of %d kinds, %.2f us each\n", WAIT, SHAPES, 1e6 * seconds / WAIT);
    weft_free(ticket);
    weft_request_queue_free(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
