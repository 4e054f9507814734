#!/usr/bin/env bash
# scripts/gpu-check in its short form: tests/checking/gpu_check.sh WEFT
# Where no GPU is, it runs on OpenCL's first device or on cpu. Commands that stand in for weft have faults, which it must find.
set -u
weft=$1
tree=$(cd "$(dirname "$0")/../.." && pwd)
. "$tree/tests/support/check.sh"

accepts "gpu-check --short" "$tree/scripts/gpu-check" --short "$weft"
holds out "^ok +losses +lenet on [a-z0-9:.]+ +losses within [0-9.e+-]+ of (cpu|reference)"
holds out "^ok +figures +lenet, batch 20, on [a-z0-9:.]+ +[0-9]+ samples/s"
holds out "^weft [0-9.]+, commit "
holds out "^[0-9]+ passed, 0 failed, [0-9]+ skipped, [0-9]+ s$"

# faulty WORDS LINE...: a command whose lines run before those of weft; $all is its arguments.
faulty() {
    printf '#!/usr/bin/env bash\nall=" $* "\n[ "$1" != selftest ] || exit 0\n%s\nexec %q "$@"\n' "$1" "$weft" >faulty
    chmod +x faulty
}
# finds ROW OTHER...: it exits with 1, with this row, and with the others.
finds() {
    local pattern
    "$tree/scripts/gpu-check" --short --device cpu ${seconds:-} "$PWD/faulty" >out 2>err
    [ $? = 1 ] && pass || flunk "an exit code other than 1: $1"
    for pattern in "$@"; do holds out "$pattern"; done
}
later="^ok +figures +lenet, batch 20, on cpu"
faulty 'case $all in *average*"--device cpu"*) echo "weft: planted" >&2; exit 1 ;; esac'
finds "^FAILED +exchanges +average:every=2 on cpu +weft: planted" "$later"
faulty 'case $all in *lenet*"--device cpu"*) set -- "$@" --seed 4 ;; esac'
finds "^FAILED +losses +lenet on cpu +losses that are not those of reference: [0-9]" "^ok +losses +char-lstm" "$later"
# Gradients of which the first loss knows nothing.
faulty 'case $all in *char-lstm*"--device cpu"*) set -- "$@" --lr 0.02 ;; esac'
finds "^FAILED +losses +char-lstm on cpu +losses that are not those of reference: [0-9]" "^ok +losses +lenet" "$later"
# A run that hangs ends with the time of its part, and the parts after it have theirs. The others end at once: they only write metrics.
faulty 'case $all in *average*"--device cpu"*) exec sleep 1000 ;; *--version*) exec echo weft 0.0.0 ;; esac
case $all in *" --metrics "*)
    for k in 1 2 3 4 5 6; do echo "{\"event\":\"step\",\"loss\":2.5,\"lr\":1,\"seconds\":0.$k}"; done >"$(echo "$all" | sed "s/.* --metrics \([^ ]*\) .*/\1/")" ;;
esac
exit 0'
seconds="--seconds 20"
finds "^FAILED +exchanges +average:every=2 on cpu +ended, since its time was over" "^skipped +exchanges +a checkpoint" "^ok +exchanges +one batch" "$later +200 samples/s" "^6 passed, 1 failed, 3 skipped"
seconds=
faulty 'exit 1'
"$tree/scripts/gpu-check" "$PWD/faulty" >out 2>err && flunk "a command that does not run"
holds err "faulty does not run"
"$tree/scripts/gpu-check" --seconds none >out 2>err
[ $? = 2 ] && pass || flunk "a time that is no number"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
