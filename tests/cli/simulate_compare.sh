#!/usr/bin/env bash
# Runs that are simulated, set side by side, or held against what they must be: tests/cli/simulate_compare.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20"

# Simulated runs, and clusters that are none.
printf 'step: 0.1\nmachines:\n  - count: 3\n  - {speed: 0.1, jitter: 0.5}\n' >cluster.yaml
accepts simulate "$weft" simulate $small --cluster cluster.yaml --exchange server:policy=async --metrics s.jsonl
holds out '^1 step of 4 learners in [0-9.]+ s of virtual time'
holds out '^mean staleness of updates: '
holds s.jsonl '"event":"step","step":1,.*"seconds":[0-9.]+\}$'
holds s.jsonl '"event":"summary".*"exchange_bytes":[0-9]+.*"staleness":\['
accepts "nothing is stale" "$weft" simulate $small --cluster cluster.yaml --exchange server:policy=bsp --metrics b.jsonl --quiet
holds b.jsonl '"staleness":\[[0-9]+\]'
accepts "quiet simulation" "$weft" simulate $small --cluster cluster.yaml --exchange gossip --quiet
[ -s out ] && flunk "--quiet printed" || pass
# A learner's memory is that of a real rank.
memory() { sed -n 's/.*"rank_bytes":\[\([0-9]*\),.*/\1/p' "$1"; }
for exchange in server easgd gossip; do
    "$weft" simulate $small -n 2 --exchange $exchange --steps 1 --metrics s.jsonl --quiet 2>err
    "$weft" train $small -n 2 --exchange $exchange --steps 1 --metrics t.jsonl --quiet 2>err
    [ -n "$(memory t.jsonl)" ] && [ "$(memory s.jsonl)" = "$(memory t.jsonl)" ] && pass || flunk "$exchange: $(memory s.jsonl) bytes, not $(memory t.jsonl)"
done
refuses 2 "or --exchange for learners that do not" "$weft" simulate $small -n 4
refuses 2 "ranks is 0" "$weft" simulate $small -n 0 --exchange server
for exchange in server gossip; do # dgc's momentum comes on top of the optimizer's, as weft train says, too
    "$weft" simulate $small -n 2 --exchange $exchange --compress dgc --optimizer adam --steps 1 >out 2>err
    [ "$(grep -c 'with a momentum of .*, on top of that of --optimizer adam' err)" = 1 ] && pass || flunk "momentum twice, $exchange"
done
# A learner that is a process of its own reports the staleness of each update, as the servers count it.
stale() {
    # shellcheck disable=SC2086
    "$weft" "$@" $small -n 1 -b 20 -o sgd --exchange server:policy=async,fetch=5 --metrics stale.jsonl --quiet >out 2>err
    sed -n 's/.*"staleness":\(\[[^]]*\]\).*/\1/p' stale.jsonl
}
simulated=$(stale simulate)
[ -n "$simulated" ] && [ "$(stale train --engine processes)" = "$simulated" ] && pass || flunk "staleness with fetch=5 is $(stale train --engine processes), not $simulated"
for command in simulate train plan; do # the learners of easgd would leave the centre behind
    refuses 2 "sends differences of parameters, which become 10 times as large" "$weft" $command $small -n 2 --exchange easgd --compress dgc --optimizer sgd --steps 1
    accepts "easgd with dgc" "$weft" $command $small -n 2 --exchange easgd --compress dgc:momentum=0 --optimizer sgd --steps 1
done
refuses 2 "cluster.yaml:2: there are 4 machines here, of one learner each, and -n gives 3" "$weft" simulate $small -n 3 --cluster cluster.yaml --exchange server
refuses 2 "give --cluster a file of weft measure" "$weft" simulate $small -n 4 --exchange average
refuses 2 "or leave --mesh out" "$weft" simulate $small -n 4 --mesh data=2 --exchange server
refuses 2 "no option is named 'cluster'" "$weft" train $small --cluster cluster.yaml
printf 'machines: []\n' >none.yaml
refuses 2 "none.yaml:1: there are no machines" "$weft" simulate $small --cluster none.yaml --exchange server
# The last batch of an epoch may leave learners without samples: a step's loss is that of the samples, and of none it
# is no number; and an epoch that is over is over.
awk 'BEGIN { srand(7); print "a,b,c,k"; for (i = 0; i < 103; i++) print rand() "," rand() "," rand() "," i % 3 }' >odd.csv
odd="--model mlp --data csv:odd.csv,label=k -o sgd --lr 0.05 -n 4 -t 1 -q --epochs 1"
loss() { sed -n 's/.*"event":"step","step":'"$2"',.*"loss":\([^,]*\),.*/\1/p' "$1"; }
# shellcheck disable=SC2086
"$weft" train $odd -b 20 --metrics plain.jsonl
# shellcheck disable=SC2086
"$weft" simulate $odd -b 5 --exchange server:policy=bsp --metrics virtual.jsonl
# shellcheck disable=SC2086
"$weft" train $odd -b 5 --exchange server:policy=bsp --metrics real.jsonl
for step in 1 5; do
    awk -v a="$(loss plain.jsonl $step)" -v b="$(loss virtual.jsonl $step)" 'BEGIN { d = a - b; exit !(a > 0 && d * d < 1e-12) }' &&
        pass || flunk "step $step has a loss of $(loss virtual.jsonl $step), not $(loss plain.jsonl $step)"
done
for run in plain virtual real; do
    holds $run.jsonl '"event":"eval".*"epoch":1,'
    grep '"event":"step"' $run.jsonl | grep -qv '"epoch":1,' && flunk "steps of the first epoch are in another one, $run" || pass
done
[ "$(loss real.jsonl 5)" = null ] && pass || flunk "a learner without samples has a loss of $(loss real.jsonl 5)"
# What cannot be is said with its line and what would be right, as of an option: line|words|text.
while IFS='|' read -r words text; do
    # shellcheck disable=SC2059
    printf -- "$text" >wrong.yaml
    # shellcheck disable=SC2086
    refuses 2 "wrong.yaml:$words" "$weft" simulate $small --cluster wrong.yaml --exchange server
done <<'WRONG'
1: no key is named 'stepp'; did you mean 'step'?|stepp: 1\n
2: option 'step' is '-1', must be a finite number from|# so\nstep: -1\n
1: 'step' must be one plain value|step: [1, 2]\n
1: must be a mapping of keys to values (rate: ...)|- 1\n
1: 'machines' must be a sequence of mappings (- count: ...)|machines: {count: 4}\n
3: item 2 of 'machines' must be a mapping (- count: ...)|machines:\n  - count: 2\n  - 4\n
3: no key is named 'spede'; did you mean 'speed'?|machines:\n  - count: 4\n    spede: 1\n
2: option 'count' is '1e9', must be a whole number from 1 to|machines:\n  - count: 1e9\n
1: 2000 machines in all; there can be|machines:\n  - count: 1000\n  - count: 1000\n
3: the key 'count' is given twice; leave one of them out|machines:\n  - count: 4\n    count: 5\n
2: step is the time of a step|rate: 1\nstep: 1\n
2: step gives the time of a step, and so do the times of its kernels|times: a.times\nstep: 1\nmachines:\n  - count: 4\n
1: rate gives the time of a step, and so do the times of its kernels|rate: 1e9\ntimes: a.times\nmachines:\n  - count: 4\n
2: there are times of a machine, and no machines; give them|latency: 0\ntimes: a.times\n
1: there are times of a machine, and no machines; give them|times: a.times\nmachines: []\n
2: there are several machines, and no link between them; give the bytes a second|times: a.times\nmachines:\n  - {count: 2}\n
3: there are several machines, and no link between them; give the bytes a second|times: a.times\nlatency: 1\nmachines:\n  - {count: 1, bandwidth: 1}\n  - {count: 1}\n
2: bandwidth is 0, so no byte arrives; give the bytes a second|times: a.times\nbandwidth: 0\nmachines:\n  - {count: 2}\n
3: bandwidth is 0, so no byte arrives; give the bytes a second|times: a.times\nmachines:\n  - {count: 2, bandwidth: 0}\n
2: memory is 0 bytes, in which nothing fits; give the bytes|machines:\n  - {count: 2, memory: 0}\n
2: is not YAML|step: "1\n
2: a second document begins|step: 1\n---\nstep: 2\n
3: *h has no anchor '&h' before it|machines:\n  - &g {count: 2}\n  - *h\n
WRONG
refuses 2 "nowhere.yaml: cannot open" "$weft" simulate $small --cluster nowhere.yaml --exchange server

# Runs side by side.
pair='exchange=server:policy=async servers=2; exchange=gossip compress=bf16'
accepts compare "$weft" compare $small --cluster cluster.yaml --strategies "$pair" --plot pair.svg
holds out '^strategy +s to loss [0-9.]+ +samples/s +train loss +test loss +accuracy +sent +staleness +utilisation$'
holds out '^server:policy=async servers=2 +[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +0\.[0-9]+ +[0-9.]+ MB +[0-9.]+ +[0-9]+ %$'
holds out '^gossip compress=bf16 +[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +0\.[0-9]+ +[0-9.]+ MB +- +[0-9]+ %$'
python3 - <<'PY' && pass || flunk "pair.svg is no picture of two curves"
import xml.etree.ElementTree as tree
root = tree.parse("pair.svg").getroot()
name = "{http://www.w3.org/2000/svg}"
lines = [e for e in root.iter(name + "path") if e.get("class") == "curve"]
assert len(lines) == 12 and len({(line.get("stroke"), line.get("stroke-dasharray")) for line in lines}) == 2
words = " ".join(root.itertext())
for said in ("gossip compress=bf16", "virtual time, seconds", "training loss", " on glyphs:size=16", "2 strategies, 4 learners, simulated: mean loss of all learners"):
    assert said in words, (said, words)
PY
cp out pair.txt
# A sweep has each value in turn, both ends exact, with each strategy; the table says what a list of them says.
accepts "a sweep" "$weft" compare $small -t 1 --sweep lr=1e-3..1e-1:log:3
same=$(cut -c1-10 out)
holds out '^1 of 3: lr=0\.001$'
holds out '^3 of 3: lr=0\.1$'
"$weft" compare $small -t 1 --strategies 'lr=0.001; lr=0.01; lr=0.1' >list 2>err
[ "$(cut -c1-10 list)" = "$same" ] && pass || flunk "a sweep is not the list of its values"
accepts "a sweep of strategies" "$weft" compare $small -t 1 --strategies 'optimizer=sgd; optimizer=adam' --sweep batch=10..20:linear:2
holds out '^4 of 4: optimizer=adam batch=20$'
accepts "a sweep of whole numbers" "$weft" compare $small -t 1 --sweep batch=19..20:linear:5
holds out '^the sweep of batch, in whole numbers, leaves out 3 of 5 values as equal to the one before$'
holds out '^2 of 2: batch=20$'
accepts "a sweep of large whole numbers" "$weft" compare $small -t 1 --sweep seed=1000001..2000002:linear:2
holds out '^1 of 2: seed=1000001$'
accepts "a sweep to ends of many digits" "$weft" compare $small -t 1 --sweep lr=0.0012345678..0.09:log:2
holds out '^1 of 2: lr=0\.0012345678$'
refuses 2 "--sweep is given 2 times" "$weft" compare $small --sweep lr=1..2:log:2 --sweep=batch=10..20:log:2
refuses 2 "--strategies is given 2 times" "$weft" compare $small --strategies "$pair" --strategies "$pair"
for wrong in lr lr=1..1:log:3 lr=0..1:log:3 lr=1..2:cubic:3 lr=1..2:log:1 lr=1..2:log:65 lr=1..2:log:4294967299 lr=1..2:log:3x =1..2:log:3; do
    refuses 2 "is not NAME=LOW..HIGH:log:COUNT" "$weft" compare $small --sweep $wrong
done
refuses 2 "no option is named 'learning'" "$weft" compare $small --sweep learning=1..2:log:3
"$weft" compare $small --cluster cluster.yaml --strategies "$pair" >out 2>err
cmp out pair.txt && pass || flunk "a comparison in virtual time says something else the second time"
accepts "real comparison" "$weft" compare $small -n 2 --strategies 'mesh=data=2; exchange=average batch=10' --target 9 --quiet
holds out '^average batch=10 +[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +0\.[0-9]+ +[0-9.]+ MB +-$'
printf 'batch: 20\nmodel: mlp\nstrategies: >-\n  exchange=gossip;\n  lr=100000 optimizer=sgd exchange=server\n' >race.yaml
"$weft" compare race.yaml -n 2 --data glyphs:size=16,train=400,test=20 --epochs 3 --plot race.svg >out 2>err
holds out '^lr=100000 optimizer=sgd exchange=server: the loss became NaN or infinite$'
# A run whose losses grow for long before they are infinite neither hides the others nor sets the axis.
printf 'layers:\n  - {type: dense, units: outputs}\n' >lin.yaml
awk 'BEGIN { srand(5); print "a,b,price"; for (i = 0; i < 100; i++) { a = rand(); b = rand(); print a "," b "," 3 * a + 2 * b } }' >linear.csv
"$weft" compare -q -t 1 -n 2 --model lin.yaml --data csv:linear.csv,target=price --batch 10 --epochs 80 -o sgd --lr 0.01 --dtype f64 \
    --strategies 'exchange=average; exchange=average lr=2' --plot far.svg >out 2>err
holds out '^average lr=2: the loss became NaN or infinite$'
python3 - <<'PY' && pass || flunk "a run that diverges spoils the picture of the other one"
import re, xml.etree.ElementTree as tree
shapes = [e.attrib | {"text": e.text} for e in tree.parse("far.svg").getroot().iter()]
assert all(abs(float(e["text"])) < 1e4 for e in shapes if e.get("class") == "tick"), [e["text"] for e in shapes if e.get("class") == "tick"]
frame = next(e for e in shapes if e.get("class") == "frame")
curve = next(e for e in shapes if e.get("class") == "curve" and e["stroke"] == "#0072b2")
heights = [float(y) for y in re.findall(r",(-?[0-9.]+)", curve["d"])]
assert max(heights) - min(heights) > 0.5 * float(frame["height"]), heights
PY
refuses 2 "fewer than two" "$weft" compare -n 2
refuses 2 "fewer than two" "$weft" compare -n 2 --strategies exchange=gossip
refuses 2 "one of them is empty" "$weft" compare -n 2 --strategies 'exchange=gossip;;exchange=average'
refuses 2 "did you mean 'exchange'" "$weft" compare -n 2 --strategies 'exchange=gossip; excange=average'
# All are looked at before the first is run, and none has an option of the whole.
refuses 2 "the run 'foo' is not possible" "$weft" compare $small -n 2 --strategies 'exchange=gossip; exchange=foo'
[ ! -s out ] && pass || flunk "something was run before all were looked at"
refuses 2 "the run 'average' is not possible" "$weft" compare $small --cluster cluster.yaml --strategies 'exchange=gossip; exchange=average'
[ ! -s out ] && pass || flunk "something was run before all were looked at"
refuses 2 "no codec is named" "$weft" compare $small -n 2 --strategies 'exchange=gossip; exchange=gossip compress=foo'
for own in cluster=cluster.yaml plot=x.svg target=3 sweep=lr=1..2:log:2; do
    refuses 2 "${own%%=*} is no option of one run" "$weft" compare $small -n 2 --strategies "exchange=gossip; exchange=gossip $own"
done
awk 'BEGIN { srand(1); for (i = 0; i < 100; i++) { for (j = 0; j < 8; j++) printf "%f,", rand(); print rand() } }' >noise.csv
accepts "figures below zero" "$weft" compare --model mlp --data csv:noise.csv,target=8 --batch 10 --epochs 60 -o sgd --lr 0.1 -t 1 -n 2 \
    --strategies 'exchange=gossip; mesh=data=2' -q
[ "$(grep -cE ' -[0-9]+\.[0-9]{4} ' out)" -ge 1 ] && pass || flunk "R2 below zero is not shown"
for own in metrics=foo checkpoint=foo; do
    refuses 2 "--${own%%=*} has no effect here" "$weft" compare $small -n 2 --strategies "exchange=gossip; exchange=gossip $own"
done
refuses 2 "--engine has no effect here, since runs are compared within one process" "$weft" compare $small -n 2 --strategies 'exchange=gossip; engine=mpi exchange=gossip'
refuses 2 "--metrics has no effect here, since each run of a comparison would write it in turn" "$weft" compare -n 2 --strategies "$pair" --metrics x.jsonl
for more in "-n 2" "--cluster cluster.yaml"; do
    # shellcheck disable=SC2086
    refuses 1 "nowhere.csv: cannot open" "$weft" compare $more --model mlp --data csv:nowhere.csv,target=y --strategies "$pair"
    grep -q "weft help" err && flunk "help for a file that is missing" || pass
done
sums=$(cksum linear.csv lin.yaml cluster.yaml)
fixed="--model lin.yaml --data csv:linear.csv,target=price"
# shellcheck disable=SC2086
refuses 2 "is a file of the data" "$weft" compare $fixed -n 2 --strategies "$pair" --plot ./linear.csv
# shellcheck disable=SC2086
refuses 2 "is the model file" "$weft" compare $fixed -n 2 --strategies "$pair" --plot ./lin.yaml
refuses 2 "is the file of --cluster" "$weft" compare $small --cluster cluster.yaml --strategies "$pair" --plot ./cluster.yaml
[ "$(cksum linear.csv lin.yaml cluster.yaml)" = "$sums" ] && pass || flunk "a plot replaced an input"
refuses 1 "nowhere/x.svg: cannot create" "$weft" compare -n 2 --strategies "$pair" --plot nowhere/x.svg

# What is built in is what it must be, and whoever asks hears of it if not: here nothing can be saved.
TMPDIR=$PWD accepts selftest "$weft" selftest
holds out '^([0-9]+) of \1 settings are what they must be'
grep -q '^FAILED' out && flunk "a setting failed" || pass
(ulimit -f 4; TMPDIR=$PWD "$weft" selftest >out 2>err)
[ $? = 1 ] && pass || flunk "selftest without files exits with $?"
holds out '^FAILED .*cannot write'
find . -name 'weft-selftest-*' | grep -q . && flunk "selftest leaves its folder behind" || pass
TMPDIR=$PWD background hung-up err env --default-signal=HUP "$weft" selftest
within 'grep -q "^ok" hung-up' || flunk "selftest does not begin"
kill -HUP $!
wait $!
[ $? = 129 ] && ! find . -name 'weft-selftest-*' | grep -q . && pass || flunk "selftest after SIGHUP"
refuses 1 "/nowhere/weft-selftest-" env TMPDIR=/nowhere "$weft" selftest
refuses 2 "selftest takes no arguments" "$weft" selftest all
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
