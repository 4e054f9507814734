/* Assigns devices to ranks. weft/registry.h lists the devices; "reference" always exists. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets *out to the device of a rank, "NAME[:OPTIONS]", where `list` has one device or several,
 * separated by commas, which ranks take in turn: rank r gets device r modulo their number. The
 * caller frees it with weft_free. ARGUMENT: a device of the list does not exist. */
WEFT_API WEFT_NODISCARD weft_status weft_device_of_rank(weft_context *context, const char *list,
                                                        int rank, char **out);

#ifdef __cplusplus
}
#endif
#endif
