/* The machines of a job, as --hosts names them: NAME:RANKS,... */
#ifndef WEFT_JOB_HOSTS_H
#define WEFT_JOB_HOSTS_H

#include <sys/types.h>

#include "base/base.h"

typedef struct weft_machine {
    char *name;
    int slots;   /* ranks it takes */
    pid_t agent; /* what the launcher reaches it by (ssh); 0: not seen yet */
    bool gone;   /* that has ended */
} weft_machine;

typedef struct weft_hosts {
    weft_machine *host;
    int count; /* 0: none were given */
} weft_hosts;

weft_status weft_hosts_parse(const char *text, weft_hosts *out) WEFT_NODISCARD;
void weft_hosts_free(weft_hosts *hosts);
/* As launchers take them. */
weft_status weft_hosts_text(const weft_hosts *hosts, char **out) WEFT_NODISCARD;

/* Which of them has this name, or where a rank runs: launchers fill one after the other. -1: not
 * known. */
int weft_hosts_find(const weft_hosts *hosts, const char *name);
int weft_hosts_of_rank(const weft_hosts *hosts, int rank);

/* Looks at the launcher's children, which say by their command line what host they are for; those
 * that run `program` are ranks. */
void weft_hosts_look(weft_hosts *hosts, pid_t launcher, const char *program);
/* What an agent says when it does not come through names its host, and it may end unseen. */
void weft_hosts_mention(weft_hosts *hosts, const char *line);
void weft_hosts_forget(weft_hosts *hosts); /* before another launcher is started */
/* The only one whose agent has ended, or -1. */
int weft_hosts_gone(const weft_hosts *hosts);

void weft_hosts_remove(weft_hosts *hosts, int i);

#endif
