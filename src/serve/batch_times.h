/* Batch times of a model, kept between starts of a service. */
#ifndef WEFT_SERVE_BATCH_TIMES_H
#define WEFT_SERVE_BATCH_TIMES_H

#include "base/base.h"

#define WEFT_BATCH_TIMES_FILE "times.json"
enum { WEFT_MOST_SIZES = 48, WEFT_MOST_EXECUTORS = 64 };

/* The times depend on: the network, the machine, and the options that use them. */
typedef struct weft_batch_times_key weft_batch_times_key;

typedef struct weft_batch_times {
    int count; /* 0: no times */
    int64_t rows[WEFT_MOST_SIZES];
    double seconds[WEFT_MOST_SIZES];      /* of a batch that is alone; increasing */
    int executors;                        /* 0: unknown */
    double slowdown[WEFT_MOST_EXECUTORS]; /* as in weft_batch_queue_options */
} weft_batch_times;

struct weft_servable;
weft_status weft_batch_times_key_of(const struct weft_servable *servable,
                                    weft_batch_times_key **out) WEFT_NODISCARD;
void weft_batch_times_key_free(weft_batch_times_key **key);

/* The path of the file; *out NULL: none. */
weft_status weft_batch_times_file(const struct weft_servable *servable, const char *option,
                                  char **out) WEFT_NODISCARD;
/* Reads the times if the file has the same key; else returns none and logs the reason. */
void weft_batch_times_read(const struct weft_servable *servable, weft_batch_times *out);
/* Saves what its queue has learned, if it has computed batches since the last save. A failed save
 * is only logged. */
void weft_batch_times_write(struct weft_servable *servable);
/* The times that another version's queue has learned, if its key is equal; else none. */
void weft_batch_times_take(const struct weft_servable *servable, const struct weft_servable *from,
                           weft_batch_times *out);
/* Seconds for so many rows, linear between neighbours; 0: outside of the known range. */
double weft_batch_times_at(const weft_batch_times *times, int64_t rows);

#endif
