/* The macros by which the texts of kernels (device/gpu/kernels) are OpenCL C 1.2. */
#ifndef WEFT_DEVICE_OPENCL_PRELUDE_H
#define WEFT_DEVICE_OPENCL_PRELUDE_H

static const char cl_prelude[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "#ifdef DOUBLES\n"
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#endif\n"
    "#define KERNEL(name, x, y) __kernel __attribute__((reqd_work_group_size(x, y, 1))) void name\n"
    "#define FUNCTION static inline\n"
    "#define GLOBAL __global\n"
    "#define LOCAL __local\n"
    "#define LOCAL_POINTER __local\n"
    "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)\n"
    "#define BARRIER_GLOBAL barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
    "#define GROUP_X ((int)get_group_id(0))\n"
    "#define GROUP_Y ((int)get_group_id(1))\n"
    "#define GROUP_Z ((int)get_group_id(2))\n"
    "#define GROUPS_X ((int)get_num_groups(0))\n"
    "#define ITEM_X ((int)get_local_id(0))\n"
    "#define ITEM_Y ((int)get_local_id(1))\n"
    "#ifdef ROLL\n"
    "#define ROLLED _Pragma(\"clang loop unroll(disable)\")\n"
    "#else\n"
    "#define ROLLED\n"
    "#endif\n"
    "typedef long i64;\n"
    "typedef ulong u64;\n"
    "typedef uint u32;\n"
    "typedef ushort u16;\n"
    "typedef uchar u8;\n"
    "#define AS_U32(x) as_uint(x)\n"
    "#define AS_U64(x) as_ulong(x)\n"
    "#define AS_FLOAT(x) as_float(x)\n"
    "#define ATOMIC_ADD(to, value) atomic_add(to, value)\n";

#endif
