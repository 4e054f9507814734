/* A device that is far away, for tests: it has the reference device's kernels and memory of its
 * own, and does what it is asked to only when somebody waits for it. */
#ifndef WEFT_DEVICE_FAKE_REMOTE_DISTANT_H
#define WEFT_DEVICE_FAKE_REMOTE_DISTANT_H

#include "device/device.h"

/* What stands in the device's list. */
typedef struct distant_command {
    weft_queue *queue;
    weft_bound *bound; /* to be run; NULL: a copy */
    void *to;
    const void *from;
    size_t bytes;
} distant_command;

typedef struct distant_device {
    weft_device head;
    weft_device *reference; /* whose kernels it has */
    char *lacks;            /* names of operators that it does not support, with '+' between */
    pthread_t thread;
    bool started, ends;
    pthread_mutex_t lock;
    pthread_cond_t asked_more, done_more;
    distant_command *list; /* a ring */
    uint64_t asked, done;  /* commands since the beginning */
    uint64_t wanted;       /* so far it may go */
} distant_device;

/* The memory itself is elsewhere; at the address that everybody sees nobody may touch anything. */
typedef struct distant_memory {
    weft_memory head;
    weft_memory inside; /* of the reference device, for its kernels */
    size_t bytes;
} distant_memory;

extern const weft_memory_ops distant_memory_ops;

weft_status distant_start(distant_device *d) WEFT_NODISCARD;
void distant_end(distant_device *d);
/* Puts a command at the end of the list. */
weft_status distant_ask(weft_queue *queue, distant_command command) WEFT_NODISCARD;

/* The place in memory that kernels may touch. */
static inline weft_address distant_inside(weft_address a)
{
    distant_memory *m = (distant_memory *)a.memory;
    return (weft_address){m ? &m->inside : NULL, a.offset};
}

#endif
