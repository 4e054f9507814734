/* Foundation of all rooms: failures, text, allocation, random numbers, files, clock. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "weft/context.h"
#include "weft/status.h"
#include "weft/types.h"

#define WEFT_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WEFT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define WEFT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define WEFT_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Returns early with the status of a failed call. */
#define WEFT_TRY(expr)                                                                             \
    do {                                                                                           \
        weft_status weft_try_status = (expr);                                                      \
        if (weft_try_status != WEFT_OK) return weft_try_status;                                    \
    } while (0)

/* Keeps the status in a local `status` and jumps to the label for cleanup. */
#define WEFT_TRY_GOTO(expr, label)                                                                 \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != WEFT_OK) goto label;                                                         \
    } while (0)

/* Records this thread's message and returns status. */
weft_status weft_fail(weft_status status, const char *format, ...) WEFT_PRINTF(2, 3) WEFT_NODISCARD;
weft_status weft_fail_memory(size_t bytes) WEFT_NODISCARD;

/* Prefixes this thread's message with "prefix: "; returns status. */
weft_status weft_fail_within(weft_status status, const char *format, ...)
    WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* Callbacks from outside of the library may fail without a message. weft_failures counts this
 * thread's failures with a message; weft_ensure_message adds one to a failure that occurred since
 * `before` without any, naming the callee ("device", "mine") and its function. */
uint64_t weft_failures(void);
weft_status weft_ensure_message(weft_status status, uint64_t before, const char *kind,
                                const char *name, const char *function) WEFT_NODISCARD;

/* --- memory --- */

/* Allocates a zeroed array. Functions that create something set *out (here a pointer to any
 * pointer) to NULL on failure, so that it can be freed in any case. */
weft_status weft_new_bytes(void *out, size_t count, size_t size) WEFT_NODISCARD;
#define WEFT_NEW(out, count) weft_new_bytes((void *)(out), (size_t)(count), sizeof(**(out)))

/* Makes room for at least `count` + 1 elements in a growing array. */
weft_status weft_grow_bytes(void *array, size_t *capacity, size_t count,
                            size_t size) WEFT_NODISCARD;
#define WEFT_GROW(array, capacity, count)                                                          \
    weft_grow_bytes((void *)(array), (capacity), (size_t)(count), sizeof(**(array)))

weft_status weft_strdup(const char *text, char **out) WEFT_NODISCARD;
weft_status weft_format(char **out, const char *format, ...) WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* Memory that other libraries may allocate at once. Some do not survive a failed allocation: the
 * kernel generator writes through a null pointer, and the thread library aborts. So large arrays
 * leave this much free, and a caller of such a library reserves it first. */
enum { WEFT_RESERVE = 32 << 20 };
/* Between enter and leave no other thread allocates from the reserve; they wait. MEMORY: the
 * reserve is not available, and there is nothing to leave. Not recursive, and not to be held in a
 * call of the following functions. */
weft_status weft_reserve_enter(void) WEFT_NODISCARD;
void weft_reserve_leave(void);

/* Zeroed memory aligned to 64 bytes; free it with free(). */
weft_status weft_new_aligned(size_t bytes, void *out) WEFT_NODISCARD;

/* Starts a thread. MEMORY: its allocator's arena would leave no reserve; IO: the system refuses. */
weft_status weft_thread_start(pthread_t *thread, void *(*work)(void *user),
                              void *user) WEFT_NODISCARD;

/* --- numbers --- */

/* Round to nearest even. */
uint16_t weft_bf16_of(float x);
float weft_bf16_float(uint16_t bits);
/* Whether all numbers are finite; those of an integer type are. */
bool weft_all_finite(weft_dtype dtype, const void *data, size_t bytes);

/* --- text --- */

/* A growing string. Failures are sticky: text stays NULL, and weft_text_take reports them. */
typedef struct weft_text {
    char *data;
    size_t size, capacity;
    bool failed;
} weft_text;

void weft_text_add(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_add_bytes(weft_text *text, const char *data, size_t size);
/* Appends a JSON string with quotes and escapes. */
void weft_text_add_json(weft_text *text, const char *string);
/* Appends the text as weft_printable shows it. */
void weft_text_add_printable(weft_text *text, const char *string);
/* Whether weft_printable leaves the text unchanged. */
bool weft_is_printable(const char *text);
weft_status weft_text_take(weft_text *text, char **out) WEFT_NODISCARD;

/* The candidate nearest to name by edit distance, or NULL if none is near. next(user, i) returns
 * candidate i, or NULL at the end. */
const char *weft_nearest(const char *name, const char *(*next)(const void *user, int i),
                         const void *user);
/* Whether the text is an item of a comma-separated list. */
bool weft_is_listed(const char *list, const char *text);

/* Writes "; did you mean 'x'?" or "" to buffer; returns buffer. */
const char *weft_suggest(char *buffer, size_t size, const char *name,
                         const char *(*next)(const void *user, int i), const void *user);

/* Writes "[8, 3, 28, 28]" to buffer; returns buffer. */
const char *weft_shape_text(const weft_shape *shape, char *buffer, size_t size);

/* Calls fn with each piece of "a,b,c", which it may change, until one fails. ARGUMENT: a piece is
 * empty, also after a trailing comma; what: the option, for the message. */
typedef weft_status (*weft_piece_fn)(void *user, char *piece);
weft_status weft_each_piece(const char *what, const char *text, weft_piece_fn fn,
                            void *user) WEFT_NODISCARD;

/* Writes the shortest decimal that reads back as the same number (integers in full) to buffer,
 * where 32 bytes are enough; returns buffer. */
const char *weft_real_text(double value, char *buffer, size_t size);

/* Whole-string conversions; false if text is not exactly one number of this kind. */
bool weft_parse_int(const char *text, int64_t *out);
bool weft_parse_real(const char *text, double *out);

/* The start of part r of `count` items divided into n parts; it ends where part r + 1 starts. */
static inline int64_t weft_part_start(int64_t count, int r, int n)
{
    return count * r / n;
}

/* --- parts of tensors --- */

/* Copies a part of `shape` at `start` into the whole tensor, or out of it. */
void weft_copy_part(const weft_type *whole, const int64_t *start, const weft_shape *shape,
                    void *all, void *data, bool out);

/* --- names --- */

/* A hash table from names to numbers. The names are not copied, and must outlive the table. */
typedef struct weft_name_slot {
    const char *name;
    int number;
} weft_name_slot;
typedef struct weft_names {
    weft_name_slot *slots;
    size_t count, capacity;
} weft_names;
/* The number, or -1. */
int weft_names_find(const weft_names *names, const char *name);
/* Adds a name, or changes its number. */
weft_status weft_names_add(weft_names *names, const char *name, int number) WEFT_NODISCARD;
void weft_names_free(weft_names *names);

/* --- random --- */

/* Counter-based generator Philox4x32-10 (Salmon et al., SC'11): the same on every platform. */
void weft_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t out[4]);
uint64_t weft_hash_text(const char *text);
uint64_t weft_mix(uint64_t a, uint64_t b);

/* A stream of numbers determined by (key, stream). */
typedef struct weft_random {
    uint64_t key, stream, position;
    uint32_t block[4];
} weft_random;
void weft_random_start(weft_random *random, uint64_t key, uint64_t stream);
uint32_t weft_random_u32(weft_random *random);
/* Uniform in [0, 1) with 24 bits, exact in float and double. */
double weft_random_unit(weft_random *random);
double weft_random_between(weft_random *random, double low, double high);

/* The image of i in permutation `key` of 0 .. count-1: a Feistel network with cycle walking, which
 * needs no memory. */
int64_t weft_permute(uint64_t key, int64_t count, int64_t i);

/* --- exact sums --- */

/* An exact sum of squares: each square is rounded to a double, but no sum is, so the result does
 * not depend on the order. Takes about 64 kB; at most 2^32 squares. */
typedef struct weft_exact {
    uint64_t low[2][2048], high[2][2048];
} weft_exact;
/* The sum is that of digit[d] 2^(14 d - 1074), with digits below 2^14, which fit an f32. Digits of
 * up to 1024 sums may be added elementwise in any type, and then represent the total, although they
 * exceed 2^14. digit[0] is infinite if a square is not finite. */
enum { WEFT_EXACT_DIGITS = 156 };
void weft_exact_clear(weft_exact *sum);
void weft_exact_squares(weft_exact *sum, weft_dtype dtype, const void *data, int64_t begin,
                        int64_t end);
/* The digits of several sums together, those of the sum of two, and the square root of the
 * represented number. */
void weft_exact_digits(const weft_exact *sums, int count, double *digits);
void weft_exact_add(const double *a, const double *b, double *out);
double weft_exact_root(const double *digits);

/* --- files --- */

typedef struct weft_bytes {
    const unsigned char *data;
    size_t size;
    bool mapped;
} weft_bytes;

/* "PATH: cannot WHAT: <errno>", with advice. */
weft_status weft_fail_io(const char *what, const char *path) WEFT_NODISCARD;
/* Maps a file read-only. IO: the message names the path and the reason. */
weft_status weft_file_map(const char *path, weft_bytes *out) WEFT_NODISCARD;
void weft_file_unmap(weft_bytes *bytes);
/* temp_file.c: creates a temporary file next to the one that it will replace, opened for writing
 * and locked while it is open: its name, and -1 with errno on failure. */
weft_status weft_beside_open(const char *target, char **name, int *file) WEFT_NODISCARD;
/* Removes temporary files of killed processes. */
weft_status weft_beside_tidy(const char *target) WEFT_NODISCARD;
/* Replaces the file atomically (weft/output.h): the path has the new or the old contents at any
 * time. */
weft_status weft_file_replace(const char *path, const void *data, size_t size) WEFT_NODISCARD;
weft_status weft_file_write(const char *path, const void *data, size_t size) WEFT_NODISCARD;
weft_status weft_dir_make(const char *path) WEFT_NODISCARD; /* with parents; may exist already */
weft_status weft_dir_sync(const char *path) WEFT_NODISCARD;
weft_status
weft_dir_remove(const char *path) WEFT_NODISCARD; /* a directory of plain files, no link */
bool weft_file_exists(const char *path);

/* Creates a context without any names, for the public constructor, which registers the built-in
 * ones and passes the services for plug-ins. */
struct weft_services;
weft_status weft_context_new(const struct weft_services *services,
                             weft_context **out) WEFT_NODISCARD;
/* An object shared by all users of a context: created on first use, by any thread, and destroyed
 * with the context. The address of the kind identifies it; it must outlive the context. */
typedef struct weft_singleton_kind {
    weft_status (*make)(weft_context *context, void **out); /* once for each context */
    void (*destroy)(void *thing);
} weft_singleton_kind;
weft_status weft_context_singleton(weft_context *context, const weft_singleton_kind *kind,
                                   void **out) WEFT_NODISCARD;
/* A context with its own number of threads (see weft_context_set_threads) that shares log and names
 * with `of`, which is not changed and must outlive it. */
weft_status weft_context_with_threads(weft_context *of, int threads,
                                      weft_context **out) WEFT_NODISCARD;

/* --- clock and log --- */

double weft_seconds(void); /* monotonic */
/* Measures the seconds waited, starting from zeros; an interval between two looks counts at most
 * `most` seconds, so that the time for which the process is stopped (Ctrl-Z) does not count. */
typedef struct weft_wait_clock {
    double looked, waited;
} weft_wait_clock;
double weft_wait_clock_read(weft_wait_clock *clock, double most);
double weft_process_seconds(void); /* since this process started, to a hundredth */
size_t weft_peak_memory(void);     /* peak resident set of this process, in bytes */
/* Logs a message; each warning or note is logged once in the life of a context. */
void weft_log(const weft_context *context, weft_log_level level, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* --- threads of one process --- */

/* Calls fn(user, begin, end) over [0, count) on `threads` threads in fixed, equal parts, so that a
 * thread always has the same part; at least `grain` items each. */
void weft_parallel(int threads, int64_t count, int64_t grain,
                   void (*fn)(void *user, int64_t begin, int64_t end), void *user);
/* Sets the number of threads of parallel regions of the calling thread. */
void weft_parallel_threads(int threads);
/* The cores that this process may use at once: those of its affinity mask, limited by the CPU quota
 * of its control groups, rounded up. */
int weft_cores(void);
/* The CPU quota of this process's control groups, in cores; 0: none. `root` is put before the paths
 * of /proc/self and of the mounts; it is "" except in tests. */
double weft_cpu_quota(const char *root);
/* Lets the calling thread use all of these cores, whatever set it was started in. */
void weft_cores_roam(void);

/* cpu_affinity.c: divides the cores of this process into `parts` sets of neighbours. There are no
 * sets with fewer cores than parts, or if the parts are processes that were given cores already. */
typedef struct weft_core_sets weft_core_sets;
weft_status weft_core_sets_make(int parts, bool processes, weft_core_sets **out) WEFT_NODISCARD;
void weft_core_sets_free(weft_core_sets **sets);
/* Binds the calling thread, and threads that it starts later, to a set of cores. Returns the
 * previous binding, for leave. */
void *weft_core_sets_enter(const weft_core_sets *sets, int part);
void weft_core_sets_leave(const weft_core_sets *sets, void *before);

#endif
