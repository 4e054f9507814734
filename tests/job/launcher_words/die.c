/* A small MPI job whose rank 1 ends while the other ranks wait for it: die HOW, where HOW is a
 * signal's number, "exit N", "abort N", or "wait", with which all ranks wait to be stopped. */
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
        sleep(1); /* until all ranks wait */
        if (strcmp(how, "exit") == 0) _exit(number);
        if (strcmp(how, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, number);
        if (strcmp(how, "wait") != 0) kill(getpid(), atoi(how));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "wait") == 0) sleep(600);
    MPI_Finalize();
    return 0;
}
