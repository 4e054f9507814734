/* Finds platforms and devices of OpenCL. */
#include <dlfcn.h>
#include <stdio.h>

#include "device/opencl/opencl.h"

enum { MOST = 16, TEXT = 128 };

const char *cl_error_name(cl_int error)
{
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
        {CL_DEVICE_NOT_FOUND, "no such device"},
        {CL_DEVICE_NOT_AVAILABLE, "the device is not available"},
        {CL_COMPILER_NOT_AVAILABLE, "there is no compiler"},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, "out of memory of the device"},
        {CL_OUT_OF_RESOURCES, "out of resources of the device"},
        {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
        {CL_BUILD_PROGRAM_FAILURE, "a program does not compile"},
        {CL_INVALID_BUFFER_SIZE, "a buffer is too large"},
        {CL_INVALID_WORK_GROUP_SIZE, "too many work items in a group"},
        {CL_INVALID_BINARY, "a binary does not fit"},
        {CL_INVALID_KERNEL_ARGS, "a kernel lacks arguments"},
        {CL_INVALID_VALUE, "an invalid value"},
        {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an earlier command has failed"},
    };
    for (size_t i = 0; i < WEFT_COUNT(names); i++)
        if (names[i].error == error) return names[i].name;
    return "see CL/cl.h";
}

weft_status cl_fail(const cl_card *card, cl_int error, const char *function)
{
    bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY;
    return weft->fail(memory ? WEFT_ERR_MEMORY : WEFT_ERR_INTERNAL,
                      "device opencl%s%s: %s failed with %d (%s)", card ? " " : "",
                      card ? card->head.name : "", function, (int)error, cl_error_name(error));
}

static weft_status open_library(cl_card *card)
{
    card->library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!card->library)
        return weft->fail(
            WEFT_ERR_UNSUPPORTED,
            "device opencl: %s; install an OpenCL loader (Debian: ocl-icd-libopencl1) "
            "and the driver of a device",
            dlerror());
#define FIND(name)                                                                                 \
    *(void **)(&card->f.name) = dlsym(card->library, #name);                                       \
    if (!card->f.name)                                                                             \
        return weft->fail(WEFT_ERR_UNSUPPORTED,                                                    \
                          "device opencl: libOpenCL.so.1 lacks %s, which is part of OpenCL 1.2",   \
                          #name);
    CL_FUNCTIONS(FIND)
#undef FIND
    return WEFT_OK;
}

static void device_text(const cl_card *card, cl_device_id id, cl_device_info what, char *to,
                        size_t size)
{
    to[0] = 0;
    if (card->f.clGetDeviceInfo(id, what, size, to, NULL) != CL_SUCCESS) to[0] = 0;
    to[size - 1] = 0;
}

/* Appends a line for each device to `list`, and sets *out to device `device` of `platform`. */
static void walk(const cl_card *card, const cl_platform_id *platforms, cl_uint count, int platform,
                 int device, char *list, size_t size, cl_device_id *out)
{
    size_t end = 0;
    for (cl_uint p = 0; p < count; p++) {
        cl_device_id ids[MOST];
        cl_uint found = 0;
        if (card->f.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, ids, &found) !=
            CL_SUCCESS)
            continue;
        for (cl_uint d = 0; d < found && d < MOST; d++) {
            char name[TEXT];
            device_text(card, ids[d], CL_DEVICE_NAME, name, sizeof(name));
            if (end < size) {
                int n = snprintf(list + end, size - end, "%s%u.%u %s", end ? ", " : "", p, d, name);
                end += n > 0 ? (size_t)n : 0;
            }
            if ((int)p == platform && (int)d == device) *out = ids[d];
        }
    }
}

/* Reads "PLATFORM.DEVICE", or nothing: the first device. */
static weft_status parse(const char *which, int *platform, int *device)
{
    char rest;
    *platform = *device = 0;
    if (!*which || (sscanf(which, "%3d.%3d%c", platform, device, &rest) == 2 && *platform >= 0 &&
                    *device >= 0))
        return WEFT_OK;
    return weft->fail(WEFT_ERR_ARGUMENT,
                      "device opencl: '%s' is no device; write PLATFORM.DEVICE, such as 0.0",
                      which);
}

static weft_status find_device(cl_card *card, int platform, int device)
{
    cl_platform_id platforms[MOST];
    cl_uint count = 0;
    char list[1024] = "";
    cl_device_id found = NULL;
    cl_int error = card->f.clGetPlatformIDs(MOST, platforms, &count);
    if (error != CL_SUCCESS || count == 0)
        return weft->fail(
            WEFT_ERR_UNSUPPORTED,
            "device opencl: there is no OpenCL platform here; install the driver of a "
            "device (Debian: pocl-opencl-icd runs OpenCL on the processor)");
    walk(card, platforms, WEFT_MIN(count, (cl_uint)MOST), platform, device, list, sizeof(list),
         &found);
    if (!found)
        return weft->fail(WEFT_ERR_ARGUMENT,
                          "device opencl: there is no device %d.%d; there are: %s", platform,
                          device, *list ? list : "none");
    card->device = found;
    return WEFT_OK;
}

static weft_status describe(cl_card *card)
{
    char driver[TEXT], version[TEXT];
    size_t most_items = 0;
    cl_device_fp_config doubles = 0;
    const cl_functions *f = &card->f;
    device_text(card, card->device, CL_DEVICE_NAME, card->head.name, sizeof(card->head.name));
    device_text(card, card->device, CL_DRIVER_VERSION, driver, sizeof(driver));
    device_text(card, card->device, CL_DEVICE_VERSION, version, sizeof(version));
    (void)snprintf(card->head.version, sizeof(card->head.version), "%.80s|%.80s|%.80s",
                   card->head.name, driver, version);
    (void)f->clGetDeviceInfo(card->device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(doubles), &doubles,
                             NULL);
    (void)f->clGetDeviceInfo(card->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(card->bytes),
                             &card->bytes, NULL);
    (void)f->clGetDeviceInfo(card->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(card->most),
                             &card->most, NULL);
    (void)f->clGetDeviceInfo(card->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(most_items),
                             &most_items, NULL);
    cl_device_type type = 0;
    (void)f->clGetDeviceInfo(card->device, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    card->head.doubles = doubles != 0;
    card->head.processor = (type & CL_DEVICE_TYPE_CPU) != 0;
    if (most_items >= 256) return WEFT_OK;
    return weft->fail(WEFT_ERR_UNSUPPORTED,
                      "device opencl: %s runs at most %zu work items in a group, must be 256",
                      card->head.name, most_items);
}

weft_status cl_open(const char *which, gpu_card **out)
{
    cl_card *card;
    cl_int error;
    int platform, device;
    WEFT_TRY(parse(which, &platform, &device));
    WEFT_TRY(weft->allocate(sizeof(*card), &card));
    weft_status status = open_library(card);
    if (status == WEFT_OK) status = find_device(card, platform, device);
    if (status == WEFT_OK) status = describe(card);
    if (status == WEFT_OK) {
        card->context = card->f.clCreateContext(NULL, 1, &card->device, NULL, NULL, &error);
        status = cl_check(card, error, "clCreateContext");
    }
    if (status == WEFT_OK) {
        card->fills = card->f.clCreateCommandQueue(card->context, card->device, 0, &error);
        status = cl_check(card, error, "clCreateCommandQueue");
    }
    if (status == WEFT_OK)
        *out = &card->head;
    else
        cl_close(&card->head);
    return status;
}

/* The library stays: a driver's threads may outlive what has started them. */
void cl_close(gpu_card *head)
{
    cl_card *card = (cl_card *)head;
    if (card->fills) (void)card->f.clReleaseCommandQueue(card->fills);
    if (card->context) (void)card->f.clReleaseContext(card->context);
    free(card);
}
