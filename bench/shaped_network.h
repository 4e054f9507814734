/* A network of machines in one process: the relay between their ports. */
#ifndef WEFT_BENCH_SHAPED_NETWORK_H
#define WEFT_BENCH_SHAPED_NETWORK_H

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

#endif
