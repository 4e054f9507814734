/* Describes attention. */
#include "device/gpu/gpu.h"
const gpu_entry gpu_attention_entries[] = {
    {NULL, NULL, NULL, NULL, false},
};
