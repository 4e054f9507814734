/* How long answers take, and so when a message is sent again (Jacobson and Karels 1988): where that
 * is too early, behind a slow link, the second copy only makes it slower. */
#ifndef WEFT_ACTOR_RTO_H
#define WEFT_ACTOR_RTO_H

typedef struct weft_rto {
    double mean, spread; /* of what answers took, in seconds; 0: none has come */
    int again;           /* times that something was sent again since the last answer */
} weft_rto;

/* So long nothing is sent again: for what an answer takes at the most, as far as is known, or for
 * `least` seconds, and for twice as long each time that something was. */
double weft_rto_timeout(const weft_rto *trip, double least);
/* An answer came, after so many seconds, to a copy that is known: of what was sent again it may not
 * be (Karn and Partridge 1987). What is no time at all does not count. */
void weft_rto_sample(weft_rto *trip, double seconds);
void weft_rto_backoff(weft_rto *trip);

#endif
