/* Declares execution plans of cuDNN for convolutions: the graph of one operation, and the engine
 * that computes it. A plan is made for a card, or for a description of one, without it. */
#ifndef WEFT_DEVICE_CUDA_CUDNN_PLAN_H
#define WEFT_DEVICE_CUDA_CUDNN_PLAN_H

#include "device/cuda/cudnn_api.h"
#include "device/gpu/product.h"

/* The target of plans: a card by its handle or, without one, a description. */
typedef struct cudnn_target {
    const cudnn_functions *f;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device;
} cudnn_target;

typedef struct cudnn_problem {
    gpu_product_kind kind;
    gpu_window window;
    bool doubles, tf32;
    const char *what; /* for messages */
} cudnn_problem;

/* The unique numbers of tensors. */
enum { CUDNN_X = 1, CUDNN_W, CUDNN_Y };
/* Addresses are multiples of this. */
enum { CUDNN_ALIGNMENT = 16 };

/* All descriptors live as long as the plan, since it refers to them. */
enum { CUDNN_DESCRIPTORS = 96 };
typedef struct cudnn_plan {
    cudnnBackendDescriptor_t plan, all[CUDNN_DESCRIPTORS];
    int count;
    int64_t workspace;
} cudnn_plan;

/* Makes a plan, which the caller closes also if this fails. UNSUPPORTED: no engine fits. */
weft_status cudnn_plan_make(const cudnn_target *target, const cudnn_problem *problem,
                            cudnn_plan *out) WEFT_NODISCARD;
void cudnn_plan_close(const cudnn_target *target, cudnn_plan *plan);

weft_status cudnn_check(const cudnn_functions *f, unsigned status, const char *what,
                        const char *function) WEFT_NODISCARD;

#endif
