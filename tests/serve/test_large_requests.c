/* Inference requests of C callers with more rows than a batch, and predictions that are not
 * finite. */
#include <math.h>

#include "service_fixture.h"

enum { CLASSES = 10, LIMIT = 4 };

typedef struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answers;
    bool closed; /* `hold` waits until it is false */
    weft_status status;
    char message[256];
} outcome;
#define NO_OUTCOME                                                                                 \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void tell(void *user, const weft_request_result *result)
{
    outcome *o = user;
    pthread_mutex_lock(&o->lock);
    o->answers++;
    o->status = result->status;
    (void)snprintf(o->message, sizeof(o->message), "%s", result->message);
    pthread_cond_broadcast(&o->changed);
    while (o->closed) pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

static void await(outcome *o)
{
    pthread_mutex_lock(&o->lock);
    while (o->answers == 0) pthread_cond_wait(&o->changed, &o->lock);
    pthread_mutex_unlock(&o->lock);
}

static void open_gate(outcome *o)
{
    pthread_mutex_lock(&o->lock);
    o->closed = false;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

static weft_service *serve(int64_t waiting, weft_servable **served)
{
    char path[512];
    weft_service_options o;
    weft_service_options_init(&o);
    o.limit = LIMIT;
    o.waiting = waiting;
    o.policy = "none";
    weft_service *service = asked_serve(&o);
    asked_path(path, sizeof(path), "mlp");
    assert_ok(weft_service_load(service, "m", path));
    *served = weft_service_hold(service, "m", 0);
    return service;
}

static void end(weft_service *service, weft_servable *served)
{
    weft_servable_release(&served);
    weft_service_destroy(&service);
}

static told t;

/* Any number of rows up to those that may wait gets the answers of `weft predict`. */
static void test_rows(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, LIMIT, LIMIT + 1, 3 * LIMIT, SAMPLES};
    static double said[SAMPLES][CLASSES], logits[SAMPLES][CLASSES], x[SAMPLES][SIZE];
    weft_servable *served;
    weft_servable_info about;
    weft_service *service = serve(SAMPLES, &served);
    weft_servable_describe(served, &about);
    assert_int_equal(about.limit, LIMIT);
    assert_int_equal(about.most_rows, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < SIZE; k++) x[i][k] = (double)t.x[i][k];
    for (size_t i = 0; i < 2 * WEFT_COUNT(rows); i++) {
        weft_inference_request q = asked_question(rows[i / 2], t.x[0], said[0]);
        memset(said, 0, sizeof(said));
        memset(logits, 0, sizeof(logits));
        if (i % 2) q.x_double = x[0];
        q.logits = logits[0];
        assert_ok(weft_servable_predict(served, &q, NULL));
        for (int64_t row = 0; row < SAMPLES; row++) {
            double all = 0;
            for (int c = 0; c < CLASSES; c++) {
                double is = row < rows[i / 2] ? t.said[row][c] : 0;
                assert_true(fabs(said[row][c] - is) < 1e-6);
                all += exp(logits[row][c]);
            }
            for (int c = 0; c < CLASSES && row < rows[i / 2]; c++)
                assert_true(fabs(exp(logits[row][c]) / all - said[row][c]) < 1e-5);
        }
    }
    weft_inference_request q = asked_question(SAMPLES + 1, t.x[0], said[0]);
    assert_refused(weft_servable_predict(served, &q, NULL), WEFT_ERR_ARGUMENT,
                   "must be from 1 to 31");
    end(service, served);
}

/* Threads that wait for their answers share a service, and each gets its own. */
static weft_servable *shared;

static void *ask_alone(void *user)
{
    static double said[4][SAMPLES][CLASSES];
    int number = *(const int *)user;
    bool right = true;
    for (int64_t rows = 1; rows <= SAMPLES; rows += 3) {
        weft_request_result result;
        weft_inference_request q = asked_question(rows, t.x[0], said[number][0]);
        right = right && weft_servable_predict(shared, &q, &result) == WEFT_OK &&
                result.status == WEFT_OK && result.rows >= 1 && !result.message && !result.failed;
        for (int64_t row = 0; row < rows; row++)
            for (int c = 0; c < CLASSES; c++)
                right = right && fabs(said[number][row][c] - t.said[row][c]) < 1e-6;
    }
    return right ? user : NULL;
}

static void test_waiting_threads(void **state)
{
    (void)state;
    static int number[4] = {0, 1, 2, 3};
    pthread_t threads[4];
    weft_service *service = serve(4 * SAMPLES, &shared);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_alone, &number[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *right;
        pthread_join(threads[i], &right);
        assert_non_null(right);
    }
    double said[CLASSES];
    outcome o = NO_OUTCOME;
    weft_inference_request q = asked_question(1, t.x[0], said);
    q.done = tell;
    assert_refused(weft_servable_predict(shared, &q, NULL), WEFT_ERR_ARGUMENT, "must be NULL");
    q.done = NULL;
    q.user = &o;
    assert_refused(weft_servable_predict(shared, &q, NULL), WEFT_ERR_ARGUMENT, "must be NULL");
    assert_int_equal(o.answers, 0);
    end(service, shared);
}

/* A request with a number that is not finite is refused with the row, whichever batch it is in. */
static void test_not_finite(void **state)
{
    (void)state;
    static const int64_t bad[] = {0, 3, LIMIT, 17, SAMPLES - 1};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    static float x[SAMPLES][SIZE];
    static double said[SAMPLES][CLASSES];
    weft_servable *served;
    weft_service *service = serve(SAMPLES, &served);
    for (size_t i = 0; i < WEFT_COUNT(bad) * WEFT_COUNT(values); i++) {
        char words[64];
        int64_t row = bad[i / WEFT_COUNT(values)], rows = i % 2 ? SAMPLES : row + 1;
        memcpy(x, t.x, sizeof(x));
        x[row][5] = values[i % WEFT_COUNT(values)];
        weft_inference_request q = asked_question(rows, x[0], said[0]);
        (void)snprintf(words, sizeof(words), "of row %lld is", (long long)row + 1);
        assert_refused(weft_servable_predict(served, &q, NULL), WEFT_ERR_ARGUMENT, words);
    }
    end(service, served);
}

/* A request is cancelled as a whole while all of it waits, and refused as a whole if not all of it
 * may wait. */
static void test_whole(void **state)
{
    (void)state;
    static double said[4][SAMPLES][CLASSES];
    outcome gate = NO_OUTCOME, o = NO_OUTCOME;
    weft_servable *served;
    uint64_t ticket;
    weft_service *service = serve(SAMPLES, &served);
    weft_inference_request q = asked_question(1, t.x[0], said[0][0]);
    gate.closed = true;
    q.user = &gate;
    q.done = tell;
    assert_ok(weft_servable_submit(served, &q, NULL));
    await(&gate); /* the only executor waits in `tell` */
    q = asked_question(SAMPLES, t.x[0], said[1][0]);
    q.user = &o;
    q.done = tell;
    assert_ok(weft_servable_submit(served, &q, &ticket));
    assert_true(weft_servable_cancel(served, ticket));
    assert_false(weft_servable_cancel(served, ticket));
    q.rows = LIMIT + 1;
    assert_ok(weft_servable_submit(served, &q, &ticket));
    q.rows = SAMPLES;
    assert_refused(weft_servable_submit(served, &q, NULL), WEFT_ERR_BUSY, "");
    weft_batch_queue_stats stats;
    weft_batch_queue_describe(weft_servable_queue(served), &stats);
    assert_int_equal(stats.waiting_rows, LIMIT + 1);
    assert_int_equal(o.answers, 0);
    open_gate(&gate);
    await(&o);
    assert_int_equal(o.status, WEFT_OK);
    end(service, served);
    assert_int_equal(o.answers, 1);
}

/* Whenever a request is cancelled, it is answered once or not at all, and never as complete if a
 * part of it was cancelled. */
static void test_cancel_at_any_time(void **state)
{
    (void)state;
    static double said[SAMPLES][CLASSES];
    static outcome outcomes[200];
    weft_servable *served;
    weft_service *service = serve(SAMPLES, &served);
    for (size_t i = 0; i < WEFT_COUNT(outcomes); i++) {
        outcome *o = &outcomes[i];
        uint64_t ticket;
        *o = (outcome)NO_OUTCOME;
        memset(said, 0, sizeof(said));
        weft_inference_request q = asked_question(SAMPLES, t.x[0], said[0]);
        q.user = o;
        q.done = tell;
        assert_ok(weft_servable_submit(served, &q, &ticket));
        for (volatile size_t pause = 0; pause < i * 1000; pause++) continue;
        if (weft_servable_cancel(served, ticket)) {
            assert_int_equal(o->answers, 0);
            continue;
        }
        await(o);
        if (o->status != WEFT_OK) assert_int_equal(o->status, WEFT_ERR_INTERRUPTED);
        for (int row = 0; row < SAMPLES && o->status == WEFT_OK; row++)
            assert_true(fabs(said[row][0] - t.said[row][0]) < 1e-6);
    }
    end(service, served);
    for (size_t i = 0; i < WEFT_COUNT(outcomes); i++) assert_in_range(outcomes[i].answers, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows), cmocka_unit_test(test_waiting_threads),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cancel_at_any_time)};
    asked_begin();
    asked_train("mlp", "mlp", GLYPHS, "f32", 1);
    asked_predict("mlp", 1, &t);
    asked_features(GLYPHS, "none", &t);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return asked_end() != 0 || failed != 0;
}
