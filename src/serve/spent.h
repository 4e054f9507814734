/* Where the time of batches has gone, by their rows: putting questions in, computing, taking
 * answers out. For any thread. */
#ifndef WEFT_SERVE_SPENT_H
#define WEFT_SERVE_SPENT_H

#include "base/base.h"
#include "weft/service.h"

typedef struct weft_spent weft_spent;

/* Seconds, each either of batches, or of requests: every one of a batch has all its time. */
typedef struct weft_spent_times {
    int64_t rows;  /* of a batch; of all together: of all */
    int64_t count; /* of batches, or of requests */
    double input, infer, output;
} weft_spent_times;

/* Of batches of up to `limit` rows. */
weft_status weft_spent_create(int64_t limit, weft_spent **out) WEFT_NODISCARD;
void weft_spent_free(weft_spent **spent); /* NULL is allowed */
/* A batch has been computed: at[0] when it began, then after the input, the computation and the
 * output, as weft_seconds. */
void weft_spent_add(weft_spent *spent, int64_t rows, int requests, const double *at);
/* Batches of the i-th number of rows of which there were any; false past the end. */
bool weft_spent_size(weft_spent *spent, int i, weft_spent_times *out);
/* All requests; *last is when the last batch ended, in seconds since 1970, 0: there was none. */
void weft_spent_total(weft_spent *spent, weft_spent_times *out, double *last);

/* That of a model. */
weft_spent *weft_served_spent(const weft_served *served);

#endif
