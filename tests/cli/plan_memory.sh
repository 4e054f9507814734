#!/usr/bin/env bash
# Predicted memory of runs (weft plan): tests/cli/plan_memory.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
task="--model lenet --data glyphs:size=28,train=400,test=100 --batch 50 -t 1 --steps 2 --evaluate-every 1"
predicted() { awk '/^[0-9]+ process/ { for (i = 2; i <= NF; i++) if ($i ~ /^[kMG]B$/) { f = $i == "kB" ? 1e3 : $i == "MB" ? 1e6 : 1e9; print $(i - 1) * f; exit } }' out; }

# The peak of a process is what the plan says, within a twentieth: libraries differ by a little from run to run.
for way in '-n 1' '-n 1 --dtype bf16' '-n 2 --mesh data=2' '-n 2 --zero 3' '-n 2 --mesh tensor=2' '-n 2 --exchange average' '-n 2 --engine processes --exchange server' \
    '-n 2 --engine processes --exchange gossip' '-n 2 --engine mpi'; do
    case $way in *mpi) [ "${2:-OFF}" = ON ] && command -v mpirun >/dev/null || continue ;; esac
    accepts "plan of $way" "$weft" plan $task $way --checkpoint saved
    said=$(predicted)
    rm -rf saved
    accepts "$way" "$weft" train $task $way -q --checkpoint saved --metrics run.jsonl
    was=$(sed -n 's/.*"peak_rss_bytes":\([0-9]*\).*/\1/p' run.jsonl)
    awk -v a="${said:-0}" -v b="${was:-0}" 'BEGIN { exit !(a > b * 0.95 && a < b * 1.05) }' && pass || flunk "$way: $said bytes predicted, $was measured"
done

# So it is where nothing is evaluated or saved before the end; without a checkpoint no state of servers is there.
bare="--model lenet --data glyphs:size=28,train=4000,test=10 --batch 50 -t 1 --steps 6"
for way in '-n 2 --exchange server' '-n 2 --exchange hogwild' '-n 2 --engine processes --exchange server' '-n 2 --engine processes --exchange easgd'; do
    accepts "plan of $way" "$weft" plan $bare $way
    said=$(predicted)
    accepts "$way" "$weft" train $bare $way -q --metrics run.jsonl
    was=$(sed -n 's/.*"peak_rss_bytes":\([0-9]*\).*/\1/p' run.jsonl)
    awk -v a="${said:-0}" -v b="${was:-0}" 'BEGIN { exit !(a > b * 0.9 && a < b * 1.1) }' && pass || flunk "$way, bare: $said bytes predicted, $was measured"
done

# Servers, the coordinator and what starts processes are on the machine, too; two servers share what one has.
others() { awk -v n="$1" '/^beside/ { for (i = 2; i <= NF; i++) if ($i ~ /^[kMG]B,?$/ && ++k == n) { f = $i ~ /^kB/ ? 1e3 : $i ~ /^MB/ ? 1e6 : 1e9; print $(i - 1) * f; exit } }' out; }
accepts "a server" "$weft" plan $task -n 2 --engine processes --exchange server
one=$(others 1) bare=$(others 3)
accepts "two servers" "$weft" plan $task -n 2 --engine processes --exchange server --servers 2
holds out '^beside them 2 servers of [0-9.]+ MB, the coordinator with [0-9.]+ [kM]B, [0-9.]+ [kM]B to start and watch processes$'
awk -v a="${one:-0}" -v b="$(others 1)" -v c="${bare:-0}" 'BEGIN { r = (a - c) / (2 * (b - c)); exit !(c > 0 && r > 0.9 && r < 1.1) }' && pass || flunk "one server has $one bytes, each of two $(others 1), a bare process $bare"
[ "${2:-OFF}" = OFF ] || accepts "MPI" "$weft" plan $task -n 2 --engine mpi
[ "${2:-OFF}" = OFF ] || holds out '^beside them [0-9.]+ [kM]B to start and watch processes; the launcher of MPI is not counted$'
accepts "threads" "$weft" plan $task -n 2 --exchange server
grep -q '^beside' out && flunk "threads have no other processes" || pass

# Whether it fits, and what would take less: an option that is named takes what it says.
accepts "it fits" "$weft" plan $task --memory 16GB
holds out '^.* on the fullest machine; fits in 16 GB: yes, 15[.][0-9]* GB to spare$'
refuses 1 "MB more than the memory of the machine" "$weft" plan $task --memory 20MB
holds out 'fits in 20 MB: no, [0-9.]+ [kMG]B too much$'
holds out '^  --dtype bf16: [0-9.]+ MB'
less=$(sed -n 's/^  --dtype bf16: \([0-9.]*\) MB.*/\1/p' out)
accepts "with it" "$weft" plan $task --dtype bf16
awk -v a="${less:-0}" -v b="$(predicted)" 'BEGIN { r = 1e6 * a / b; exit !(r > 0.95 && r < 1.05) }' && pass || flunk "tried: $less MB, planned alone: $(predicted) bytes"

# Machines of a cluster have as much memory as its file says.
printf 'step: 1\nmachines:\n  - {count: 2, cores: 1, memory: 1e6}\n' >cluster.yaml
refuses 1 "fits in 1 MB: no, " "$weft" simulate $task --cluster cluster.yaml --exchange gossip -q
for memory in 1e6:1:2 1e9:0:0; do # bytes of a machine: exit code: runs that are left out
    IFS=: read -r bytes code left <<<"$memory"
    printf 'step: 1\nmachines:\n  - {count: 2, cores: 1, memory: %s}\n' "$bytes" >cluster.yaml
    "$weft" compare $task --cluster cluster.yaml -q --strategies 'exchange=gossip; exchange=server' >out 2>err
    [ $? = "$code" ] && [ "$(grep -c "is left out, since it does not fit: .* MB too much" err)" = "$left" ] && pass || flunk "compare on machines of $bytes bytes: $(cat err)"
done
printf 'step: 1\nmachines:\n  - {count: 2, cores: 1, memory: 1e6}\n' >cluster.yaml
refuses 2 "no key 'times'" "$weft" plan $task --cluster cluster.yaml
refuses 2 "must be a number with a unit" "$weft" plan $task --memory 16
refuses 2 "must be a number with a unit" "$weft" plan $task --memory GB
refuses 2 "leave --memory out" "$weft" plan $task --memory 1GB --cluster cluster.yaml
refuses 2 "leave one of them out" "$weft" plan $task --memory 1GB --passes
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
