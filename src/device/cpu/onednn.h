/* oneDNN in the words of its version 3. Where version 2 is installed (Debian 12), onednn2.c says
 * the same in its words; that file, its header and this one can go when Debian 12 does. */
#ifndef WEFT_DEVICE_CPU_ONEDNN_H
#define WEFT_DEVICE_CPU_ONEDNN_H

#include <dnnl.h>

#if DNNL_VERSION_MAJOR < 3
#include "device/cpu/onednn2.h"
#endif

#endif
