/* The devices of ranks. weft/registry.h lists them; "reference" always exists. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device of a rank, if ranks take the devices of "NAME[:OPTIONS],..." in turn; the caller frees
 * it with weft_free. ARGUMENT: one of them does not exist. */
WEFT_API WEFT_NODISCARD weft_status weft_device_of_rank(weft_context *context, const char *list,
                                                        int rank, char **out);

#ifdef __cplusplus
}
#endif
#endif
