#!/usr/bin/env bash
# Models on the device cuda, over the doubles of tests/device/fake_cuda (the environment names their folders): with own kernels the
# same bits as on the device opencl, with libraries nearly the same numbers, ranks that share a card, --home cpu, served answers, and what it says when something is missing or fails:
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
own=cuda:libraries=none
same() {
    weights opencl "$@" && weights $own "$@" && cmp -s opencl.safetensors $own.safetensors && pass || flunk "$*: other bits than opencl"
    leaves_nothing "$*"
}
same --model lenet $images --steps 3
same --model gpt:layers=1,heads=2,width=16,dropout=0.1 $tokens --steps 3 --optimizer adamw --clip-norm 1
same --model char-lstm:layers=1,units=16 $tokens --steps 3
same --model mlp $images --steps 3 --home cpu
same --model lenet $images --steps 3 -n 2
if in_full; then
    weights cuda --model lenet $images --steps 3 --virtual-workers 4 && cp cuda.safetensors one && weights cuda --model lenet $images --steps 3 --virtual-workers 4 -n 2 &&
        cmp -s cuda.safetensors one && pass || flunk "virtual workers with libraries"
    leaves_nothing "virtual workers with libraries"
    same --model mlp $images --steps 3 --dtype f64
    same --model lenet $images --steps 3 -n 2 --virtual-workers 4
    same --model mlp $images --steps 4 -n 2 --exchange server
    same --model mlp $images --steps 3 -n 2 --exchange server --engine processes
    same --model gpt:layers=1,heads=2,width=16 $tokens --steps 3 --dtype f64
fi
pair=cuda:0:libraries=none,cuda:1:libraries=none
FAKE_CUDA_CARDS=2 weights $pair --model lenet $images --steps 3 -n 2 && cp "$pair.safetensors" two &&
    weights opencl --model lenet $images --steps 3 -n 2 && cmp -s opencl.safetensors two && pass || flunk "two cards"
leaves_nothing "two cards"
# Cards without access to each other's memory add up in host memory.
FAKE_CUDA_PEERS=0 FAKE_CUDA_CARDS=2 weights $pair --model lenet $images --steps 3 -n 2 && cmp -s opencl.safetensors "$pair.safetensors" &&
    pass || flunk "two cards apart"
leaves_nothing "two cards apart"
# A rank whose device fails while others have queued what reads its memory.
for fail in cuStreamWaitEvent=1@9 cuStreamWaitEvent=1@40 cuEventRecord=1@60 launch=700@90; do
    FAKE_CUDA_FAIL=$fail timeout 300 "$weft" train --model lenet $images --steps 3 -n 3 --device cuda >out 2>err
    code=$?
    [ $code = 1 ] && grep -q 'device cuda' err && ! grep -q 'fake_cuda:' err && pass || flunk "$fail: $code $(cat err)"
    case $fail in launch*) rm -f left ;; *) leaves_nothing "$fail" ;; esac
done

# Libraries: losses are those of own kernels to 1e-5, other bits than theirs and the same ones each time; TF32 changes more.
losses() { "$weft" train -q $images --model "$1" --steps 3 --device "$2" --metrics "$3" >out 2>err && grep -o '"loss":[0-9.]*' "$3" | cut -d: -f2 >"$3.losses"; }
near() { paste "$1" "$2" | awk -v most="$3" '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) far = 1; n++ } END { exit far || n < 3 }'; }
for model in lenet $(in_full && echo gpt); do
    [ $model = gpt ] && model=gpt:layers=1,heads=2,width=16 && images=$tokens
    losses $model $own a && losses $model cuda b && losses $model cuda:0:libraries=cublaslt+cudnn c && losses $model cuda:tf32=on d || flunk "$model with libraries: $(cat err)"
    leaves_nothing "$model with libraries"
    near a.losses b.losses 1e-5 && near a.losses d.losses 1e-2 && pass || flunk "$model: losses with libraries: $(cat a.losses b.losses d.losses)"
    cmp -s b.losses c.losses && ! cmp -s b.losses d.losses && pass || flunk "$model: repeated, and with TF32: $(cat b.losses c.losses d.losses)"
    grep -q '"device":"Fake 0, cublaslt 13.1.0, cudnn 9.19.0"' b && grep -q '"device":"Fake 0"' a && grep -q 'cudnn 9.19.0, TF32"' d && pass || flunk "$model: the summary's device"
done
images="--data glyphs:size=16,train=40,test=20 --batch 8"
"$weft" plan $images --model lenet --device cuda:0 --dump >out 2>err && grep -q '^ *0  on Fake 0, cublaslt 13.1.0, cudnn 9.19.0$' out &&
    grep -q 'dense_dw .*\[cublaslt\]' out && grep -q 'conv_dw .*\[cudnn\]' out && grep -q 'dense+bias+relu .*\[tiles\]' out && pass || flunk "plan --dump"
"$weft" train $images --model lenet --steps 1 --device cuda >out 2>err && grep -q '^on Fake 0, cublaslt 13.1.0, cudnn 9.19.0$' out && pass || flunk "the start of a run"
run_one() { "$weft" train $images --model lenet --steps 1 "$@" >out 2>err; }
FAKE_CUBLASLT_VERSION=140000 run_one --device cuda:libraries=cudnn && pass || flunk "one library"
refuses 1 "cublaslt does not work here: " env FAKE_CUBLASLT_VERSION=140000 $weft train $images --model lenet --steps 1 --device cuda:libraries=cublaslt
refuses 1 "cudnn does not work here: cudnnCreate failed with" env FAKE_CUDA_FAIL=cudnnCreate=1 $weft train $images --model lenet --steps 1 --device cuda:libraries=cudnn
FAKE_CUDA_FAIL=cudnnCreate=1 run_one --device cuda && grep -q 'cublaslt 13.1.0, without cudnn (cudnnCreate failed' out && pass || flunk "a library that does not start"
refuses 1 "cublasLtMatmul failed with" env FAKE_CUDA_FAIL=cublasLtMatmul=13 $weft train $images --model lenet --steps 1 --device cuda
refuses 2 "'cufft' is no library of the device; give none, cublaslt, cudnn" $weft train $images --model lenet --device cuda:libraries=cublaslt+cufft
refuses 2 "tf32=yes, must be on or off" $weft train $images --model lenet --device cuda:tf32=yes
refuses 2 "tf32=on needs a library" $weft train $images --model lenet --device cuda:tf32=on:libraries=none
refuses 2 "tf32=on needs a library" $weft train $images --model lenet --device opencl:tf32=on
refuses 2 "'cudnn' is no library of the device; give none," $weft train $images --model lenet --device opencl:libraries=cudnn
rm -f left

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
ln -s "$(command -v env)" "$(command -v bash)" "$(command -v ld)" bin/ # PoCL links kernels that no test has needed before
nowhere() { env -u VIRTUAL_ENV HOME="$PWD/empty" PATH="$PWD/bin" XDG_CACHE_HOME="$PWD/cache" "$@"; }
if [ ! -e /usr/local/cuda ] && ! ldconfig -p 2>/dev/null | grep -q libnvrtc; then
    refuses 1 "pip install nvidia-cuda-nvrtc" nowhere $train --device $own
else # a real one is found, and the double of the driver does not take what it compiles
    refuses 1 "cuModuleLoadDataEx failed with an error (200)" nowhere $train --device $own
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
# Files that are cut off, damaged, or under each other's names, as of another driver or version, are known and made anew.
cp -r cache/weft/kernels whole
kernels=(cache/weft/kernels/*)
for i in "${!kernels[@]}"; do
    case $((i % 3)) in
    0) printf 'no kernel' >"${kernels[i]}" ;;
    1) dd if=/dev/zero of="${kernels[i]}" bs=1 seek=100 count=8 conv=notrunc status=none ;;
    2) cp "whole/$(basename "${kernels[(i + 1) % ${#kernels[@]}]}")" "${kernels[i]}" ;;
    esac
done
cp -r cache/weft/kernels wrong
refuses_nothing fresh $train --device cuda
anew=0
for file in "${kernels[@]}"; do cmp -s "$file" "wrong/$(basename "$file")" || anew=$((anew + 1)); done
[ $anew -gt 3 ] && pass || flunk "$anew of ${#kernels[@]} damaged and foreign files were made anew"
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
