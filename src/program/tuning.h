/* Declares the table of measurements (weft train --tune): how many seconds each candidate of a
 * group took on this machine. Where the table has all candidates of a group, lowering takes these
 * seconds in place of the estimates. */
#ifndef WEFT_PROGRAM_TUNING_H
#define WEFT_PROGRAM_TUNING_H

#include "device/device.h"

/* A line of the table. The texts point into its own copy. */
typedef struct measured {
    char *own;
    const char *device, *candidate, *group;
    int threads; /* of the device when it was measured */
    double seconds;
    int number; /* of the line in the text; 0: it was measured by this process */
} measured;

/* Hardware of the table: the devices of its lines have this label. */
typedef struct tuned_hardware {
    char *label, *device, *hardware;
} tuned_hardware;

typedef struct tuning {
    char *where; /* file or checkpoint, for messages */
    char *version, *processor;
    tuned_hardware *hardware;
    size_t hardware_count, hardware_capacity;
    measured *lines;
    size_t count, capacity;
    double until; /* groups that the table lacks are measured until then (weft_seconds) */
    bool (*stopped)(void *user); /* whether to stop measuring; NULL: nobody can ask for it */
    void *user;
    double told; /* time of the last line about it for the user */
    int lacking; /* groups with several candidates whose measurements the table lacks */
} tuning;

/* Reads a table; NULL: an empty one. FORMAT: the text is none, or is damaged; the message names the
 * line. */
weft_status tuning_read(const char *text, size_t size, const char *where,
                        tuning **out) WEFT_NODISCARD;
void tuning_free(tuning **table);
weft_status tuning_text(const tuning *t, char **out) WEFT_NODISCARD;
/* ARGUMENT: the table is of another version of Weft, another processor, or of other hardware of
 * the device. */
weft_status tuning_check(const tuning *t, const weft_device *device) WEFT_NODISCARD;

/* Fails with FORMAT for a line of the table. */
weft_status tuning_damaged(const tuning *t, int number, const char *why) WEFT_NODISCARD;
/* tuning_names.c: FORMAT: a line names a device, an operator, a type or a layout that does not
 * exist. */
weft_status tuning_check_names(const tuning *t, const weft_context *context) WEFT_NODISCARD;

/* tuning_group.c: writes the names of candidates; equal names get a number. */
enum { TUNING_NAME = 64 };
void tuning_names(const weft_candidate *candidates, int count, char names[][TUNING_NAME]);
/* Describes a group by its operators, attributes, types and the layouts of its inputs. placed: also
 * by attributes that say where in a tensor it works. */
weft_status tuning_group(const weft_group *group, const weft_layout *const *in, bool placed,
                         char **out) WEFT_NODISCARD;
/* Sets seconds[i] of each candidate, INFINITY if it is impossible. *found: the table has all of
 * them. ARGUMENT: it has a candidate that the device does not have. */
weft_status tuning_find(const tuning *t, const weft_device *device, const char *group,
                        char names[][TUNING_NAME], int count, double *seconds,
                        bool *found) WEFT_NODISCARD;
/* Adds a measurement. */
weft_status tuning_add(tuning *t, const weft_device *device, const char *group,
                       const char *candidate, double seconds) WEFT_NODISCARD;

/* tuning_measure.c: whether the time of a group depends on its shapes alone; not if it reads
 * integers, such as indices and lengths. */
bool tuning_is_measurable(const weft_group *group);
/* Measures one run of a kernel of the device on random numbers: the median of several, or one of
 * the first runs if it takes several times as long as `best`, the seconds of another candidate. */
weft_status tuning_measure(weft_device *device, const weft_group *group, const weft_kernel *kernel,
                           double best, double *seconds) WEFT_NODISCARD;

#endif
