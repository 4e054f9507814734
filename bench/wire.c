/* A line between two networks, for machines whose kernel cannot shape one (netem). "wire NEAR FAR
 * MBIT MS" makes two TAP devices with these names and carries frames between them in both
 * directions, at MBIT Mbit/s each way and MS milliseconds late. A frame that meets a full queue is
 * lost, as in a router. The program prints "ready" when the devices exist, and runs until it is
 * killed. */
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

/* QUEUE: frames on the line, each way, at most; as netem's default. */
enum { FRAME = 2048, QUEUE = 1000 };

struct frame {
    double due;
    size_t bytes;
    char data[FRAME];
};

struct way {
    int from, to;
    double free;         /* time when the last bit of the frames on the line is sent */
    unsigned begin, end; /* numbers of the frames under way: [begin, end) */
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

/* Reads one frame from a device and puts it on the line, or drops it if the queue is full; false:
 * there was no frame. */
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
    /* Real-time scheduling, if permitted, keeps the line's timing exact on a busy machine too. */
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
