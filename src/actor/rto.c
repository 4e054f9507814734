/* Smoothed round-trip time, its variation, and exponential backoff. */
#include "actor/rto.h"

#include <math.h>

/* Doublings at most, so that a silent receiver is still probed now and then. */
enum { MOST_AGAIN = 5 };

double weft_rto_timeout(const weft_rto *trip, double least)
{
    return ldexp(fmax(least, trip->mean + 4 * trip->spread), trip->again);
}

void weft_rto_sample(weft_rto *trip, double seconds)
{
    if (!(seconds >= 0 && seconds < HUGE_VAL)) return;
    if (trip->mean > 0) {
        trip->spread += (fabs(seconds - trip->mean) - trip->spread) / 4;
        trip->mean += (seconds - trip->mean) / 8;
    } else {
        trip->mean = seconds;
        trip->spread = seconds / 2;
    }
    trip->again = 0;
}

void weft_rto_backoff(weft_rto *trip)
{
    if (trip->again < MOST_AGAIN) trip->again++;
}
