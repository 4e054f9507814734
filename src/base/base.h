/* What every room above uses: failures, text, allocation, random numbers, files, clock. */
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

/* Unwinds: keeps the status in a local `status` and jumps to the label. */
#define WEFT_TRY_GOTO(expr, label)                                                                 \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != WEFT_OK) goto label;                                                         \
    } while (0)

/* Records the message of this thread and returns status. */
weft_status weft_fail(weft_status status, const char *format, ...) WEFT_PRINTF(2, 3) WEFT_NODISCARD;
weft_status weft_fail_memory(size_t bytes) WEFT_NODISCARD;

/* Puts "prefix: " before this thread's message; returns status. */
weft_status weft_fail_within(weft_status status, const char *format, ...)
    WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* Whoever is asked something from outside of the library may fail without a message: how many of
 * this thread's failures had one so far, and what a call since then has answered. A failure without
 * one gets it, which names who failed ("device", "mine") in which function. */
uint64_t weft_failures(void);
weft_status weft_told(weft_status status, uint64_t before, const char *kind, const char *name,
                      const char *function) WEFT_NODISCARD;

/* --- memory --- */

/* Zeroed array. All that makes something here or below sets *out (here a pointer to any pointer) to
 * NULL where it fails, so that it can be freed in either case. */
weft_status weft_new_bytes(void *out, size_t count, size_t size) WEFT_NODISCARD;
#define WEFT_NEW(out, count) weft_new_bytes((void *)(out), (size_t)(count), sizeof(**(out)))

/* Makes room for at least `count` + 1 elements in a growing array. */
weft_status weft_grow_bytes(void *array, size_t *capacity, size_t count,
                            size_t size) WEFT_NODISCARD;
#define WEFT_GROW(array, capacity, count)                                                          \
    weft_grow_bytes((void *)(array), (capacity), (size_t)(count), sizeof(**(array)))

weft_status weft_strdup(const char *text, char **out) WEFT_NODISCARD;
weft_status weft_format(char **out, const char *format, ...) WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* What other libraries may ask for at once. Some do not survive it when that is refused: the one
 * that generates kernels writes them through a null pointer, the one that starts threads ends the
 * process. So large arrays leave this much, and whoever is about to call such a library asks for it
 * first. */
enum { WEFT_RESERVE = 32 << 20 };
/* Until it is left, nothing below takes of the reserve in other threads, which wait. MEMORY: it is
 * not there, and there is nothing to leave. Not to be entered twice, nor around what follows here.
 */
weft_status weft_reserve_enter(void) WEFT_NODISCARD;
void weft_reserve_leave(void);

/* Memory aligned to 64 bytes, zeroed; free with free(). */
weft_status weft_new_aligned(size_t bytes, void *out) WEFT_NODISCARD;

/* A thread of the library. MEMORY: what its allocator takes would leave no reserve; IO: the system
 * refuses. */
weft_status weft_thread_start(pthread_t *thread, void *(*work)(void *user),
                              void *user) WEFT_NODISCARD;

/* --- numbers --- */

/* Rounded to the nearest, of two equally near to the even one. */
uint16_t weft_bf16_of(float x);
float weft_bf16_float(uint16_t bits);

/* --- text --- */

/* A growing string. Failures stick: text stays NULL and weft_text_take reports them. */
typedef struct weft_text {
    char *data;
    size_t size, capacity;
    bool failed;
} weft_text;

void weft_text_add(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_add_bytes(weft_text *text, const char *data, size_t size);
/* As a JSON string with quotes and escapes. */
void weft_text_add_json(weft_text *text, const char *string);
/* As weft_printable. */
void weft_text_add_printable(weft_text *text, const char *string);
/* Whether weft_printable would leave it as it is. */
bool weft_is_printable(const char *text);
weft_status weft_text_take(weft_text *text, char **out) WEFT_NODISCARD;

/* The candidate nearest to name by edit distance, or NULL if none is near. next(user, i) gives
 * candidate i or NULL at the end. */
const char *weft_nearest(const char *name, const char *(*next)(const void *user, int i),
                         const void *user);
/* Whether a text is one of a list with commas. */
bool weft_is_listed(const char *list, const char *text);

/* "; did you mean 'x'?" or "" into buffer; returns buffer. */
const char *weft_suggest(char *buffer, size_t size, const char *name,
                         const char *(*next)(const void *user, int i), const void *user);

/* "[8, 3, 28, 28]" into buffer; returns buffer. */
const char *weft_shape_text(const weft_shape *shape, char *buffer, size_t size);

/* Calls fn with each piece of "a,b,c", which it may change, until one fails. ARGUMENT: a piece is
 * empty, also behind a comma at the end; what: the option, for the message. */
typedef weft_status (*weft_piece_fn)(void *user, char *piece);
weft_status weft_each_piece(const char *what, const char *text, weft_piece_fn fn,
                            void *user) WEFT_NODISCARD;

/* The shortest decimal that reads back as the same number (whole ones in full), into buffer (32
 * bytes hold any); returns buffer. */
const char *weft_real_text(double value, char *buffer, size_t size);

/* Whole-string conversions; false if text is not exactly one number of the kind. */
bool weft_parse_int(const char *text, int64_t *out);
bool weft_parse_real(const char *text, double *out);

/* Part r of `count` things cut into n begins here; it ends where part r + 1 begins. */
static inline int64_t weft_part_start(int64_t count, int r, int n)
{
    return count * r / n;
}

/* --- parts of tensors --- */

/* Copies the part of `shape` that begins at `start` into the whole, or out of it. */
void weft_copy_part(const weft_type *whole, const int64_t *start, const weft_shape *shape,
                    void *all, void *data, bool out);

/* --- names --- */

/* Finds numbers by name. The names belong to others, who keep them as long as the table. */
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
/* Adds a name, or gives it another number. */
weft_status weft_names_add(weft_names *names, const char *name, int number) WEFT_NODISCARD;
void weft_names_free(weft_names *names);

/* --- random --- */

/* Counter-based generator Philox4x32-10 (Salmon et al., SC'11): the same on every platform. */
void weft_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t out[4]);
uint64_t weft_hash_text(const char *text);
uint64_t weft_mix(uint64_t a, uint64_t b);

/* A stream of numbers from (key, stream). */
typedef struct weft_random {
    uint64_t key, stream, position;
    uint32_t block[4];
} weft_random;
void weft_random_start(weft_random *random, uint64_t key, uint64_t stream);
uint32_t weft_random_u32(weft_random *random);
/* Uniform in [0, 1) with 24 bits, exact in float and double. */
double weft_random_unit(weft_random *random);
double weft_random_between(weft_random *random, double low, double high);

/* Where position i lands in permutation `key` of 0 .. count-1: a Feistel network with cycle
 * walking, so a permutation needs no memory. */
int64_t weft_permute(uint64_t key, int64_t count, int64_t i);

/* --- exact sums --- */

/* A sum of squares, each rounded to a double and none of their sums: the same in every order. About
 * 64 kB; at most 2^32 squares. */
typedef struct weft_exact {
    uint64_t low[2][2048], high[2][2048];
} weft_exact;
/* The sum is that of digit[d] 2^(14 d - 1074), with digits below 2^14, which an f32 holds. Digits
 * of up to 1024 sums may be added one by one in any type; they stand for the sum then, without
 * being below 2^14. digit[0] is infinite where a square is no finite number. */
enum { WEFT_EXACT_DIGITS = 156 };
void weft_exact_clear(weft_exact *sum);
void weft_exact_squares(weft_exact *sum, weft_dtype dtype, const void *data, int64_t begin,
                        int64_t end);
/* The digits of several sums together, of the sum of two, and the root of what digits stand for. */
void weft_exact_digits(const weft_exact *sums, int count, double *digits);
void weft_exact_add(const double *a, const double *b, double *out);
double weft_exact_root(const double *digits);

/* --- files --- */

typedef struct weft_bytes {
    const unsigned char *data;
    size_t size;
    bool mapped;
} weft_bytes;

/* "PATH: cannot WHAT: <errno>", with what would help. */
weft_status weft_fail_io(const char *what, const char *path) WEFT_NODISCARD;
/* Maps a file read-only. IO: the message names the path and the reason. */
weft_status weft_file_map(const char *path, weft_bytes *out) WEFT_NODISCARD;
void weft_file_unmap(weft_bytes *bytes);
/* temp_file.c: a new file beside the one that it will replace, opened for writing: its name, and -1
 * with errno where it cannot be. It is ours as long as it is open. */
weft_status weft_beside_open(const char *target, char **name, int *file) WEFT_NODISCARD;
/* Removes what processes that were killed have left there. */
weft_status weft_beside_tidy(const char *target) WEFT_NODISCARD;
/* As an output (weft/output.h): the path holds all of it or what it held before. */
weft_status weft_file_replace(const char *path, const void *data, size_t size) WEFT_NODISCARD;
weft_status weft_file_write(const char *path, const void *data, size_t size) WEFT_NODISCARD;
weft_status weft_dir_make(const char *path) WEFT_NODISCARD; /* with parents; existing is fine */
weft_status weft_dir_sync(const char *path) WEFT_NODISCARD;
weft_status
weft_dir_remove(const char *path) WEFT_NODISCARD; /* a directory of plain files, no link */
bool weft_file_exists(const char *path);

/* A context that knows nothing by name yet; for the public constructor, which knows what is built
 * in and what plug-ins may ask for. */
struct weft_services;
weft_status weft_context_new(const struct weft_services *services,
                             weft_context **out) WEFT_NODISCARD;
/* What all that use a context have in common, and which goes with it: made when it is first asked
 * for, by whichever thread that is. The kind must outlive the context, and is what tells it from
 * others. */
typedef struct weft_singleton_kind {
    weft_status (*make)(weft_context *context, void **out); /* for as long as the context is */
    void (*destroy)(void *thing);
} weft_singleton_kind;
weft_status weft_context_singleton(weft_context *context, const weft_singleton_kind *kind,
                                   void **out) WEFT_NODISCARD;
/* A context with a number of threads of its own, as weft_context_set_threads takes it, for whoever
 * has been told one. Log and names are those of `of`, which is not changed and must outlive it. */
weft_status weft_context_with_threads(weft_context *of, int threads,
                                      weft_context **out) WEFT_NODISCARD;

/* --- clock and log --- */

double weft_seconds(void); /* monotonic */
/* Seconds that somebody has waited. Begins with zeros; of the time between two looks at most `most`
 * counts, so that a process which is stopped for a while (Ctrl-Z) has not waited meanwhile. */
typedef struct weft_patience {
    double looked, waited;
} weft_patience;
double weft_patience_look(weft_patience *patience, double most);
double weft_process_seconds(void); /* since this process began, to a hundredth */
size_t weft_peak_memory(void);     /* largest resident set of this process, bytes */
/* A warning or note is given once in the life of a context. */
void weft_log(const weft_context *context, weft_log_level level, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* --- threads of one process --- */

/* Calls fn(user, begin, end) over [0, count) on `threads` threads in fixed, equal parts, so the
 * same threads always see the same part; at least `grain` items a part. */
void weft_parallel(int threads, int64_t count, int64_t grain,
                   void (*fn)(void *user, int64_t begin, int64_t end), void *user);
/* Threads that parallel regions of the calling thread use from now on. */
void weft_parallel_threads(int threads);
/* Cores that this process may use at once: those of its affinity mask, and no more than the CPU
 * quota of its control groups, rounded up. */
int weft_cores(void);
/* The CPU quota of this process's control groups, in cores; 0: there is none. `root` stands before
 * the paths of /proc/self and of the mounts: "" but for tests. */
double weft_cpu_quota(const char *root);
/* The calling thread may use all of these, whichever set of them it was started in. */
void weft_cores_roam(void);

/* cpu_affinity.c: the cores that this process may use, cut into `parts` sets of neighbours. There
 * are none where the cores are fewer than the parts, or where the parts are processes to whom
 * somebody has given cores already. */
typedef struct weft_core_sets weft_core_sets;
weft_status weft_core_sets_make(int parts, bool processes, weft_core_sets **out) WEFT_NODISCARD;
void weft_core_sets_free(weft_core_sets **sets);
/* The calling thread, and what it starts from now on, keeps to one of the sets. Returns what to
 * leave it with. */
void *weft_core_sets_enter(const weft_core_sets *sets, int part);
void weft_core_sets_leave(const weft_core_sets *sets, void *before);

#endif
