/* Carries packets between the machines of a shaped network. Each machine has a port to the network,
 * which sends one packet at a time and receives one at a time: a packet leaves its sender's port
 * when those before it have left, comes to the receiver's port a latency later, and is there when
 * those before it are, and its own bytes have come, too. Ports pass a packet on while it comes
 * (cut-through), so equal ports take its time once. A packet that meets a port with QUEUE bytes
 * before it is lost, as in a switch. */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "shaped_network.h"

/* QUEUE: more than the window of a connection, so that a few do not lose packets. */
enum { QUEUE = 16 << 20, ADDRESS = 16, HEADER = 20, BURST = 64 };

typedef struct packet {
    double at; /* on its way: when the port of the receiver may begin with it; there: when it is
                  whole */
    uint64_t order;
    int to;
    int bytes;
    struct packet *next;
    char data[MTU];
} packet;

typedef struct port {
    line line;
    double free[2];       /* when the last packet has been sent, and received */
    packet *first, *last; /* that the machine receives, in the order of their times */
} port;

typedef struct network {
    port port[MOST_MACHINES];
    int machines;
    packet **way; /* a heap of packets on their way, by their times and then their order */
    size_t count, room;
    uint64_t orders;
    packet *spare;
} network;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double takes(const port *p, int bytes)
{
    return p->line.bandwidth > 0 ? bytes / p->line.bandwidth : 0;
}

static packet *new_packet(network *n)
{
    packet *p = n->spare;
    if (p) n->spare = p->next;
    if (!p) p = malloc(sizeof(*p));
    if (!p) {
        fprintf(stderr, "shaped network: there is no memory for packets\n");
        exit(1);
    }
    return p;
}

static void drop(network *n, packet *p)
{
    p->next = n->spare;
    n->spare = p;
}

/* --- packets on their way --- */

static bool earlier(const packet *a, const packet *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void send_off(network *n, packet *p)
{
    if (n->count == n->room) {
        n->room = 2 * n->room + 64;
        n->way = realloc((void *)n->way, n->room * sizeof(packet *));
        if (!n->way) abort();
    }
    size_t i = n->count++;
    for (; i > 0 && earlier(p, n->way[(i - 1) / 2]); i = (i - 1) / 2)
        n->way[i] = n->way[(i - 1) / 2];
    n->way[i] = p;
}

static packet *take_off(network *n)
{
    packet *first = n->way[0], *last = n->way[--n->count];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < n->count; i = k) {
        if (k + 1 < n->count && earlier(n->way[k + 1], n->way[k])) k++;
        if (!earlier(n->way[k], last)) break;
        n->way[i] = n->way[k];
    }
    n->way[i] = last;
    return first;
}

/* --- ports --- */

/* The machine of an address of IPv4, or -1. */
static int machine_of(const network *n, const packet *p)
{
    int last = (unsigned char)p->data[ADDRESS + 3];
    bool known = p->bytes >= HEADER && (unsigned char)p->data[0] >> 4 == 4 && last >= 1;
    return known && last <= n->machines ? last - 1 : -1;
}

/* Takes a packet from a machine, if it sends one, and puts it on its way. */
static bool send_packet(network *n, port *from)
{
    packet *p = new_packet(n);
    p->bytes = (int)read(from->line.device, p->data, MTU);
    p->to = machine_of(n, p);
    bool read_one = p->bytes > 0;
    double clock = now(), begin = from->free[0] > clock ? from->free[0] : clock;
    if (p->to < 0 || (begin - clock) * from->line.bandwidth > QUEUE) {
        drop(n, p);
        return read_one;
    }
    const port *to = &n->port[p->to];
    double latency = from->line.latency > to->line.latency ? from->line.latency : to->line.latency;
    from->free[0] = begin + takes(from, p->bytes);
    p->at = from->free[0] + latency - takes(to, p->bytes);
    p->order = n->orders++;
    send_off(n, p);
    return true;
}

/* Packets that have come to the ports of their receivers get the times at which they are there. */
static void receive_packets(network *n)
{
    while (n->count > 0 && n->way[0]->at <= now()) {
        packet *p = take_off(n);
        port *to = &n->port[p->to];
        if ((to->free[1] - p->at) * to->line.bandwidth > QUEUE) {
            drop(n, p);
            continue;
        }
        if (to->free[1] < p->at) to->free[1] = p->at;
        to->free[1] += takes(to, p->bytes);
        p->at = to->free[1];
        p->next = NULL;
        if (to->first)
            to->last->next = p;
        else
            to->first = p;
        to->last = p;
    }
}

static void deliver(network *n, port *to)
{
    while (to->first && to->first->at <= now()) {
        packet *p = to->first;
        to->first = p->next;
        if (write(to->line.device, p->data, (size_t)p->bytes) < 0) perror("shaped network");
        drop(n, p);
    }
}

/* Waits for a packet of a machine, or for the next time of one on its way. */
static bool wait_for_packets(const network *n, struct pollfd *files, int end)
{
    double next = n->count > 0 ? n->way[0]->at : now() + 1;
    for (int i = 0; i < n->machines; i++) {
        files[i] = (struct pollfd){.fd = n->port[i].line.device, .events = POLLIN};
        if (n->port[i].first && n->port[i].first->at < next) next = n->port[i].first->at;
    }
    files[n->machines] = (struct pollfd){.fd = end, .events = POLLIN};
    double left = next - now();
    if (left < 0) left = 0;
    struct timespec until = {.tv_sec = (time_t)left,
                             .tv_nsec = (long)(1e9 * (left - (double)(time_t)left))};
    ppoll(files, (nfds_t)n->machines + 1, &until, NULL);
    return files[n->machines].revents == 0;
}

void relay_packets(const line *lines, int machines, int end)
{
    static network n;
    struct pollfd files[MOST_MACHINES + 1];
    n.machines = machines;
    for (int i = 0; i < machines; i++) n.port[i].line = lines[i];
    while (wait_for_packets(&n, files, end)) {
        for (int i = 0; i < machines; i++)
            for (int k = 0; files[i].revents && k < BURST && send_packet(&n, &n.port[i]); k++)
                receive_packets(&n);
        receive_packets(&n);
        for (int i = 0; i < machines; i++) deliver(&n, &n.port[i]);
    }
}
