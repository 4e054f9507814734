/* A line between two networks where the kernel cannot shape one: wire NEAR FAR MBIT MS makes two
 * TAP devices of these names and carries frames between them, both ways, each at so many Mbit/s
 * and so many milliseconds late. A queue that is full loses what comes, as a router does. Says
 * "ready" when the devices are there, and goes on until it is ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, QUEUE = 1000 }; /* as many frames as netem's queue */

struct frame {
    double due;
    size_t bytes;
    char data[FRAME];
};

struct way {
    int from, to;
    double free;         /* when the last bit of what is on the line has been sent */
    unsigned begin, end; /* of those under way */
    struct frame frames[QUEUE];
};

static struct way ways[2];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (file < 0 || ioctl(file, TUNSETIFF, &request) != 0) {
        fprintf(stderr, "wire: %s cannot be made: %s\n", name, strerror(errno));
        exit(1);
    }
    return file;
}

/* Whether there was one. */
static int take(struct way *w, double rate, double delay)
{
    struct frame spare, *f = w->end - w->begin < QUEUE ? &w->frames[w->end % QUEUE] : &spare;
    ssize_t bytes = read(w->from, f->data, FRAME);
    if (bytes <= 0) return 0;
    if (f == &spare) return 1;
    double begins = now();
    if (w->free > begins) begins = w->free;
    w->free = begins + (double)bytes / rate;
    f->due = w->free + delay;
    f->bytes = (size_t)bytes;
    w->end++;
    return 1;
}

static void give(struct way *w)
{
    for (; w->begin != w->end && w->frames[w->begin % QUEUE].due <= now(); w->begin++) {
        const struct frame *f = &w->frames[w->begin % QUEUE];
        if (write(w->to, f->data, f->bytes) < 0 && errno == EAGAIN) return;
    }
}

static void rest(void)
{
    struct pollfd files[2] = {{.fd = ways[0].from, .events = POLLIN},
                              {.fd = ways[1].from, .events = POLLIN}};
    double left = 1;
    for (int i = 0; i < 2; i++) {
        const struct way *w = &ways[i];
        double mine = w->begin == w->end ? 1 : w->frames[w->begin % QUEUE].due - now();
        if (mine < left) left = mine;
    }
    if (left < 0) left = 0;
    struct timespec until = {.tv_sec = (time_t)left,
                             .tv_nsec = (long)(1e9 * (left - (double)(time_t)left))};
    ppoll(files, 2, &until, NULL);
}

int main(int count, char **words)
{
    if (count != 5) {
        fprintf(stderr, "usage: wire NEAR FAR MBIT MS\n");
        return 2;
    }
    double rate = atof(words[3]) * 1e6 / 8, delay = atof(words[4]) * 1e-3;
    /* It keeps time also on a busy machine, if it may. */
    prctl(PR_SET_TIMERSLACK, 1000);
    if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 10}) != 0)
        fprintf(stderr, "wire: runs at times, not always: %s\n", strerror(errno));
    ways[0].from = ways[1].to = device(words[1]);
    ways[1].from = ways[0].to = device(words[2]);
    puts("ready");
    fflush(stdout);
    for (;;) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < 64 && take(&ways[i], rate, delay); k++) {
            }
            give(&ways[i]);
        }
        rest();
    }
}
