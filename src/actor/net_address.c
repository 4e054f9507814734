/* Parses, chooses and writes addresses: inproc://NAME, ipc://PATH or tcp://HOST:PORT, and behind a
 * '#' the owner's public key. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>

#include "actor/net_internal.h"

static const char INSIDE[] = "inproc://";
enum { MARK = 24 };

/* Whether a port is "*" or a valid number; ZeroMQ would silently take a number above 65535 for
 * another port. */
static bool is_port(const char *text)
{
    int64_t port;
    return strcmp(text, "*") == 0 ||
           (weft_parse_int(text, &port) && port >= 0 && port <= UINT16_MAX);
}

/* Reads the host of tcp://HOST:PORT, without the brackets of IPv6. */
static bool read_host(const char *at, char *host, size_t size)
{
    const char *begin = at + strlen("tcp://"), *end = strrchr(begin, ':');
    if (!end || end == begin || !end[1]) return false;
    if (*begin == '[' && end[-1] == ']') {
        begin++;
        end--;
    }
    if ((size_t)(end - begin) >= size) return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return true;
}

static bool is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &six) == 1) return IN6_IS_ADDR_LOOPBACK(&six);
    return strcmp(host, "localhost") == 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0 && text[strlen(with)];
}

/* Refuses an ipc address that is no path of a file, whose permissions keep other users out, or that
 * has a space, which stands between the addresses of a member. */
static weft_status check_ipc(const char *at)
{
    const char *path = at + strlen("ipc://");
    if (*path == '@' || *path == '*')
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: all users of this machine could connect there; give the path of a "
                         "file, as in ipc:///run/user/1000/weft",
                         at);
    if (strchr(path, ' '))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: the path has a space; give one without", at);
    return WEFT_OK;
}

weft_status weft_net_address_read(const char *text, weft_net_address *out)
{
    const char *hash = strchr(text, '#');
    size_t size = hash ? (size_t)(hash - text) : strlen(text);
    char host[WEFT_ADDRESS_BYTES] = "";
    *out = (weft_net_address){.keyed = hash != NULL};
    if (hash && !weft_key_read(hash + 1, &out->key))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: after '#' there must be a public key of 64 hexadecimal digits", text);
    if (size >= sizeof(out->at))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: an address has at most %zu characters", text,
                         sizeof(out->at) - 1);
    memcpy(out->at, text, size);
    out->tcp = begins(out->at, "tcp://");
    bool known = out->tcp ? read_host(out->at, host, sizeof(host))
                          : begins(out->at, INSIDE) || begins(out->at, "ipc://");
    if (!known && (size > 0 || !hash))
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: no address; it is tcp://HOST:PORT or ipc://PATH",
                         size ? out->at : "''");
    if (out->tcp && !is_port(strrchr(out->at, ':') + 1))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: '%s' is no port; it is a number from 1 to 65535 or, where a process "
                         "listens, * for any that is free, or a range such as 7100-7199",
                         out->at, strrchr(out->at, ':') + 1);
    if (begins(out->at, "ipc://")) WEFT_TRY(check_ipc(out->at));
    out->distant = out->tcp && !is_loopback(host);
    return WEFT_OK;
}

/* Counts the addresses of a host in one family, and writes that with this index, if there is one,
 * as text. */
static int find_host(const char *host, int family, int index, char *out, size_t size)
{
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int count = 0;
    if (getaddrinfo(host, NULL, &hints, &found) != 0) return 0;
    for (const struct addrinfo *i = found; i; i = i->ai_next, count++) {
        const void *address =
            family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)(const void *)i->ai_addr)->sin_addr
                : &((const struct sockaddr_in6 *)(const void *)i->ai_addr)->sin6_addr;
        if (count == index) (void)inet_ntop(family, address, out, (socklen_t)size);
    }
    freeaddrinfo(found);
    return count;
}

bool weft_net_address_range(const char *text, int *first, int *last)
{
    const char *port = strrchr(text, ':');
    int used = 0;
    if (!begins(text, "tcp://") || !port || sscanf(port, ":%5d-%5d%n", first, last, &used) != 2)
        return false;
    return port[used] == '\0' && *first > 0 && *first <= *last && *last <= UINT16_MAX;
}

int weft_net_address_resolve(const char *at, unsigned index, char *out, size_t size)
{
    char host[WEFT_ADDRESS_BYTES], numbers[INET6_ADDRSTRLEN] = "";
    const char *port = strrchr(at, ':');
    if (!read_host(at, host, sizeof(host))) return 0;
    int four = find_host(host, AF_INET, 0, numbers, sizeof(numbers));
    int all = four + find_host(host, AF_INET6, 0, numbers, sizeof(numbers));
    if (all == 0) return 0;
    int chosen = (int)(index % (unsigned)all);
    bool six = chosen >= four;
    (void)find_host(host, six ? AF_INET6 : AF_INET, chosen - six * four, numbers, sizeof(numbers));
    (void)snprintf(out, size, six ? "tcp://[%s]%s" : "tcp://%s%s", numbers, port);
    return all;
}

bool weft_net_address_is_six(const char *at)
{
    char host[WEFT_ADDRESS_BYTES], found[WEFT_ADDRESS_BYTES];
    struct in_addr four;
    if (at[strlen("tcp://")] == '[') return true;
    if (!read_host(at, host, sizeof(host)) || strcmp(host, "*") == 0) return false;
    return inet_pton(AF_INET, host, &four) != 1 &&
           weft_net_address_resolve(at, 0, found, sizeof(found)) > 0 && strchr(found, '[') != NULL;
}

/* --- networks of this machine --- */

/* Whether an address of an interface can be told to other machines. */
static bool counts(const struct ifaddrs *i)
{
    const struct sockaddr *a = i->ifa_addr;
    if (!a || !i->ifa_netmask || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        return false;
    return a->sa_family == AF_INET ||
           (a->sa_family == AF_INET6 &&
            !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr));
}

/* The bytes of an address or mask, 4 or 16. */
static size_t bytes_of(const struct sockaddr *address, uint8_t out[16])
{
    if (address->sa_family == AF_INET) {
        memcpy(out, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return 4;
    }
    memcpy(out, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    return 16;
}

/* Whether two addresses are in one network, and are not the same. */
static bool same_network(const uint8_t *a, const uint8_t *b, const uint8_t *mask, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((a[i] ^ b[i]) & mask[i]) return false;
    return memcmp(a, b, size) != 0;
}

/* How an address suits this machine. NEAR: it is in a network of this machine, and is not this
 * machine's own address. The latter is excluded since many machines have the same internal network
 * to their containers, so the address may mean another machine. NONE: this machine has no address
 * of its family. */
typedef enum nearness { NONE, FAR, NEAR } nearness;

static nearness nearness_of(const struct ifaddrs *all, const weft_net_address *address)
{
    char host[WEFT_ADDRESS_BYTES];
    uint8_t to[16], own[16], mask[16];
    nearness best = NONE;
    if (!address->tcp || !read_host(address->at, host, sizeof(host))) return FAR;
    int family = inet_pton(AF_INET, host, to) == 1    ? AF_INET
                 : inet_pton(AF_INET6, host, to) == 1 ? AF_INET6
                                                      : AF_UNSPEC;
    if (family == AF_UNSPEC) return FAR;
    for (const struct ifaddrs *i = all; i && best < NEAR; i = i->ifa_next) {
        if (!counts(i) || i->ifa_addr->sa_family != family) continue;
        size_t size = bytes_of(i->ifa_addr, own);
        /* The family of a mask may be unset. */
        struct sockaddr_storage text = {.ss_family = AF_UNSPEC};
        memcpy(&text, i->ifa_netmask,
               family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        text.ss_family = (sa_family_t)family;
        (void)bytes_of((const struct sockaddr *)&text, mask);
        best = same_network(own, to, mask, size) ? NEAR : FAR;
    }
    return best;
}

/* Removes the mark "@TOKEN" from an inproc address; false: the address is one of another
 * process. */
static bool is_here(char *text, uint64_t token)
{
    char mark[MARK], *at = strrchr(text, '@');
    if (!begins(text, INSIDE) || !at) return true;
    (void)snprintf(mark, sizeof(mark), "@%016" PRIx64, token);
    if (strcmp(at, mark) != 0) return false;
    *at = '\0';
    return true;
}

weft_status weft_net_address_choose(const char *list, uint64_t token, weft_net_address *out)
{
    struct ifaddrs *all = NULL;
    char *copy, *rest = NULL;
    bool best = false;
    nearness chosen = NONE;
    weft_status status = WEFT_OK;
    *out = (weft_net_address){.at = ""};
    WEFT_TRY(weft_strdup(list, &copy));
    if (getifaddrs(&all) != 0) all = NULL;
    for (char *one = strtok_r(copy, " ", &rest); one && !best && status == WEFT_OK;
         one = strtok_r(NULL, " ", &rest)) {
        weft_net_address next;
        if (!is_here(one, token)) continue;
        status = weft_net_address_read(one, &next);
        if (status != WEFT_OK) break;
        nearness now = next.distant ? nearness_of(all, &next) : NEAR;
        best = now == NEAR;
        if (best || !out->at[0] || now > chosen) *out = next;
        chosen = WEFT_MAX(chosen, now);
    }
    if (all) freeifaddrs(all);
    free(copy);
    return status;
}

/* Appends the addresses of one family to `out`, which has *used bytes, up to `most` in all. */
static void list_family(const struct ifaddrs *all, int family, const char *port, const char *key,
                        int most, int *count, char *out, size_t size, size_t *used)
{
    bool six = family == AF_INET6;
    for (const struct ifaddrs *i = all; i && *count < most; i = i->ifa_next) {
        char host[INET6_ADDRSTRLEN], text[WEFT_ADDRESS_BYTES];
        uint8_t own[16];
        if (!counts(i) || i->ifa_addr->sa_family != family) continue;
        (void)bytes_of(i->ifa_addr, own);
        if (!inet_ntop(family, own, host, sizeof(host))) continue;
        int bytes = snprintf(text, sizeof(text), "%stcp://%s%s%s:%s%s", *count ? " " : "",
                             six ? "[" : "", host, six ? "]" : "", port, key);
        if (bytes >= (int)sizeof(text) || *used + (size_t)bytes >= size) return;
        memcpy(out + *used, text, (size_t)bytes + 1);
        *used += (size_t)bytes;
        (*count)++;
    }
}

/* Writes the addresses that other machines use instead of "tcp://0.0.0.0:PORT" or "tcp://[::]:PORT"
 * (`six`): one in each network of this machine. */
static void list_all(bool six, const char *port, const char *key, char *out, size_t size)
{
    enum { MOST = 3 }; /* of each family */
    struct ifaddrs *all = NULL;
    size_t used = 0;
    int count = 0;
    if (getifaddrs(&all) != 0) all = NULL;
    list_family(all, AF_INET, port, key, MOST, &count, out, size, &used);
    if (six) list_family(all, AF_INET6, port, key, count + MOST, &count, out, size, &used);
    if (all) freeifaddrs(all);
    if (!count) (void)snprintf(out, size, "tcp://127.0.0.1:%s%s", port, key);
}

void weft_net_address_format(const char *at, const weft_net_context *world, bool keyed, char *out,
                             size_t size)
{
    char behind[WEFT_KEY_TEXT + MARK] = "";
    const char *every[] = {"tcp://0.0.0.0:", "tcp://[::]:"};
    if (keyed) {
        behind[0] = '#';
        weft_key_text(&world->public_key, behind + 1);
    }
    if (begins(at, INSIDE)) (void)snprintf(behind, sizeof(behind), "@%016" PRIx64, world->token);
    for (size_t i = 0; i < WEFT_COUNT(every); i++)
        if (begins(at, every[i])) {
            list_all(i == 1, at + strlen(every[i]), behind, out, size);
            return;
        }
    (void)snprintf(out, size, "%s%s", at, behind);
}

uint64_t weft_net_address_key(const char *list)
{
    char text[WEFT_KEY_TEXT] = "";
    weft_key key;
    const char *hash = strchr(list, '#');
    if (hash) (void)snprintf(text, sizeof(text), "%s", hash + 1);
    if (!hash || !weft_key_read(text, &key)) return 0;
    weft_key_text(&key, text);
    return weft_hash_text(text);
}
