/* Describes recurrence. */
#include "device/gpu/gpu.h"
const gpu_entry gpu_recurrence_entries[] = {
    {NULL, NULL, NULL, NULL, false},
};
