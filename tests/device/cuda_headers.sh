#!/usr/bin/env bash
# Compiles the driver's own declarations of CUDA against the headers of CUDA, where they are installed; wrong ones are refused.
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/support/check.sh"
cuda=
for folder in "${CUDA_HOME:-}/include" /usr/local/cuda/include; do
    [ -e "$folder/cuda.h" ] && [ -e "$folder/nvrtc.h" ] && cuda=$folder && break
done
if [ -z "$cuda" ] || ! command -v gcc >/dev/null; then
    echo "SKIPPED: the headers of CUDA, or gcc, are not here"
    exit
fi

libraries=
if [ -e "$cuda/cublasLt.h" ] && [ -e "$cuda/cudnn.h" ]; then libraries=-DLIBRARIES; else echo "SKIPPED in part: no headers of cuBLASLt and cuDNN"; fi

nccl=
for folder in "$cuda" /usr/include; do [ ! -e "$folder/nccl.h" ] || nccl="-DNCCL -isystem $folder"; done
[ -n "$nccl" ] || echo "SKIPPED in part: no header of NCCL"

# compiles FOLDER: with the declarations of this folder of sources.
compiles() { gcc -std=c11 -Wall -Wextra -Werror -Wno-deprecated-declarations -fsyntax-only $libraries $nccl -isystem "$cuda" -I"$1" "$root/tests/device/cuda_headers.c" >out 2>err; }
compiles "$root/src" && pass || flunk "the declarations differ from the headers in $cuda: $(head -5 err)"

# refuses_change FROM TO [FILE]: a declaration that is changed so is found.
refuses_change() {
    local file=device/cuda/${3:-api.h}
    rm -rf changed
    mkdir -p changed/device/cuda
    cp "$root/src/device/cuda/"*api.h changed/device/cuda/
    sed "s/$1/$2/" "$root/src/$file" >"changed/$file"
    if cmp -s "$root/src/$file" "changed/$file"; then flunk "nothing is changed by $1"; fi
    if compiles changed; then flunk "'$2' is not found"; else pass; fi
}
refuses_change 'CUDA_ERROR_NOT_READY, 600' 'CUDA_ERROR_NOT_READY, 601'
refuses_change '(cuMemFree_v2, (cu_pointer))' '(cuMemFree_v2, (unsigned))'
refuses_change '(cuStreamCreate, (cu_stream \*, unsigned))' '(cuStreamCreate, (cu_stream *))'
refuses_change '(nvrtcGetCUBIN, (nvrtc_program, char \*))' '(nvrtcGetCUBIN, (nvrtc_program, int *))'
refuses_change 'CU_BLOCK_SIZE ((void \*)2)' 'CU_BLOCK_SIZE ((void *)3)'
if [ -n "$libraries" ]; then
    refuses_change 'FAST_TF32, 77' 'FAST_TF32, 78' cublaslt_api.h
    refuses_change '(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))' '(cublasLtMatmulDescDestroy, (cublasLtMatrixLayout_t))' cublaslt_api.h
    refuses_change 'state) == 72' 'state) == 76' cublaslt_api.h
    refuses_change 'WORKSPACE_SIZE, 402' 'WORKSPACE_SIZE, 403' cudnn_api.h
    refuses_change '(cudnnSetStream, (cudnnHandle_t, cu_stream))' '(cudnnSetStream, (cudnnHandle_t, cu_event))' cudnn_api.h
fi
if [ -n "$nccl" ]; then
    refuses_change 'ncclInProgress, 7' 'ncclInProgress, 8' nccl_api.h
    refuses_change 'int blocking;' 'long blocking;' nccl_api.h
    refuses_change '(ncclCommAbort, (ncclComm_t))' '(ncclCommAbort, (ncclComm_t *))' nccl_api.h
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
