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
                         "%s: '%s' is no port; it is a number from 1 to 65535, or * for any that "
                         "is free",
                         out->at, strrchr(out->at, ':') + 1);
    out->distant = out->tcp && !is_loopback(host);
    return WEFT_OK;
}

bool weft_net_address_resolve(const char *at, char *out, size_t size)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[WEFT_ADDRESS_BYTES], numbers[INET_ADDRSTRLEN] = "";
    if (!read_host(at, host, sizeof(host)) || getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    const struct sockaddr_in *first = (const void *)found->ai_addr;
    (void)inet_ntop(AF_INET, &first->sin_addr, numbers, sizeof(numbers));
    freeaddrinfo(found);
    return snprintf(out, size, "tcp://%s%s", numbers, strrchr(at, ':')) < (int)size;
}

/* --- networks of this machine --- */

static bool counts(const struct ifaddrs *i)
{
    return i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_netmask &&
           (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
}

static struct in_addr in_of(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof(in));
    return in.sin_addr;
}

/* Whether an address is in a network of this machine, and is not this machine's own address. The
 * latter is excluded since many machines have the same internal network to their containers, so the
 * address may mean another machine. */
static bool is_near(const struct ifaddrs *all, const weft_net_address *address)
{
    char host[WEFT_ADDRESS_BYTES];
    struct in_addr to;
    if (!address->tcp || !read_host(address->at, host, sizeof(host)) ||
        inet_pton(AF_INET, host, &to) != 1)
        return false;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!counts(i)) continue;
        uint32_t own = in_of(i->ifa_addr).s_addr, mask = in_of(i->ifa_netmask).s_addr;
        if (own != to.s_addr && (own & mask) == (to.s_addr & mask)) return true;
    }
    return false;
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
    weft_status status = WEFT_OK;
    *out = (weft_net_address){.at = ""};
    WEFT_TRY(weft_strdup(list, &copy));
    if (getifaddrs(&all) != 0) all = NULL;
    for (char *one = strtok_r(copy, " ", &rest); one && !best && status == WEFT_OK;
         one = strtok_r(NULL, " ", &rest)) {
        weft_net_address next;
        if (!is_here(one, token)) continue;
        status = weft_net_address_read(one, &next);
        best = !next.distant || is_near(all, &next);
        if (status == WEFT_OK && (best || !out->at[0])) *out = next;
    }
    if (all) freeifaddrs(all);
    free(copy);
    return status;
}

/* Writes the addresses that other machines use instead of "tcp://0.0.0.0:PORT": one in each network
 * of this machine. */
static void list_all(const char *port, const char *key, char *out, size_t size)
{
    enum { MOST = 4 };
    struct ifaddrs *all = NULL;
    size_t used = 0;
    int count = 0;
    if (getifaddrs(&all) != 0) all = NULL;
    for (const struct ifaddrs *i = all; i && count < MOST; i = i->ifa_next) {
        char host[INET_ADDRSTRLEN], text[WEFT_ADDRESS_BYTES];
        struct in_addr in;
        if (!counts(i)) continue;
        in = in_of(i->ifa_addr);
        if (!inet_ntop(AF_INET, &in, host, sizeof(host))) continue;
        int bytes =
            snprintf(text, sizeof(text), "%stcp://%s:%s%s", count ? " " : "", host, port, key);
        if (used + (size_t)bytes >= size) break;
        memcpy(out + used, text, (size_t)bytes + 1);
        used += (size_t)bytes;
        count++;
    }
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
            list_all(at + strlen(every[i]), behind, out, size);
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
