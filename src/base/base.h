/* Declares the foundation that all rooms use: failure messages, text, allocation, random numbers,
 * exact sums, files, contexts, the clock, the log, threads and cores. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/argument.h"
#include "weft/context.h"
#include "weft/output.h"
#include "weft/status.h"
#include "weft/types.h"
#include "weft/version.h"

#define WEFT_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WEFT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define WEFT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define WEFT_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Keeps the status in a local `status` and jumps to the label for cleanup. */
#define WEFT_TRY_GOTO(expr, label)                                                                 \
    do {                                                                                           \
        status = (expr);                                                                           \
        if (status != WEFT_OK) goto label;                                                         \
    } while (0)

/* Records this thread's message and returns status. */
WEFT_PRIVATE_API weft_status weft_fail(weft_status status, const char *format, ...)
    WEFT_PRINTF(2, 3) WEFT_NODISCARD;
WEFT_PRIVATE_API weft_status weft_fail_memory(size_t bytes) WEFT_NODISCARD;

/* Whether a text, as of another process, is the name of the status. */
bool weft_is_status(const char *name, weft_status status);

/* Prefixes this thread's message with "prefix: "; returns status. */
WEFT_PRIVATE_API weft_status weft_fail_within(weft_status status, const char *format, ...)
    WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* A plug-in may fail without a message. weft_failures counts the failures of this thread that have
 * a message. A caller reads the count before it calls a plug-in, and passes it as `before`: if the
 * call failed and the count is unchanged, weft_ensure_message sets a message that names the callee
 * (kind and name, such as "device" and "mine") and its function. */
WEFT_PRIVATE_API uint64_t weft_failures(void);
WEFT_PRIVATE_API weft_status weft_ensure_message(weft_status status, uint64_t before,
                                                 const char *kind, const char *name,
                                                 const char *function) WEFT_NODISCARD;

/* --- memory --- */

/* Allocates a zeroed array. Functions that create something set *out (here a pointer to any
 * pointer) to NULL on failure, so the caller may free *out in any case. */
WEFT_PRIVATE_API weft_status weft_new_bytes(void *out, size_t count, size_t size) WEFT_NODISCARD;
#define WEFT_NEW(out, count) weft_new_bytes((void *)(out), (size_t)(count), sizeof(**(out)))

/* Makes room for at least `count` + 1 elements in a growing array; new elements are zeroed. */
WEFT_PRIVATE_API weft_status weft_grow_bytes(void *array, size_t *capacity, size_t count,
                                             size_t size) WEFT_NODISCARD;
#define WEFT_GROW(array, capacity, count)                                                          \
    weft_grow_bytes((void *)(array), (capacity), (size_t)(count), sizeof(**(array)))

WEFT_PRIVATE_API weft_status weft_strdup(const char *text, char **out) WEFT_NODISCARD;
/* Copies an array of strings; NULL is copied as NULL. After a failure *out holds the strings that
 * were copied. */
weft_status weft_strings_copy(char *const *from, int64_t count, char ***out) WEFT_NODISCARD;
/* Sorts strings, none of which is NULL, by their bytes. */
WEFT_PRIVATE_API void weft_strings_sort(char **strings, int64_t count);
/* Frees an array of strings, each of which may be NULL, and sets it to NULL. */
WEFT_PRIVATE_API void weft_strings_free(char ***strings, int64_t count);
WEFT_PRIVATE_API weft_status weft_format(char **out, const char *format, ...)
    WEFT_PRINTF(2, 3) WEFT_NODISCARD;

/* The reserve is memory, in bytes, that other libraries may need at once. Some of them do not
 * survive a failed allocation: oneDNN's kernel generator writes through a null pointer, and the
 * OpenMP runtime aborts. So allocations of large arrays leave this much free, and a caller of such
 * a library calls weft_reserve_enter first. */
enum { WEFT_RESERVE = 32 << 20 };
/* Between enter and leave, other threads that allocate large arrays or start threads wait, so the
 * reserve stays free for the caller's library. MEMORY: the reserve is not available, and the caller
 * must not call leave. Calls do not nest, and the caller must not call weft_new_aligned or
 * weft_thread_start in between. */
weft_status weft_reserve_enter(void) WEFT_NODISCARD;
void weft_reserve_leave(void);

/* Zeroed memory aligned to 64 bytes; free it with free(). */
weft_status weft_new_aligned(size_t bytes, void *out) WEFT_NODISCARD;

/* Starts a thread. MEMORY: the malloc arena of the new thread would leave no reserve; IO: the
 * system refuses the thread. */
WEFT_PRIVATE_API weft_status weft_thread_start(pthread_t *thread, void *(*work)(void *user),
                                               void *user) WEFT_NODISCARD;

/* Calls start(user), in which a library starts `count` threads, if the system gives as many; no
 * thread of weft_thread_start begins meanwhile. who: subject of the message. IO: it does not. */
weft_status weft_threads_start(const char *who, int count, void (*start)(void *user),
                               void *user) WEFT_NODISCARD;
/* thread_limit.c: for weft_threads_start alone. */
weft_status weft_threads_try(const char *who, int count) WEFT_NODISCARD;

/* --- numbers --- */

/* Whether a type is one of weft_dtype. */
bool weft_dtype_known(weft_dtype dtype);
/* Converts between f32 and bf16; weft_bf16_of rounds to nearest even. */
WEFT_PRIVATE_API uint16_t weft_bf16_of(float x);
WEFT_PRIVATE_API float weft_bf16_float(uint16_t bits);
/* Element i of indices, which are I32 or I64. */
static inline int64_t weft_index_at(weft_dtype dtype, const void *indices, int64_t i)
{
    return dtype == WEFT_I64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}
/* Fills in for elements that an index out of range would select: NaN, or 0 of integers. */
void weft_fill_unknown(weft_dtype dtype, void *to, int64_t count);
/* Whether all numbers are finite; integers always are. */
WEFT_PRIVATE_API bool weft_all_finite(weft_dtype dtype, const void *data, size_t bytes);

/* --- text --- */

/* A growing string. Failures are sticky: after a failed allocation nothing more is appended, and
 * weft_text_take returns MEMORY and no string. */
typedef struct weft_text {
    char *data;
    size_t size, capacity;
    bool failed;
} weft_text;

WEFT_PRIVATE_API void weft_text_add(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
WEFT_PRIVATE_API void weft_text_add_bytes(weft_text *text, const char *data, size_t size);
WEFT_PRIVATE_API void weft_text_add_int(weft_text *text, int64_t number);
/* Appends `size` bytes for the caller to write; NULL: there is no memory. */
WEFT_PRIVATE_API char *weft_text_extend(weft_text *text, size_t size);
/* Appends a JSON string with quotes and escapes; U+FFFD replaces each byte that is not UTF-8. */
WEFT_PRIVATE_API void weft_text_add_json(weft_text *text, const char *string);
/* Appends the text with unprintable bytes escaped, as weft_printable does. */
void weft_text_add_printable(weft_text *text, const char *string);
/* Replaces each byte that is not printable by '?', for texts that other machines have sent. */
void weft_make_printable(char *text);
/* Whether weft_printable leaves the text unchanged. */
bool weft_is_printable(const char *text);
/* Decodes the UTF-8 character at the begin of `left` bytes. Returns its number of bytes; 0: it is
 * invalid or incomplete. */
size_t weft_utf8_decode(const unsigned char *c, size_t left, uint32_t *point);
WEFT_PRIVATE_API weft_status weft_text_take(weft_text *text, char **out) WEFT_NODISCARD;

/* The candidate nearest to name by edit distance, or NULL if none is near. next(user, i) returns
 * candidate i, or NULL at the end. */
const char *weft_nearest(const char *name, const char *(*next)(const void *user, int i),
                         const void *user);
/* Whether the text is an item of a comma-separated list. */
WEFT_PRIVATE_API bool weft_is_listed(const char *list, const char *text);

/* Writes a suggestion for an unknown name to buffer and returns buffer: "; did you mean 'x'?" for
 * the nearest candidate, else "; known are a, b" with all candidates, or "; there are none". */
WEFT_PRIVATE_API const char *weft_suggest(char *buffer, size_t size, const char *name,
                                          const char *(*next)(const void *user, int i),
                                          const void *user);

/* Sets *out to the index of a name in a list with commas, such as "none,inverse,exp". ARGUMENT: it
 * is not listed; the message says that `what` is this text, and which there are and which is
 * nearest or else (NULL: nothing) what `otherwise` says. */
WEFT_PRIVATE_API weft_status weft_choose(const char *what, const char *text, const char *list,
                                         const char *otherwise, int *out) WEFT_NODISCARD;

/* Writes "[8, 3, 28, 28]" to buffer; returns buffer. */
WEFT_PRIVATE_API const char *weft_shape_text(const weft_shape *shape, char *buffer, size_t size);

/* Calls fn with each piece of "a,b,c" until one call fails; fn may change its piece. ARGUMENT: a
 * piece is empty, also after a trailing comma. `what` names the option in the message. */
typedef weft_status (*weft_piece_fn)(void *user, char *piece);
WEFT_PRIVATE_API weft_status weft_each_piece(const char *what, const char *text, weft_piece_fn fn,
                                             void *user) WEFT_NODISCARD;

/* Writes the shortest decimal that reads back as the same number (integers in full) to buffer,
 * where 32 bytes are enough; returns buffer. */
const char *weft_real_text(double value, char *buffer, size_t size);

/* Whole-string conversions; false if text is not exactly one number of this kind. Real numbers are
 * decimal, with a point in every locale, or nan, inf or infinity in any case. */
WEFT_PRIVATE_API bool weft_parse_int(const char *text, int64_t *out);
WEFT_PRIVATE_API bool weft_parse_real(const char *text, double *out);

/* The index at which part r begins when `count` items are divided into n equal parts; part r ends
 * where part r + 1 begins. */
static inline int64_t weft_part_start(int64_t count, int r, int n)
{
    return count * r / n;
}

/* --- parts of tensors --- */

/* Copies a box between a dense tensor and a dense array: the box has the shape `shape` and its
 * first element is at index `start` of the tensor `all`. `out`: from `all` to `data`; else from
 * `data` into `all`. */
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
/* The number of a name, or -1 if the table does not have the name. */
int weft_names_find(const weft_names *names, const char *name);
/* Adds a name, or changes its number. */
weft_status weft_names_add(weft_names *names, const char *name, int number) WEFT_NODISCARD;
void weft_names_free(weft_names *names);

/* --- random --- */

/* Counter-based generator Philox4x32-10 (Salmon et al., SC'11). The numbers are the same on every
 * platform. */
void weft_philox(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t out[4]);
/* FNV-1a hash of a text, and a random number that is a function of a and b (Philox). */
WEFT_PRIVATE_API uint64_t weft_hash_text(const char *text);
WEFT_PRIVATE_API uint64_t weft_mix(uint64_t a, uint64_t b);

/* A stream of random numbers that is determined by (key, stream). */
typedef struct weft_random {
    uint64_t key, stream, position;
    uint32_t block[4];
} weft_random;
WEFT_PRIVATE_API void weft_random_start(weft_random *random, uint64_t key, uint64_t stream);
WEFT_PRIVATE_API uint32_t weft_random_u32(weft_random *random);
/* Uniform in [0, 1) with 24 bits, exact in float and double. */
WEFT_PRIVATE_API double weft_random_unit(weft_random *random);
double weft_random_between(weft_random *random, double low, double high);

/* The image of i under the pseudo-random permutation `key` of 0 .. count-1. A Feistel network with
 * cycle walking computes it, so no table of the permutation is stored. */
int64_t weft_permute(uint64_t key, int64_t count, int64_t i);

/* --- exact sums --- */

/* A superaccumulator for an exact sum of squares: each square is rounded to a double, but no sum
 * is, so the result does not depend on the order. The struct has 64 KiB and holds at most 2^32
 * squares. */
typedef struct weft_exact {
    uint64_t low[2][2048], high[2][2048];
} weft_exact;
/* An exact sum as digits: its value is the sum over d of digit[d] 2^(14 d - 1074). Each digit is
 * below 2^14, so it fits an f32. Digits of up to 1024 sums may be added elementwise in any type:
 * the result represents the total, although its digits exceed 2^14. digit[0] is infinite if a
 * square is not finite. */
enum { WEFT_EXACT_DIGITS = 156 };
void weft_exact_clear(weft_exact *sum);
void weft_exact_squares(weft_exact *sum, weft_dtype dtype, const void *data, int64_t begin,
                        int64_t end);
/* weft_exact_digits writes the digits of the total of `count` sums, weft_exact_add the digits of a
 * + b, and weft_exact_root returns the square root of the number that the digits represent. */
void weft_exact_digits(const weft_exact *sums, int count, double *digits);
void weft_exact_add(const double *a, const double *b, double *out);
double weft_exact_root(const double *digits);

/* --- files --- */

typedef struct weft_bytes {
    const unsigned char *data;
    size_t size;
    bool mapped;
} weft_bytes;

/* Fails with the message "PATH: cannot WHAT: <text of errno>", followed by advice. */
WEFT_PRIVATE_API weft_status weft_fail_io(const char *what, const char *path) WEFT_NODISCARD;
/* Opens a file to read it. IO: it cannot be opened, or is a folder, a pipe or a device, which is
 * refused without waiting for it; the message names the path and the reason. */
struct stat;
weft_status weft_file_open(const char *path, struct stat *info, int *file) WEFT_NODISCARD;
/* Maps a file read-only. IO: as weft_file_open. */
WEFT_PRIVATE_API weft_status weft_file_map(const char *path, weft_bytes *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_file_unmap(weft_bytes *bytes);
/* Copies a file into memory; the caller frees out->data. */
WEFT_PRIVATE_API weft_status weft_file_read(const char *path, weft_bytes *out) WEFT_NODISCARD;
/* Reads up to `size` bytes of an open file; fewer only at its end. */
weft_status weft_file_read_from(int file, const char *path, void *data, size_t size,
                                size_t *done) WEFT_NODISCARD;
/* secret_file.c: reads a file with a secret, such as tokens or a private key, as a text. `what`
 * names its contents in messages. `closed_to`: bits of the mode that the file may not have, such as
 * 077. ARGUMENT: it has one. FORMAT: it is longer than 4 MiB or has a zero byte. The caller frees
 * the text with weft_secret_free, which erases it first. */
WEFT_PRIVATE_API weft_status weft_secret_read(const char *path, unsigned closed_to,
                                              const char *what, char **out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_secret_free(char **text);
/* Opens a file that this program itself names, such as a lock, for reading and writing, and creates
 * it if there is none. IO: it is a link, has another name as well, or is no regular file. */
weft_status weft_file_open_own(const char *path, int *out) WEFT_NODISCARD;
/* Creates a file with these permissions; it has all contents or does not exist. *exists: it was not
 * created, because there is something of that name. */
weft_status weft_file_create(const char *path, mode_t mode, const void *data, size_t size,
                             bool *exists) WEFT_NODISCARD;
/* temp_file.c: creates and locks a temporary file beside the file that it will replace, and opens
 * it for writing. *name is its name; *file is its descriptor, which holds the lock while it is
 * open, or -1 with errno and without a name. weft_beside_remove or weft_beside_place, which gives
 * it the name of another file and returns false with errno where this fails, frees *name and sets
 * it to NULL; until then weft_output_abandon_all removes the file. */
weft_status weft_beside_open(const char *target, mode_t mode, char **name,
                             int *file) WEFT_NODISCARD;
void weft_beside_remove(char **name);
bool weft_beside_place(char **name, const char *target) WEFT_NODISCARD;
/* Locks the folder of `target`, by which threads and processes that may all write it do so one
 * after the other. On a file system without locks nobody waits. *lock: for weft_beside_unlock. */
WEFT_PRIVATE_API weft_status weft_beside_lock(const char *target, int *lock) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_beside_unlock(int lock);
/* Removes the temporary files for `target` that killed processes have left. */
weft_status weft_beside_tidy(const char *target) WEFT_NODISCARD;
/* Replaces the file atomically: the path has the new or the old contents at any time. The mode is
 * WEFT_OUTPUT_REPLACE or, for a file that this program itself names, WEFT_OUTPUT_OWN. */
WEFT_PRIVATE_API weft_status weft_file_replace(const char *path, weft_output_mode mode,
                                               const void *data, size_t size) WEFT_NODISCARD;
weft_status weft_dir_make(const char *path) WEFT_NODISCARD; /* with parents; may exist already */
weft_status
weft_dir_make_new(const char *path) WEFT_NODISCARD; /* must not exist; its parents must */
weft_status weft_dir_sync(const char *path) WEFT_NODISCARD;
weft_status
weft_dir_remove(const char *path) WEFT_NODISCARD; /* with its files, not through a link */
WEFT_PRIVATE_API bool weft_file_exists(const char *path);

/* Creates a context without any names. The public constructor weft_context_create calls it,
 * registers the built-in names, and passes the services that plug-ins receive. */
struct weft_services;
weft_status weft_context_new(const struct weft_services *services,
                             weft_context **out) WEFT_NODISCARD;
/* An object that all users of a context share: the first caller of weft_context_singleton, in any
 * thread, creates it, and it is destroyed with the context. The address of the kind identifies the
 * object, so the kind must outlive the context. */
typedef struct weft_singleton_kind {
    weft_status (*make)(weft_context *context, void **out); /* once for each context */
    void (*destroy)(void *thing);                           /* NULL: nothing has to be destroyed */
} weft_singleton_kind;
WEFT_PRIVATE_API weft_status weft_context_singleton(const weft_context *context,
                                                    const weft_singleton_kind *kind,
                                                    void **out) WEFT_NODISCARD;
/* Creates a context with a number of threads of its own (see weft_context_set_threads). The new
 * context shares the log and the names of `of`, which is not changed and must outlive it. */
WEFT_PRIVATE_API weft_status weft_context_with_threads(weft_context *of, int threads,
                                                       weft_context **out) WEFT_NODISCARD;

/* The state of a process as in /proc/PID/stat: 'T' if it is stopped (SIGSTOP), 'Z' if it has ended
 * and its parent has not waited for it yet; '\0': not known. */
char weft_process_state(pid_t pid);

/* The name of the processor of this machine; "unknown" if the system does not tell it. */
WEFT_PRIVATE_API void weft_processor_name(char *out, size_t size);

/* --- clock and log --- */

WEFT_PRIVATE_API double weft_seconds(void); /* monotonic */
/* A clock for timeouts, which starts from a zeroed struct. Each read returns the seconds waited
 * since the first read. The time between two reads counts as at most `most` seconds, so the time
 * for which the process was stopped (Ctrl-Z) does not count. */
typedef struct weft_wait_clock {
    double looked, waited;
} weft_wait_clock;
double weft_wait_clock_read(weft_wait_clock *clock, double most);
WEFT_PRIVATE_API double weft_process_seconds(void); /* since this process started, to a hundredth */
size_t weft_resident_memory(void);  /* resident memory now, without mapped files, in bytes */
size_t weft_allocated_memory(void); /* bytes that malloc has given and not got back; 0: not known */
void weft_trim_memory(void);        /* gives free memory of malloc back to the system */
size_t weft_peak_memory(void);      /* peak resident memory, without mapped files, in bytes */
/* Logs a message; each warning or note is logged once in the life of a context. */
WEFT_PRIVATE_API void weft_log(const weft_context *context, weft_log_level level,
                               const char *format, ...) WEFT_PRINTF(3, 4);

/* --- threads of one process --- */

/* A parallel loop over [0, count): calls fn(user, begin, end) for equal parts of at least `grain`
 * items, on at most `threads` threads. The division depends on the arguments only, so a thread gets
 * the same part in each call. The calling thread alone does all of it where the system gives no
 * threads. */
void weft_parallel(int threads, int64_t count, int64_t grain,
                   void (*fn)(void *user, int64_t begin, int64_t end), void *user);
/* Sets the number of threads of the OpenMP regions that the calling thread starts, and starts them
 * if this is its first call. IO: the system does not give them. */
weft_status weft_parallel_threads(int threads) WEFT_NODISCARD;
int weft_parallel_current(void); /* the number that was set last */
/* The number of cores that this process may use at once: the cores of its affinity mask, limited by
 * the CPU quota of its control groups, rounded up, and by the allocation of Slurm on this machine
 * (SLURM_CPUS_ON_NODE). */
WEFT_PRIVATE_API int weft_cores(void);
/* The threads of each of `ranks` ranks on this machine, at least 1: OMP_NUM_THREADS, or the cores
 * over the ranks, of which Slurm may have given a task fewer (SLURM_CPUS_PER_TASK). *why: what has
 * set or limited them, if that is not the number of cores; may be NULL. */
WEFT_PRIVATE_API int weft_default_threads(int ranks, const char **why);
/* The CPU quota of this process's control groups, in cores; 0: none. `root` is put before the paths
 * of /proc/self and of the mounts; it is "" except in tests. */
double weft_cpu_quota(const char *root);
/* The cores of this quota that each of so many processes may use, rounded down, at least 1; 0:
 * there is no quota. */
WEFT_PRIVATE_API int weft_cpu_quota_share(const char *root, int processes);
/* The bytes of memory that this process may have: those of the machine, limited by its control
 * groups and by its address space (ulimit -v). */
size_t weft_memory_limit(const char *root);
/* Lets the calling thread run on all cores of the process, also if it was started within a core set
 * (weft_core_sets_enter). */
void weft_cores_roam(void);

/* cpu_affinity.c: divides the cores of this process into `parts` sets of neighbouring cores. The
 * result has no sets, and then binds no thread, if there are fewer than two parts or fewer cores
 * than parts, or if the parts are processes that their launcher has bound to cores. */
typedef struct weft_core_sets weft_core_sets;
WEFT_PRIVATE_API weft_status weft_core_sets_make(int parts, bool processes,
                                                 weft_core_sets **out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_core_sets_free(weft_core_sets **sets);
/* Binds the calling thread, and threads that it starts later, to the cores of one set. Returns the
 * previous binding, which weft_core_sets_leave restores and frees; NULL: nothing was bound. */
WEFT_PRIVATE_API void *weft_core_sets_enter(const weft_core_sets *sets, int part);
WEFT_PRIVATE_API void weft_core_sets_leave(const weft_core_sets *sets, void *before);

#endif
