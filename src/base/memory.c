/* Allocates memory, and starts threads. Large arrays and new threads leave a reserve of free memory
 * for libraries that do not survive a failed allocation. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "base/base.h"

weft_status weft_new_bytes(void *out, size_t count, size_t size)
{
    memset(out, 0, sizeof(void *));
    if (size != 0 && count > SIZE_MAX / size) return weft_fail_memory(SIZE_MAX);
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) return weft_fail_memory(count * size);
    memcpy(out, &memory, sizeof(memory));
    return WEFT_OK;
}

weft_status weft_grow_bytes(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity) return WEFT_OK;
    enum { LARGE = 1 << 20 }; /* bytes of an array that grows in place, so that less lies idle */
    size_t more = *capacity > LARGE / size ? *capacity / 4 : *capacity + 8;
    size_t wanted = WEFT_MAX(count + 1, *capacity + more);
    if (wanted > SIZE_MAX / size) return weft_fail_memory(SIZE_MAX);
    void *old;
    memcpy(&old, array, sizeof(old));
    void *memory = realloc(old, wanted * size);
    if (!memory) return weft_fail_memory(wanted * size);
    memset((char *)memory + *capacity * size, 0, (wanted - *capacity) * size);
    memcpy(array, &memory, sizeof(memory));
    *capacity = wanted;
    return WEFT_OK;
}

/* A large allocation holds this lock exclusively; a user of the reserve holds it shared. The lock
 * guards the memory that the system will still give to the process, so it is one lock for the
 * process. */
static pthread_rwlock_t reserve = PTHREAD_RWLOCK_INITIALIZER;

static bool reserve_there(void)
{
    void *room = mmap(NULL, WEFT_RESERVE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    munmap(room, WEFT_RESERVE);
    return true;
}

weft_status weft_reserve_enter(void)
{
    pthread_rwlock_wrlock(&reserve); /* reserve_there allocates the reserve briefly */
    bool there = reserve_there();
    pthread_rwlock_unlock(&reserve);
    if (!there) return weft_fail_memory(WEFT_RESERVE);
    pthread_rwlock_rdlock(&reserve);
    return WEFT_OK;
}

void weft_reserve_leave(void)
{
    pthread_rwlock_unlock(&reserve);
}

static void *aligned(size_t alignment, size_t bytes)
{
    void *memory;
    return posix_memalign(&memory, alignment, bytes) == 0 ? memory : NULL;
}

static void *large_array(size_t alignment, size_t bytes)
{
    pthread_rwlock_wrlock(&reserve);
    void *memory = aligned(alignment, bytes);
    if (memory && !reserve_there()) {
        free(memory);
        memory = NULL;
    }
    pthread_rwlock_unlock(&reserve);
    if (memory) (void)madvise(memory, bytes / alignment * alignment, MADV_HUGEPAGE);
    return memory;
}

weft_status weft_new_aligned(size_t bytes, void *out)
{
    /* Large arrays use huge pages if the system has them, since with small pages a training step
     * accesses more memory than the TLB covers. */
    const size_t large = (size_t)2 << 20;
    memset(out, 0, sizeof(void *));
    size_t rounded = (WEFT_MAX(bytes, (size_t)1) + 63) / 64 * 64;
    if (rounded < bytes) return weft_fail_memory(bytes);
    void *memory = bytes >= large ? large_array(large, rounded) : aligned(64, rounded);
    if (!memory) return weft_fail_memory(bytes);
    memset(memory, 0, rounded);
    memcpy(out, &memory, sizeof(memory));
    return WEFT_OK;
}

/* Whether there is room for the malloc arena of a new thread beside the reserve. At the first
 * request of a thread, malloc maps twice its arena of 64 MB. If that fails, malloc tries it again
 * at every request, and each try briefly takes the remaining memory. */
static bool allocator_there(void)
{
    const size_t bytes = ((size_t)128 << 20) + WEFT_RESERVE;
    void *room = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    munmap(room, bytes);
    return true;
}

typedef struct {
    void *(*work)(void *user);
    void *user;
    sem_t begun;
} beginning;

static void *begin(void *given)
{
    beginning *b = given;
    void *(*work)(void *user) = b->work;
    void *user = b->user;
    void *volatile first = malloc(1);
    free(first);
    sem_post(&b->begun); /* b is invalid from here on: the starting thread returns */
    return work(user);
}

weft_status weft_thread_start(pthread_t *thread, void *(*work)(void *user), void *user)
{
    beginning b = {work, user, {{0}}};
    if (sem_init(&b.begun, 0, 0) != 0) return weft_fail(WEFT_ERR_IO, "no semaphore can be made");
    pthread_rwlock_wrlock(&reserve);
    int code = allocator_there() ? pthread_create(thread, NULL, begin, &b) : ENOMEM;
    while (code == 0 && sem_wait(&b.begun) != 0) continue; /* interrupted by a signal */
    pthread_rwlock_unlock(&reserve);
    sem_destroy(&b.begun);
    if (code == 0) return WEFT_OK;
    return weft_fail(code == ENOMEM ? WEFT_ERR_MEMORY : WEFT_ERR_IO,
                     "a thread cannot be started: %s", strerror(code));
}

weft_status weft_threads_start(const char *who, int count, void (*start)(void *user), void *user)
{
    pthread_rwlock_wrlock(&reserve);
    weft_status status = weft_threads_try(who, count);
    if (status == WEFT_OK) start(user);
    pthread_rwlock_unlock(&reserve);
    return status;
}

weft_status weft_strings_copy(char *const *from, int64_t count, char ***out)
{
    *out = NULL;
    if (!from) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(out, count));
    for (int64_t i = 0; i < count; i++) WEFT_TRY(weft_strdup(from[i], &(*out)[i]));
    return WEFT_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void weft_strings_sort(char **strings, int64_t count)
{
    if (count > 0) qsort(strings, (size_t)count, sizeof(*strings), by_bytes);
}

void weft_strings_free(char ***strings, int64_t count)
{
    for (int64_t i = 0; *strings && i < count; i++) free((*strings)[i]);
    free(*strings);
    *strings = NULL;
}
