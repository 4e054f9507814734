/* The engine mpi: ranks are processes of MPI, which mpirun or srun starts. */
#include "comm/comm.h"
#include "train/engine/engine.h"

/* Before mpirun is looked for, which is of no use to a build without MPI. */
static weft_status check(const weft_context *context, const weft_train_options *options)
{
    (void)context;
    (void)options;
    return weft_mpi_built();
}

const weft_train_engine weft_train_engine_mpi = {.name = "mpi",
                                                 .processes = "processes of MPI",
                                                 .launched = true,
                                                 .hosted = true,
                                                 .check = check};
