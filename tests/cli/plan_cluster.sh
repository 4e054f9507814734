#!/usr/bin/env bash
# Estimates of steps (weft measure, weft plan --cluster): tests/cli/plan_cluster.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20 --model mlp"
version=$("$weft" --version | sed -n 's/^weft \([^ ]*\).*/\1/p')
tab=$'\t'
# A machine of 1e10 operations and 1e10 bytes a second, whose host works a millisecond for a step.
times() { # FILE VERSION
    printf 'weft-times\t1\nversion\t%s\nprocessor\tone\n' "$2" >"$1"
    printf 'time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n' >>"$1"
}
times one.times "$version"
cluster() { # FILE, keys, machine keys
    printf 'times: one.times\n%b\nmachines:\n  - {%s}\n' "$2" "$3" >"$1"
    grep -q bandwidth "$1" || printf 'bandwidth: 125e6\n' >>"$1"
}
field() { sed -n "s/$1/\\1/p" out; }
kernels() { field 'of it \([0-9.e-]*\) ms of kernels.*'; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > 0 && a / b < 1.002 && b / a < 1.002) }'; }

# One machine: times follow its rates, and a machine twice as fast takes half as long.
cluster one.yaml '' 'count: 1, cores: 1'
accepts "one machine" "$weft" plan $small --cluster one.yaml
holds out '^Estimated for one.yaml: a step takes [0-9.]+ ms \([0-9.]+ to [0-9.]+\), [0-9.]+ samples/s$'
holds out '^kernels: 0.0 % measured with these sizes, 100.0 % by rates alone$'
slow=$(kernels)
cluster fast.yaml '' 'count: 1, cores: 1, speed: 2'
accepts "twice as fast" "$weft" plan $small --cluster fast.yaml
near "$(kernels)" "$(awk -v a="$slow" 'BEGIN { print a / 2 }')" && pass || flunk "kernels of a machine twice as fast: $(kernels), not half of $slow"

# Two machines: what crosses between them is what the plan says is sent, and takes its time.
for mesh in data=2 tensor=2 'data=2 --zero 1' 'data=2 --zero 3'; do
    cluster two.yaml 'bandwidth: 1e5\nlatency: 0' 'count: 2, cores: 1'
    accepts "$mesh" "$weft" plan $small -n 2 --mesh $mesh --cluster two.yaml
    sent=$(field '^On the wire in a step: .* (\([0-9]*\) bytes).*')
    between=$(field '^between machines: \([0-9]*\) bytes.*')
    # The sum of losses comes on top: four numbers of 8 bytes, once from each rank; sums have the padding of layouts, as a run has.
    really=$("$weft" train $small -n 2 --mesh $mesh --steps 1 -q --metrics - 2>err | sed -n 's/.*"comm_bytes":\([0-9]*\).*/\1/p')
    [ -n "$sent" ] && [ "$between" = $((really + 64)) ] && [ "$between" -ge $((sent + 64)) ] && pass || flunk "$mesh: $between bytes between machines, $sent planned, $really sent"
    long=$(field '.* a step takes \([0-9.e+]*\) ms.*')
    awk -v ms="$long" -v bytes="$between" 'BEGIN { exit !(ms >= 1e3 * bytes / 2 / 1e5 * 0.999) }' && pass || flunk "$mesh: $between bytes in $long ms are more than the link carries"
done
cluster free.yaml 'bandwidth: 1e15\nlatency: 0' 'count: 2, cores: 1'
accepts "free links" "$weft" plan $small -n 2 --mesh data=2 --cluster free.yaml
near "$(field '.* a step takes \([0-9.e+]*\) ms.*')" "$(awk '/^of it/ { print $3 + $7 + $10 + $13 }' out)" && pass || flunk "the parts of a step do not add up: $(cat out)"

# Machines that vary make an interval; slow steps of one of two machines hold up both.
cluster varies.yaml 'bandwidth: 1e15\nlatency: 0' 'count: 2, cores: 1, jitter: 1'
accepts jitter "$weft" plan $small -n 2 --mesh data=2 --cluster varies.yaml
holds out 'a step takes [0-9.]+ ms \([0-9.]+ to [0-9.]+\)'

# Slow steps of any machine hold up all: the mean of the greatest of eight factors.
cluster even.yaml 'bandwidth: 1e15\nlatency: 0' 'count: 8, cores: 1'
cluster slow.yaml 'bandwidth: 1e15\nlatency: 0' 'count: 8, cores: 1, slow: 0.05, slowdown: 10'
wide="--model mlp --data glyphs:size=16,train=60,test=20 --batch 24 -n 8 --mesh data=8"
accepts even "$weft" plan $wide --cluster even.yaml && even=$(field '.* a step takes \([0-9.e+]*\) ms.*')
accepts slow "$weft" plan $wide --cluster slow.yaml && slow=$(field '.* a step takes \([0-9.e+]*\) ms.*')
awk -v a="$even" -v b="$slow" 'BEGIN { r = b / a; m = 1 + 9 * (1 - 0.95 ^ 8); exit !(r > 0.8 * m && r < 1.2 * m) }' && pass || flunk "slow steps: $slow ms, $even without"

# A meeting of learners counts for its share of the steps.
cluster far.yaml 'bandwidth: 1e6\nlatency: 0' 'count: 2, cores: 1'
for every in 1 10; do
    accepts "every=$every" "$weft" plan $small -n 2 --exchange average:every=$every --cluster far.yaml
    field '^between machines: \([0-9]*\) bytes.*' >"bytes$every"
done
near "$(awk '{ print $1 / 10 }' bytes1)" "$(cat bytes10)" && pass || flunk "bytes of learners that meet: $(cat bytes1 bytes10)"

# Learners that do not wait for each other. Two on one machine send nothing over links; on two, the server is on that of the first, so
# an update and the parameters of the second one cross in a step, as many bytes as in half an average of two.
cluster both.yaml 'bandwidth: 1e6\nlatency: 0' 'count: 1, cores: 2'
for e in server server:policy=async easgd:every=2 gossip gossip:mode=average hogwild; do
    accepts "$e on one machine" "$weft" plan $small -n 2 --exchange $e --cluster both.yaml
    grep -q '^between machines' out && flunk "$e on one machine: $(cat out)" || pass
done
holds out '^of it [0-9.]+ ms of kernels, [0-9.e-]+ of transfers'
accepts server "$weft" plan $small -n 2 --exchange server --cluster far.yaml
holds out '^updates: [0-9.]+ others have come between in the mean; the busiest server works for [0-9.]+ % of the time$'
awk -v a="$(field '^between machines: \([0-9]*\) bytes.*')" -v b="$(cat bytes1)" 'BEGIN { exit !(a > b && a < 1.01 * b) }' && pass || flunk "bytes of a server: $(cat out), $(cat bytes1) of average"
# Of meetings and of pushes that are ever rarer, the step alone remains.
accepts none "$weft" plan --data glyphs:size=16,train=60,test=20 --batch 20 --model mlp --cluster one.yaml
alone=$(field '.* a step takes \([0-9.e+]*\) ms.*')
for e in average:every=1000 server:policy=async,push=500,fetch=500 easgd:every=500; do
    accepts "$e" "$weft" plan $small -n 2 --exchange $e --cluster free.yaml
    awk -v a="$(field '.* a step takes \([0-9.e+]*\) ms.*')" -v b="$alone" 'BEGIN { exit !(a > 0.9 * b && a < 1.15 * b) }' && pass || flunk "$e: $(head -1 out), $alone ms alone"
done
# Passes over memory: hogwild makes six of the bytes of the parameters, and an outer optimizer seven more than the mean has.
transfers() { sed -n 's/^of it .* kernels, \([0-9.e-]*\) of transfers.*/\1/p' out; }
accepts hogwild "$weft" plan $small -n 2 --exchange hogwild --cluster both.yaml && six=$(transfers)
accepts mean "$weft" plan $small -n 2 --exchange average --cluster free.yaml && mean=$(transfers)
accepts outer "$weft" plan $small -n 2 --exchange average:outer=nesterov --cluster free.yaml && outer=$(transfers)
awk -v six="$six" -v mean="$mean" -v outer="$outer" 'BEGIN { r = (outer - mean) / 7 / (six / 6); exit !(r > 0.99 && r < 1.01) }' && pass || flunk "passes: $six ms of hogwild, $mean of the mean, $outer with an outer optimizer"
refuses 2 "share memory, and would be on 2 machines" "$weft" plan $small -n 2 --exchange hogwild --cluster far.yaml

# Several runs: the fastest first, and those that cannot be estimated with the reason.
list='mesh=data=2; exchange=average:every=4; mesh=pipeline=2 microbatches=2; exchange=oneshot; exchange=gossip; exchange=hogwild; mesh=tensor=2 batch=19'
accepts table "$weft" plan $small -n 2 --cluster two.yaml --strategies "$list"
awk '/^(mesh|average|oneshot)/ && $0 !~ /cannot|must/ { for (i = 1; i <= NF; i++) if ($i ~ /^to$/) { r = $(i + 2); if (last && r > last * 1.0001) bad = 1; last = r; n++; break } } END { exit bad || n < 4 }' out && pass || flunk "the table is not in order: $(cat out)"
holds out '^oneshot +[0-9.]+ '
holds out '^gossip +[0-9.]+ '
holds out '^hogwild +the learners of --exchange hogwild share memory'
holds out '^average:every=4 +[0-9.]+ '

"$weft" plan $small -n 2 --cluster two.yaml --strategies "$list" --json >out 2>err
python3 - <<'END' && pass || flunk "JSON: $(cat out err)"
import json
rows = json.load(open("out"))
assert len(rows) == 7 and [r["strategy"] for r in rows if "reason" in r] == ["exchange=hogwild"], rows
rates = [r["samples_per_second"] for r in rows if "reason" not in r]
assert rates == sorted(rates, reverse=True) and all(r["low"] <= r["step_seconds"] <= r["high"] for r in rows if "reason" not in r)
END
"$weft" plan $small --cluster two.yaml --strategies 'exchange=gossip; exchange=average; mesh=data=1' >out 2>err
holds err '2 of these runs have an exchange but one learner, which exchanges nothing; give ranks, as -n 2$'

cluster little.yaml '' 'count: 2, cores: 1, memory: 1e5'
refuses 1 "MB more than the memory of little.yaml" "$weft" plan $small -n 2 --mesh data=2 --cluster little.yaml
holds out 'on the fullest machine; fits in 100 kB: no, [0-9.]+ MB too much$'

# What is refused.
refuses 2 "--json prints the table of --strategies" "$weft" plan $small --cluster one.yaml --json
refuses 2 "which need --cluster FILE" "$weft" plan $small --strategies 'mesh=data=2'
refuses 2 "leave one of them out" "$weft" plan $small --cluster one.yaml --passes
refuses 2 "leave one of them out" "$weft" plan $small --cluster one.yaml --dump --strategies 'mesh=data=2'
refuses 2 "strategies 'a;;b'" "$weft" plan $small --cluster one.yaml --strategies 'a;;b'
printf 'machines:\n  - count: 1\n' >none.yaml
refuses 2 "there is no key 'times'" "$weft" plan $small --cluster none.yaml
refuses 2 "cannot open" "$weft" plan $small --cluster nowhere.yaml
refuses 2 "nowhere.yaml: cannot open" "$weft" plan $small --cluster nowhere.yaml --strategies 'mesh=data=2; exchange=gossip'
printf 'times: gone.times\nmachines:\n  - count: 1\n' >gone.yaml
refuses 1 "gone.times: cannot open" "$weft" plan $small --cluster gone.yaml
times one.times 0.0.1
refuses 2 "one.times:2: these times are of weft 0.0.1" "$weft" plan $small --cluster one.yaml
printf 'weft-times%s1\n' "$tab" >one.times
refuses 1 "ends without the version" "$weft" plan $small --cluster one.yaml
times one.times "$version" && sed -i '$d' one.times
refuses 1 "one.times:6: the file is cut off" "$weft" plan $small --cluster one.yaml
times one.times "$version"
refuses 1 "the times of a cluster are those of the device cpu" "$weft" plan $small --cluster one.yaml --device reference
printf 'times: one.times\nlost: 0.1\nmachines:\n  - count: 1\n' >lossy.yaml
"$weft" plan $small --cluster lossy.yaml >out 2>err && grep -q 'without an exchange, or with one in lock step, such as average, take them as 0' err && pass || flunk "lost messages: $(cat err)"
cluster dozes.yaml '' 'count: 2, cores: 1, awake: 0.5'
"$weft" plan $small -n 2 --mesh data=2 --cluster dozes.yaml >out 2>err && grep -q 'awake for a share of each period, and their links, count as that much slower' err && pass || flunk "machines that stop: $(cat err)"
cluster crawl.yaml 'bandwidth: 1e-300' 'count: 2, cores: 1'
refuses 2 "crawl.yaml:2: bandwidth is 1e-300 bytes a second, must be 1e-06 or more, or 0 for unlimited" "$weft" plan $small --cluster crawl.yaml
cluster crawl.yaml '' 'count: 2, cores: 1, bandwidth: 1e-7'
refuses 2 "crawl.yaml:4: bandwidth is 1e-07 bytes a second" "$weft" plan $small --cluster crawl.yaml
# The plan of a run is that of its checkpoint.
"$weft" train -q --model mlp --data glyphs:size=9,train=60,test=20 --batch 20 --steps 1 -c run >out 2>err
accepts "a checkpoint" "$weft" plan -c run --resume
holds out '^mlp on glyphs:size=9'
printf 'time: 3\n' >wrong.yaml
refuses 2 "no key is named 'time'; did you mean 'times'?" "$weft" plan $small --cluster wrong.yaml

# Sockets are in a folder of TMPDIR; what a killed process has left of them the next one removes.
mkdir tmp
background out err env TMPDIR="$PWD/tmp" "$weft" measure -o here.yaml --seconds 1000 --transfers one.times
within 'compgen -G "tmp/weft-sockets-*/socket" >bytes' && kill -KILL $! && pass || flunk "no socket of measure: $(ls tmp; cat err)"
wait $! 2>/dev/null
[ -e "$(cat bytes)" ] && pass || flunk "a killed measure has left no socket"
# This machine: the networks that were measured are estimated from their own sizes.
TMPDIR="$PWD/tmp" "$weft" measure -o here.yaml --seconds 1 >out 2>err && pass || flunk "measure: $(cat err)" # a busy machine gets a warning
[ ! -e "$(cat bytes)" ] && ! compgen -G 'tmp/weft-sockets-*' && rm -r tmp && pass || flunk "sockets are left: $(ls tmp)"
holds out "^here.yaml: [0-9]+ times, measured in [0-9]+ s; (two runs of a kernel differ by [0-9.]+ % in the mean|no kernel ran twice, so that their differences are not known; give more --seconds)$"
# With MPI: transfers between its processes, which a rank alone cannot measure.
if [ "${2:-OFF}" = ON ] && command -v mpirun >/dev/null; then
    grep -q "all-reduce threads" here.yaml.times && { grep -q "all-reduce mpi" here.yaml.times || grep -q "of MPI were not measured" err; } && pass ||
        flunk "no transfers of MPI: $(cat err; grep -c all-reduce here.yaml.times)"
    refuses 2 "engine mpi: there is one rank, and transfers need two" "$weft" measure --engine mpi -o alone
fi
refuses 2 "the ranks of its learners are threads" "$weft" measure --engine processes -o alone
[ -z "$(ls | grep -v 'yaml$\|times$\|^out$\|^err$\|^bytes\|^run$')" ] && pass || flunk "measure left files behind: $(ls)"
mv here.yaml kept.yaml
refuses 2 "here.yaml.times: exists; --overwrite replaces it" "$weft" measure -o here.yaml
mv kept.yaml here.yaml
refuses 2 "here.yaml: exists; --overwrite replaces it" "$weft" measure -o here.yaml
refuses 1 "nowhere/here.yaml: cannot create" "$weft" measure -o nowhere/here.yaml --seconds 1000
refuses 2 "two files are written; give the name of a file" "$weft" measure -o -
refuses 1 "nofile: cannot open" "$weft" measure -o there.yaml --transfers nofile --seconds 1000
refuses 1 "one.yaml:1: this is no table of times" "$weft" measure -o there.yaml --transfers one.yaml --seconds 1000
accepts "a network that was measured" "$weft" plan --cluster here.yaml --model mlp --data glyphs:size=28,train=2000,test=10 --batch 100
holds out '^kernels: (100|99)\.[0-9] % measured with these sizes'
accepts "another one" "$weft" plan --cluster here.yaml --model mlp --data glyphs:size=12,train=200,test=10 --batch 30
holds out '^kernels: [0-9.]+ % measured with these sizes, [0-9.]+ % with others'
# A run is compared with its estimate: a cluster that is much faster or slower than any machine has a reason.
"$weft" train -t 1 $small --steps 1 --estimate one.yaml >out 2>err
processor=$(sed -n "s/.*and this processor is '\(.*\)'; weft measure.*/\1/p" err)
sed "s/1e-3/1e-12/;s/^processor.*/processor\t$processor/" one.times >quick.times
for case in 'speed: 1e6|the processor is slower than when it was measured' 'speed: 1e-6|the processor is faster than when it was measured'; do
    cluster other.yaml 'bandwidth: 1e15\nlatency: 0' "count: 2, cores: 1, ${case%|*}"
    sed -i s/one.times/quick.times/ other.yaml
    for way in '-n 1' '-n 2 --mesh data=2'; do
        "$weft" train $small $way --steps 21 --estimate other.yaml >out 2>err || flunk "estimate, $way"
        holds err "^weft: a step takes [0-9.e+-]* ms in the median of 11, estimated for other.yaml: .* on rank 0, estimated [0-9.e+-]*: ${case#*|}"
        [ "$(wc -l <err)" = 1 ] && pass || flunk "one line, $way"
    done
done
cluster other.yaml 'bandwidth: 1e3\nlatency: 0' "count: 2, cores: 1, speed: 1e6"
sed -i s/one.times/quick.times/ other.yaml
"$weft" train $small -n 2 --steps 21 --estimate other.yaml >out 2>err || flunk "estimate with slow links"
holds err "rank 0 waits [0-9.e+-]* ms for others, estimated [0-9.e+-]*: links or other ranks are faster than in the file"
"$weft" train $small --steps 15 --estimate one.yaml >out 2>err || flunk "a short run"
holds err "fewer than 10 steps after its first 10"
refuses 2 "estimate: missing.yaml: cannot open" "$weft" train $small --steps 15 -q --estimate missing.yaml

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
