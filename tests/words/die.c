/* A small job whose rank 1 comes to an end: die HOW, where HOW is a signal's number, "exit N" or
 * "abort N". The others wait for it. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank = 0;
    const char *how = argc > 1 ? argv[1] : "9";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        sleep(1); /* so that all are waiting */
        if (strcmp(how, "exit") == 0) _exit(number);
        if (strcmp(how, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, number);
        if (strcmp(how, "wait") != 0) kill(getpid(), atoi(how));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "wait") == 0) sleep(600);
    MPI_Finalize();
    return 0;
}
