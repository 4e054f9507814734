/* RTO estimator: computes the retransmission timeout from round-trip times (Jacobson and Karels
 * 1988; RFC 6298). Over a slow link an early retransmission would only add load. */
#ifndef WEFT_ACTOR_RTO_H
#define WEFT_ACTOR_RTO_H

typedef struct weft_rto {
    double mean, spread; /* SRTT and RTTVAR, in seconds; 0: no sample yet */
    int backoffs;        /* retransmissions since the last sample */
} weft_rto;

/* The timeout: SRTT + 4 RTTVAR, at least `least` seconds, doubled with each retransmission. */
double weft_rto_timeout(const weft_rto *rto, double least);
/* Takes a measured round-trip time and resets the backoff. The acknowledged copy must be known, by
 * its time stamp or since no copy was retransmitted (Karn and Partridge 1987). A negative or
 * infinite time does not count. */
void weft_rto_sample(weft_rto *rto, double seconds);
/* Called for each retransmission: doubles the timeout, at most five times. */
void weft_rto_backoff(weft_rto *rto);

#endif
