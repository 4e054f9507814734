#include "device/device.h"
const weft_device_ops weft_device_cpu = {.name = "cpu"};
