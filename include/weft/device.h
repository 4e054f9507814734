/* The devices of this build. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Name and one sentence of device i; NULL past the end. "reference" always exists. */
WEFT_API const char *weft_device_name(int i);
WEFT_API const char *weft_device_summary(int i);

#ifdef __cplusplus
}
#endif
#endif
