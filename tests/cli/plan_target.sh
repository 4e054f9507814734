#!/usr/bin/env bash
# Which of several runs reaches a target first (weft plan --target), and ranks that wait for each other in virtual time:
# tests/cli/plan_target.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
small="--data glyphs:size=9,train=96,test=24 --model mlp --batch 12 --seed 4 -t 1"
version=$("$weft" --version | sed -n 's/^weft \([^ ]*\).*/\1/p')
{
    printf 'weft-times\t1\nversion\t%s\nprocessor\tone\n' "$version"
    printf 'time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n'
} >one.times
printf 'times: one.times\nbandwidth: 1e8\nlatency: 1e-4\nmachines:\n  - {count: 4, cores: 1}\n' >four.yaml

# Simulated ranks that wait have the losses of real ones, and steps of the estimated time.
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
seconds() { sed -n 's/.*"event":"'"$2"'".*"seconds":\([0-9.e+-]*\).*/\1/p' "$1" | tail -1; }
for way in '-n 2 --mesh data=2' '-n 2 --zero 2' '-n 4 --exchange average:every=5' '-n 2 --mesh pipeline=2 --microbatches 2'; do
    # shellcheck disable=SC2086
    accepts "$way" "$weft" simulate $small --steps 10 $way --cluster four.yaml --metrics virtual.jsonl
    holds out '^10 steps of [14] learners? in [0-9.]+ s of virtual time'
    holds out '^sent between machines: [0-9.]+ [kM]B$'
    # shellcheck disable=SC2086
    "$weft" train $small --steps 10 $way --metrics real.jsonl -q
    losses virtual.jsonl >a && losses real.jsonl >b && [ "$(wc -l <a)" = 10 ] && cmp -s a b && pass || flunk "$way: other losses than in a real run"
    # shellcheck disable=SC2086
    step=$("$weft" plan $small $way --cluster four.yaml | sed -n 's/.* a step takes \([0-9.e+]*\) ms.*/\1/p')
    awk -v s="$(seconds virtual.jsonl step)" -v ms="$step" 'BEGIN { r = s / (ms / 100); exit !(r > 0.999 && r < 1.001) }' && pass || flunk "$way: 10 steps of $step ms take $(seconds virtual.jsonl step) s"
done
# Learners that average also meet at the end of a run, so a simulated run sends as many averages as a real one.
averages() {
    "$weft" "$@" -q --metrics sent.jsonl >out 2>err || flunk "$*"
    if [ "$1" = train ]; then grep -c '"comm_bytes":[1-9]' sent.jsonl; else sed -n 's/.*"exchange_bytes":\([0-9]*\).*/\1/p' sent.jsonl; fi
}
once=
for way in 'average:every=5 --steps 5' 'average:every=10 --steps 5' 'oneshot --steps 3' 'average:every=3 --steps 10' 'average:every=3 --steps 12'; do
    # shellcheck disable=SC2086
    bytes=$(averages simulate $small -n 2 --cluster four.yaml --exchange $way) meetings=$(averages train $small -n 2 --exchange $way)
    : "${once:=$bytes}"
    [ "$bytes" -gt 0 ] && [ "$bytes" = $((meetings * once)) ] && pass || flunk "$way sends $bytes bytes, and $meetings averages of $once are sent"
done
accepts compare "$weft" compare $small --epochs 1 --cluster four.yaml -n 4 --strategies 'mesh=data=4; exchange=average:every=4; exchange=server:policy=async; mesh=data=2 exchange=gossip'
[ "$(grep -c ' [0-9]* %$' out)" = 4 ] && pass || flunk "four runs side by side: $(cat out)"

# The table.
list='mesh=data=4; mesh=tensor=4; exchange=average:every=4; exchange=server:policy=async; exchange=hogwild'
target() { "$weft" plan $small -n 4 --epochs 20 --evaluate-every 4 --cluster four.yaml "$@"; }
accepts "a target" target --target accuracy=0.4 --strategies "$list" --plot target.svg
holds out '^strategy +lr +batch +ms a step +s to accuracy=0.4 +samples +training loss +held-out loss +accuracy$'
awk '/^strategy/ { begun = 1; next } begun && NF == 0 { exit } begun { print $1 }' out >ranked
[ "$(wc -l <ranked)" = 4 ] && pass || flunk "four runs are ranked: $(cat out)"
holds out '^hogwild: exchange hogwild cannot be simulated'
holds out '^mesh=tensor=4: its numbers are those of mesh=data=4, computed once$'
holds out ': left out after round [0-9]+: (its accuracy was|it had )'
"$weft" plan $small -n 4 --cluster four.yaml --strategies 'exchange=server:policy=async' >planned 2>err
[ "$(awk '/^server:policy=async / { print $4 }' out)" = "$(awk '/^server:policy=async / { print $2 }' planned)" ] && pass || flunk "a step is that of the estimate: $(cat out planned)"
holds out '^training loss \(moving mean\) over virtual seconds$'
holds target.svg '^<svg .*'
holds target.svg '>held-out accuracy \(target 0.4\)<'
holds target.svg 'accuracy=0.4 after [0-9.]+ s'
cp out first
target --target accuracy=0.4 --strategies 'exchange=server:policy=async;exchange=hogwild;mesh=tensor=4; exchange=average:every=4; mesh=data=4' >out 2>err
cmp -s first out && pass || flunk "another order of the list gives another table: $(diff first out)"

target --target accuracy=0.4 --strategies "$list" --json >out 2>err
python3 - <<'END' && pass || flunk "JSON: $(cat out err)"
import json
rows = json.load(open("out"))
ran = [r for r in rows if "reached" in r]
assert len(rows) == 5 and len(ran) == 4 and ran[0]["reached"] and "left_out_after_round" not in ran[0], rows
assert rows[-1]["strategy"] == "exchange=hogwild" and "reason" in rows[-1]
assert all("reason" in r for r in ran[1:]) and ran[0]["metric"] >= 0.4
for r in ran:
    assert all(a[0] < b[0] for a, b in zip(r["curve"], r["curve"][1:])) and r["curve"][-1][0] <= r["seconds"] * 1.0001
END
more="--data glyphs:size=9,train=960,test=100" # enough for a held-out loss to fall
# shellcheck disable=SC2086
accepts "a budget" target $more --budget 0.4s --strategies 'lr=0.01; lr=1e-7'
[ "$(awk '/^lr=/ { print $1; exit }' out)" = lr=0.01 ] && pass || flunk "the budget chooses $(cat out)"
# shellcheck disable=SC2086
accepts "a sweep" target $more --budget 0.4s --sweep lr=1e-7..1e-2:log:3
[ "$(grep -c '^lr=1e-07 \|^lr=3.16228e-05 \|^lr=0.01 ' out)" = 3 ] && pass || flunk "a sweep: $(cat out)"
accepts "the one run" target --target accuracy=0.4 --seeds 2
holds out '^the run  +.* \([0-9.]+ to [0-9.]+\) '
accepts "a training loss" target --target train_loss=1.5
accepts "a rule" target --budget 20m --steps 20 --lr-rule linear --strategies 'exchange=average:every=1; exchange=server:policy=async'
holds out '^average:every=1  +0.004 +48 '
holds out '^server:policy=async  +0.001 +12 '
holds out '^average:every=1: a warm-up, since the rate is 4 times the given one: --lr 0.004 --warmup 2$'
target --budget 20m --steps 40 --lr-rule linear --strategies 'exchange=average:every=1' --output warm.yaml >out 2>err && grep -q '^warmup: 4$' warm.yaml && grep -q '^lr: 0.004' warm.yaml && pass || flunk "the run file has the warm-up: $(cat out err warm.yaml)"
holds out '^learning rates are those given for a batch of 12, and follow the samples of an update'
printf 'times: one.times\nbandwidth: 125e6\nmachines:\n  - {count: 4, cores: 1, speed: 1e-6}\n' >slow.yaml
"$weft" plan $small --steps 200 --cluster slow.yaml --budget 9d >out 2>err
holds out ' s of virtual time are [0-9.]+ days'

# Targets that are not reached, and what is refused.
target --target accuracy=1 --steps 8 --strategies 'lr=0.01; lr=0.001' >out 2>err
[ $? = 1 ] && grep -q '^weft: no run reached accuracy=1; the best that was seen is [01]' err && pass || flunk "not reached: $(cat out err)"
for goal in loss=0.01 accuracy=1 train_loss=0.01; do
    target --target $goal --steps 40 --seeds 3 --strategies 'lr=0.003; lr=0.001' --json >out 2>err
    python3 - $goal <<'PY' && pass || flunk "the best of all seeds: $(cat out err)"
import json, re, sys
seen = float(re.search("best that was seen is ([0-9.e+-]+)", open("err").read())[1])
name = sys.argv[1].split("=")[0]
values = [r["train_loss" if name == "train_loss" else "metric"] for r in json.load(open("out"))]
assert all(seen >= x * 0.99999 for x in values) if name == "accuracy" else all(seen <= x * 1.00001 for x in values), (seen, values)
PY
done
"$weft" plan $small --steps 3 --cluster four.yaml --target r2=0.5 >out 2>err
[ $? = 2 ] && grep -q "none of the finalists can run; the run: .*r2" err && pass || flunk "a metric of other data: $(cat err)"
refuses 2 "target 'accuracy' is not NAME=VALUE" target --target accuracy
for share in accuracy=97 accuracy=-1 f1_macro=1.01; do
    refuses 2 "the target $share is no value of ${share%=*}, which goes from 0 to 1; 97 % is 0.97" target --target $share
done
refuses 2 "the target perplexity=0.5 cannot be reached; perplexity is at least 1" target --target perplexity=0.5
refuses 2 "the target r2=2 cannot be reached; r2 is at most 1" target --target r2=2
refuses 2 "budget 'soon' is not a time" target --budget soon
refuses 2 "accurcy" target --target accurcy=0.5
refuses 2 "which need --cluster FILE" "$weft" plan $small --target accuracy=0.5
refuses 2 "are of runs in virtual time; give --target" "$weft" plan $small --cluster four.yaml --seeds 2
refuses 2 "--dump and --passes are of one run" target --target accuracy=0.5 --dump
refuses 2 "an SVG picture is written" target --target accuracy=0.5 --plot a.png
refuses 2 "strategies 'a;;b'" target --target accuracy=0.5 --strategies 'a;;b'
refuses 2 "no option is named 'msh'" target --target accuracy=0.5 --strategies 'msh=data=2'
refuses 2 "runs that are compared all begin anew" target --target accuracy=0.5 --checkpoint run --resume
printf 'machines:\n  - count: 4\n' >plain.yaml
refuses 2 "there is no key 'times'" "$weft" plan $small -n 4 --mesh data=4 --cluster plain.yaml --target accuracy=0.5
# Finalists with other samples go on beside each other, and each curve is that of the run alone.
for run in 'augment=vflip; augment=erase' augment=vflip augment=erase 'class-weights=balanced; lr=0.002' class-weights=balanced lr=0.002; do
    "$weft" plan --model mlp --data glyphs:size=8,train=200,test=40 -b 10 --epochs 2 -n 2 --mesh data=2 --cluster four.yaml --target train_loss=0.001 --json --strategies "$run"
    echo
done >curves 2>err
python3 - <<'PY' && pass || flunk "finalists beside each other: $(cat err)"
import json
text, decoder, lists = open("curves").read().strip(), json.JSONDecoder(), []
while text:
    one, end = decoder.raw_decode(text)
    lists.append({row["strategy"]: row["curve"] for row in (one if isinstance(one, list) else one["runs"])})
    text = text[end:].strip()
assert len(lists) == 6
for pair, *alone in (lists[:3], lists[3:]):
    for one in alone:
        for name, curve in one.items():
            assert len(pair[name]) > 3 and [loss for *_, loss in pair[name]] == [loss for *_, loss in curve][:len(pair[name])], name
PY
# A search that is interrupted ends, and leaves no picture.
# shellcheck disable=SC2086
background out err "$weft" plan $small --epochs 100000 --cluster four.yaml --target train_loss=-1 --plot none.svg
catches $!
kill -TERM $!
wait $!
rc=$?
[ $rc = 143 ] && grep -q "^weft: stopped before" err && [ ! -e none.svg ] && pass || flunk "stopped, exit $rc"

# The noise scale is among the metrics of the steps that measure it.
"$weft" train $small --microbatches 3 --noise-scale 2 --metrics noise.jsonl -q
[ "$(grep -c '"noise_scale":[0-9.]*,' noise.jsonl)" -ge 1 ] && ! grep -q '"step":[13579],.*noise_scale' noise.jsonl && pass || flunk "noise scale: $(cat noise.jsonl)"
refuses 2 "give --microbatches 2, or several ranks" "$weft" train $small --noise-scale 2
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
