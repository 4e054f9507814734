/* What batches of a model take, kept from one start of a service to the next. */
#ifndef WEFT_SERVE_TIMES_H
#define WEFT_SERVE_TIMES_H

#include "base/base.h"

#define WEFT_TIMES_FILE "times.json"
enum { WEFT_MOST_SIZES = 48, WEFT_MOST_EXECUTORS = 64 };

/* What times depend on: the network, the machine, and how both are used. */
typedef struct weft_times_key weft_times_key;

typedef struct weft_times {
    int count; /* 0: nothing is known */
    int64_t rows[WEFT_MOST_SIZES];
    double seconds[WEFT_MOST_SIZES];    /* of a batch that is alone; growing */
    int executors;                      /* 0: not known */
    double slower[WEFT_MOST_EXECUTORS]; /* as weft_line_options */
} weft_times;

struct weft_served;
weft_status weft_times_key_of(const struct weft_served *served,
                              weft_times_key **out) WEFT_NODISCARD;
void weft_times_key_free(weft_times_key **key);

/* Where they are kept: *out NULL: nowhere. */
weft_status weft_times_file(const struct weft_served *served, const char *option,
                            char **out) WEFT_NODISCARD;
/* What the file says, if it is of the same key; nothing otherwise, and why stands in the log. */
void weft_times_read(const struct weft_served *served, weft_times *out);
/* Writes what its line has learned, if it has computed since it was written last. A file that
 * cannot be written is none. */
void weft_times_write(struct weft_served *served);
/* What the line of another model has learned, if its key is the same; else nothing. */
void weft_times_take(const struct weft_served *served, const struct weft_served *from,
                     weft_times *out);
/* Seconds for so many rows, by the line between neighbours; 0: outside of what is known. */
double weft_times_at(const weft_times *times, int64_t rows);

#endif
