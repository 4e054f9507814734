/* Ranges of a server against closed formulas: when training with stale gradients is stable, how
 * stale they are under each policy, and which policies come to the same bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "compress/compress.h"
#include "exchange/server/range.h"

static weft_context *context;

/* --- a server: w -= lr g --- */

typedef struct descent {
    double lr;
    int64_t count;
} descent;

static weft_status descend(void *user, void *parameters, const void *gradient)
{
    const descent *d = user;
    double *w = parameters;
    const double *g = gradient;
    for (int64_t i = 0; i < d->count; i++) w[i] -= d->lr * g[i];
    return WEFT_OK;
}

static weft_policy policy_of(const char *name, double count, double bound, const char *scale)
{
    weft_policy policy;
    assert_int_equal(weft_policy_make(name, count, bound, scale, -1, &policy), WEFT_OK);
    return policy;
}

static weft_range *open_range(descent *d, weft_policy policy, int learners)
{
    weft_range *r;
    weft_range_options options = {.struct_size = sizeof(options),
                                  .policy = policy,
                                  .dtype = WEFT_F64,
                                  .count = d->count,
                                  .update = descend,
                                  .user = d};
    assert_int_equal(weft_range_create(&options, &r), WEFT_OK);
    for (int i = 1; i <= learners; i++)
        assert_int_equal(weft_range_join(r, (weft_actor_id)i, i, 0), WEFT_OK);
    return r;
}

/* --- a learner: gradients of its own quadratic, (w - its target) --- */

typedef struct learner {
    weft_actor_id id;
    int64_t clock, sequence, version;
    double *w; /* what it has fetched */
    double target;
    weft_codec *codec;
} learner;

static learner begin_learner(int id, int64_t count)
{
    learner l = {.id = (weft_actor_id)id, .target = 0.25 * id};
    assert_int_equal(WEFT_NEW(&l.w, count), WEFT_OK);
    assert_int_equal(weft_codec_open(context, "none", WEFT_F64, count, &l.codec), WEFT_OK);
    return l;
}

static void end_learner(learner *l)
{
    free(l->w);
    weft_codec_close(&l->codec);
}

static void fetch(learner *l, weft_range *r, int64_t count)
{
    memcpy(l->w, weft_range_parameters(r), (size_t)count * sizeof(double));
    l->version = weft_range_version(r);
}

static weft_blob *gradient(learner *l, int64_t count)
{
    weft_blob *blob;
    double g[64];
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++) g[i] = l->w[i] - l->target * (double)(i + 1);
    assert_int_equal(weft_blob_new(weft_message_bound(WEFT_F64, count), &blob), WEFT_OK);
    assert_int_equal(weft_codec_encode(l->codec, g, blob->data, &blob->bytes), WEFT_OK);
    return blob;
}

static weft_push_fate push_as(learner *l, weft_range *r, int64_t count, int64_t sequence)
{
    weft_push_fate fate;
    weft_blob *blob = gradient(l, count);
    weft_push push = {l->id, sequence, sequence, l->version, blob, 0, 1};
    assert_int_equal(weft_range_push(r, &push, &fate), WEFT_OK);
    weft_blob_drop(&blob);
    return fate;
}

static void push(learner *l, weft_range *r, int64_t count)
{
    l->clock++;
    assert_int_equal(push_as(l, r, count, ++l->sequence), WEFT_PUSH_TAKEN);
}

/* --- the delayed quadratic --- */

/* |x| after many steps of x -= k x(t - delay), weighed as the policy says. */
static double delayed(const char *scale, double k, int delay, int steps)
{
    descent d = {.lr = k, .count = 1};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, scale), 1);
    learner l = begin_learner(1, 1);
    double past[16], *x = weft_range_parameters(r);
    l.target = 0;
    for (int i = 0; i < 16; i++) past[i] = 1;
    *x = 1;
    for (int t = 0; t < steps && fabs(*x) < 1e6; t++) {
        past[t % 16] = *x;
        l.w[0] = t < delay ? 1 : past[(t - delay) % 16];
        l.version = WEFT_MAX(t - delay, 0);
        push(&l, r, 1);
        x = weft_range_parameters(r);
    }
    double size = fabs(*x);
    for (int t = 0; t <= delay && size < 1e6; t++)
        size = WEFT_MAX(size, fabs(past[(steps - t + 15) % 16]));
    end_learner(&l);
    weft_range_destroy(&r);
    return size;
}

static void test_delayed_quadratic(void **state)
{
    (void)state;
    for (int delay = 0; delay <= 8; delay++) {
        double limit = 2 * sin(acos(-1) / (2 * (2 * delay + 1)));
        assert_true(delayed("none", 0.98 * limit, delay, 100000) < 1e-3);
        assert_true(delayed("none", 1.02 * limit, delay, 100000) > 1e3);
        assert_true(delayed("inverse", 0.9, delay, 100000) < 1e-3);
        if (delay >= 2) assert_true(delayed("none", 0.9, delay, 100000) > 1e3);
    }
}

/* --- staleness --- */

static double mean_staleness(const weft_range *r, int64_t *most)
{
    size_t size;
    const int64_t *histogram = weft_range_staleness(r, &size);
    double sum = 0, all = 0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)histogram[i] * (double)i;
        all += (double)histogram[i];
    }
    *most = (int64_t)size - 1;
    return sum / all;
}

/* L learners in turn: L - 1 others have pushed since one fetched. */
static void test_round_robin(void **state)
{
    (void)state;
    enum { COUNT = 3, LEARNERS = 7, ROUNDS = 20 };
    descent d = {.lr = 0.01, .count = COUNT};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), LEARNERS);
    learner all[LEARNERS];
    size_t size;
    for (int i = 0; i < LEARNERS; i++) all[i] = begin_learner(i + 1, COUNT);
    for (int t = 0; t < ROUNDS; t++)
        for (int i = 0; i < LEARNERS; i++) {
            push(&all[i], r, COUNT);
            fetch(&all[i], r, COUNT);
        }
    const int64_t *histogram = weft_range_staleness(r, &size);
    assert_int_equal(size, LEARNERS);
    for (int s = 0; s < LEARNERS - 1; s++) assert_int_equal(histogram[s], 1); /* the first round */
    assert_int_equal(histogram[LEARNERS - 1], LEARNERS * (ROUNDS - 1) + 1);
    for (int i = 0; i < LEARNERS; i++) end_learner(&all[i]);
    weft_range_destroy(&r);
}

/* The learner whose step ends next, of steps that take 0.5 to 1.5. */
static int next_of(const double *ends, int n)
{
    int first = 0;
    for (int i = 1; i < n; i++)
        if (ends[i] < ends[first]) first = i;
    return first;
}

/* Of n-softsync, whose versions are made of c = L/n updates, the mean staleness is about n, and
 * more than 2n is rare. */
static void test_softsync_staleness(void **state)
{
    (void)state;
    enum { COUNT = 1, LEARNERS = 30, STEPS = 12000 };
    for (int n = 2; n <= LEARNERS; n = n == 2 ? 3 : n == 3 ? 5 : n == 5 ? 10 : n * 3) {
        descent d = {.lr = 0.001, .count = COUNT};
        weft_range *r =
            open_range(&d, policy_of("softsync", LEARNERS / n, -1, "inverse"), LEARNERS);
        learner all[LEARNERS];
        double ends[LEARNERS];
        weft_random random;
        int64_t most;
        size_t size;
        weft_random_start(&random, 1, (uint64_t)n);
        for (int i = 0; i < LEARNERS; i++) {
            all[i] = begin_learner(i + 1, COUNT);
            ends[i] = weft_random_between(&random, 0, 1);
        }
        for (int t = 0; t < STEPS; t++) {
            int i = next_of(ends, LEARNERS);
            push(&all[i], r, COUNT);
            fetch(&all[i], r, COUNT);
            ends[i] += weft_random_between(&random, 0.5, 1.5);
        }
        double mean = mean_staleness(r, &most);
        const int64_t *histogram = weft_range_staleness(r, &size);
        int64_t late = 0;
        for (size_t s = 2 * (size_t)n + 1; s < size; s++) late += histogram[s];
        print_message("%d-softsync: mean staleness %.2f, %.4f beyond %d\n", n, mean,
                      (double)late / STEPS, 2 * n);
        assert_true(fabs(mean - n) <= 0.1 * n);
        assert_true((double)late / STEPS < 0.01);
        for (int i = 0; i < LEARNERS; i++) end_learner(&all[i]);
        weft_range_destroy(&r);
    }
}

/* --- clocks --- */

/* Learners of random speeds, which begin when they may. Ends with the parameters; the spread of the
 * clocks, with the step that is going on, is never more than the bound and one. */
static void race(weft_policy policy, uint64_t seed, double *w, int64_t count)
{
    enum { LEARNERS = 5, STEPS = 40 };
    descent d = {.lr = 0.05, .count = count};
    weft_range *r = open_range(&d, policy, LEARNERS);
    learner all[LEARNERS];
    bool going[LEARNERS] = {false};
    weft_random random;
    weft_random_start(&random, seed, 3);
    for (int i = 0; i < LEARNERS; i++) all[i] = begin_learner(i + 1, count);
    for (int done = 0; done < LEARNERS * STEPS;) {
        int i = (int)(weft_random_u32(&random) % LEARNERS);
        if (seed % 2 && i == 0 && weft_random_u32(&random) % 10) continue; /* a slow one */
        if (all[i].clock == STEPS) continue;
        if (!going[i] && weft_range_may_begin(r, all[i].clock)) {
            fetch(&all[i], r, count);
            going[i] = true;
        } else if (going[i]) {
            push(&all[i], r, count);
            going[i] = false;
            done++;
        }
        int64_t low = INT64_MAX, high = 0;
        for (int k = 0; k < LEARNERS; k++) {
            low = WEFT_MIN(low, all[k].clock);
            high = WEFT_MAX(high, all[k].clock + going[k]);
        }
        if (policy.bound != WEFT_NO_BOUND) assert_true(high - low <= policy.bound + 1);
    }
    assert_int_equal(weft_range_slowest(r), STEPS);
    memcpy(w, weft_range_parameters(r), (size_t)count * sizeof(double));
    for (int i = 0; i < LEARNERS; i++) end_learner(&all[i]);
    weft_range_destroy(&r);
}

static void test_clocks(void **state)
{
    (void)state;
    enum { COUNT = 9 };
    double a[COUNT], b[COUNT];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        for (int bound = 1; bound < 5; bound++)
            race(policy_of("ssp", -1, bound, NULL), seed, a, COUNT);
        /* Without a bound it is async, with 0 it is bsp, whose bits no order changes. */
        race(policy_of("ssp", -1, INFINITY, NULL), seed, a, COUNT);
        race(policy_of("async", -1, -1, NULL), seed, b, COUNT);
        assert_memory_equal(a, b, sizeof(a));
        race(policy_of("ssp", -1, 0, NULL), seed, a, COUNT);
        race(policy_of("bsp", -1, -1, NULL), seed + 50, b, COUNT);
        assert_memory_equal(a, b, sizeof(a));
        /* Nothing is stale, so no weight changes. */
        race(policy_of("bsp", -1, -1, "inverse"), seed, b, COUNT);
        assert_memory_equal(a, b, sizeof(a));
    }
}

/* --- who comes, who goes, and what comes twice --- */

static void test_members(void **state)
{
    (void)state;
    descent d = {.lr = 1, .count = 2};
    weft_range *r = open_range(&d, policy_of("bsp", -1, -1, NULL), 3);
    learner l[4];
    for (int i = 0; i < 4; i++) l[i] = begin_learner(i + 1, 2);
    push(&l[0], r, 2);
    push(&l[2], r, 2);
    assert_int_equal(weft_range_version(r), 0);
    assert_false(weft_range_may_begin(r, 1));
    /* The one that is waited for goes: what the others have pushed is all there is. */
    assert_int_equal(weft_range_leave(r, 2), WEFT_OK);
    assert_int_equal(weft_range_version(r), 1);
    assert_true(weft_range_may_begin(r, 1));
    const double *w = weft_range_parameters(r);
    assert_true(w[0] == (0.25 + 0.75) / 2 && w[1] == 2 * w[0]);
    assert_int_equal(weft_range_leave(r, 2), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_range_join(r, 2, 2, 0), WEFT_ERR_ARGUMENT);
    /* A new one begins where the others are, and is waited for. */
    assert_int_equal(weft_range_join(r, 4, 1, 0), WEFT_OK);
    assert_int_equal(weft_range_slowest(r), 1);
    for (int i = 0; i < 4; i++) fetch(&l[i], r, 2);
    push(&l[0], r, 2);
    push(&l[2], r, 2);
    assert_int_equal(weft_range_version(r), 1);
    l[3].clock = 2;
    weft_blob *blob = gradient(&l[3], 2);
    weft_push_fate fate;
    weft_push late = {4, 1, 2, 1, blob, 0, 1};
    assert_int_equal(weft_range_push(r, &late, &fate), WEFT_OK);
    assert_int_equal(fate, WEFT_PUSH_TAKEN);
    assert_int_equal(weft_range_version(r), 2);
    weft_blob_drop(&blob);
    /* One that has pushed and goes: its update counts. */
    push(&l[0], r, 2);
    assert_int_equal(weft_range_leave(r, 1), WEFT_OK);
    assert_int_equal(push_as(&l[0], r, 2, 4), WEFT_PUSH_UNKNOWN);
    assert_int_equal(weft_range_leave(r, 3), WEFT_OK);
    assert_int_equal(weft_range_leave(r, 4), WEFT_OK);
    assert_int_equal(weft_range_version(r), 3);
    for (int i = 0; i < 4; i++) end_learner(&l[i]);
    weft_range_destroy(&r);
}

static void test_exactly_once(void **state)
{
    (void)state;
    descent d = {.lr = 0.5, .count = 2};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), 1);
    learner l = begin_learner(1, 2);
    double once[2];
    push(&l, r, 2);
    memcpy(once, weft_range_parameters(r), sizeof(once));
    assert_int_equal(push_as(&l, r, 2, 1), WEFT_PUSH_KNOWN);
    assert_int_equal(push_as(&l, r, 2, 3), WEFT_PUSH_EARLY);
    assert_memory_equal(once, weft_range_parameters(r), sizeof(once));
    assert_int_equal(weft_range_version(r), 1);
    assert_int_equal(push_as(&l, r, 2, 2), WEFT_PUSH_TAKEN);
    assert_int_equal(push_as(&l, r, 2, 3), WEFT_PUSH_TAKEN);
    assert_int_equal(weft_range_version(r), 3);
    end_learner(&l);
    weft_range_destroy(&r);
}

/* What is damaged changes nothing, and the same number can come again, whole. */
static void test_damage(void **state)
{
    (void)state;
    descent d = {.lr = 0.5, .count = 2};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), 1);
    learner l = begin_learner(1, 2);
    weft_blob *blob = gradient(&l, 2);
    weft_push_fate fate;
    weft_push cut = {1, 1, 1, 0, blob, 0, 1}, newer = {1, 1, 1, 5, blob, 0, 1},
              none = {1, 1, 1, 0, NULL, 0, 1}, back = {1, 1, 0, 0, blob, 0, 1};
    blob->bytes--;
    assert_int_equal(weft_range_push(r, &cut, &fate), WEFT_ERR_FORMAT);
    blob->bytes++;
    assert_int_equal(weft_range_push(r, &newer, &fate), WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_last_message(), "is for version 5, the parameters are at 0"));
    assert_int_equal(weft_range_push(r, &none, &fate), WEFT_ERR_FORMAT);
    assert_int_equal(weft_range_push(r, &back, &fate), WEFT_ERR_FORMAT);
    assert_int_equal(weft_range_version(r), 0);
    push(&l, r, 2);
    assert_int_equal(weft_range_version(r), 1);
    weft_blob_drop(&blob);
    end_learner(&l);
    weft_range_destroy(&r);
}

/* Nobody pushes what it was not to begin, so what waits is bounded; and no number is too large. */
static void test_ahead(void **state)
{
    (void)state;
    static const int64_t most = INT64_MAX;
    for (int bound = 0; bound < 3; bound++) {
        descent d = {.lr = 0.5, .count = 2};
        weft_range *r = open_range(&d, policy_of("ssp", -1, bound, NULL), 2);
        learner l = begin_learner(1, 2);
        weft_push_fate fate;
        weft_blob *blob = gradient(&l, 2);
        for (int i = 0; i <= bound; i++) push(&l, r, 2);
        weft_push next = {1, l.sequence + 1, bound + 2, 0, blob, 0, 1}, last = next;
        assert_int_equal(weft_range_push(r, &next, &fate), WEFT_ERR_FORMAT);
        assert_non_null(
            strstr(weft_last_message(), "which it was not to begin: the slowest is at 0"));
        last.clock = most;
        assert_int_equal(weft_range_push(r, &last, &fate), WEFT_ERR_FORMAT);
        assert_int_equal(weft_range_clock(r, 1), bound + 1);
        assert_true(weft_range_may_begin(r, -most - 1) && weft_range_may_begin(r, bound));
        assert_false(weft_range_may_begin(r, bound + 1) || weft_range_may_begin(r, most));
        weft_blob_drop(&blob);
        end_learner(&l);
        weft_range_destroy(&r);
    }
}

/* Where all are to leave, a version that the first to leave has no part in is not made, whether the
 * others have pushed theirs before or do so later. */
static void test_halt(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        descent d = {.lr = 0.5, .count = 2};
        weft_range *r = open_range(&d, policy_of("bsp", -1, -1, NULL), 3);
        learner l[3];
        for (int i = 0; i < 3; i++) l[i] = begin_learner(i + 1, 2);
        for (int i = 0; i < 3; i++) push(&l[i], r, 2);
        if (early) push(&l[1], r, 2);
        weft_range_halt(r, 1);
        assert_int_equal(weft_range_leave(r, 1), WEFT_OK);
        if (!early) push(&l[1], r, 2);
        push(&l[2], r, 2);
        assert_int_equal(weft_range_clock(r, 3), 2);
        for (weft_actor_id i = 2; i <= 3; i++) assert_int_equal(weft_range_leave(r, i), WEFT_OK);
        assert_int_equal(weft_range_version(r), 1);
        for (int i = 0; i < 3; i++) end_learner(&l[i]);
        weft_range_destroy(&r);
    }
}

/* As bytes, and gone on with: the same bits, be it in the middle of a version. What is cut off is
 * none. */
static void test_state(void **state)
{
    (void)state;
    static const char *const names[] = {"bsp", "softsync"};
    for (int p = 0; p < 2; p++) {
        descent d = {.lr = 0.5, .count = 3};
        weft_range *a = open_range(&d, policy_of(names[p], p ? 3 : -1, -1, NULL), 3);
        weft_range *b = open_range(&d, policy_of(names[p], p ? 3 : -1, -1, NULL), 1);
        learner l[3];
        weft_blob *blob;
        size_t used, sizes[2];
        for (int i = 0; i < 3; i++) l[i] = begin_learner(i + 1, 3);
        for (int t = 0; t < 7; t++) {
            push(&l[t % 3], a, 3);
            fetch(&l[t % 3], a, 3);
        }
        assert_int_equal(weft_range_save(a, &blob), WEFT_OK);
        for (size_t cut = 0; cut < blob->bytes; cut++)
            assert_int_equal(weft_range_load(b, blob->data, cut, &used), WEFT_ERR_FORMAT);
        assert_int_equal(weft_range_version(b), 0);
        assert_int_equal(weft_range_load(b, blob->data, blob->bytes, &used), WEFT_OK);
        assert_int_equal(used, blob->bytes);
        weft_blob_drop(&blob);
        for (int t = 7; t < 12; t++) {
            learner before = l[t % 3];
            push(&l[t % 3], a, 3);
            l[t % 3] = before;
            push(&l[t % 3], b, 3);
        }
        assert_int_equal(weft_range_version(a), 4);
        assert_int_equal(weft_range_version(b), 4);
        assert_memory_equal(weft_range_parameters(a), weft_range_parameters(b), 3 * sizeof(double));
        const int64_t *x = weft_range_staleness(a, &sizes[0]);
        const int64_t *y = weft_range_staleness(b, &sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(x, y, sizes[0] * sizeof(*x));
        for (int i = 0; i < 3; i++) end_learner(&l[i]);
        weft_range_destroy(&a);
        weft_range_destroy(&b);
    }
}

/* --- options --- */

static void test_policies(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double count, bound;
        const char *scale;
        double beta;
        const char *says;
    } wrong[] = {
        {"asinc", -1, -1, NULL, -1, "there is no policy=asinc; did you mean 'async'"},
        {"async", 3, -1, NULL, -1, "policy=async has no c; softsync has one"},
        {"softsync", -1, -1, NULL, -1, "policy=softsync needs c="},
        {"bsp", -1, 2, NULL, -1, "policy=bsp has no bound; ssp has one"},
        {"ssp", -1, -1, NULL, -1, "policy=ssp needs bound="},
        {"async", -1, -1, "linear", -1, "there are none, inverse and exp"},
        {"async", -1, -1, "inverse", 0.5, "beta is of scale=exp"},
    };
    weft_policy p;
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        assert_int_equal(weft_policy_make(wrong[i].name, wrong[i].count, wrong[i].bound,
                                          wrong[i].scale, wrong[i].beta, &p),
                         WEFT_ERR_ARGUMENT);
        if (!strstr(weft_last_message(), wrong[i].says)) fail_msg("'%s'", weft_last_message());
    }
    p = policy_of("softsync", 4, -1, "exp");
    assert_true(weft_policy_weight(&p, 0) == 1);
    assert_true(fabs(weft_policy_weight(&p, 3) - exp(-1.5)) < 1e-15);
    p = policy_of("async", -1, -1, "inverse");
    assert_true(weft_policy_weight(&p, 1) == 1 && weft_policy_weight(&p, 4) == 0.25);
}

static int begin(void **state)
{
    (void)state;
    return weft_context_create(&context) != WEFT_OK;
}

static int end(void **state)
{
    (void)state;
    weft_context_destroy(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delayed_quadratic),
        cmocka_unit_test(test_round_robin),
        cmocka_unit_test(test_softsync_staleness),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_exactly_once),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_halt),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_policies),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
