/* A network of machines in one process: the relay between their ports. */
#ifndef WEFT_BENCH_SHAPED_NETWORK_H
#define WEFT_BENCH_SHAPED_NETWORK_H

#include <stdbool.h>

enum { MTU = 9000, MOST_MACHINES = 250 };

/* The line of a machine: its network device, and what the cluster file says of it. */
typedef struct line {
    int device;       /* a TUN device, which does not block */
    double bandwidth; /* bytes a second, each way; 0: unlimited */
    double latency;   /* seconds; of two machines the longer one counts */
} line;

/* Carries packets between machines 0, 1, ..., whose addresses end with their number and 1, until
 * the file `end` is ready to be read. */
void relay_packets(const line *lines, int machines, int end);

/* The processor time of a machine. */
typedef struct share {
    double cores;         /* 0: all of those that it is on */
    double awake, period; /* it pauses for the rest of each period of so many seconds */
    char group[128];      /* of control, where its processes go; "": none */
} share;

/* Makes the group of machine `number`. false, with errno: this system gives none. */
bool share_make(share *s, int number);
void share_remove(share *s);
/* Starts a process that pauses those machines which do, until this one ends. */
void share_pauses(const share *all, int count);

#endif
