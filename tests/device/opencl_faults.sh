#!/usr/bin/env bash
# What goes wrong with OpenCL, by a layer of its loader (opencl_layer.c): each function fails in turn, a kernel is refused, a device is
# lost in the middle of a run, processes and forks: tests/device/opencl_faults.sh PATH/TO/weft
set -u
weft=$(realpath "$1")
. "$(dirname "$0")/../support/check.sh"
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$(dirname "$weft")/cache}
OPENCL_LAYERS=$(dirname "$weft")/tests/libopencl_layer.so
OPENCL_LAYER_LEFT=$PWD/left
images="--data glyphs:size=16,train=40,test=20 --batch 8"
train="$weft train -q $images --model mlp --steps 2 --device opencl"
if ! "$weft" train -q $images --model mlp --steps 2 --device opencl --checkpoint plain >out 2>err; then
    echo "SKIPPED: $(cat err)"
    grep -q 'no OpenCL platform\|libOpenCL' err
    exit
fi
export OPENCL_LAYERS OPENCL_LAYER_LEFT
# A loader without layers would let every planned fault pass.
rm -f left
if $train >out 2>err && [ ! -s left ]; then
    echo "SKIPPED: OpenCL's loader reads no layers here"
    exit
fi
leaves_nothing() {
    if [ -s left ] && ! grep -qv '^0 contexts, 0 queues, 0 buffers, 0 programs, 0 kernels$' left; then pass; else flunk "$1 leaves: $(cat left)"; fi
    rm -f left
}
leaves_nothing "a run"
# Freed buffers hold no numbers under the layer, and the weights are the same.
"$weft" train -q $images --model mlp --steps 2 --device opencl --checkpoint layered >out 2>err || flunk "under the layer"
for run in plain layered; do "$weft" export $run -o $run.safetensors -q; done
cmp -s plain.safetensors layered.safetensors && pass || flunk "freed memory is read"
rm -f left

# Each function fails: a sentence with its name, exit code 1, and nothing left. A failure of programs from binaries is none, and a call
# that never comes does not fail.
functions="clCreateContext clCreateCommandQueue clCreateBuffer clEnqueueFillBuffer clFinish clFlush clEnqueueWriteBuffer clEnqueueReadBuffer
    clEnqueueMarkerWithWaitList clEnqueueBarrierWithWaitList clWaitForEvents clBuildProgram clCreateKernel clSetKernelArg clEnqueueNDRangeKernel"
late=14
for function in $functions; do
    late=$((44 - late)) # 30 and 14 in turn
    for call in $(in_full && echo 1 2 5 9 14 20 30 45 70 || echo 1 $late); do
        OPENCL_LAYER_FAIL=$function=-2@$call timeout 300 $train >out 2>err
        code=$?
        if [ $code = 0 ]; then [ $call -gt 1 ] && pass || flunk "$function may fail"; else
            [ $code = 1 ] && [ "$(grep -c '^weft: .*device opencl.* failed with -2 (the device is not available)$' err)" = 1 ] && pass || flunk "$function@$call: exit $code"
        fi
        leaves_nothing "$function@$call"
    done
done
refuses 1 "has no room for" env OPENCL_LAYER_FAIL=clCreateBuffer=-4 $train
holds err 'it has [0-9]+, of which one allocation may have [0-9]+; a smaller batch, or more micro-batches, needs less'

# A kernel that the driver refuses: the operator and the log. A cache is not needed, and of no use here.
fresh() { env XDG_CACHE_HOME="$PWD/cache" POCL_CACHE_DIR="$XDG_CACHE_HOME/pocl" "$@"; }
refuses 1 "does not compile the kernel of operator dense (fc1): line 3: a planned error" fresh OPENCL_LAYER_FAIL=clBuildProgram=-11 OPENCL_LAYER_LOG='line 3: a planned error' $train
rm -rf cache left

# A lost device ends the run with the operator; the checkpoint before it goes on, also on the cpu.
run="$weft train $images --model mlp --steps 20"
refuses_run() { # the loss of the device, whose message may come while steps are printed
    "$@" >out 2>err && flunk "a lost device" || { [ "$(grep -c '^weft:' err)" = 1 ] && pass || flunk "a lost device"; }
}
refuses_run env OPENCL_LAYER_FAIL=clEnqueueNDRangeKernel=-2@150 $run --device opencl --checkpoint lost --checkpoint-every 1
holds err 'operator [a-z_]+ \(.*\): device opencl .*: clEnqueueNDRangeKernel failed with -2'
# So does one of ranks that queue their steps ahead on one card, with the steps that are queued.
for way in "--zero 2 --microbatches 2" "--mesh pipeline=2 --microbatches 4"; do
    for lost in clEnqueueNDRangeKernel=-2@250 clEnqueueBarrierWithWaitList=-2@77 clEnqueueMarkerWithWaitList=-2@78 clWaitForEvents=-2@9; do
        refuses_run env OPENCL_LAYER_FAIL=$lost timeout 300 $run --device opencl -n 2 $way
        holds err "device opencl.*: ${lost%%=*} failed with -2"
    done
done
unset OPENCL_LAYERS
"$weft" eval lost --device cpu >out 2>err && grep -q loss out && pass || flunk "the checkpoint before the loss"
$run --device cpu --checkpoint lost --resume >out 2>err && grep -q 'step 20' out && pass || flunk "the run goes on on the cpu"

# Processes open the device each for itself, after they are started; a supervisor never does.
for engine in processes mpi; do
    exchange=$([ $engine = processes ] && echo "--exchange server")
    timeout 300 $train -n 2 --engine $engine $exchange --max-restarts $([ $engine = mpi ] && echo 1 || echo 0) --checkpoint by-$engine >out 2>err && pass || flunk "$engine"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
