#!/usr/bin/env bash
# Failures that would come again: a full disk, damaged data, a loss that is no number, no memory. The job ends at
# once in one sentence, is not started again, and its newest checkpoint stays: tests/job/no_restart.sh PATH/TO/weft MPI(ON|OFF)
set -u
weft=$1 mpi=${2:-OFF}
. "$(dirname "$0")/../support/check.sh"
engines=threads
[ "$mpi" = ON ] && engines="threads mpi"
run="-q -t 1 -n 2 --max-restarts 3 --data glyphs:size=16,train=400,test=50 --batch 40"
long="--steps 100000 --epochs 100000"

# ends NAME WORDS CODE [FOLDER]: what the last command left in out, err and $got.
ends() {
    if [ "$got" = "$3" ] && [ "$(grep -c -- "$2" err)" = 1 ] && ! grep -q "weft: starting again\|died\|left the job\|lost" err; then pass
    else flunk "$1: ended with $got, wanted $3 and '$2', $engine"; fi
    [ -z "${4:-}" ] && return
    "$weft" inspect "$4" >out 2>err && [ -f "$4/latest/index.json" ] && pass || flunk "$1: what is left of $4, $engine: $(ls -A "$4")"
}
# shellcheck disable=SC2086
go() { timeout 300 "$weft" train $run --engine $engine "$@" >out 2>err; got=$?; }

# Small disks, where this may mount some.
mkdir disk
disk=
unshare -rm mount -t tmpfs none disk 2>/dev/null && disk="unshare -rm"
[ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none disk 2>/dev/null && disk="unshare -m"
[ -z "$disk" ] && echo "no full disk: none can be mounted here"
export weft run long

for engine in $engines; do
    rm -rf c* whole
    # shellcheck disable=SC2086
    if [ -n "$disk" ]; then # two checkpoints fit, three do not
        export engine
        timeout 300 $disk bash -c 'mount -t tmpfs -o size=1600k none disk && "$weft" train $run $long --engine $engine --checkpoint disk/c --checkpoint-every 3 --keep 9 >out 2>err
            code=$?; cp -a disk/c whole; exit $code'
        got=$?
        ends "a full disk" "cannot write: No space left on device; free some space" 1 whole
        timeout 300 $disk bash -c 'mount -t tmpfs -o size=2m none disk && mkdir disk/c && mount -o remount,ro disk &&
            "$weft" train $run $long --engine $engine --checkpoint disk/c >out 2>err'
        got=$?
        ends "a disk that is read-only" "Read-only file system" 1
    fi
    # A file that may not grow, after a checkpoint that could be written.
    "$weft" train -q -t 1 --model mlp --data glyphs:size=16,train=400,test=50 --batch 40 --epochs 1 --checkpoint cg >out 2>err
    (ulimit -f 100; go --model mlp --checkpoint cg --resume --epochs 3; exit $got)
    got=$?
    ends "files that may not grow" "File too large" 1 cg
    for file in metrics trace; do
        # shellcheck disable=SC2086
        go --steps 12 --checkpoint c$file --checkpoint-every 3 --$file /dev/full
        ends "a full device for --$file" "/dev/full: cannot write: No space left on device" 1
    done
    "$weft" inspect ctrace >out 2>err && pass || flunk "a full device for --trace: its checkpoints, $engine"
    # shellcheck disable=SC2086
    go $long --optimizer sgd --lr 1000 --weight-decay 1000 --checkpoint cn --checkpoint-every 1
    # The rounding of the processor decides which of them is infinite first.
    ends "a loss that is no number" "^weft: step [0-9]*: the loss is\|^weft: after step [0-9]* .* holds a number that is not finite" 1
    if ! ldd "$weft" | grep -q libasan; then # which needs terabytes of addresses for itself
        printf 'layers:\n  - {type: dense, units: 1000000}\n  - {type: dense, units: classes}\n' >large.yaml
        (ulimit -v 3000000; go --model large.yaml --checkpoint cm; exit $got)
        got=$?
        ends "no memory" "out of memory" 1
    fi
    # Data that somebody cuts off while it is read.
    python3 - <<'PY'
from npy import npy_head, write_npy
open("x.npy", "wb").write(npy_head("u1", (4000, 40, 40)) + bytes(4000 * 1600))
write_npy("y.npy", "u1", (4000,), [i % 3 for i in range(4000)])
PY
    background out err timeout 300 "$weft" train -q -t 1 -n 2 --max-restarts 3 --engine $engine --model mlp --data npy:x.npy,y.npy --batch 40 $long --checkpoint cx --checkpoint-every 5
    job=$!
    appears cx/latest
    truncate -s 5000 x.npy
    wait $job
    got=$?
    ends "data that is cut off" "x.npy: was cut off while it was read" 1 cx
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
