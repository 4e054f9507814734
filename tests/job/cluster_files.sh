#!/usr/bin/env bash
# The files of examples/systemd and examples/slurm, with systemd-analyze and a Slurm of two machines, which are this one, where they are installed
# (slurmctld slurmd slurm-client munge): tests/job/cluster_files.sh PATH/TO/weft MPI(ON|OFF)
set -u
weft=$1 mpi=${2:-OFF}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
limit=300 # seconds: the jobs of two machines share this one
examples=$here/../../examples
skipped=

# --- systemd ---
for unit in "$examples"/systemd/*.service; do
    name=$(basename "$unit")
    sed "s|/usr/bin/weft|$weft|" "$unit" >"$name"
    if command -v systemd-analyze >/dev/null; then
        systemd-analyze verify "./$name" >out 2>err && ! grep -q "$name" err && pass || flunk "systemd-analyze verify $name"
    else echo "SKIPPED: systemd-analyze verify $name"; fi
    # Its options are those of the command: the first one that is unknown is ours.
    words=$(sed -n 's/^ExecStart=//p' "$name" | sed 's/\${COORDINATOR}/tcp:\/\/127.0.0.1:9/; s/\${[A-Z_]*}/./g')
    set -f
    # shellcheck disable=SC2086
    refuses 2 "no-such-option" $words --no-such-option
    set +f
    for line in SuccessExitStatus=.*143 RestartPreventExitStatus=2 Restart=on-failure; do holds "$name" "^$line"; done
done

# --- Slurm ---
for program in slurmctld slurmd munged sbatch srun; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || skipped="$skipped $program"
done
[ "$(id -u)" = 0 ] || skipped="$skipped root"
for file in "$examples"/slurm/*.sbatch; do bash -n "$file" && pass || flunk "the syntax of $file"; done
if [ -n "$skipped" ]; then
    echo "SKIPPED: what needs$skipped"
    echo "$passed passed, $failed failed"
    [ $failed = 0 ]
    exit
fi
PATH=$PATH:/usr/sbin
host=$(hostname -s) first=$((20000 + $$ % 20000))
at_end() {
    local name
    scancel --signal=KILL --full -u root 2>/dev/null
    for name in n1 n2 ctld munged; do [ -e $name.pid ] && kill "$(cat $name.pid)" 2>/dev/null; done
    sleep 1 # they write their state at the end
    cd / && rm -rf "$work"
}
trap at_end EXIT
chmod 755 "$work"
mkdir -p state spool-n1 spool-n2 bin
ln -s "$weft" bin/weft
dd if=/dev/urandom of=munge.key bs=32 count=1 status=none && chmod 400 munge.key
cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$host
SlurmctldPort=$first
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.sock
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/ctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/ctld.log
SlurmdLogFile=$work/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
KillWait=60
SchedulerParameters=bf_interval=1
MailProg=/bin/true
NodeName=n1 NodeHostname=$host Port=$((first + 1)) CPUs=8 RealMemory=1000 State=UNKNOWN
NodeName=n2 NodeHostname=$host Port=$((first + 2)) CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF=$work/slurm.conf PATH=$work/bin:$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
munged --force --key-file="$work/munge.key" --socket="$work/munge.sock" --pid-file="$work/munged.pid" --log-file="$work/munged.log" --seed-file="$work/seed" >out 2>err &&
    slurmctld -c >>out 2>>err && slurmd -c -N n1 >>out 2>>err && slurmd -c -N n2 >>out 2>>err || flunk "Slurm does not start"
within '[ "$(sinfo -h -o "%D %t")" = "2 idle" ]' || flunk "Slurm has no machine: $(sinfo -h)"
small="--data glyphs:size=9,train=60,test=10 --model mlp --batch 10"
endless="--steps 1000000000 --epochs 1000000000"

# shellcheck disable=SC2086
{
    srun -n2 weft train -q $small --steps 2 >out 2>err
    [ $? = 2 ] && grep -q "srun has started 2 tasks of this command, but gives them no ranks of MPI" err && pass || flunk "two tasks without MPI"
    [ "$(grep -c "^weft:" err)" = 1 ] && pass || flunk "each of two tasks says the same"
    srun -n2 weft eval nothing >out 2>err
    [ $? = 2 ] && [ "$(grep -c "^weft: srun has started 2 tasks" err)" = 1 ] && pass || flunk "eval in two tasks"
    if [ "$mpi" = ON ] && mpirun --version 2>/dev/null | grep -q "Open MPI"; then
        timeout 300 srun -n1 weft train $small --mesh data=2 -n 2 --steps 2 --engine mpi >out 2>err && [ "$(grep -c '^2 steps' out)" = 1 ] && pass ||
            flunk "ranks of MPI in one task"
    fi
    srun -n1 -c3 weft train $small --steps 2 >out 2>err
    [ "$(nproc)" -lt 4 ] || grep -q "^3 threads, as SLURM_CPUS_PER_TASK has it" out && pass || flunk "the threads of a task"
}
# job FILE ARGUMENTS...: submits it; leaves $id.
job() { id=$(sbatch --parsable -o "$work/job.out" "$@" 2>err | cut -d ';' -f 1) && [ -n "$id" ] || flunk "sbatch: $*"; }
if [ "$mpi" = ON ] && srun --mpi=list 2>&1 | grep -q pmix; then
    # shellcheck disable=SC2086
    srun -n2 --mpi=pmix weft train $small --mesh data=2 --steps 2 >out 2>err && [ "$(grep -c '^2 steps' out)" = 1 ] && pass || flunk "two ranks of srun"
    # The end of the time: ranks save, the job comes back and goes on.
    # shellcheck disable=SC2086
    WEFT_CHECKPOINT=$work/run job "$examples/slurm/requeue.sbatch" --mesh data=2 $small $endless --checkpoint-every 5 -t 1
    within '[ -e run/latest ]' || { cp job.out out; flunk "no checkpoint"; }
    scancel --signal=TERM "$id"
    within 'scontrol show job $id | grep -q Restarts=1' && grep -q "stopped after step" job.out && pass || { cp job.out out; flunk "the job is not queued again"; }
    before=$(readlink run/latest)
    # Slurm lets it wait for two minutes, since slurmd refuses a job that begins in the second in which its last run has ended.
    within '[ "$(squeue -h -o %t -j $id)" = PD ] && scontrol update JobId=$id StartTime=now+3 2>/dev/null'
    within 'grep -q "resumed after ${before/step-/step }" job.out' && pass || { cp job.out out; scontrol show job "$id" >err; flunk "the job does not go on after $before"; }
    scancel "$id" # srun gets SIGTERM, too
else echo "SKIPPED: srun --mpi=pmix"; fi

# A run of two components: coordinator and server, and learners.
within '[ -z "$(squeue -h)" ]'
# shellcheck disable=SC2086
WEFT_PORT=$((first + 3)) WEFT_FOLDER=$work/elastic job "$examples/slurm/heterogeneous.sbatch" glyphs:size=9,train=60,test=10 \
    --model mlp --batch 10 $endless -t 1
within '[ -e elastic/checkpoints/latest ]' && pass || { cp job.out out; flunk "no checkpoint of the elastic run"; }
scancel "$id"
within '[ -z "$(squeue -h)" ]' || flunk "the job does not end: $(squeue -h)"
step=$(sed -n 's/.*stopped after step \([0-9]*\); continue.*/\1/p' job.out)
[ -n "$step" ] && [ "$(readlink elastic/checkpoints/latest)" = "step-$step" ] && pass || { cp job.out out; flunk "the last step is not saved"; }
echo "$passed passed, $failed failed"
[ $failed = 0 ]
