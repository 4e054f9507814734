/* Compares the cases of the operators on the device cuda with the reference device, as the test
 * opencl_ops does on opencl: over the doubles of tests/device/fake_cuda, which check the calls. */
#define DEVICE "cuda"
#define FIRST 1
#include "test_opencl_ops.c"
