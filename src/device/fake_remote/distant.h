/* Declares the device `distant`, a fake asynchronous device for tests: it has the kernels and
 * layouts of another device and its own memory, and executes commands only when the host waits for
 * them. */
#ifndef WEFT_DEVICE_FAKE_REMOTE_DISTANT_H
#define WEFT_DEVICE_FAKE_REMOTE_DISTANT_H

#include "device/device.h"

/* An entry of a queue. */
typedef struct distant_command {
    weft_bound *bound;    /* kernel to run; NULL: a copy, or a wait */
    const int32_t *guard; /* the kernel does not run while this is not 0; NULL: it always runs */
    /* How often the kernel has been placed, and had been when it was queued: a capture that is
     * replayed with other addresses is an error. */
    const uint64_t *placed;
    uint64_t places;
    /* Waits until `other` has executed the commands before `position`; NULL: no wait, or the other
     * queue was closed, which executes its commands first. */
    weft_queue *other;
    uint64_t position;
    double *time; /* where it writes the time of the device's clock; NULL: nowhere */
    void *to;
    const void *from; /* NULL: no numbers are written */
    size_t bytes;
} distant_command;

typedef struct distant_device {
    weft_device head;
    weft_device *inside;   /* provides the kernels and layouts */
    char *lacks;           /* unsupported operators, separated by '+' */
    int64_t memory, taken; /* bytes of its memory, and those in use; memory 0: unlimited */
    pthread_t thread;
    bool started, ends;
    bool alone; /* it reaches no other device */
} distant_device;

/* Memory of the device. The public address (head.base) must not be accessed; the data are in
 * `inside`. */
typedef struct distant_memory {
    weft_memory head;
    weft_memory inside; /* memory of the device inside, whose kernels access it */
    size_t bytes;
} distant_memory;

extern const weft_memory_ops distant_memory_ops;
extern const weft_capture_ops distant_capture_ops;

weft_status distant_start(distant_device *d) WEFT_NODISCARD;
void distant_end(distant_device *d);
/* Appends a command to a queue. */
weft_status distant_ask(weft_queue *queue, distant_command command) WEFT_NODISCARD;

/* See weft_device_ops. */
weft_status distant_forget(weft_queue *queue, weft_address at, size_t bytes) WEFT_NODISCARD;

/* Converts a public address to the address that kernels may access. */
static inline weft_address distant_inside(weft_address a)
{
    distant_memory *m = (distant_memory *)a.memory;
    return (weft_address){m ? &m->inside : NULL, a.offset};
}

#endif
