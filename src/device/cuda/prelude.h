/* The macros by which the texts of kernels (device/gpu/kernels) are CUDA C++, for NVRTC. Products
 * and sums are not contracted: the compiler gets --fmad=false. */
#ifndef WEFT_DEVICE_CUDA_PRELUDE_H
#define WEFT_DEVICE_CUDA_PRELUDE_H

static const char cuda_prelude[] =
    "typedef long long i64;\n"
    "typedef unsigned long long u64;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned short u16;\n"
    "typedef unsigned char u8;\n"
    "#define KERNEL(name, x, y) extern \"C\" __global__ void __launch_bounds__((x) * (y)) name\n"
    "#define FUNCTION static __device__ __forceinline__\n"
    "#define GLOBAL\n"
    "#define LOCAL __shared__\n"
    "#define LOCAL_POINTER\n"
    "#define ROLLED\n"
    "#define BARRIER __syncthreads()\n"
    "#define BARRIER_GLOBAL __syncthreads()\n"
    "#define GROUP_X ((int)blockIdx.x)\n"
    "#define GROUP_Y ((int)blockIdx.y)\n"
    "#define GROUP_Z ((int)blockIdx.z)\n"
    "#define GROUPS_X ((int)gridDim.x)\n"
    "#define ITEM_X ((int)threadIdx.x)\n"
    "#define ITEM_Y ((int)threadIdx.y)\n"
    "#define AS_U32(x) __float_as_uint(x)\n"
    "#define AS_U64(x) ((u64)__double_as_longlong(x))\n"
    "#define AS_FLOAT(x) __uint_as_float(x)\n"
    "#define ATOMIC_ADD(to, value) atomicAdd(to, value)\n"
    "#ifndef INFINITY\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#endif\n";

#endif
