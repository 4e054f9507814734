#!/usr/bin/env bash
# Each plug-in of examples/plugins/ in runs of the command: tests/api/plugin_examples.sh WEFT PLUGINS [MPI]
set -u
weft=$1 plugins=$2 mpi=${3:-OFF}
. "$(dirname "$0")/../support/check.sh"
data="--data glyphs:size=12,train=90,test=30 --batch 18"

# weights NAME PLUGIN OPTIONS...: trains and exports with the plug-in.
weights() {
    local name=$1 plugin=$plugins/lib$2.so
    shift 2
    accepts "train $name: $*" "$weft" train $data -q --plugin "$plugin" --checkpoint "$name" "$@"
    accepts "export $name" "$weft" export "$name/latest" --plugin "$plugin" -q --output "$name.safetensors"
}
# alike A B: the same exported bytes.
alike() { cmp -s "$1.safetensors" "$2.safetensors" && pass || flunk "$1 and $2 have other weights"; }
# alone NAME KIND ENTRY OPTIONS...: its checkpoint is no use without the plug-in, and the message names what is missing.
alone() {
    local name=$1 words="no $2 is named '$3'"
    shift 3
    refuses 2 "$words" "$weft" eval "$name/latest"
    holds err "if it is a plug-in's, load that"
    refuses 2 "$words" "$weft" train $data -q --checkpoint "$name" --resume "$@"
}

# An operator and a layer.
cat >softplus.yaml <<END
layers:
  - {type: dense, units: 20}
  - {type: softplus}
  - {type: dense, units: outputs}
END
weights softplus softplus --model softplus.yaml --virtual-workers 4
weights softplus-2 softplus --model softplus.yaml --virtual-workers 4 -n 2
weights softplus-half softplus --model softplus.yaml --virtual-workers 4 --steps 3
weights softplus-half softplus --model softplus.yaml --virtual-workers 4 --resume
[ "$mpi" = OFF ] || weights softplus-mpi softplus --model softplus.yaml --virtual-workers 4 -n 2 --engine mpi
for run in softplus-*.safetensors; do alike softplus "${run%.safetensors}"; done
accepts "eval softplus" "$weft" eval softplus/latest --plugin "$plugins/libsoftplus.so"
cp out cpu
accepts "eval softplus on reference" "$weft" eval softplus/latest --plugin="$plugins/libsoftplus.so" --device reference
cmp -s cpu out && pass || flunk "devices disagree about softplus"
alone softplus "layer type" softplus --model softplus.yaml --virtual-workers 4
accepts "list" "$weft" inspect --list --plugin "$plugins/libsoftplus.so"
holds out '^  softplus  *log'
sed 's/{type: softplus}/{type: softplus, from: dense1, rate: 0.5}/' softplus.yaml >wrong.yaml
refuses 2 "a softplus layer has no key 'rate'" "$weft" train $data --plugin "$plugins/libsoftplus.so" --model wrong.yaml
sed 's/{type: softplus}/{type: softplus, from: "dense1, dense1"}/' softplus.yaml >wrong.yaml
refuses 2 "a softplus layer reads at most 1 layers, not 2" "$weft" train $data --plugin "$plugins/libsoftplus.so" --model wrong.yaml

# The option itself.
refuses 1 "missing.so: cannot open" "$weft" train --plugin missing.so
refuses 2 "must be the path of a shared object" "$weft" train --plugin
refuses 2 "must be the path of a shared object" "$weft" train --plugin a:b
echo "$passed passed, $failed failed"
[ $failed = 0 ]
