/* Tries whether the system gives more threads, before a library starts them. OpenMP and ZeroMQ
 * print and exit when it does not (RLIMIT_NPROC, pids.max of a control group). */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

typedef struct trial {
    pthread_t thread;
    pthread_mutex_t *word;
    pid_t number;
} trial;

static void *wait_for_word(void *user)
{
    trial *t = user;
    t->number = gettid();
    (void)pthread_mutex_lock(t->word);
    (void)pthread_mutex_unlock(t->word);
    return NULL;
}

/* Waits until the system does not count a thread any more, which is a moment after it has been
 * joined: when its folder is gone. */
static void wait_for_end(const trial *t)
{
    enum { MOST = 10000 }; /* a second in all */
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d", (int)t->number);
    for (int i = 0; i < MOST && access(path, F_OK) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* Starts `count` threads, which end when all have been started; returns the error of
 * pthread_create, or 0. */
static int try_threads(trial *trials, int count, int *made)
{
    pthread_mutex_t word = PTHREAD_MUTEX_INITIALIZER;
    int error = 0;
    (void)pthread_mutex_lock(&word);
    for (*made = 0; *made < count && !error; *made += !error) {
        trial *t = &trials[*made];
        t->word = &word;
        error = pthread_create(&t->thread, NULL, wait_for_word, t);
    }
    (void)pthread_mutex_unlock(&word);
    for (int i = 0; i < *made; i++) (void)pthread_join(trials[i].thread, NULL);
    for (int i = 0; i < *made; i++) wait_for_end(&trials[i]);
    (void)pthread_mutex_destroy(&word);
    return error;
}

weft_status weft_threads_try(const char *who, int count)
{
    trial *trials;
    int made;
    WEFT_TRY(WEFT_NEW(&trials, count));
    int error = try_threads(trials, count, &made);
    free(trials);
    if (!error) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_IO,
        "%s need %d more threads, and the system gives %d: %s; raise the limit (ulimit "
        "-u, or pids.max of the cgroup)",
        who, count, made, strerror(error));
}
