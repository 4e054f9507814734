#!/usr/bin/env bash
# Models on the device cuda, over the doubles of tests/device/fake_cuda (the environment names their folders): the same bits as on
# the device opencl, ranks that share a card, --home cpu, served answers, and what it says when something is missing or fails:
# tests/train/cuda_models.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
images="--data glyphs:size=16,train=40,test=20 --batch 8"
if ! "$weft" train $images --model mlp --steps 1 --device opencl >out 2>err; then
    echo "SKIPPED: $(cat err)"
    grep -q 'no OpenCL platform\|libOpenCL' err
    exit
fi
printf 'the cat sat. a dog ran. we see it. %.0s' $(seq 90) >text
tokens="--data text:text,unit=char,context=16,stride=8 --batch 8"
export FAKE_CUDA_LEFT=$PWD/left
leaves_nothing() {
    if [ -s left ] && ! grep -qv '^0 contexts, 0 streams, 0 events, 0 modules, 0 allocations, 0 graphs$' left; then pass; else flunk "$1 leaves: $(cat left)"; fi
    rm -f left
}

# weights DEVICE OPTIONS: trains, and exports the weights to DEVICE.safetensors.
weights() {
    local device=$1
    shift
    rm -rf run
    "$weft" train -q "$@" --device "$device" --checkpoint run >out 2>err && "$weft" export run --output "$device.safetensors" >out 2>err
}
same() {
    weights opencl "$@" && weights cuda "$@" && cmp -s opencl.safetensors cuda.safetensors && pass || flunk "$*: other bits than opencl"
    leaves_nothing "$*"
}
same --model lenet $images --steps 3
same --model gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens --steps 3 --optimizer adamw --clip-norm 1
same --model char-lstm:layers=1,units=16 $tokens --steps 3
same --model mlp $images --steps 3 --home cpu
same --model lenet $images --steps 3 -n 2
if in_full; then
    same --model mlp $images --steps 3 --dtype f64
    same --model lenet $images --steps 3 -n 2 --virtual-workers 4
    same --model mlp $images --steps 4 -n 2 --exchange server
    same --model mlp $images --steps 3 -n 2 --exchange server --engine processes
    same --model gpt:layers=1,heads=2,width=16 $tokens --steps 3 --dtype f64
fi
FAKE_CUDA_CARDS=2 weights cuda:0,cuda:1 --model lenet $images --steps 3 -n 2 && cp "cuda:0,cuda:1.safetensors" two &&
    weights opencl --model lenet $images --steps 3 -n 2 && cmp -s opencl.safetensors two && pass || flunk "two cards"
leaves_nothing "two cards"

# What is missing. Nothing is opened until the device is named.
train="$weft train $images --model mlp --steps 3"
LD_DEBUG=files "$weft" --version >out 2>err
grep -q 'cuda\|nvrtc\|opencl' err out && flunk "--version opens a driver" || pass
LD_DEBUG=files "$weft" inspect --list >out 2>err
grep -q '^  cuda  *an NVIDIA card' out && grep -q '^  opencl ' out && ! grep -q "libcuda.so\|nvrtc" err && pass || flunk "the list of devices"
"$weft" help --bash | grep -q "'train --device') words='[^']* cuda opencl" && pass || flunk "completion of devices"
without() { env -u LD_LIBRARY_PATH -u VIRTUAL_ENV "$@"; }
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda.so.1'; then
    refuses 1 "there is no driver here (libcuda.so.1" without $train --device cuda
fi
refuses 2 "there is no card 7; there are: 0 Fake 0 (2.0 GiB), 1 Fake 1 (2.0 GiB)" env FAKE_CUDA_CARDS=2 $train --device cuda:7
refuses 2 "'first' is no card; write a number" $train --device cuda:first
refuses 2 "'-1' is no card" $train --device cuda:-1
refuses 1 "the driver finds no card" env FAKE_CUDA_CARDS=0 $train --device cuda
refuses 1 "the driver supports CUDA 11.4, must be 12.0 or newer" env FAKE_CUDA_DRIVER=11040 $train --device cuda
refuses 1 "cuInit failed with CUDA_ERROR_UNKNOWN (999)" env FAKE_CUDA_FAIL=cuInit=999 $train --device cuda
refuses 1 "has no room for a context" env FAKE_CUDA_FAIL=cuDevicePrimaryCtxRetain=2 $train --device cuda
refuses 1 "has no room for" env FAKE_CUDA_MEMORY=100000 $train --device cuda
holds err '[0-9]* of its 100000 are free; a smaller batch'

# NVRTC: not there, too new, too old, and refusing a kernel; with a cache of compiled kernels it is not needed.
mkdir -p cache empty bin
ln -s "$(command -v env)" "$(command -v bash)" bin/
nowhere() { env -u VIRTUAL_ENV HOME="$PWD/empty" PATH="$PWD/bin" XDG_CACHE_HOME="$PWD/cache" "$@"; }
if [ ! -e /usr/local/cuda ] && ! ldconfig -p 2>/dev/null | grep -q libnvrtc; then
    refuses 1 "pip install nvidia-cuda-nvrtc" nowhere $train --device cuda
else # a real one is found, and the double of the driver does not take what it compiles
    refuses 1 "cuModuleLoadDataEx failed with an error (200)" nowhere $train --device cuda
fi
fresh() { env XDG_CACHE_HOME="$PWD/cache" POCL_CACHE_DIR="$XDG_CACHE_HOME/pocl" HOME="$PWD/empty" PATH="$PWD/bin" "$@"; }
refuses 1 "operator" fresh FAKE_NVRTC_LOG='line 3: a planned error' $train --device cuda
holds err 'NVRTC 13.0 \(.*\) does not compile the kernel of operator [a-z_]+ \(.*\) for sm_90: line 3: a planned error'
refuses 1 "the driver refuses the kernel of operator" fresh FAKE_CUDA_FAIL=cuModuleLoadDataEx=218 $train --device cuda
holds err 'ptxas fatal : a planned error'
refuses 1 "and NVRTC 13.0 " fresh FAKE_CUDA_ARCH=70 $train --device cuda
holds err 'is of architecture sm_70, .* compiles for sm_75 and newer.*pip install nvidia-cuda-nvrtc-cu12'
if ! ls /usr/local/cuda*/lib*/libnvrtc.so.12 >out 2>err; then
    refuses 1 "the driver supports CUDA 12.4, too old for what NVRTC" fresh FAKE_CUDA_DRIVER=12040 $train --device cuda
    holds err 'install a newer driver, or an older NVRTC: pip install nvidia-cuda-nvrtc-cu12'
fi
fresh FAKE_CUDA_ARCH=103 FAKE_NVRTC_USED="$PWD/used" $train --device cuda >out 2>err && grep -q -- '--gpu-architecture=compute_100 --fmad=false' used &&
    ! grep -qv compute_100 used && pass || flunk "PTX for a card that is newer than NVRTC: $(cat used)"
rm -rf used cache
fresh FAKE_NVRTC_USED="$PWD/used" $train --device cuda >want 2>err && grep -q -- '--gpu-architecture=sm_90 --fmad=false' used && pass || flunk "binaries"
refuses_nothing() { "$@" >got 2>err && [ "$(grep 'test loss' got)" = "$(grep 'test loss' want)" ] && pass || flunk "$*"; }
refuses_nothing fresh FAKE_NVRTC_LOG='not from the cache' $train --device cuda
for file in cache/weft/kernels/*; do printf 'no kernel' >"$file"; done
refuses_nothing fresh $train --device cuda
rm -f left

# A card that is lost ends the run; its last checkpoint goes on, also on the cpu. Kernels are named if each is waited for.
refuses 1 "is lost to this process" env FAKE_CUDA_FAIL=launch=700@150 $weft train $images --model lenet --steps 20 --device cuda --checkpoint lost --checkpoint-every 1
holds err 'CUDA_ERROR_ILLEGAL_ADDRESS \(700\): an illegal memory access was encountered'
"$weft" eval lost --device cpu >out 2>err && grep -q loss out && pass || flunk "the checkpoint before the loss"
"$weft" train $images --model lenet --steps 20 --device cpu --checkpoint lost --resume >out 2>err && grep -q 'step 20' out && pass || flunk "the run goes on on the cpu"
refuses 1 "operator " env CUDA_LAUNCH_BLOCKING=1 FAKE_CUDA_FAIL=launch=719@7 $weft train $images --model lenet --steps 20 --device cuda
holds err 'operator [a-z_]+ \(.*\): device cuda Fake 0 is lost.*CUDA_ERROR_LAUNCH_FAILED'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
