#!/usr/bin/env bash
# The threads that a command takes by itself: by the cores, Slurm, OpenMP's variables: tests/job/default_threads.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
unset OMP_NUM_THREADS OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME OMP_THREAD_LIMIT
small="--data glyphs:size=9,train=60,test=10 --model mlp --batch 10 --steps 2"
# says LINE VARIABLES... -- OPTIONS...: its second line is this one; "": there is none about threads.
says() {
    local line=$1 variables=() got
    shift
    while [ "$1" != -- ]; do variables+=("$1") && shift; done
    shift
    # shellcheck disable=SC2086
    env "${variables[@]}" "$weft" train $small "$@" >out 2>err || flunk "exit $?: ${variables[*]} $*"
    got=$(grep -E '^[0-9]+ threads?( a rank)?, as ' out)
    [ "$got" = "$line" ] && pass || flunk "'$got', wanted '$line': ${variables[*]} $*"
}
says "3 threads, as OMP_NUM_THREADS has it" OMP_NUM_THREADS=3 --
says "3 threads a rank, as OMP_NUM_THREADS has it" OMP_NUM_THREADS=3,1 -- -n 2
says "1 thread, as OMP_NUM_THREADS has it" OMP_NUM_THREADS=1 SLURM_CPUS_PER_TASK=2 --
says "" OMP_NUM_THREADS=3 -- -t 2
# Where this test may use some of the cores alone, that mask is what limits the threads.
usual=
[ "$(nproc)" -lt "$(nproc --all)" ] && usual="$(nproc) thread$([ "$(nproc)" -gt 1 ] && echo s), as the affinity mask has it"
says "$usual" OMP_NUM_THREADS= --
says "$usual" OMP_NUM_THREADS=many --
if [ "$(nproc)" -gt 1 ]; then # on one core there is nothing to limit
    says "1 thread, as SLURM_CPUS_PER_TASK has it" SLURM_CPUS_PER_TASK=1 --
    says "1 thread, as SLURM_CPUS_ON_NODE has it" SLURM_CPUS_ON_NODE=1 --
    says "" SLURM_CPUS_PER_TASK=1000 SLURM_CPUS_ON_NODE=1000 --
    says "" SLURM_CPUS_PER_TASK=1 -- -t 2
    core=$(awk '/^Cpus_allowed_list/ { split($2, a, /[,-]/); print a[1] }' /proc/self/status)
    unbound=$weft
    printf '#!/bin/sh\nexec taskset -c %s "%s" "$@"\n' "$core" "$weft" >bound && chmod +x bound
    weft=$PWD/bound
    says "1 thread, as the affinity mask has it" A=1 --
    says "" A=1 -- -t 1
    says "1 thread, as OMP_NUM_THREADS has it" OMP_NUM_THREADS=1 --
    weft=$unbound
fi
says "1 thread, as OMP_THREAD_LIMIT has it" OMP_NUM_THREADS=2 OMP_THREAD_LIMIT=1 --

# Idle threads sleep soon, unless the user has said otherwise: by the environment in which the threads were started.
spins() { # WANTED VARIABLES...: what the process has in GOMP_SPINCOUNT
    local wanted=$1 got
    shift
    # shellcheck disable=SC2086
    background out err env "$@" "$weft" train -q $small --steps 1000000000 --epochs 1000000000
    within 'got=$(tr "\0" "\n" <"/proc/$!/environ" 2>/dev/null | sed -n "s/^GOMP_SPINCOUNT=//p"); [ "$got" = "$wanted" ]' && pass || flunk "GOMP_SPINCOUNT is '$got', wanted '$wanted': $*"
    within '[ "$(cat /proc/$!/comm)" = weft ]' && pass || flunk "the process is named $(cat /proc/$!/comm)"
    kill -KILL $!
    wait $! 2>/dev/null
}
spins 3000
spins 7 GOMP_SPINCOUNT=7
OMP_WAIT_POLICY=active spins ""
echo "$passed passed, $failed failed"
[ $failed = 0 ]
