/* The engine mpi: ranks are processes of MPI, which mpirun or srun starts. */
#include "train/engine/engine.h"

const weft_train_engine weft_train_engine_mpi = {
    .name = "mpi", .processes = "processes of MPI", .launched = true, .hosted = true};
