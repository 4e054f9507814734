/* Preloaded into a job (LD_PRELOAD), makes one rank exit in the middle of a collective: rank
 * LEAVE_RANK exits with code LEAVE_CODE at its LEAVE_AT-th test for the end of a transfer
 * (MPI_Test, MPI_Testall). If ranks are threads, which call sched_yield while they wait, the
 * LEAVE_AT-th such call ends the whole process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static void count_down(void)
{
    static _Atomic long left = -1;
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!getenv("LEAVE_AT") || !getenv("WEFT_SUPERVISED")) return;
    if (rank && strtol(rank, NULL, 10) != number("LEAVE_RANK", 0)) return;
    if (left < 0) left = number("LEAVE_AT", 1);
    if (--left == 0) _exit((int)number("LEAVE_CODE", 7));
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int MPI_Test(void *request, int *flag, void *status)
{
    int (*real)(void *, int *, void *);
    void *symbol = next("MPI_Test");
    memcpy(&real, &symbol, sizeof(real));
    count_down();
    return real(request, flag, status);
}

int MPI_Testall(int count, void *requests, int *flag, void *statuses)
{
    int (*real)(int, void *, int *, void *);
    void *symbol = next("MPI_Testall");
    memcpy(&real, &symbol, sizeof(real));
    count_down();
    return real(count, requests, flag, statuses);
}

int sched_yield(void)
{
    int (*real)(void);
    void *symbol = next("sched_yield");
    memcpy(&real, &symbol, sizeof(real));
    if (!getenv("OMPI_COMM_WORLD_RANK")) count_down();
    return real();
}
