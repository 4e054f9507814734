/* Batch times of a model version, kept in a file between two starts of a service. */
#ifndef WEFT_SERVE_BATCH_TIMES_H
#define WEFT_SERVE_BATCH_TIMES_H

#include "base/base.h"

enum { WEFT_MOST_SIZES = 48, WEFT_MOST_EXECUTORS = 64 };

/* The key names all that batch times depend on: the program's version and network, the machine, and
 * the options for device, threads, instances and mesh. */
typedef struct weft_batch_times_key weft_batch_times_key;

typedef struct weft_batch_times {
    int count; /* number of sizes; 0: no times are known */
    int64_t rows[WEFT_MOST_SIZES];
    double seconds[WEFT_MOST_SIZES]; /* of one batch while no other batch runs; increasing */
    int executors;                   /* number of entries of `slowdown`; 0: unknown */
    /* as in weft_batch_queue_options: [b - 1] with b busy executors */
    double slowdown[WEFT_MOST_EXECUTORS];
} weft_batch_times;

struct weft_servable;
weft_status weft_batch_times_key_of(const struct weft_servable *servable,
                                    weft_batch_times_key **out) WEFT_NODISCARD;
void weft_batch_times_key_free(weft_batch_times_key **key);

/* The path of the file for batch times. option: a folder, "none", or NULL for the default place.
 * *out NULL: the times are not kept. */
weft_status weft_batch_times_file(const struct weft_servable *servable, const char *option,
                                  char **out) WEFT_NODISCARD;
/* Reads the times from the servable's file if the file has an equal key. Otherwise returns no
 * times, and logs the reason if there is a file. */
void weft_batch_times_read(const struct weft_servable *servable, weft_batch_times *out);
/* Saves the batch times that the servable's queue has learned, unless no batch was computed since
 * the last save. A failed save is only logged. */
void weft_batch_times_write(struct weft_servable *servable);
/* Takes the batch times that the queue of another version, `from`, has learned, if the keys are
 * equal; otherwise returns no times. from may be NULL. */
void weft_batch_times_take(const struct weft_servable *servable, const struct weft_servable *from,
                           weft_batch_times *out);
/* The seconds of a batch of `rows` rows, interpolated linearly between the known sizes; 0: `rows`
 * is below the smallest or above the largest known size. */
double weft_batch_times_at(const weft_batch_times *times, int64_t rows);

#endif
