/* Preloaded into the command (LD_PRELOAD), makes one call of Weft's own code fail, as the system
 * might (fault injection; tests/checking/failures.py runs it):
 *   FAIL_CALL   name of the call; "memory": any that allocates; "files": any on files; "MPI": any
 *               of the MPI calls below
 *   FAIL_AT     the number of the call that fails, from 1
 *   FAIL_PLACE  instead of FAIL_AT: the first call that comes from this place fails
 *   FAIL_LIST   file to which each place is appended when a call first comes from it
 * A place is a hash of the chain of callers. Since a place is tried once, a run need not be
 * repeated for every iteration of a loop. Calls by other libraries never fail: how those behave
 * without memory is not tested here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 12, MOST_PLACES = 1 << 16 };

static uintptr_t begin, end;
static const char *wanted;
static unsigned long at, place, seen[MOST_PLACES];
static int list = -1;
static _Atomic unsigned long count;
static _Atomic int failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;

static int find_program(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    (void)user;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD) continue;
        if (!begin || from < begin) begin = from;
        if (from + p->p_memsz > end) end = from + p->p_memsz;
    }
    return 1; /* dl_iterate_phdr names the program first */
}

static unsigned long number(const char *name, int base)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, base) : 0;
}

__attribute__((constructor)) static void start(void)
{
    void *frames[DEPTH];
    const char *path = getenv("FAIL_LIST");
    wanted = getenv("FAIL_CALL");
    at = number("FAIL_AT", 10);
    place = number("FAIL_PLACE", 16);
    (void)dl_iterate_phdr(find_program, NULL);
    (void)backtrace(frames, DEPTH); /* the first call allocates, so it is made here */
    if (path) list = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static unsigned long place_of(void)
{
    void *frames[DEPTH];
    unsigned long hash = 14695981039346656037u;
    int n = backtrace(frames, DEPTH);
    for (int i = 2; i < n; i++) {
        uintptr_t frame = (uintptr_t)frames[i];
        if (frame >= begin && frame < end) hash = (hash ^ (frame - begin)) * 1099511628211u;
    }
    return hash;
}

static void note(unsigned long hash, const char *call)
{
    char line[64];
    size_t i = hash % MOST_PLACES;
    pthread_mutex_lock(&lock);
    while (seen[i] && seen[i] != hash) i = (i + 1) % MOST_PLACES;
    if (!seen[i]) {
        seen[i] = hash;
        int size = snprintf(line, sizeof(line), "%lx %s\n", hash, call);
        ssize_t ignored = write(list, line, (size_t)size);
        (void)ignored;
    }
    pthread_mutex_unlock(&lock);
}

/* Counts the call, and tells whether it is the one that fails; at most one call of a process
 * fails. */
static int fails(const char *kind, const char *call, const void *caller)
{
    uintptr_t from = (uintptr_t)caller;
    if (!wanted || inside || from < begin || from >= end) return 0;
    if (strcmp(wanted, kind) != 0 && strcmp(wanted, call) != 0) return 0;
    inside = 1;
    unsigned long turn = ++count, hash = list >= 0 || place ? place_of() : 0;
    if (list >= 0) note(hash, call);
    inside = 0;
    if (!(at && turn == at) && !(place && hash == place)) return 0;
    return !failed++;
}

#define REAL(type, name, ...)                                                                      \
    static type (*real)(__VA_ARGS__);                                                              \
    if (!real) {                                                                                   \
        void *symbol = dlsym(RTLD_NEXT, #name);                                                    \
        memcpy(&real, &symbol, sizeof(real));                                                      \
    }
#define FAILS(kind, call) fails(kind, call, __builtin_return_address(0))

/* --- memory --- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    if (!FAILS("memory", "malloc")) return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t n, size_t size)
{
    if (!FAILS("memory", "calloc")) return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *memory, size_t size)
{
    if (!FAILS("memory", "realloc")) return __libc_realloc(memory, size);
    errno = ENOMEM;
    return NULL;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    REAL(int, posix_memalign, void **, size_t, size_t)
    return FAILS("memory", "posix_memalign") ? ENOMEM : real(out, alignment, size);
}

char *strdup(const char *text)
{
    if (FAILS("memory", "strdup")) {
        errno = ENOMEM;
        return NULL;
    }
    char *copy = __libc_malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

int vasprintf(char **out, const char *format, va_list arguments)
{
    REAL(int, vasprintf, char **, const char *, va_list)
    if (!FAILS("memory", "vasprintf")) return real(out, format, arguments);
    errno = ENOMEM;
    return -1;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    REAL(void *, mmap, void *, size_t, int, int, int, off_t)
    if (!FAILS("memory", "mmap")) return real(address, size, protection, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *user)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    return FAILS("memory", "pthread_create") ? EAGAIN : real(thread, attr, fn, user);
}

/* --- files --- */

#define FAIL_WITH(kind, call, number, value)                                                       \
    if (FAILS(kind, call)) {                                                                       \
        errno = number;                                                                            \
        return value;                                                                              \
    }

ssize_t write(int file, const void *data, size_t size)
{
    REAL(ssize_t, write, int, const void *, size_t)
    FAIL_WITH("files", "write", ENOSPC, -1)
    return real(file, data, size);
}

size_t fwrite(const void *data, size_t size, size_t count_, FILE *file)
{
    REAL(size_t, fwrite, const void *, size_t, size_t, FILE *)
    FAIL_WITH("files", "fwrite", ENOSPC, 0)
    return real(data, size, count_, file);
}

int fflush(FILE *file)
{
    REAL(int, fflush, FILE *)
    FAIL_WITH("files", "fflush", ENOSPC, EOF)
    return real(file);
}

int fclose(FILE *file)
{
    REAL(int, fclose, FILE *)
    int bad = FAILS("files", "fclose"), code = real(file);
    if (bad) errno = EIO;
    return bad ? EOF : code;
}

int close(int file)
{
    REAL(int, close, int)
    int bad = FAILS("files", "close"), code = real(file);
    if (bad) errno = EIO;
    return bad ? -1 : code;
}

int fsync(int file)
{
    REAL(int, fsync, int)
    FAIL_WITH("files", "fsync", EIO, -1)
    return real(file);
}

int ftruncate(int file, off_t size)
{
    REAL(int, ftruncate, int, off_t)
    FAIL_WITH("files", "ftruncate", ENOSPC, -1)
    return real(file, size);
}

int open(const char *path, int flags, ...)
{
    REAL(int, open, const char *, int, ...)
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    FAIL_WITH("files", "open", EMFILE, -1)
    return real(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    REAL(FILE *, fopen, const char *, const char *)
    FAIL_WITH("files", "fopen", EMFILE, NULL)
    return real(path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, const char *, mode_t)
    FAIL_WITH("files", "mkdir", ENOSPC, -1)
    return real(path, mode);
}

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *)
    FAIL_WITH("files", "rename", EIO, -1)
    return real(from, to);
}

int symlink(const char *to, const char *path)
{
    REAL(int, symlink, const char *, const char *)
    FAIL_WITH("files", "symlink", ENOSPC, -1)
    return real(to, path);
}

int unlink(const char *path)
{
    REAL(int, unlink, const char *)
    FAIL_WITH("files", "unlink", EACCES, -1)
    return real(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    REAL(int, unlinkat, int, const char *, int)
    FAIL_WITH("files", "unlinkat", EACCES, -1)
    return real(folder, path, flags);
}

/* --- messages: MPI calls return a code; handles are integers or pointers --- */

enum { MPI_FAILED = 16 /* any error code */ };
typedef void *word;

#define MPI_CALL(name, parameters, types, arguments)                                               \
    int name parameters;                                                                           \
    int name parameters                                                                            \
    {                                                                                              \
        REAL(int, name, types)                                                                     \
        return FAILS("MPI", #name) ? MPI_FAILED : real arguments;                                  \
    }
#define TYPES(...) __VA_ARGS__

MPI_CALL(MPI_Isend, (word a, int b, word c, int d, int e, word f, word g),
         TYPES(word, int, word, int, int, word, word), (a, b, c, d, e, f, g))
MPI_CALL(MPI_Irecv, (word a, int b, word c, int d, int e, word f, word g),
         TYPES(word, int, word, int, int, word, word), (a, b, c, d, e, f, g))
MPI_CALL(MPI_Ibcast, (word a, int b, word c, int d, word e, word f),
         TYPES(word, int, word, int, word, word), (a, b, c, d, e, f))
MPI_CALL(MPI_Ibarrier, (word a, word b), TYPES(word, word), (a, b))
MPI_CALL(MPI_Iallgatherv, (word a, int b, word c, word d, word e, word f, word g, word h, word i),
         TYPES(word, int, word, word, word, word, word, word, word), (a, b, c, d, e, f, g, h, i))
MPI_CALL(MPI_Test, (word a, word b, word c), TYPES(word, word, word), (a, b, c))
MPI_CALL(MPI_Testall, (int a, word b, word c, word d), TYPES(int, word, word, word), (a, b, c, d))
MPI_CALL(MPI_Comm_split, (word a, int b, int c, word d), TYPES(word, int, int, word), (a, b, c, d))
