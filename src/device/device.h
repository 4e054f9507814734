/* Declares the built-in devices, and helpers around the device interface of weft/device_ops.h:
 * device memory, checked calls, cost estimates, layouts. */
#ifndef WEFT_DEVICE_DEVICE_H
#define WEFT_DEVICE_DEVICE_H

#include "graph/graph.h"
#include "weft/device_ops.h"

/* The index of value v among the group's inputs (or outputs); -1: none. */
int weft_group_in(const weft_group *group, weft_value v);
int weft_group_out(const weft_group *group, weft_value v);

extern const weft_device_ops weft_device_reference, weft_device_cpu, weft_device_distant;

/* Registers a device, and the built-in ones. */
weft_status weft_device_register(weft_context *context, const weft_device_ops *ops) WEFT_NODISCARD;
weft_status weft_devices_register(weft_context *context) WEFT_NODISCARD;

/* Whether a device has this name; *built_in: it is the library's own. Loads no plug-in. */
bool weft_device_is_known(const weft_context *context, const char *name, bool *built_in);
/* The number of devices in a list such as "cpu:cores=0-3,opencl". */
int weft_device_list_count(const char *list);
/* The list of cores in the name of a device, as in "cpu:cores=0-3", or NULL; *before: bytes of the
 * name without it. */
const char *weft_device_cores(const char *name, size_t *before);
/* Opens a device by "NAME" or "NAME:arguments". ARGUMENT: unknown device, or invalid arguments. */
weft_status weft_device_open(weft_context *context, const char *name,
                             weft_device **out) WEFT_NODISCARD;
void weft_device_close(weft_device **device);
/* Opens a device and, in the order of `next`, the devices in host memory that compute the groups
 * for which it has no kernel; list[0] is the device itself. The caller closes all of them.
 * ARGUMENT: also a `next` that has memory of its own, or a longer list. */
enum { WEFT_DEVICES = 4 };
weft_status weft_device_open_list(weft_context *context, const char *name,
                                  weft_device *list[WEFT_DEVICES], int *count) WEFT_NODISCARD;
/* Writes what devices have alike that give the same bits, see weft_device_ops.hardware. */
void weft_device_hardware(const weft_device *device, char *out, size_t size);
/* The name of the device in host memory that has a kernel for every operator. */
const char *weft_device_fallback(void);
/* For devices without options: fails with ARGUMENT if there are arguments. */
weft_status weft_device_takes_nothing(const char *name, const char *arguments) WEFT_NODISCARD;

static inline bool weft_layout_same(const weft_layout *a, const weft_layout *b)
{
    return a == b || (a->plain && b->plain && a->memory == b->memory);
}

/* --- memory.c: uniform access to devices with and without their own memory; for devices in host
 * memory, queue and event are NULL and copies happen at once --- */

static inline bool weft_device_shares(const weft_device *device)
{
    return !device->ops->memory;
}
static inline weft_address weft_beyond(weft_address address, size_t bytes)
{
    return (weft_address){address.memory, address.offset + bytes};
}

weft_status weft_memory_new(weft_device *device, size_t bytes, weft_memory **out) WEFT_NODISCARD;
/* Frees memory; no queue may hold a command that uses it. */
void weft_memory_free(weft_memory **memory);
/* Host memory for copies to and from the device `far`, as memory of `host`, a device that shares
 * host memory. weft_memory_free frees it while both devices are open. */
weft_status weft_memory_new_host(weft_device *host, weft_device *far, size_t bytes,
                                 weft_memory **out) WEFT_NODISCARD;
/* Sets both to 0 if the device does not know its memory, or shares the host's. */
weft_status weft_memory_usage(weft_device *device, size_t *total, size_t *free) WEFT_NODISCARD;
weft_status weft_queue_open(weft_device *device, weft_queue **out) WEFT_NODISCARD;
void weft_queue_close(weft_device *device, weft_queue **queue);
/* Sets memory to zero, and waits for it. */
weft_status weft_memory_zero(weft_device *device, weft_queue *queue, weft_address at,
                             size_t bytes) WEFT_NODISCARD;
weft_status weft_copy_in(weft_queue *queue, weft_address to, const void *from,
                         size_t bytes) WEFT_NODISCARD;
weft_status weft_copy_out(weft_queue *queue, void *to, weft_address from,
                          size_t bytes) WEFT_NODISCARD;
/* Copies within the memory of one device. */
weft_status weft_copy(weft_queue *queue, weft_address to, weft_address from,
                      size_t bytes) WEFT_NODISCARD;
/* Whether the device wants to know which memory is not read again, and tells it; without a queue it
 * is host memory. */
static inline bool weft_device_forgets(const weft_device *device)
{
    return device->ops->forget != NULL;
}
weft_status weft_memory_forget(weft_queue *queue, weft_address at, size_t bytes) WEFT_NODISCARD;
weft_status weft_event_open(weft_device *device, weft_queue_event **out) WEFT_NODISCARD;
void weft_event_close(weft_device *device, weft_queue_event **event);
weft_status weft_event_record(weft_device *device, weft_queue *queue,
                              weft_queue_event *event) WEFT_NODISCARD;
weft_status weft_event_wait(weft_device *device, weft_queue_event *event) WEFT_NODISCARD;
weft_status weft_event_test(weft_device *device, weft_queue_event *event,
                            bool *done) WEFT_NODISCARD;
weft_status weft_queue_wait(weft_device *device, weft_queue *queue,
                            weft_queue_event *event) WEFT_NODISCARD;
/* Whether the device has a clock, and so timers, which are events. */
static inline bool weft_device_has_clock(const weft_device *device)
{
    return device->ops->memory && device->ops->memory->elapsed;
}
weft_status weft_timer_open(weft_device *device, weft_queue_event **out) WEFT_NODISCARD;
weft_status weft_timer_elapsed(weft_device *device, weft_queue_event *from, weft_queue_event *to,
                               double *seconds) WEFT_NODISCARD;

/* UNSUPPORTED: the device captures nothing. */
weft_status weft_capture_begin(weft_device *device, weft_queue *queue) WEFT_NODISCARD;
weft_status weft_capture_end(weft_device *device, weft_queue *queue,
                             weft_capture **out) WEFT_NODISCARD;
weft_status weft_capture_replay(weft_device *device, weft_queue *queue,
                                weft_capture *capture) WEFT_NODISCARD;
void weft_capture_close(weft_device *device, weft_capture **capture);

/* Whether a device with memory of its own reads the memory of another one. */
bool weft_device_reaches(weft_device *device, weft_device *other);

/* --- checked_calls.c: call the functions of a device and its kernels; each failure gets a message
 * --- */

/* Gives a failure of a device's function a message if the function has set none since `before`, see
 * weft_ensure_message. */
static inline weft_status weft_device_told(const weft_device *device, weft_status status,
                                           uint64_t before, const char *function)
{
    return weft_ensure_message(status, before, "device", device->ops->name, function);
}

weft_status weft_device_plain(weft_device *device, const weft_type *type,
                              const weft_layout **out) WEFT_NODISCARD;
weft_status weft_device_kernel(weft_device *device, const weft_group *group,
                               const weft_candidate *candidate, const weft_layout *const *in,
                               weft_kernel **out) WEFT_NODISCARD;
weft_status weft_device_reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                                const weft_layout *to, weft_kernel **out) WEFT_NODISCARD;
/* UNSUPPORTED: the device has no function `watch`, or not for this type. */
weft_status weft_device_watch(weft_device *device, const weft_type *type,
                              weft_kernel **out) WEFT_NODISCARD;
weft_status weft_kernel_bind(const weft_kernel *kernel, weft_bound **out) WEFT_NODISCARD;
weft_status weft_bound_place(weft_bound *bound, const weft_address *in, const weft_address *out,
                             weft_address scratch) WEFT_NODISCARD;
/* UNSUPPORTED: the kernel cannot be guarded. */
weft_status weft_bound_guard(weft_bound *bound, weft_address flag) WEFT_NODISCARD;
weft_status weft_bound_run(weft_bound *bound, weft_queue *queue) WEFT_NODISCARD;
weft_status weft_bound_finish(weft_bound *bound) WEFT_NODISCARD;
weft_status weft_bound_poll(weft_bound *bound, bool *done) WEFT_NODISCARD;

/* --- cost.c: estimates --- */

/* Estimated seconds of a kernel (roofline model): a start-up time, plus the larger of the times for
 * its operations and for its memory accesses. */
double weft_rates_seconds(const weft_rates *rates, double flops, double bytes);
/* As weft_rates_seconds, for the operations of a group's nodes and the bytes of the group's inputs
 * and outputs. */
double weft_group_seconds(const weft_rates *rates, const weft_group *group);
/* Estimated seconds to copy bytes between host and device memory; 0 if the device shares host
 * memory. */
double weft_rates_copy(const weft_rates *rates, double bytes);

/* The interned plain layout, which most devices use as `plain`. */
weft_status weft_layout_plain(weft_device *device, const weft_type *type,
                              const weft_layout **out) WEFT_NODISCARD;

/* The layout of a vector that lists the elements of a tensor in the order of its layout `order`
 * (operator flat). The text of the vector's layout names that order, so vectors in different orders
 * have different layouts. */
weft_status weft_layout_flat(weft_device *device, const weft_layout *order,
                             const weft_layout **out) WEFT_NODISCARD;

/* For kernels that write all results of the group's single node, also results that nothing reads;
 * these go to scratch memory. weft_kernel_unread_size adds their bytes to the kernel's scratch
 * memory. weft_kernel_unread_bind fills to[] with the address of each result, in the group's
 * outputs or at the end of the scratch memory. */
void weft_kernel_unread_size(const weft_group *group, weft_kernel *kernel);
void weft_kernel_unread_bind(const weft_group *group, const weft_kernel *kernel,
                             const weft_address *out, weft_address scratch, void **to);

/* Allocates a zeroed struct of `size` bytes that begins with a weft_bound; free it with free(). */
weft_status weft_bound_new(const weft_kernel *kernel, const weft_bound_ops *ops, size_t size,
                           weft_bound **out) WEFT_NODISCARD;

/* Sets the in-place flags of a group of one node from its operator. */
void weft_kernel_in_place(const weft_group *group, weft_kernel *kernel);

#endif
