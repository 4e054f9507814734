#!/usr/bin/env bash
# What a run that resumes takes from its checkpoint: tests/cli/resume_options.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
data="--data glyphs:size=9,train=96,test=8 --batch 8 -t 1 --validation 0.25"

# A run that goes on with no option but its folder is the run that was not interrupted, whatever options it was begun with.
cat >run.yaml <<'YAML'
optimizer: sgd
momentum: 0.9
nesterov: true
lr: 0.05
lr-schedule: step
gamma: 0.5
decay-every: 7
clip-norm: 1
ema: 0.9
keep-best: loss
seed: 3
YAML
while read -r words; do
    rm -rf once twice
    # shellcheck disable=SC2086
    accepts "once: $words" "$weft" train -q $words $data --model mlp --epochs 2 -c once
    # shellcheck disable=SC2086
    accepts "half: $words" "$weft" train -q $words $data --model mlp --epochs 1 -c twice
    accepts "goes on: $words" "$weft" train -q -c twice --resume --epochs 2
    for part in parameters state; do
        cmp once/latest/$part.safetensors twice/latest/$part.safetensors >out 2>err && pass || flunk "other $part: $words"
    done
    diff <("$weft" inspect once | sed s/once/twice/g | grep -v "^  resume ") <("$weft" inspect twice | grep -v "^  resume ") >out 2>err && pass || flunk "other options: $words"
done <<'RUNS'
run.yaml
-o adamw --weight-decay 0.1 --lr-schedule plateau:patience=0 --microbatches 2 --label-smoothing 0.1
-n 2 --mesh data=2 --zero 2 --virtual-workers 4 --lr-multiplier *bias=0.5
-n 2 --exchange average:every=1,state=average --augment crop:pad=1
RUNS

# A folder without a checkpoint is a new run only where the words name one.
refuses 2 "none holds no checkpoint to go on from; give the folder that has it" "$weft" train -q -c none --resume -n 2
[ ! -e none ] && pass || flunk "a folder is left where nothing was resumed"
accepts "a new run" "$weft" train -q $data --model mlp --epochs 1 -c none --resume

# Given options stand over those of the checkpoint, and go with those that belong to them.
rm -rf run && "$weft" train -q run.yaml $data --model mlp --epochs 1 -c run || flunk "no run"
"$weft" train -c run --resume --epochs 2 --clip-norm 2 >out 2>err
holds err "goes on after step 9 with --clip-norm 2 instead of 1$"
"$weft" train -c run --resume --steps 20 --lr-schedule constant >out 2>err
holds err "the learning rate goes on by --lr-schedule constant instead of step"
holds out "^step 20 "
"$weft" train -c run --resume --epochs 2 >out 2>err
holds out "18 steps of 8 samples"
refuses 2 "was made with --batch 8, this run has 16" "$weft" train -q -c run --resume --batch 16 --steps 21
refuses 2 "without: no option is named 'emma'" "$weft" train -q -c run --resume --without emma --steps 21
for name in checkpoint resume drop-state without init tune trace quiet progress; do
    refuses 2 "without: --$name is of one start alone" "$weft" train -q -c run --resume --without batch,$name --steps 21
done
refuses 2 "without: --ema is given, too" "$weft" train -q -c run --resume --without ema --ema 0.5 --steps 21
refuses 2 "its run had --ema 0.9" "$weft" train -q -c run --resume --without ema --epochs 3
"$weft" train -c run --resume --without ema --drop-state --epochs 3 >out 2>err
holds err "with no --ema instead of 0.9"
accepts "another mesh" "$weft" train -q -c run --resume -n 2 --mesh tensor=2 --epochs 4
accepts "one rank again, without the mesh" "$weft" train -q -c run --resume -n 1 --epochs 5

# Parameters that are frozen and later trained: the bits are those of a run that ends there and goes on by hand without --freeze.
while read -r ways; do
    rm -rf once twice
    # shellcheck disable=SC2086
    "$weft" train $data --model mlp $ways --freeze fc1/* --unfreeze 2 --epochs 3 -c once >out 2>err || flunk "phases: $ways"
    cp err said
    # shellcheck disable=SC2086
    "$weft" train -q $data --model mlp $ways --freeze fc1/* --epochs 1 -c twice >out 2>err &&
        "$weft" train -q -c twice --resume --without freeze --drop-state --epochs 3 >out 2>err || flunk "phases by hand: $ways"
    cmp once/latest/parameters.safetensors twice/latest/parameters.safetensors >out 2>err && pass || flunk "phases and by hand: $ways"
    "$weft" inspect once >out && holds out "^after step .*: 3 epochs"
    grep -q "fc1/weight/m" out && pass || flunk "what is trained has moments: $ways"
done <<'RUNS'

-n 2 --mesh data=2 --zero 1 --ema 0.8
-n 2 --exchange average:every=1
RUNS
"$weft" train $data --model mlp --freeze 'fc1/*' --unfreeze 3 --epochs 2 -c frozen >out 2>err && "$weft" inspect frozen >out
grep -q "fc1/weight/m" out && flunk "moments of what is frozen" || pass
accepts "a resumed run thaws in its turn" "$weft" train -q -c frozen --resume --epochs 2
"$weft" train -c frozen --resume --epochs 4 >out 2>err
holds err "dropped from the checkpoint of step 18"
"$weft" train -c frozen --resume --epochs 5 >out 2>err
[ ! -s err ] && pass || flunk "the second phase goes on"
refuses 2 "freeze '*' leaves none of the" "$weft" train $data --model mlp --freeze '*'
refuses 2 "freeze: no parameter's name matches 'cnv*'" "$weft" train $data --model mlp --freeze 'fc1/*,cnv*'
# A multiplier of what is frozen has its effect in the second phase.
rm -rf once twice
accepts "a multiplier of the second phase" "$weft" train -q $data --model mlp --freeze 'fc1/*' --unfreeze 2 --epochs 3 -c once --lr-multiplier 'fc1/*=0.1,fc2/*=2'
"$weft" train -q $data --model mlp --freeze 'fc1/*' --epochs 1 -c twice --lr-multiplier 'fc2/*=2' >out 2>err &&
    "$weft" train -q -c twice --resume --without freeze --drop-state --epochs 3 --lr-multiplier 'fc1/*=0.1,fc2/*=2' >out 2>err || flunk "the multiplier by hand"
cmp once/latest/parameters.safetensors twice/latest/parameters.safetensors >out 2>err && pass || flunk "a multiplier of the second phase and by hand"
# A multiplier of what stays frozen, or one that has no effect in any phase, is refused at once.
refuses 2 "lr-multiplier: 'fc1/*' has no effect" "$weft" train $data --model mlp --freeze 'fc1/*' --lr-multiplier 'fc1/*=0.1'
refuses 2 "lr-multiplier: 'fc1/w*' has no effect" "$weft" train $data --model mlp --freeze 'fc1/*' --unfreeze 2 -c no --lr-multiplier 'fc1/*=0.1,fc1/w*=2'
refuses 2 "give --checkpoint DIR too" "$weft" train $data --model mlp --freeze 'fc1/*' --unfreeze 2
refuses 2 "learners of exchange hogwild are at different steps" "$weft" train $data --model mlp --freeze 'fc1/*' --unfreeze 2 -c no -n 2 --exchange hogwild

# The folder in which a run was started is said, and a model file that is gone is that of the checkpoint.
printf 'layers:\n  - {type: dense, units: outputs}\n' >net.yaml
"$weft" train -q $data --model net.yaml --epochs 1 -c of_file && rm net.yaml || flunk "no run of a file"
accepts "without its file" "$weft" train -q -c of_file --resume --epochs 2
accepts "a second time" "$weft" train -q -c of_file --resume --epochs 3
mkdir -p other && cd other && "$weft" train -c ../of_file --resume --epochs 4 >../out 2>../err
cd ..
holds err "was started in $PWD; its relative paths now begin here, in $PWD/other$"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
