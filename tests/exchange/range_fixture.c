/* Makes ranges and learners for the tests of range.c, and pushes and fetches by direct calls. */
#include "range_fixture.h"

weft_policy policy_of(const char *name, double count, double bound, const char *scale)
{
    weft_policy policy;
    weft_context *context; /* a built-in policy does not need it any longer */
    assert_int_equal(weft_context_create(&context), WEFT_OK);
    assert_int_equal(weft_policy_make(context, name, count, bound, scale, -1, &policy), WEFT_OK);
    weft_context_destroy(&context);
    return policy;
}

weft_range *open_range(descent *d, weft_policy policy, int learners)
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

learner begin_learner(weft_context *context, int id, int64_t count)
{
    learner l = {.id = (weft_actor_id)id, .target = 0.25 * id};
    assert_int_equal(WEFT_NEW(&l.w, count), WEFT_OK);
    assert_int_equal(weft_codec_open(context, "none", WEFT_F64, count, &l.codec), WEFT_OK);
    return l;
}

void end_learner(learner *l)
{
    free(l->w);
    weft_codec_close(&l->codec);
}

void fetch(learner *l, weft_range *r, int64_t count)
{
    memcpy(l->w, weft_range_parameters(r), (size_t)count * sizeof(double));
    l->version = weft_range_version(r);
}

weft_buffer *gradient(learner *l, int64_t count)
{
    weft_buffer *blob;
    double g[64];
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++) g[i] = l->w[i] - l->target * (double)(i + 1);
    assert_int_equal(weft_buffer_new(weft_encoded_bound(WEFT_F64, count), &blob), WEFT_OK);
    assert_int_equal(weft_codec_encode(l->codec, g, blob->data, &blob->bytes), WEFT_OK);
    return blob;
}

weft_push_result push_as(learner *l, weft_range *r, int64_t count, int64_t sequence)
{
    weft_push_result fate;
    weft_buffer *blob = gradient(l, count);
    weft_push push = {l->id, sequence, sequence, l->version, blob, 0, 1, false};
    assert_int_equal(weft_range_push(r, &push, &fate), WEFT_OK);
    weft_buffer_unref(&blob);
    return fate;
}

void push(learner *l, weft_range *r, int64_t count)
{
    l->clock++;
    assert_int_equal(push_as(l, r, count, ++l->sequence), WEFT_PUSH_ACCEPTED);
}
