#!/usr/bin/env bash
# Kernels chosen by a table of measurements: tests/train/tuning.sh PATH/TO/weft. What a table chooses does not depend on the speed of
# the machine here, since its seconds are written by hand.
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(dirname "$weft")/cache}
cat >branches.yaml <<'YAML'
layers:
  - {type: conv, name: first, filters: 5, kernel: 3}
  - {type: relu, name: trunk}
  - {type: conv, name: one, from: trunk, filters: 3, kernel: 1}
  - {type: conv, name: two, from: trunk, filters: 4, kernel: 1}
  - {type: concat, from: "one, two"}
  - {type: dense, units: classes}
YAML
data="--data glyphs:size=8,train=60,test=20 --batch 20 -t 1"
branches="--model branches.yaml $data"

# prefer TABLE NAME...: in each group of the table, the first of these candidates that it has takes a microsecond, others a
# millisecond.
prefer() {
    python3 - "$@" <<'PY'
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
for row in rows:
    if row[0] == "measured" and row[3] != "impossible":
        have = [other[4] for other in rows if other[0] == "measured" and other[5] == row[5] and other[3] != "impossible"]
        best = next((name for name in sys.argv[2:] if name in have), have[0])
        row[3] = "1e-6" if row[4] == best else "1e-3"
open(sys.argv[1], "w").writelines("\t".join(row) + "\n" for row in rows)
PY
}
# weights FILE OPTIONS: trains, and exports the weights.
weights() {
    local to=$1
    shift
    rm -rf run
    "$weft" train -q "$@" --checkpoint run >out 2>err && "$weft" export run --output "$to" >out 2>err
}
# equal NAME FILE: its weights are those of tuned.safetensors.
equal() { cmp -s tuned.safetensors "$2" && pass || flunk "$1: other bits than the first tuned run"; }

# A file is made once, and then used as it is.
mkdir tables
weights tuned.safetensors $branches --steps 4 --tune tables/own && pass || flunk "a run that measures"
holds tables/own '^measured	cpu	1	[0-9.e-]+	(onednn|rows)	(concat|slice)\('
cp tables/own before
weights again.safetensors $branches --steps 4 --tune tables/own && cmp -s tables/own before && pass || flunk "a table is used as it is"
equal "a run by the table" again.safetensors
[ "$(ls tables)" = own ] && pass || flunk "tables has $(ls tables)"

# The seconds of the table choose. The rule takes loops over rows in plain layouts, so onednn is not its choice everywhere.
cp tables/own forced
prefer forced onednn
"$weft" plan $branches --dump --tune forced >out 2>err || flunk "a plan"
grep -q '\] onednn 1 us measured.* of: rows 1e+03 us measured' out && pass || flunk "plan shows no measured candidate"
grep -q '\] rows .* of: onednn 1 us' out && flunk "a slower candidate is chosen" || pass
prefer forced rows
"$weft" plan $branches --dump --tune forced >out 2>err || flunk "a plan"
grep -q '\] rows 1 us measured.* of: onednn 1e+03 us measured' out && pass || flunk "plan shows no measured candidate"

# one_table TABLE OPTIONS: one choice on all ranks, engines and in a run that resumes without the option.
one_table() {
    local table=$1 n
    shift
    weights tuned.safetensors "$@" --steps 4 --virtual-workers 4 --tune "$table" && pass || flunk "one rank"
    for n in 2 4; do
        weights ranks.safetensors "$@" --steps 4 --virtual-workers 4 --tune "$table" -n $n && equal "$n ranks" ranks.safetensors
    done
    if command -v mpirun >/dev/null; then
        weights ranks.safetensors "$@" --steps 4 --virtual-workers 4 --tune "$table" -n 2 --engine mpi && equal "processes" ranks.safetensors
    fi
    cmp -s "$table" run/latest/tuning.txt && pass || flunk "the checkpoint has another table"
    rm -rf run
    "$weft" train -q "$@" --steps 2 --virtual-workers 4 --tune "$table" --checkpoint run >out 2>err || flunk "the first half"
    mv "$table" away
    "$weft" train -q "$@" --steps 4 --virtual-workers 4 --checkpoint run --resume >out 2>err && "$weft" export run --output half.safetensors >out 2>err
    equal "a resumed run without the option" half.safetensors
    mv away "$table"
    cmp -s "$table" run/latest/tuning.txt && pass || flunk "the resumed run's checkpoint has another table"
}
one_table forced $branches
accepts "eval by the table of the checkpoint" "$weft" eval run
accepts "predict by the table of the checkpoint" "$weft" predict run --output predicted
if in_full; then
    rm -rf run
    accepts "learners that are processes" "$weft" train -q $branches --steps 4 -n 2 --engine processes --exchange server:policy=async --servers 1 --tune forced --checkpoint run
    cmp -s forced run/latest/tuning.txt && pass || flunk "a learner that is a process has another table"
fi

# A table that lacks groups leaves them to the rule, and says how many.
grep -v '	slice(' forced >part
"$weft" train $branches --steps 1 --tune part >out 2>err
holds err 'part lacks [0-9]+ groups? of kernels'

# What is refused, with the file and its line.
bad() { # CODE WORDS SED-COMMAND
    sed "$3" forced >bad
    refuses "$1" "$2" "$weft" train -q $branches --steps 1 --tune bad
}
line=$(grep -n '^measured' forced | head -n 1 | cut -d : -f 1)
bad 2 "bad: was measured on the processor 'Another', and this machine has" 's/^processor	.*/processor	Another/'
bad 2 "bad: was measured with weft 9.9" 's/^version	.*/version	9.9/'
bad 1 "bad:$line: the seconds are neither" "${line}s/	1e-[36]/	fast/"
bad 1 "bad:$line: the line is damaged" "${line}s/	/ /g"
bad 2 "bad:$line: the device cpu has no candidate 'quick' for" "${line}s/	\(onednn\|rows\)	/	quick	/"
bad 1 "bad:$line: there is no operator 'nosuch'" "${line}s/	[a-z_]*(/	nosuch(/"
bad 1 "bad:$line: there is no type 'f33'" "${line}s/f32/f33/"
bad 1 "bad:$line: there is no layout 'plane'" "${line}s/\] [a-zA-Z0-9]*/] plane/"
bad 1 "bad:$line: there is no layout 'aBce16b'" "${line}s/\] [a-zA-Z0-9]*/] aBce16b/"
bad 1 "bad:$line: the group is damaged at 'f32" "${line}s/ of 0 / of /"
bad 1 "bad:$line: the group is damaged at 'x'" "${line}s/$/, x/"
bad 1 "bad:$line: a size is a whole number from 1, and there is '0'" "${line}s/\[[0-9]*/[0/"
bad 1 "bad:$line: a size is a whole number from 1, and there is '-4'" "${line}s/\[[0-9]*/[-4/"
bad 1 "bad:$line: a size is a whole number from 1, and there is '99999999999999999999'" "${line}s/\[[0-9]*/[99999999999999999999/"
bad 1 "bad:$line: a value has more elements than memory can have, by the size '" "${line}s/\[[0-9]*, [0-9]*/[4000000000, 4000000000/"
bad 1 "bad:$line: there is no such device here" 's/^hardware	cpu	cpu/hardware	cpu	gpu/'
bad 1 "bad:1: this is no table of measurements" '1s/1/2/'
bad 1 "bad:$((line + 1)): the measurement is that of line $line again" "${line}p"
printf '%s' "$(cat forced)" >bad
refuses 1 "bad:$(grep -c '' forced): the last line is cut off" "$weft" train -q $branches --steps 1 --tune bad
: >bad
refuses 1 "bad: is empty" "$weft" train -q $branches --steps 1 --tune bad
refuses 2 "tune" "$weft" simulate $branches --steps 1 -n 2 --exchange average --tune forced

# served FILE MODEL...: serves models, with kernels by the file, until they are ready; answer is a prediction of the first one.
served() {
    local table=$1 server
    shift
    background out err "$weft" serve "$@" --tune "$table" --port 0 --metrics-port -1 --measure 0 --times none -t 1
    server=$!
    within 'grep -q http out' || flunk "no server"
    answer=$(curl -s "$(grep -o 'http://[0-9.:]*' out | head -n 1)/v1/models/${1%%=*}:predict" -d "{\"instances\": [[$(seq -s , 64)]]}")
    kill -TERM $server
    wait $server
}
printf 'layers:\n  - {type: conv, name: a, filters: 3, kernel: 3}\n  - {type: conv, name: b, filters: 5, kernel: 3, from: x}\n  - {type: concat, from: "a, b"}\n  - {type: dense, units: classes}\n' >fork.yaml
rm -rf fork branches
"$weft" train -q $branches --steps 1 --checkpoint branches >out 2>err && "$weft" train -q --model fork.yaml $data --steps 1 --checkpoint fork >out 2>err || flunk "models to serve"
served tables/served one=branches/latest
holds tables/served '^measured	cpu	1	[0-9.e-]+	(onednn|rows)	concat\('
first=$answer lines=$(grep -c ^measured tables/served)
cp tables/served before
served tables/served one=branches/latest
cmp -s tables/served before && [ -n "$first" ] && [ "$first" = "$answer" ] && pass || flunk "a table is served as it is: $first, $answer"
served tables/served one=branches/latest two=fork/latest
[ "$(grep -c ^measured tables/served)" -gt "$lines" ] && [ "$(head -n "$(grep -c '' before)" tables/served)" = "$(cat before)" ] && [ "$first" = "$answer" ] && pass ||
    flunk "another model adds to the table"
cp tables/served before
served tables/served two=fork/latest one=branches/latest
cmp -s tables/served before && pass || flunk "both models are in the table"
sed "s/	concat(/	konkat(/" before >bad
refuses 1 "bad:$(grep -n '	concat(' before | head -n 1 | cut -d : -f 1): there is no operator 'konkat'" "$weft" serve one=branches/latest --tune bad --port 0
sed 's/^version	.*/version	9.9/' before >bad
refuses 2 "bad: was measured with weft 9.9" "$weft" serve one=branches/latest --tune bad --port 0
: >bad
refuses 1 "bad: is empty" "$weft" serve one=branches/latest --tune bad --port 0

# Of the processes of a server one measures, and the others read what it wrote.
background out err "$weft" serve one=branches/latest --tune tables/several --processes 2 --port 0 --metrics-port -1 --measure 0 --times none -t 1
server=$!
within 'grep -q http out' || flunk "no server of two processes"
kill -TERM $server
wait $server
[ "$(grep -c 'new measurements; tables/several has them' err)" = 1 ] && ! grep -q 'lacks' err && [ "$(grep -c ^measured tables/several)" = "$lines" ] && pass ||
    flunk "one process measures, once"

# After measuring a run lacks no group, also not of its evaluation, or a line says why. The limit is told as it is.
large="--model inception --data glyphs:size=64,train=40,test=20 --batch 20 --steps 1 -t 1"
inception="--model inception --data glyphs:size=16,train=40,test=20 --batch 20 -t 1"
"$weft" train $inception --steps 1 --device distant:of=cpu --tune tables/all >out 2>err && ! grep -q lacks err && pass || flunk "a run lacks groups that it has just measured"
"$weft" train $large --timeout 0.1 --tune tables/late >out 2>err
holds err 'tuning: measures the kernels of this run for at most 0.05 seconds'
holds err 'tuning: [0-9]+ groups of kernels could not be measured, and the rule chooses: the time was over; a larger --timeout and a new file'

# stops COMMAND...: it is asked to stop when it begins to measure, ends with the signal's code, and leaves no file. The networks
# have many more candidates than are measured meanwhile.
stops() {
    background out err "$@" --tune killed/table
    local job=$!
    within 'grep -q "measures the kernels" err' || flunk "it does not measure: $*"
    kill -TERM $job
    wait $job
    local got=$?
    { [ $got = 143 ] || [ $got = 130 ]; } && [ -z "$(ls killed)" ] && ! grep -q 'measurements in' err && pass || flunk "exit $got, and killed has '$(ls killed)': $*"
}
mkdir killed
stops "$weft" coordinator -n 1 --exchange gossip --listen tcp://127.0.0.1:0 $large
! command -v mpirun >/dev/null || stops "$weft" train $large -n 2 --engine mpi
rmdir killed

# A run that is killed while it measures leaves no file, or a whole one.
mkdir killed
background out err "$weft" train --model inception --data glyphs:size=16,train=40,test=20 --batch 20 --steps 1 -t 1 --tune killed/table
within 'grep -q "measures the kernels" err' || flunk "it does not measure"
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
[ -z "$(ls killed)" ] || "$weft" plan $branches --tune killed/table >out 2>err && pass || flunk "half a table is left"

# A device with memory of its own; and a card, whose products have several tiles.
cp tables/own far
weights far.safetensors $branches --steps 2 --device distant:of=cpu --tune tables/far && holds tables/far '^measured	distant	1	[0-9.e-]+	distant#2	'
echo 'layers: [{type: dense, units: classes}]' >one.yaml
one="--model one.yaml --data glyphs:size=8,train=80,test=40 --batch 40 --steps 2 -t 1 --device opencl"
if "$weft" train -q $one >out 2>err; then
    weights tiles.safetensors $one --tune tables/card && holds tables/card '^measured	opencl	1	[0-9.e-]+	tiles	dense\('
    holds tables/card '^hardware	opencl	opencl	..*'
    prefer tables/card 16x16
    "$weft" plan $one --dump --tune tables/card >out 2>err
    holds out '\[16x16\] 16x16 1 us measured.* of: tiles'
    weights tiles.safetensors $one --tune tables/card && "$weft" eval run >out 2>err && pass || flunk "tiles of a table"
    # A sum that is cut into slices is rounded otherwise than a whole one, so the bits show which one a rank has taken.
    wide="--model one.yaml --data glyphs:size=36,train=80,test=40 --batch 40 -t 1 --device opencl"
    weights rule.safetensors $wide --steps 4 --virtual-workers 4 --tune tables/wide
    prefer tables/wide tiles
    weights rule.safetensors $wide --steps 4 --virtual-workers 4 --tune tables/wide
    prefer tables/wide "whole sums"
    one_table tables/wide $wide
    cmp -s rule.safetensors tuned.safetensors && flunk "whole sums give the bits of sums that are cut" || pass
    sed 's/^hardware	opencl	opencl	/&Other /' tables/card >bad
    refuses 2 "bad: was measured on the opencl device 'Other " "$weft" train -q $one --tune bad
else
    echo "SKIPPED opencl: $(cat err)"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
