/* Function multiversioning for vectorised loops: the version for the processor is chosen when the
 * program starts. Sanitizers cannot instrument that choice. */
#ifndef WEFT_BASE_TARGET_CLONES_H
#define WEFT_BASE_TARGET_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(WEFT_SANITIZED)
#define WEFT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEFT_CLONES
#endif

#endif
