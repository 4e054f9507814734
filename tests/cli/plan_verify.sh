#!/usr/bin/env bash
# Estimates beside runs (weft plan --verify): bytes and memory are those of the runs, times are only there: tests/cli/plan_verify.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20 --model mlp"
version=$("$weft" --version | sed -n 's/^weft \([^ ]*\).*/\1/p')
times() { # PROCESSOR
    printf 'weft-times\t1\nversion\t%s\nprocessor\t%s\n' "$version" "$1" >one.times
    printf 'time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\ntime\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n' >>one.times
}
printf 'times: one.times\nmachines:\n  - {count: 1, cores: 2}\n' >one.yaml

# Times of another processor, another version, or several machines are refused.
times another
refuses 2 "the times were measured on 'another', and this processor is" "$weft" plan $small --verify --cluster one.yaml
processor=$(sed -n "s/.*and this processor is '\(.*\)'; weft measure.*/\1/p" err)
# Predictions tell for whose processor they are, and runs on this one are warned; with times of its own none is.
for of in another "$processor"; do
    times "$of"
    elsewhere=0 && [ "$of" = another ] && elsewhere=1
    for command in "plan $small --cluster one.yaml" "plan $small --cluster one.yaml --strategies lr=1;lr=2" \
        "simulate $small --cluster one.yaml --mesh data=1" "compare $small --cluster one.yaml --strategies lr=1e-4;lr=1e-3"; do
        # shellcheck disable=SC2086
        "$weft" $command >out 2>err || flunk "$command: $(cat err)"
        [ "$(grep -c "^weft: one.yaml: estimates are for 'another', where its times were measured$" err)" = $elsewhere ] && pass || flunk "$command: $(cat err)"
    done
    "$weft" train -q $small --estimate one.yaml --steps 30 >out 2>err || flunk "estimate: $(cat err)"
    "$weft" train $small --estimate one.yaml --steps 30 --trace one.json >out 2>err || flunk "estimate: $(cat err)"
    [ "$(grep -c "estimate: one.yaml: the times were measured on 'another', and this processor is '$processor'" err)" = $elsewhere ] && pass || flunk "estimate: $(cat err)"
    "$weft" plan $small --cluster one.yaml --timeline --measured one.json >out 2>err || flunk "measured: $(cat err)"
    [ "$(grep -c "^weft: one.json: the step was measured on '$processor', and the times of one.yaml on 'another'; weft measure" err)" = $elsewhere ] && pass || flunk "measured: $(cat err)"
done
rm -f one.json
version=0.0.1 times "$processor"
refuses 2 "these times are of weft 0.0.1" "$weft" plan $small --verify --cluster one.yaml
times "$processor"
printf 'times: one.times\nbandwidth: 125e6\nmachines:\n  - {count: 2, cores: 2}\n' >two.yaml
refuses 2 "there are 2 machines, and runs are verified on this one" "$weft" plan $small --verify --cluster two.yaml
# A step of more than a day is refused, and only the rows of a table that have one.
times "$processor"
printf 'times: one.times\nbandwidth: 1e-3\nmachines:\n  - {count: 2, cores: 1}\n' >day.yaml
printf 'step: 86000\nmachines:\n  - {count: 2}\n' >days.yaml
printf 'step: 87000\nmachines:\n  - {count: 2}\n' >slow.yaml
refuses 2 "s, more than a day: " "$weft" plan $small --cluster day.yaml -n 2 --mesh data=2
refuses 2 "s, more than a day: " "$weft" simulate $small --cluster day.yaml -n 2 --mesh data=2
refuses 1 "no step of these strategies is estimated" "$weft" plan $small --cluster day.yaml -n 2 --strategies 'mesh=data=2; exchange=average'
accepts "a row of more than a day" "$weft" plan $small --cluster day.yaml -n 2 --strategies 'mesh=data=2; ranks=1'
for exchange in server gossip easgd; do
    refuses 2 "no learner ends a step within a day of virtual time (0 of 6 steps, the last one at 0 s); give --cluster a file with a smaller 'step'" "$weft" simulate $small --cluster slow.yaml -n 2 --steps 3 --exchange $exchange
    accepts "a run of several days" "$weft" simulate $small --cluster days.yaml -n 2 --steps 3 --exchange $exchange
    holds out '^3 steps of 2 learners in 2580[0-9.]* s of virtual time'
done
refuses 2 "--quick is about --verify" "$weft" plan $small --quick
refuses 2 "leave one of them out" "$weft" plan $small --verify --dump
refuses 2 "leave one of them out" "$weft" plan $small --verify --why 'mesh=data=2; mesh=tensor=2' --cluster one.yaml
refuses 2 "strategies 'a;;b'" "$weft" plan $small --verify --cluster one.yaml --strategies 'a;;b'

# Bytes that are sent and memory that is planned are exactly those of the runs, over all exchanges: messages of actors but for their
# heads and one that a run's end has or lacks, and where they depend on chance, there are some, and they are marked.
exchanges=$("$weft" plan --exchange - 2>&1 | sed -n 's/.*known are \([a-z, ]*\).*/\1/p' | tr -d ' ')
list='mesh=data=2; mesh=tensor=2; mesh=data=2 zero=3; mesh=domain=2; mesh=pipeline=2 microbatches=2; exchange=average:every=2; mesh=data=2 device=reference'
list="$list; exchange=server servers=2; exchange=server engine=processes$(printf '; exchange=%s' ${exchanges//,/ })"
"$weft" plan $small -n 2 --verify --quick --cluster one.yaml --strategies "$list" --json >out 2>err && pass || flunk "verify: $(cat err)"
exchanges=$exchanges python3 - <<'END' && pass || flunk "JSON: $(cat out err)"
import json
import os
told = json.load(open("out"))
rows = told["runs"]
names = os.environ["exchanges"].split(",")
assert len(names) >= 6 and [r["strategy"] for r in rows[-len(names):]] == [f"exchange={n}" for n in names], names
assert [r["strategy"] for r in rows if "reason" in r] == ["mesh=data=2 device=reference"], rows
assert told["processor"] and told["cores"] >= 1 and isinstance(told["busy"], bool)
known = [r for r in rows if "reason" not in r]
chance = {r["strategy"] for r in known if r["sent_by_chance"]}
assert "exchange=gossip" in chance and not any("mesh" in s or "server" in s or "average" in s for s in chance), chance
for r in known:
    assert r["memory_bytes"] == r["measured_memory_bytes"], r
    said, was = r["sent_bytes"], r["measured_sent_bytes"]
    if r["sent_by_chance"]:
        assert said > 0 and was > 0, r
    elif "exchange" in r["strategy"] and "average" not in r["strategy"]:  # a slow machine sends some messages again
        assert said <= was * (1.001 if "server" in r["strategy"] else 1.02) and was <= 1.5 * said, r
    else:
        assert said == was, r
    assert r["measured_seconds"] > 0 and r["process_bytes"] > r["memory_bytes"] and r["estimated_process_bytes"] > r["memory_bytes"], r
assert min(abs(r["sent_bytes"] / r["measured_sent_bytes"] - 1) for r in known if "server" in r["strategy"]) < 1e-3, known
errors = sorted(abs(r["step_seconds"] / r["measured_seconds"] - 1) for r in known)
assert abs(told["greatest_error"] - errors[-1]) < 1e-6 and abs(told["median_error"] - errors[len(errors) // 2]) < 1e-6, told
errors = sorted(abs(r["estimated_process_bytes"] / r["process_bytes"] - 1) for r in known)
assert abs(told["greatest_memory_error"] - errors[-1]) < 1e-6, told
assert -1 <= told["rank_correlation"] <= 1
END
accepts "a table" "$weft" plan $small -n 2 --verify --quick --cluster one.yaml --strategies 'mesh=data=2; mesh=data=2 batch=1'
holds out '^mesh=data=2 +[0-9.e+]+ +[0-9.e+]+ +[-+][0-9.]+ % +[0-9.]+ +[0-9.]+ +[-+][0-9.]+ % +806016 +806016$'
holds out '^mesh=data=2 batch=1: batch is 1, which cannot be shared out to 2 ranks'
holds out '^1 of 2 runs: time [0-9.]+ % off [(][0-9.]+ at most[)], memory [0-9.]+ % off [(][0-9.]+ at most[)], bytes 0.0 % off [(]0.0 at most[)]$'
accepts "one run" "$weft" plan $small --verify --quick --cluster one.yaml
holds out '^this run +[0-9.]+'
[ -z "$(ls | grep -v 'yaml$\|times$\|^out$\|^err$')" ] && pass || flunk "files are left: $(ls)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
