#!/usr/bin/env bash
# How commands behave that a launcher has started, by the environment that it leaves: tests/launched.sh PATH/TO/weft
# MPI(ON|OFF). examples.sh does the same with Slurm itself, where it is installed.
set -u
weft=$1 mpi=${2:-OFF}
. "$(dirname "$0")/check.sh"
small="--data glyphs:size=9,train=60,test=10 --model mlp --batch 10 --steps 2 -t 1 -q"
task() { env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS="$1" SLURM_STEP_NUM_TASKS="$1" "${@:2}"; }

# Several tasks without a rank of MPI (srun without --mpi=pmix): each would train alone.
for more in "" "-n 2" "--engine mpi -n 2" "--max-restarts 2" "--engine processes -n 2 --exchange gossip" "--mesh data=2"; do
    # shellcheck disable=SC2086
    refuses 2 "srun has started 2 tasks of this command, but gives them no ranks of MPI" task 2 "$weft" train $small $more
done
# shellcheck disable=SC2086
{
    accepts "one task" task 1 "$weft" train $small
    accepts "a batch file with --ntasks" env SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=2 "$weft" train $small
    accepts "a simulation in several tasks" task 2 "$weft" simulate -n 2 --exchange server $small
    # Learners of an elastic run are tasks of their own.
    refuses 1 "no coordinator answers at" task 2 "$weft" join tcp://127.0.0.1:9 --data glyphs:size=9,train=60,test=10 --timeout 1 -q
    refuses 2 "mesh 'data=2' has 2 ranks, but the run has 1 (-n, or as many as mpirun or srun has started)" "$weft" train $small --mesh data=2
}
# Options of a supervisor, which a rank does not have.
if [ "$mpi" = ON ]; then
    rank() { env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$weft" train $small "$@"; }
    refuses 2 "max-restarts is 2, but a launcher (mpirun, srun) has started this rank" rank --max-restarts 2 --checkpoint c
    refuses 2 "hosts is a:1,b:1, but a launcher" rank --hosts a:1,b:1 --engine mpi
    refuses 2 "engine is processes, but a launcher" rank --engine processes --exchange gossip -n 2
    # shellcheck disable=SC2086
    refuses 2 "the launcher has started 3 processes, but MPI connects this one to no other" env PMI_RANK=0 PMI_SIZE=3 "$weft" train $small
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
