/* Learner groups of any kind, and the flat optimizer of exchanges. */
#include <math.h>

#include "exchange/exchange.h"
#include "exchange/flat_optimizer.h"
#include "hand_learner.h"
#include "ranks.h"

/* --- learner groups --- */

/* A kind of learner group for this test: passes its transfers to another group, and counts them. */
typedef struct post {
    weft_learner_group head;
    weft_learner_group *by;
    int bound, ended;
} post;

typedef struct message {
    weft_group_request head;
    weft_group_request *by;
} message;

static weft_status post_bind(weft_learner_group *endpoint, const weft_transfer *t,
                             weft_group_request **out)
{
    post *p = (post *)endpoint;
    message *l;
    if (t->kind == WEFT_ALL_TO_ALL)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "the post knows no all-to-all");
    WEFT_TRY(WEFT_NEW(&l, 1));
    weft_status status = weft_learner_group_bind(p->by, t, &l->by);
    if (status != WEFT_OK) free(l);
    p->bound += status == WEFT_OK;
    if (status == WEFT_OK) *out = &l->head;
    return status;
}

static weft_status post_start(weft_group_request *passage)
{
    return weft_group_request_start(((message *)passage)->by);
}
static weft_status post_test(weft_group_request *passage, bool *done)
{
    return weft_group_request_test(((message *)passage)->by, done);
}
static weft_status post_wait(weft_group_request *passage)
{
    ((post *)passage->endpoint)->ended++;
    return weft_group_request_wait(((message *)passage)->by);
}
static void post_destroy(weft_group_request *passage)
{
    weft_group_request_destroy(&((message *)passage)->by);
    free(passage);
}
static void post_close(weft_learner_group *endpoint)
{
    weft_learner_group_close(&((post *)endpoint)->by);
}

static const weft_learner_group_kind by_post = {
    .struct_size = sizeof(by_post),
    .name = "post",
    .close = post_close,
    .bind = post_bind,
    .start = post_start,
    .test = post_test,
    .wait = post_wait,
    .destroy = post_destroy,
};

static void meet_by_post(weft_comm *comm, void *user)
{
    weft_context *c = user;
    parameter_store own;
    weft_exchange *e;
    weft_group_request *none;
    post p = {.head = {.kind = &by_post,
                       .learner = weft_comm_rank(comm),
                       .learners = weft_comm_size(comm)}};
    weft_learner_group *at = &p.head;
    double w[7];
    rank_ok(parameter_store_open(c, WEFT_F64, 7, &own));
    rank_ok(weft_learner_group_over(comm, &p.by));
    for (int i = 0; i < 7; i++) w[i] = i + 10.0 * p.head.learner;
    rank_ok(weft_store_write(own.store, 0, w));
    weft_exchange_setup setup = {.struct_size = sizeof(setup),
                                 .context = c,
                                 .endpoint = at,
                                 .store = own.store,
                                 .instance = own.instance};
    rank_ok(weft_exchange_open("average", &setup, &e));
    rank_ok(weft_exchange_begin(e));
    weft_step_result result = {.step = 1};
    rank_ok(weft_exchange_after(e, &result));
    rank_check(result.met && p.bound > 0 && p.ended == p.bound);
    rank_ok(weft_store_read(own.store, 0, w));
    for (int i = 0; i < 7; i++) rank_check(w[i] == i + 10.0 * (p.head.learners - 1) / 2);
    rank_check(weft_learner_group_bind(at, &(weft_transfer){.kind = WEFT_ALL_TO_ALL}, &none) ==
               WEFT_ERR_UNSUPPORTED);
    weft_exchange_close(&e);
    setup.struct_size--;
    rank_check(weft_exchange_open("average", &setup, &e) == WEFT_ERR_ARGUMENT);
    weft_learner_group_close(&at);
    parameter_store_close(&own);
}

/* An exchange works with any kind of learner group. */
static void test_another_kind_of_endpoint(void **state)
{
    (void)state;
    weft_context *c;
    assert_ok(weft_context_create(&c));
    for (int n = 1; n <= 5; n += 2) on_ranks("threads", n, meet_by_post, c);
    weft_context_destroy(&c);
}

/* --- elastic learners --- */

/* The group of an elastic learner, without other learners: a sum is its own contribution, a gather
 * fills its own place, and all other bytes stay as they are. */
static void test_endpoint_of_one(void **state)
{
    (void)state;
    enum { LEARNERS = 3, MOST = 7 };
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64, WEFT_BF16, WEFT_I32, WEFT_U8};
    static const struct {
        weft_transfer_kind kind;
        bool sums, gathers;
    } kinds[] = {{WEFT_ALL_REDUCE, true, false},
                 {WEFT_ALL_GATHER, false, true},
                 {WEFT_BROADCAST, false, false},
                 {WEFT_BARRIER, false, false}};
    for (int learner = 0; learner < LEARNERS; learner++)
        for (size_t d = 0; d < WEFT_COUNT(dtypes); d++)
            for (size_t k = 0; k < WEFT_COUNT(kinds); k++)
                for (int count = 1; count <= MOST; count++) {
                    char sent[MOST * 8], got[LEARNERS * MOST * 8 + 8], right[sizeof(got)];
                    size_t bytes = (size_t)count * weft_dtype_size(dtypes[d]);
                    weft_learner_group *at;
                    for (size_t i = 0; i < sizeof(sent); i++) sent[i] = (char)(i + 1);
                    memset(got, 0x55, sizeof(got));
                    memset(right, 0x55, sizeof(right));
                    if (kinds[k].sums) memcpy(right, sent, bytes);
                    if (kinds[k].gathers) memcpy(right + bytes * (size_t)learner, sent, bytes);
                    assert_ok(weft_learner_group_single(learner, LEARNERS, 60, &at));
                    weft_transfer t = {.kind = kinds[k].kind,
                                       .dtype = dtypes[d],
                                       .send = sent,
                                       .receive = got,
                                       .count = count};
                    assert_ok(weft_learner_group_run(at, &t));
                    assert_memory_equal(got, right, sizeof(got));
                    t.kind = WEFT_ALL_TO_ALL;
                    assert_refused(weft_learner_group_run(at, &t), WEFT_ERR_UNSUPPORTED,
                                   "an elastic run does not support");
                    weft_learner_group_close(&at);
                }
}

/* --- the flat optimizer --- */

static const double flat_gradient[5] = {1, -1, 0, 0.5, 2};

/* The optimizer reads the gradient where it lies, which may be another place each time. */
static void check_flat_steps(weft_context *c, weft_store *store, const weft_optimizer_options *o,
                             double w[5])
{
    weft_flat_optimizer *flat;
    weft_exchange_state s;
    double before[5];
    assert_ok(weft_flat_optimizer_open(c, store, o, WEFT_F64, 5, (weft_segment_list){0}, 0, &flat));
    memcpy(before, flat_gradient, sizeof(before));
    assert_ok(weft_flat_optimizer_step(flat, w, before));
    for (int i = 0; i < 5; i++) before[i] = NAN;
    assert_ok(weft_flat_optimizer_step(flat, w, flat_gradient));
    for (int i = 0; i < 5; i++) assert_true(w[i] == i + 1 - 0.5 * (1 + 1.5) * flat_gradient[i]);
    bool momentum = false, step = false;
    for (int i = 0; weft_flat_optimizer_state(flat, i, &s); i++) {
        if (strcmp(s.name, "momentum") == 0)
            momentum =
                s.bytes == 5 * sizeof(w[0]) && ((double *)s.data)[4] == 1.5 * flat_gradient[4];
        if (strcmp(s.name, "step") == 0) step = *(int32_t *)s.data == 2;
    }
    assert_true(momentum && step);
    weft_flat_optimizer_close(&flat);
}

/* The factor scales the step of optimizers that cancel the size of a gradient, too. */
static void check_scaled_rate(weft_context *c, weft_store *store, const weft_optimizer_options *o)
{
    weft_flat_optimizer *flat;
    double full[5] = {1, 2, 3, 4, 5}, half[5] = {1, 2, 3, 4, 5};
    for (int k = 0; k < 2; k++) {
        assert_ok(
            weft_flat_optimizer_open(c, store, o, WEFT_F64, 5, (weft_segment_list){0}, 0, &flat));
        if (k) weft_flat_optimizer_scale_rate(flat, 0.5);
        assert_ok(weft_flat_optimizer_step(flat, k ? half : full, flat_gradient));
        weft_flat_optimizer_close(&flat);
    }
    for (int i = 0; i < 5; i++)
        assert_true(fabs(full[i] - (i + 1) - 2 * (half[i] - (i + 1))) < 1e-12 &&
                    (flat_gradient[i] == 0 || full[i] != i + 1));
}

/* Counts of steps and of updates stay at their largest value. */
static void check_largest_counts(weft_context *c, weft_store *store,
                                 const weft_optimizer_options *o, double w[5])
{
    weft_flat_optimizer *flat;
    weft_exchange_state s;
    assert_ok(weft_flat_optimizer_open(c, store, o, WEFT_F64, 5, (weft_segment_list){0}, 0, &flat));
    for (int i = 0; weft_flat_optimizer_state(flat, i, &s); i++)
        if (s.type.dtype == WEFT_I32) *(int32_t *)s.data = INT32_MAX - 1;
    int counts = 0;
    for (int k = 0; k < 3; k++) assert_ok(weft_flat_optimizer_step(flat, w, flat_gradient));
    for (int i = 0; weft_flat_optimizer_state(flat, i, &s); i++) {
        if (s.type.dtype != WEFT_I32) continue;
        assert_int_equal(*(int32_t *)s.data, INT32_MAX);
        counts++;
    }
    assert_int_equal(counts, 2);
    weft_flat_optimizer_close(&flat);
}

static void test_flat_optimizer(void **state)
{
    (void)state;
    weft_context *c;
    parameter_store own;
    weft_flat_optimizer *flat;
    weft_optimizer_options o;
    double w[5] = {1, 2, 3, 4, 5};
    assert_ok(weft_context_create(&c));
    assert_ok(parameter_store_open(c, WEFT_F64, 7, &own));
    weft_optimizer_options_init(&o);
    o.name = "sgd";
    o.lr = 0.5;
    o.momentum = 0.5;
    check_flat_steps(c, own.store, &o, w);
    o.name = "adam";
    check_scaled_rate(c, own.store, &o);
    check_largest_counts(c, own.store, &o, w);
    o.clip_norm = 1;
    assert_refused(
        weft_flat_optimizer_open(c, own.store, &o, WEFT_F64, 5, (weft_segment_list){0}, 0, &flat),
        WEFT_ERR_ARGUMENT, "clip_norm 0");
    o.clip_norm = 0;
    assert_refused(
        weft_flat_optimizer_open(c, own.store, &o, WEFT_F64, 0, (weft_segment_list){0}, 0, &flat),
        WEFT_ERR_ARGUMENT, "a flat range of 0");
    parameter_store_close(&own);
    weft_context_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_another_kind_of_endpoint),
                                       cmocka_unit_test(test_endpoint_of_one),
                                       cmocka_unit_test(test_flat_optimizer)};
    return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
