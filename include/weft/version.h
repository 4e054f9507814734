/* The version of the headers, for a program to compare with that of the library that it runs with
 * (weft_version, weft_version_number). */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

#define WEFT_VERSION_TEXT_OF(x) #x
#define WEFT_VERSION_JOIN(major, minor, patch)                                                     \
    WEFT_VERSION_TEXT_OF(major) "." WEFT_VERSION_TEXT_OF(minor) "." WEFT_VERSION_TEXT_OF(patch)
/* As text, "MAJOR.MINOR.PATCH". */
#define WEFT_VERSION WEFT_VERSION_JOIN(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)
/* As a number that grows: 1000000 MAJOR + 1000 MINOR + PATCH. */
#define WEFT_VERSION_NUMBER                                                                        \
    (1000000 * WEFT_VERSION_MAJOR + 1000 * WEFT_VERSION_MINOR + WEFT_VERSION_PATCH)

/* The version of the library that runs, as WEFT_VERSION and as WEFT_VERSION_NUMBER. */
WEFT_API const char *weft_version(void);
WEFT_API int weft_version_number(void);

#ifdef __cplusplus
}
#endif
#endif
