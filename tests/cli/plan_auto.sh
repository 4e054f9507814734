#!/usr/bin/env bash
# The search for a strategy (weft plan --cluster FILE --auto): tests/cli/plan_auto.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
# Two micro-batches are given, so that there is less to compare.
small="--microbatches 2 --model mlp --data glyphs:size=9,train=60,test=20 --batch 12"
version=$("$weft" --version | sed -n 's/^weft \([^ ]*\).*/\1/p')
printf 'weft-times\t1\nversion\t%s\nprocessor\tpaper\n' "$version" >one.times
printf 'time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n' >>one.times
cluster() { # FILE, keys, machine keys
    printf 'times: one.times\n%b\nmachines:\n  - {%s}\n' "$2" "$3" >"$1"
    grep -q bandwidth "$1" || printf 'bandwidth: 125e6\n' >>"$1"
}
cluster two.yaml 'bandwidth: 1e8' 'count: 2, cores: 2'

# The table, whose rows are in order and as one types them.
accepts table "$weft" plan $small --cluster two.yaml --auto --top 4 --exchange average:every=4
holds out '^Estimated for two.yaml: [0-9]+ candidates of up to 4 ranks, [0-9]+ estimated, [0-9]+ left out by bounds, [0-9]+ that a run refuses$'
holds out '^A learner takes 12 samples a step; the fastest first:$'
holds out '^-n [1-4].*  (stops; --checkpoint resumes|goes on with [1-3] of [2-4])$'
[ ! -s err ] && pass || flunk "standard error of a search: $(cat err)"
"$weft" plan $small --cluster two.yaml --auto -n 2 --exchange server:policy=bsp --json >out 2>err
python3 - "$weft" $small --exchange server:policy=bsp -n 2 <<'END' && pass || flunk "JSON: $(cat out err)"
import json, subprocess, sys
rows = [r for r in json.load(open("out")) if "reason" not in r]
rates = [r["samples_per_second"] for r in rows]
assert len(rows) > 2 and rates == sorted(rates, reverse=True), rates
assert all(r["limited_by"] and r["learners_left"] <= r["learners"] for r in rows)
# A row is estimated alike by its options as they are typed, and as a word of a list.
for row in rows[:3]:
    said = subprocess.run([sys.argv[1], "plan", *sys.argv[2:], "--cluster", "two.yaml", *row["command"].replace("-n 2", "").split()], capture_output=True, text=True)
    ms = f"a step takes {1e3 * row['step_seconds']:.4g} ms"
    assert ms in said.stdout, (row["command"], ms, said.stdout[-600:], said.stderr)
    listed = subprocess.run([sys.argv[1], "plan", *sys.argv[2:], "--cluster", "two.yaml", "--json", "--strategies", row["strategy"]], capture_output=True, text=True)
    assert abs(json.loads(listed.stdout)[0]["step_seconds"] / row["step_seconds"] - 1) < 1e-6, listed.stdout
END

# A run file that runs, with the options that were given.
accepts output "$weft" plan $small --lr 0.02 --cluster two.yaml --auto --one-learner --output run.yaml
holds run.yaml '^lr: 0.02$'
holds run.yaml '^model: "mlp"$'
accepts "the run file" "$weft" train run.yaml --steps 1
accepts pick "$weft" plan $small --cluster two.yaml --auto -n 2 --exchange server:policy=bsp --top 3 --pick 2 --output second.yaml
[ "$(sed -n 's/^compress: "\(.*\)"/\1/p' second.yaml)" = "$(awk '/^-n/ { if (++n == 2) for (i = 1; i < NF; i++) if ($i == "--compress") print $(i + 1) }' out)" ] && pass || flunk "row 2: $(cat out second.yaml)"
refuses 2 "run.yaml: exists; a run file is not written over another file" "$weft" plan $small --cluster two.yaml --auto --output run.yaml
refuses 2 "output '-': the table is printed there" "$weft" plan $small --cluster two.yaml --auto --output -
# A place where nothing can be written is told before the search.
refuses 1 "nowhere/run.yaml: cannot" "$weft" plan $small --cluster two.yaml --auto --one-learner --output nowhere/run.yaml
[ -s out ] && flunk "a search whose result cannot be written: $(cat out)" || pass
refuses 1 "nowhere/a.svg: cannot" "$weft" plan $small --cluster two.yaml --scale 1..2 --strategies mesh=data=N --plot nowhere/a.svg
[ -s out ] && flunk "rates whose picture cannot be written: $(cat out)" || pass
refuses 1 "nowhere/step.json: cannot" "$weft" plan $small --cluster two.yaml --predicted nowhere/step.json
echo old >old.json
refuses 2 "no model is named 'mlq'" "$weft" plan --model mlq --cluster two.yaml --predicted old.json
[ "$(cat old.json)" = old ] && pass || flunk "a file that is not written after all: $(cat old.json)"
refuses 1 "pick 2: 1 row fits; nothing is written" "$weft" plan $small --cluster two.yaml --auto --one-learner --pick 2 --output no.yaml
[ -e no.yaml ] && flunk "a run file of no row" || pass

refuses 2 "--pick is beyond the rows of --auto" "$weft" plan $small --cluster two.yaml --auto --pick 99 --output no.yaml
[ -s out ] && flunk "a search for a row that cannot be: $(cat out)" || pass
# Options that are given with their defaults stay, also in a run file.
accepts "one rank" "$weft" plan $small --cluster two.yaml --auto -n 1
holds out '^Estimated for two.yaml: [0-9]+ candidates of 1 ranks, '
printf 'ranks: 1\n' >one_rank.yaml
accepts "one rank in a run file" "$weft" plan one_rank.yaml $small --cluster two.yaml --auto
grep -q '^-n [2-9]' out && flunk "rows of more ranks than are given: $(cat out)" || pass
# Meshes whose ranks would compute the same are left out; a run warns of them.
accepts "an idle axis" "$weft" plan $small --cluster two.yaml --auto --one-learner -n 2
holds out '^[0-9]+ more, with an axis of the mesh that splits nothing of the model, are left out$'
"$weft" train $small -n 2 --mesh domain=2 --steps 1 >out 2>err
holds err 'mesh domain=2: the axis domain splits no operator of this model'
# Times that are not there are told before the table.
sed 's/one.times/none.times/' two.yaml >no_times.yaml
refuses 2 "none.times" "$weft" plan $small --cluster no_times.yaml --strategies 'ranks=1; ranks=2'
[ -s out ] && flunk "a table without times: $(cat out)" || pass
# The machines of a few ranks are the first ones.
printf 'times: one.times\nbandwidth: 125e6\nmachines:\n  - {count: 1, cores: 1}\n  - {count: 2, cores: 1, speed: 2}\n' >unlike.yaml
"$weft" plan $small --cluster unlike.yaml --strategies 'ranks=2; ranks=3' >out 2>err
holds err 'the 2 ranks are on the first 2 of the 3 machines of the file, which are unlike'
# More threads than a run takes are none.
cluster many.yaml 'bandwidth: 1e8' 'count: 1, cores: 4096'
"$weft" plan $small --cluster many.yaml --json --strategies 'threads=0; threads=1024' >out 2>err
python3 -c "import json; a, b = json.load(open('out')); assert a['step_seconds'] == b['step_seconds'] and a['high'] - a['step_seconds'] > 0.99 * a['kernel_seconds']" && pass || flunk "more cores than threads: $(cat out err)"

# Strategies that do not fit say so, and what would help.
every() { # CLUSTER, words of Python about rows, the fastest first: the memory of all strategies of one learner
    "$weft" plan $small --cluster "$1" --auto --one-learner --exhaustive --top 10000 --json >out 2>err
    python3 -c "import json; rows = json.load(open('out')); bytes = [r['memory_bytes'] for r in rows if 'memory_bytes' in r]; print($2)"
}
cluster wide.yaml 'bandwidth: 1e8' 'count: 4, cores: 1'
between=$(every wide.yaml "(bytes[0] + min(b for b in bytes if b < bytes[0])) / 2")
cluster tight.yaml 'bandwidth: 1e8' "count: 4, cores: 1, memory: $between"
accepts "little memory" "$weft" plan $small --cluster tight.yaml --auto --one-learner
holds out '^-n .* [0-9.]+ MB on the fullest machine; fits in [0-9.]+ MB: no, [0-9.]+ kB too much'
# Rows of a list say it alike; one that does not fit is behind those that do.
accepts "rows that do not fit" "$weft" plan $small --cluster tight.yaml --strategies 'ranks=3 mesh=data=3; ranks=3 mesh=pipeline=3 schedule=gpipe'
holds out '^ranks=3 mesh=data=3 +[0-9.]+ MB on the fullest machine; fits in [0-9.]+ MB: no, [0-9.]+ [kM]B too much'
"$weft" plan $small --cluster tight.yaml --strategies 'ranks=3 mesh=data=3; ranks=3 mesh=data=2; mesh=data=2' >out 2>err
[ $? = 1 ] && pass || flunk "a list of which nothing fits"
holds err '^weft: none of these strategies fits into the memory of the machines of tight.yaml$'
"$weft" plan $small --cluster two.yaml --strategies 'exchange=avarage; exchange=avarage:every=2' >out 2>err
[ $? = 1 ] && [ "$(grep -c "no exchange is named 'avarage'" out)" = 1 ] && pass || flunk "one reason for two strategies: $(cat out)"
holds out '^avarage; avarage:every=2  +no exchange'
small="--microbatches 2 --model mlp --data glyphs:size=28,train=60,test=20 --batch 12"
cluster two.yaml 'bandwidth: 1e8' 'count: 2, cores: 1'
cluster tiny.yaml 'bandwidth: 1e8' "count: 2, cores: 1, memory: $(every two.yaml 'min(bytes) * 0.95')"
refuses 1 "no strategy fits: the least memory is that of ranks=2" "$weft" plan $small --cluster tiny.yaml --auto --one-learner
holds err 'too much; machines of [0-9.]+ MB would hold it, or [0-9]+ such machines'
"$weft" plan $small --cluster tiny.yaml --auto --seconds 0.1 >out 2>err
[ $? = 1 ] && grep -q 'no strategy fits: the least memory is that of ranks=2' err && pass || flunk "nothing fits when the time is out"
cluster two.yaml 'bandwidth: 1e8' 'count: 2, cores: 2'
"$weft" plan $small --cluster two.yaml --auto --one-learner -n 6 >out 2>err && pass || flunk "more ranks than cores: $(cat err)"
holds err '^weft: there are 4 cores for 6 ranks, which take turns$'

# What is refused.
refuses 2 "--auto compares estimates, which need --cluster FILE" "$weft" plan $small --auto
refuses 2 "--auto finds them; leave one of them out" "$weft" plan $small --cluster two.yaml --auto --strategies 'mesh=data=2'
refuses 2 "are about --auto, which is not given" "$weft" plan $small --cluster two.yaml --top 3
refuses 2 "writes what --auto, --target or --budget finds" "$weft" plan $small --cluster two.yaml --output run2.yaml
refuses 2 "give --output FILE too" "$weft" plan $small --cluster two.yaml --auto --pick 2
refuses 2 "leave one of them out" "$weft" plan $small --cluster two.yaml --auto --dump
refuses 2 "one learner has no exchange, and 'server' is given" "$weft" plan $small --cluster two.yaml --auto --one-learner --exchange server
refuses 2 "top" "$weft" plan $small --cluster two.yaml --auto --top 0
refuses 2 "cannot open" "$weft" plan $small --cluster nowhere.yaml --auto
printf 'time: 3\n' >wrong.yaml
refuses 2 "no key is named 'time'; did you mean 'times'?" "$weft" plan $small --cluster wrong.yaml --auto
refuses 2 "no model is named 'mlq'" "$weft" plan --model mlq --cluster two.yaml --auto

# The example is of this version, and answers.
example=$here/../../examples/clusters/four-1gbit.yaml
accepts "the example" "$weft" plan $small --cluster "$example" --auto --one-learner --zero 1
holds out "up to 16 ranks"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
