#!/usr/bin/env bash
# What is measured and predicted with a checkpoint, what is said of it, and what that may write over:
# tests/reports.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20"
printf 'layers:\n  - {type: dense, units: classes}\n' >own.yaml

# No output is a file of a checkpoint: of the one that is read, or of one beside it.
# shellcheck disable=SC2086
accepts train "$weft" train -q $small --model own.yaml --epochs 2 --checkpoint run
ln -s run/step-6/index.json link
cp -r run kept
for file in run/latest/index.json ./run/step-6/parameters.safetensors run/latest/state.safetensors run/step-6/model.yaml \
    run/step-3/index.json link; do
    [ -e "$file" ] || flunk "$file is not there"
    refuses 2 "output $file is a file of a checkpoint, which would be lost; give another" "$weft" predict run -o "$file"
    refuses 2 "output $file is a file of a checkpoint" "$weft" export run -o "$file"
    for option in metrics trace; do
        # shellcheck disable=SC2086
        refuses 2 "$option $file is a file of a checkpoint" "$weft" train -q $small --model own.yaml --epochs 3 --checkpoint run --resume --$option "$file"
    done
done
diff -r run kept >out && pass || flunk "a file of a checkpoint was written over"
accepts "a file beside the checkpoints" "$weft" predict run -o run/said.csv
accepts "the same again" "$weft" export run -q -o run/said.csv
mkdir plain
echo '{}' >plain/index.json
accepts "what has such a name elsewhere" "$weft" predict run -o plain/index.json

# A path that is empty is refused by the name of its option.
for command in "predict -c" "eval -d" "predict run -o" "export run -o" "train --metrics" "train --trace" "train --checkpoint" "train --model" \
    "inspect --data" "plan --mesh"; do
    option=$(case "$command" in *-c) echo checkpoint ;; *-d) echo data ;; *-o) echo output ;; *) echo "${command##*--}" ;; esac)
    # shellcheck disable=SC2086
    refuses 2 "option '$option' is empty; give" "$weft" $command ""
done
refuses 2 "option 'metrics' is empty; give FILE, or leave the option out" "$weft" train --metrics=
for command in eval predict export inspect train; do
    refuses 2 "an argument is empty" "$weft" $command ""
done
printf 'checkpoint: ""\n' >empty.yaml
refuses 2 "option 'checkpoint' is empty" "$weft" train empty.yaml

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
