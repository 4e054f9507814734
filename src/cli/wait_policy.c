/* Limits the time for which idle threads of OpenMP spin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* Variables of the OpenMP runtimes of GCC and LLVM, and how long a thread that waits spins before
 * it sleeps: rounds of a loop, some 0.1 ms in all, and milliseconds. The defaults are some 10 ms
 * and 200 ms. On cores that other programs use, too, each barrier could take as long, since a
 * spinning thread keeps the core from the thread for which it waits. */
static const char *const variables[][2] = {{"GOMP_SPINCOUNT", "3000"}, {"KMP_BLOCKTIME", "1"}};

/* The runtime of GCC reads the environment before main, so the program begins again with it. Values
 * of the user stay. */
void limit_spinning(char **argv)
{
    char program[4096];
    bool set = getenv("OMP_WAIT_POLICY") != NULL;
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        set = set || getenv(variables[i][0]);
    if (set || size < 0) return;
    program[size] = '\0';
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        if (setenv(variables[i][0], variables[i][1], 1) != 0) return;
    execv(program, argv); /* returns only if it fails: then threads spin for longer */
}
