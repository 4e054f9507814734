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

/* The device of a rank, where ranks take those of "NAME[:OPTIONS],..." in turn; the caller frees it
 * with weft_free. ARGUMENT: one of them does not exist. */
WEFT_API WEFT_NODISCARD weft_status weft_device_of_rank(const char *list, int rank, char **out);

#ifdef __cplusplus
}
#endif
#endif
