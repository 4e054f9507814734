/* Defines WEFT_CLONES, which compiles a function with vectorised loops for several x86-64 levels
 * (function multiversioning). The dynamic linker chooses the version for the processor when the
 * program starts. Such a function is static: gcc exports the clones of others in spite of
 * -fvisibility=hidden. Sanitizers cannot instrument that choice, so sanitized builds have one
 * version. */
#ifndef WEFT_BASE_TARGET_CLONES_H
#define WEFT_BASE_TARGET_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(WEFT_SANITIZED)
#define WEFT_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WEFT_CLONES
#endif

#endif
