/* Declares how the use of a device by an instance is measured. */
#ifndef WEFT_PROGRAM_DEVICE_USE_H
#define WEFT_PROGRAM_DEVICE_USE_H

#include "program/program.h"
#include "program/timing.h"

/* A step is timed from its begin on the host to that of the next one, while the ranges of its
 * phases wait to be asked. */
typedef struct device_use {
    timing phases; /* without a device if that has no clock */
    enum { USE_WAITS, USE_TIMES, USE_ENDS } stage;
    bool whole;           /* all phases of the step are in the ring */
    double began, length; /* of the step, on the host */
    double busy;          /* seconds of its phases that have ended */
    double look;          /* when the memory is looked at again */
    weft_device_use now;
} device_use;

/* Nothing is measured in host memory. */
weft_status weft_device_use_open(weft_instance *x) WEFT_NODISCARD;
void weft_device_use_close(weft_instance *x);
/* A step begins; a phase begins, and ends, in the queue. */
weft_status weft_device_use_step(weft_instance *x) WEFT_NODISCARD;
weft_status weft_device_use_begin(weft_instance *x) WEFT_NODISCARD;
weft_status weft_device_use_end(weft_instance *x) WEFT_NODISCARD;

#endif
