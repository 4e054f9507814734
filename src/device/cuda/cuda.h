/* Declares the CUDA driver: a card with its primary context, calls of libcuda.so.1 within it, and
 * NVRTC. Both libraries are opened by dlopen, so the plug-in links nothing of CUDA. */
#ifndef WEFT_DEVICE_CUDA_CUDA_H
#define WEFT_DEVICE_CUDA_CUDA_H

#include "device/cuda/api.h"
#include "device/gpu/gpu.h"

typedef struct cuda_card {
    gpu_card head;
    cuda_functions f;
    cu_device device;
    cu_context context; /* the primary one, which other users of CUDA in the process share */
    bool retained;
    cu_stream fills; /* new memory is filled here */
    int driver;      /* the version of CUDA that the driver supports: 1000 major + 10 minor */
    int arch;        /* compute capability: 10 major + minor */
} cuda_card;

/* --- card.c --- */

weft_status cuda_open(const char *which, gpu_card **out) WEFT_NODISCARD;
void cuda_close(gpu_card *head);

/* Fails with the name and the text of an error; what a lost card means, if it is lost. */
weft_status cuda_fail(const cuda_card *card, cu_result error, const char *function) WEFT_NODISCARD;
static inline weft_status cuda_check(const cuda_card *card, cu_result error, const char *function)
{
    return error == CU_OK ? WEFT_OK : cuda_fail(card, error, function);
}

/* Makes the card's context the current one of this thread, and `leave` the one that was it before;
 * an embedding program may use CUDA, too. */
bool cuda_enter(const cuda_card *card);
cu_result cuda_leave(const cuda_card *card, cu_result result);
/* The error of the last cuda_enter of this thread, which returned false. */
cu_result cuda_not_entered(void);

/* A call, with its status, within the context of the card; a function of the driver: cu_result. */
#define CUDA_WITHIN(card, call) (cuda_enter(card) ? cuda_leave(card, call) : cuda_not_entered())
#define CUDA_CALL(card, function, ...) CUDA_WITHIN(card, (card)->f.function(__VA_ARGS__))
#define CUDA_CHECK(card, function, ...)                                                            \
    cuda_check(card, CUDA_CALL(card, function, __VA_ARGS__), #function)

/* --- nvrtc.c --- */

/* Compiles a source to the binary of the card, which the caller frees. */
weft_status cuda_compile(const cuda_card *card, const char *source, const char *what, void **out,
                         size_t *bytes) WEFT_NODISCARD;
/* The options that every source is compiled with; they are a part of the cache's key. */
#define CUDA_OPTION_LIST "--fmad=false", "--std=c++17"
#define CUDA_OPTIONS "--fmad=false --std=c++17"

/* --- find.c --- */

/* A library: names of files, the first without a version, and folders of Python's packages; both up
 * to NULL. */
typedef struct cuda_names {
    const char *const *files, *const *packages;
} cuda_names;

/* Calls `use` with the paths where a library may lie, in NVIDIA's order, until it returns true. The
 * first ones are names that dlopen looks for itself; `loaded`: only among what is loaded. */
bool cuda_find(const cuda_names *names, bool (*use)(void *user, const char *path, bool loaded),
               void *user);

/* --- library.c --- */

/* A function of a library, and the place of its pointer in a struct of functions. Lists end with an
 * empty one. */
typedef struct cuda_symbol {
    const char *name;
    size_t at;
} cuda_symbol;

/* A library that is opened: one row, in the file that uses it. */
typedef struct cuda_library {
    cuda_names names;
    const cuda_symbol *symbols;
    /* Whether this one runs with a driver of this version; only its functions are set. */
    bool (*fits)(void *functions, int driver, const char *path);
    const char *refused; /* what one is that does not fit, such as "not of version 9" */
} cuda_library;
extern const cuda_library cuda_nvrtc_file, cuda_cublaslt_file, cuda_cudnn_file, cuda_nccl_file;
/* Where all are looked for, for messages. */
#define CUDA_PLACES                                                                                \
    "neither in the packages of Python nor by the loader nor in CUDA_HOME nor in /usr/local/cuda"

/* Looks up functions; returns the name of one that is missing, or NULL. */
const char *cuda_symbols_find(void *found, const cuda_symbol *list, void *functions);
/* Finds and opens a library, which stays open, and sets its functions. why: what was found and does
 * not fit, or "". */
bool cuda_library_open(const cuda_library *library, int driver, void *functions, char *why,
                       size_t size);
/* Writes what the call that starts a library has come to: the version (10000 major + 100 minor +
 * patch), or that the function has failed and what its status means. Returns whether it started. */
bool cuda_library_starts(unsigned status, const char *function, const char *meaning, size_t version,
                         char *text, size_t size);

/* --- cublaslt.c, cudnn.c --- */

extern const gpu_library cuda_cublaslt, cuda_cudnn;

/* --- nccl.c --- */

extern const gpu_library cuda_nccl;
extern const weft_collective_ops cuda_nccl_collectives;

/* --- memory.c --- */

extern const weft_memory_ops cuda_memory_ops;
extern const weft_capture_ops cuda_capture_ops;
/* Devices of one card have one context; of two cards, one may get access to the memory of the
 * other, and keeps it. */
bool cuda_reaches(weft_device *device, weft_device *other);
cu_stream cuda_stream_of(const weft_queue *queue);
/* The address of a position; without memory 0 and the offset. */
cu_pointer cuda_pointer_of(weft_address address);

#endif
