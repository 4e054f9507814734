#!/usr/bin/env bash
# Runs whose weights and optimizer state are bf16 (--weights bf16): bits over ranks, ZeRO, engines, optimizers and resumed runs;
# meshes, exchanges, devices; memory by the plan; checkpoints across types; evaluation, prediction, generation, serving:
# tests/train/bf16_weights.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
images="--model lenet --data glyphs:size=16,train=60,test=20 --batch 12"
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--model gpt:layers=1,heads=2,width=16,dropout=0.1 --data text:text,unit=char,context=16,stride=8 --batch 8"
bf16="-q -t 1 --dtype bf16 --weights bf16"

# listed KIND: the names of this kind.
listed() { "$weft" inspect --list | sed -n "/^$1/,/^\$/p" | sed -n 's/^  \([a-z][a-z]*\).*/\1/p'; }
# last FOLDER: the sum of the weights of its newest checkpoint.
last() { "$weft" export "$(ls -d "$1"/step-* | sort -t- -k2n | tail -n 1)" -q -o weights.safetensors && md5sum <weights.safetensors; }
# weights OPTIONS: the sum of the weights that a run exports.
weights() {
    rm -rf run
    "$weft" train $bf16 -c run "$@" >out 2>err && last run || flunk "$*"
}
# alike WANT OPTIONS: a run with these options has these weights.
alike() {
    local want=$1
    shift
    [ "$(weights "$@")" = "$want" ] && pass || flunk "other weights with $*"
}

for model in "$images" "$tokens"; do
    run="$model --steps 4 --virtual-workers 4"
    one=$(weights $run)
    alike "$one" $run -n 2 --zero 1
    alike "$one" $run -n 4 --zero 3
    in_full && alike "$one" $run -n 2 && alike "$one" $run -n 4 --zero 2 && alike "$one" $run -t 3
    command -v mpirun >/dev/null && in_full && alike "$one" $run -n 2 --engine mpi --zero 3
    one=$(weights $run --device reference)
    alike "$one" $run --device reference -n 2 --zero 3
    alike "$one" $run --device distant -n 2
    # A run in two parts.
    whole=$(weights $model --steps 4)
    rm -rf run
    "$weft" train $bf16 -c run $model --steps 2 >out 2>err && "$weft" train $bf16 -c run $model --steps 4 --resume >out 2>err &&
        [ "$(last run)" = "$whole" ] && pass || flunk "resumed: $model"
done

# Every optimizer: the same bits where ranks share out the state. --seed draws other numbers.
for optimizer in $(listed optimizers:); do
    in_full || [ "$optimizer" = adam ] || [ "$optimizer" = muon ] || [ "$optimizer" = lamb ] || continue
    run="--model mlp --data glyphs:size=9,train=40,test=10 --batch 8 --steps 3 --virtual-workers 2 -o $optimizer --lr-multiplier */bias=2"
    alike "$(weights $run)" $run -n 2 --zero 1
done
[ "$(weights $images --steps 2)" != "$(weights $images --steps 2 --seed 2)" ] && pass || flunk "the seed changes nothing"

# Memory: 6 bytes a parameter, of 12 with masters and moments in f32. Blocked layouts have padding.
kilobytes() { "$weft" plan $images --dtype bf16 "$@" | awk '$1 == "0" { print $3 + $5; exit }'; }
wide=$(kilobytes) less=$(kilobytes --weights bf16)
[ $((100 * less / wide)) -le 52 ] && pass || flunk "$less kB of $wide kB"

# All memory of a rank: an update rounds as it passes over its elements. Masters lie in the blocks in which gradients are made; for
# bf16 weights a gradient is converted, which takes its bytes once more. So an optimizer takes less, also with sgd, which has no state,
# and with an exchange, whose learners hold f32 weights, an eighth more at most.
printf 'layers:\n  - {type: dense, units: 300}\n  - {type: dense, units: classes}\n' >wide.yaml
all_bytes() {
    "$weft" plan --model wide.yaml --data glyphs:size=16,train=60,test=20 --batch 12 -t 1 --dtype bf16 "$@" 2>err |
        awk 'BEGIN { of["B"] = 1; of["kB"] = 1e3; of["MB"] = 1e6 }
             $1 == "0" { for (i = 2; i < NF && of[$(i + 1)] == 0; i++); for (k = 0; k < 4; k++) n += $(i + 2 * k) * of[$(i + 2 * k + 1)]; print int(n); exit }'
}
for optimizer in $(listed optimizers:); do
    in_full || [[ " adam sgd nadam lars " == *" $optimizer "* ]] || continue
    for exchange in none $(listed 'exchanges between learners:'); do
        [ $exchange != server ] && { in_full || [[ " none average easgd " == *" $exchange "* ]]; } || continue
        ways="-n 2 --exchange $exchange"
        [ $exchange = none ] && ways=""
        wide=$(all_bytes -o "$optimizer" $ways) less=$(all_bytes -o "$optimizer" $ways --weights bf16)
        share=$((100 * less / wide))
        [ $share -le 112 ] && { [ $exchange != none ] || [ $share -le 95 ]; } && pass ||
            flunk "$optimizer, exchange $exchange: $less bytes of $wide"
    done
done

# Meshes, of which one has a stage without weights; exchanges, devices, where the state is.
printf 'layers:\n  - {type: dense, units: 6, bias: false}\n  - {type: dense, units: classes, bias: false}\n' >two.yaml
printf 'a,b,c,label\n.4,-.5,.7,1\n.4,-.8,.6,0\n-.8,.4,-.2,1\n' >rows.csv
while read -r options; do
    "$weft" train -t 1 --dtype bf16 --weights bf16 --steps 3 $options >out 2>err && grep -q 'test loss [0-9]' out && pass || flunk "$options"
done <<WAYS
--model lenet --data glyphs:size=28,train=40,test=20 --batch 8 -n 2 --mesh domain=2
$images -n 2 --mesh pipeline=2 --microbatches 2
--model two.yaml --data csv:rows.csv,label=label,test=0.34 --batch 2 -n 3 --mesh pipeline=3 --device reference
$images -n 4 --mesh data=2,tensor=2 --zero 1
$images -n 4 --mesh data=2,tensor=2 --zero 3 --sum-dtype bf16
$tokens -n 2 --mesh domain=2
$tokens -n 2 --mesh tensor=2
$images -n 2 --recompute --clip-norm 1
$images --home cpu --device distant
$images -n 2 --device cpu,reference
$images -n 2 --exchange average:every=2,outer=nesterov
$images -n 2 --exchange average --sum-dtype bf16
$images -n 2 --exchange easgd:every=2
$images -n 2 --exchange gossip --compress topk:ratio=0.1
$images -n 2 --exchange hogwild
$images -n 2 --exchange oneshot
WAYS
refuses 2 "give --weights f32, and --compress bf16 for messages of half the bytes" "$weft" train $bf16 $images -n 2 --exchange server --steps 2
refuses 2 "--weights bf16 and --dtype f32 contradict each other" "$weft" train -q $images --weights bf16 --steps 2

# bf16 goes on in f32 with the same numbers, and f32 is rounded; a line says each. With next to no rate the numbers stay.
rm -rf run
still="--lr 1e-30"
"$weft" train $bf16 $images -c run --steps 2 >out 2>err && first=$(last run)
"$weft" train -t 1 $images --dtype bf16 --weights f32 -c run --steps 3 --resume $still >out 2>err && grep -q 'with .*--weights f32 instead of bf16' err &&
    pass || flunk "bf16 to f32: $(cat err)"
"$weft" train -t 1 $images --dtype bf16 --weights bf16 -c run --steps 4 --resume $still >out 2>err &&
    grep -q 'with .*--weights bf16 instead of f32' err && [ "$(last run)" = "$first" ] && pass || flunk "f32 to bf16: $(cat err)"

# Averages: `weft eval` of a checkpoint has the loss of the run, and exported averages the type of exported weights.
dtypes() { head -c 4000 "$1" | grep -ao '"dtype":"[A-Z0-9]*"' | sort -u; }
for options in "" "-n 2 --zero 3" "-n 2 --exchange average:every=2"; do
    rm -rf run plain
    "$weft" train $bf16 $images $options --lr 0.01 --steps 8 --ema 0.7 -c run --metrics run.jsonl >out 2>err &&
        "$weft" eval run --json >eval.json 2>err && "$weft" export run -q -o run.w && "$weft" train $bf16 $images $options --steps 2 -c plain &&
        "$weft" export plain -q -o plain.w || flunk "averages: $options: $(cat err)"
    python3 - <<'PY' 2>err && [ "$(dtypes run.w)" = "$(dtypes plain.w)" ] && pass || flunk "averages: $options: $(cat err) $(dtypes run.w)"
import json
run = [json.loads(line) for line in open("run.jsonl")]
loss, again = [e["loss"] for e in run if e["event"] == "eval"][-1], json.load(open("eval.json"))["loss"]
assert abs(loss - again) < 2e-6 * loss, (loss, again)
PY
done

# The files that runs leave.
"$weft" train -t 1 --dtype bf16 --weights bf16 $tokens --steps 5 -c talk >out 2>err
loss=$(sed -n 's/.*test loss \([0-9.]*\).*/\1/p' out | tail -n 1)
"$weft" eval talk >out 2>err && grep -q "loss $loss" out && pass || flunk "eval, trained to $loss"
"$weft" generate talk --prompt 'the ' --tokens 20 --seed 1 >one 2>err && [ -s one ] && pass || flunk "generate"
"$weft" inspect talk >out 2>err && pass || flunk "inspect"
"$weft" train $bf16 $images --steps 2 -c pictures >out 2>err && "$weft" predict pictures --data glyphs:size=16,train=60,test=20 >out 2>err &&
    pass || flunk "predict"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
