/* Rate limits by token buckets: a client may send the requests of one second at once, and after
 * that so many per second. */
#include <math.h>
#include <netinet/in.h>

#include "serve/front/access_control.h"

/* Cells of the hash table, and largest number of buckets. Beyond that number, the bucket that has
 * been without connections for the longest time is dropped. */
enum { CELLS = 4096, MOST = 65536 };

struct weft_token_bucket {
    unsigned char key[16];
    double left, since;               /* tokens at the time `since` */
    int held;                         /* number of open connections of the client */
    weft_token_bucket *next;          /* next bucket in the same cell of the hash table */
    weft_token_bucket *older, *newer; /* list of buckets without connections */
};

struct weft_rate_limiter {
    double rate, most;
    int count;
    weft_token_bucket *oldest, *newest;
    weft_token_bucket *cells[CELLS];
};

weft_status weft_rate_limiter_create(double rate, weft_rate_limiter **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    (*out)->rate = rate;
    (*out)->most = fmax(1, rate);
    return WEFT_OK;
}

void weft_rate_limiter_destroy(weft_rate_limiter **limiter)
{
    if (!*limiter) return;
    for (int i = 0; i < CELLS; i++)
        for (weft_token_bucket *b = (*limiter)->cells[i], *next; b; b = next) {
            next = b->next;
            free(b);
        }
    free(*limiter);
    *limiter = NULL;
}

/* The key of a client: its IPv4 address, or its /64 network of IPv6, within which a customer can
 * choose any address. */
static void make_key(const struct sockaddr_storage *address, unsigned char *key)
{
    memset(key, 0, 16);
    if (address->ss_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
        memcpy(key, six, IN6_IS_ADDR_V4MAPPED(six) ? 16 : 8);
    } else {
        key[10] = key[11] = 0xff;
        memcpy(key + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
    }
}

static weft_token_bucket **cell_of(weft_rate_limiter *r, const unsigned char *key)
{
    uint64_t parts[2];
    memcpy(parts, key, sizeof(parts));
    return &r->cells[weft_mix(parts[0], parts[1]) % CELLS];
}

static void leave_line(weft_rate_limiter *r, weft_token_bucket *b)
{
    *(b->older ? &b->older->newer : &r->oldest) = b->newer;
    *(b->newer ? &b->newer->older : &r->newest) = b->older;
    b->older = b->newer = NULL;
}

static void forget_oldest(weft_rate_limiter *r)
{
    weft_token_bucket *b = r->oldest, **at = cell_of(r, b->key);
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    r->oldest = b->newer;
    *(b->newer ? &b->newer->older : &r->newest) = NULL;
    r->count--;
    free(b);
}

static void fill(const weft_rate_limiter *r, weft_token_bucket *b, double now)
{
    b->left = fmin(r->most, b->left + r->rate * (now - b->since));
    b->since = now;
}

/* Drops up to two unused buckets: those that are full, which equal new ones, and the oldest one if
 * there are too many. */
static void forget_some(weft_rate_limiter *r, double now)
{
    for (int i = 0; i < 2 && r->oldest; i++) {
        fill(r, r->oldest, now);
        if (r->oldest->left < r->most && r->count < MOST) return;
        forget_oldest(r);
    }
}

weft_token_bucket *weft_rate_limiter_hold(weft_rate_limiter *r,
                                          const struct sockaddr_storage *address, double now)
{
    unsigned char key[16];
    make_key(address, key);
    weft_token_bucket **cell = cell_of(r, key), *b = *cell;
    while (b && memcmp(b->key, key, sizeof(key)) != 0) b = b->next;
    if (b) {
        if (b->held++ == 0) leave_line(r, b);
        return b;
    }
    forget_some(r, now);
    if (WEFT_NEW(&b, 1) != WEFT_OK) return NULL;
    memcpy(b->key, key, sizeof(key));
    b->left = r->most;
    b->since = now;
    b->held = 1;
    b->next = *cell;
    *cell = b;
    r->count++;
    return b;
}

void weft_rate_limiter_release(weft_rate_limiter *r, weft_token_bucket *b)
{
    if (!b || --b->held > 0) return;
    b->older = r->newest;
    b->newer = NULL;
    *(r->newest ? &r->newest->newer : &r->oldest) = b;
    r->newest = b;
}

bool weft_rate_limiter_take(const weft_rate_limiter *r, weft_token_bucket *b, double now)
{
    if (!b) return true;
    fill(r, b, now);
    if (b->left < 1) return false;
    b->left--;
    return true;
}

int weft_rate_limiter_retry_after(const weft_rate_limiter *r)
{
    return (int)fmax(1, ceil(1 / r->rate));
}
