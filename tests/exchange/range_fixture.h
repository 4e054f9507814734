/* One range of a server with plain gradient descent, and learners that minimize quadratics. Tests
 * call the range directly: there are no actors, messages or simulator. */
#ifndef WEFT_TESTS_RANGE_FIXTURE_H
#define WEFT_TESTS_RANGE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "compress/compress.h"
#include "range_update.h"
#include "exchange/ps/range/range.h"

/* A learner. Element i of its gradient is w[i] - target * (i + 1). */
typedef struct learner {
    weft_actor_id id;
    int64_t clock, sequence, version;
    double *w; /* parameters of its last fetch */
    double target;
    weft_codec *codec;
} learner;

weft_policy policy_of(const char *name, double count, double bound, const char *scale);
weft_range *open_range(descent *d, weft_policy policy, int learners);
learner begin_learner(weft_context *context, int id, int64_t count);
void end_learner(learner *l);
void fetch(learner *l, weft_range *r, int64_t count);
weft_buffer *gradient(learner *l, int64_t count);
weft_push_result push_as(learner *l, weft_range *r, int64_t count, int64_t sequence);
void push(learner *l, weft_range *r, int64_t count);

#endif
