#!/usr/bin/env bash
# How commands behave that a launcher has started, by the environment that it leaves: tests/job/launched.sh PATH/TO/weft
# MPI(ON|OFF). examples.sh does the same with Slurm itself, where it is installed.
set -u
weft=$1 mpi=${2:-OFF}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
base="--data glyphs:size=9,train=60,test=10 --model mlp --batch 10 -t 1 -q"
small="$base --steps 2"
task() { env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID="${task:-0}" SLURM_NTASKS="$1" SLURM_STEP_NUM_TASKS="$1" "${@:2}"; }

# Several tasks without a rank of MPI (srun without --mpi=pmix): each would train alone.
for more in "" "-n 2" "--engine mpi -n 2" "--max-restarts 2" "--engine processes -n 2 --exchange gossip" "--mesh data=2"; do
    # shellcheck disable=SC2086
    refuses 2 "srun has started 2 tasks of this command, but gives them no ranks of MPI" task 2 "$weft" train $small $more
done
# So would each process of a command that has no ranks. One message is enough: the other tasks end without a word.
# shellcheck disable=SC2086
"$weft" train $small --checkpoint run >out 2>err && pass || flunk "a checkpoint"
for command in "train $small" "eval run" "predict run -o predictions" "generate run" "export run -o model" "compare $small"; do
    # shellcheck disable=SC2086
    {
        refuses 2 "srun has started 2 tasks of this command, but gives them no ranks of MPI" task 2 "$weft" $command
        task=1 task 2 "$weft" $command >out 2>err
        [ $? = 2 ] && [ ! -s err ] && [ ! -s out ] && pass || flunk "the second task of $command"
        [ "${command%% *}" = train ] ||
            refuses 2 "has started 3 processes of this command, which do not share its work" env PMI_RANK=0 PMI_SIZE=3 "$weft" $command
    }
done
[ ! -e predictions ] && [ ! -e model ] && pass || flunk "a refused command has written"
# shellcheck disable=SC2086
{
    accepts "one task" task 1 "$weft" train $small
    accepts "a batch file with --ntasks" env SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=2 "$weft" train $small
    accepts "a simulation in several tasks" task 2 "$weft" simulate -n 2 --exchange server $small
    # Learners of an elastic run are tasks of their own.
    refuses 1 "no coordinator answers at" task 2 "$weft" join tcp://127.0.0.1:9 --data glyphs:size=9,train=60,test=10 --timeout 1 -q
    refuses 2 "mesh 'data=2' has 2 ranks, but the run has 1 (-n, or as many as mpirun or srun has started)" "$weft" train $small --mesh data=2
}
# The ranges of ports of docs/guide/ports.md hold for all processes of a job.
if [ "$mpi" = ON ] && mpirun --version 2>/dev/null | grep -q "Open MPI) 4"; then
    ranges=$(grep -o 'OMPI_MCA_[a-z0-9_]*=[0-9-]*' "$here/../../docs/guide/ports.md")
    # shellcheck disable=SC2086
    background out err env $ranges OMPI_MCA_btl=tcp,self "$weft" train $base --mesh data=2 -n 2 --engine mpi --steps 100000000 --epochs 100000000 \
        --checkpoint ports --checkpoint-every 5
    job=$!
    within '[ -e ports/latest ] || ! lives $job'
    # What is bound to 127.0.0.1 alone is for this machine.
    listens=$(for p in $(below $job); do
        awk '$4 == "0A" && $2 !~ /^0100007F/ { split($2, at, ":"); print "socket:[" $10 "] " at[2] }' /proc/net/tcp /proc/net/tcp6 |
            grep -F -f <(readlink "/proc/$p"/fd/* | grep '^socket:') | while read -r _ port; do echo $((16#$port)); done
    done)
    [ "$(echo "$listens" | awk '$1 >= 7200 && $1 < 7300' | sort -u | wc -l)" -ge 2 ] && ! echo "$listens" | grep -qvE '^72[0-9][0-9]$|^730[0-3]$' && pass ||
        flunk "the ports of a job of MPI: $listens"
    kill -INT $job
    wait $job
fi
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
