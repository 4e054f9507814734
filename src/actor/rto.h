/* RTO estimator: the retransmission timeout from round-trip times (Jacobson and Karels 1988; RFC
 * 6298). Behind a slow link an early retransmission only makes it slower. */
#ifndef WEFT_ACTOR_RTO_H
#define WEFT_ACTOR_RTO_H

typedef struct weft_rto {
    double mean, spread; /* SRTT and RTTVAR, in seconds; 0: no sample yet */
    int again;           /* retransmissions since the last sample */
} weft_rto;

/* The timeout: SRTT + 4 RTTVAR, at least `least` seconds, doubled with each retransmission. */
double weft_rto_timeout(const weft_rto *rto, double least);
/* A round-trip time of a copy that is known, by its time stamp or since none was retransmitted
 * (Karn and Partridge 1987). Resets the backoff; a negative or infinite time does not count. */
void weft_rto_sample(weft_rto *rto, double seconds);
void weft_rto_backoff(weft_rto *rto);

#endif
