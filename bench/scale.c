/* Measures the all-reduce of the engine mpi against MPI_Allreduce on many ranks, in simulated time.
 * bench/scale builds this program with SimGrid's smpicc from src/comm and src/base, and runs it.
 * Only messages take time; computing takes none. Prints for each size: ranks, bytes, the times of
 * both in microseconds, and their ratio. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Seconds from `began` until the last rank has the result. Collective. */
static double longest(double began)
{
    double mine = MPI_Wtime() - began, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static double start(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime();
}

static void compare(weft_comm *comm, int64_t count)
{
    weft_operation *operation;
    float *data = malloc((size_t)count * sizeof(float));
    int n = weft_comm_size(comm);
    for (int64_t i = 0; i < count; i++) data[i] = 1;
    check(weft_comm_prepare(
        comm, WEFT_TRANSFER(.kind = WEFT_ALL_REDUCE, .send = data, .receive = data, .count = count),
        &operation));
    double began = start();
    check(weft_operation_start(operation));
    check(weft_operation_wait(operation));
    double ours = longest(began);
    for (int64_t i = 0; i < count; i++)
        if (data[i] != (float)n) check(WEFT_ERR_INTERNAL);
    for (int64_t i = 0; i < count; i++) data[i] = 1;
    began = start();
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double theirs = longest(began);
    if (weft_comm_rank(comm) == 0)
        printf("%4d ranks %9lld bytes  %9.1f us  MPI_Allreduce %9.1f us  ratio %.2f\n", n,
               (long long)count * 4, ours * 1e6, theirs * 1e6, ours / theirs);
    weft_operation_destroy(&operation);
    free(data);
}

int main(int argc, char **argv)
{
    weft_context *context;
    weft_comm *comm;
    int local;
    MPI_Init(&argc, &argv);
    /* A context without plug-in services and built-in names, except the engines, which alone are
     * linked here. */
    check(weft_context_new(NULL, &context));
    check(weft_engines_register(context));
    check(weft_comm_open(context, "mpi", 0, &comm, &local));
    weft_comm_set_timeout(comm, 1e9); /* seconds of real time, of which a simulation takes many */
    for (int i = 1; i < argc; i++) compare(comm, atoll(argv[i]) / 4);
    weft_comm_close(&comm);
    weft_context_destroy(&context);
    MPI_Finalize();
    return 0;
}
