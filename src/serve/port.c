/* Opens listening sockets, and says why one cannot be opened. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/port.h"

typedef union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} address;

static bool read_address(const char *host, int64_t port, address *out, socklen_t *size)
{
    *out = (address){.six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    *size = sizeof(out->six);
    if (inet_pton(AF_INET6, host, &out->six.sin6_addr) == 1) return true;
    *out = (address){.four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
    *size = sizeof(out->four);
    return inet_pton(AF_INET, host, &out->four.sin_addr) == 1;
}

bool weft_port_is_local(const char *host)
{
    address at;
    socklen_t size;
    if (!read_address(host, 0, &at, &size)) return false;
    if (at.any.sa_family == AF_INET) return ntohl(at.four.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&at.six.sin6_addr) ||
           (IN6_IS_ADDR_V4MAPPED(&at.six.sin6_addr) && at.six.sin6_addr.s6_addr[12] == 127);
}

static bool set(int s, int option)
{
    int yes = 1;
    return setsockopt(s, SOL_SOCKET, option, &yes, sizeof(yes)) == 0;
}

/* Binds the socket and, unless it only reserves the port, listens. A reserving socket is bound
 * without SO_REUSEPORT and sets the option afterwards. So its bind fails if another server already
 * uses the port, and later sockets with SO_REUSEPORT can share the port. */
static bool bind_socket(int s, const address *at, socklen_t size, weft_port_use use)
{
    return set(s, SO_REUSEADDR) && (use != WEFT_PORT_SHARED || set(s, SO_REUSEPORT)) &&
           bind(s, &at->any, size) == 0 && (use != WEFT_PORT_RESERVED || set(s, SO_REUSEPORT)) &&
           (use == WEFT_PORT_RESERVED || listen(s, 1024) == 0);
}

weft_status weft_port_open(const char *host, int64_t port, weft_port_use use, int *out, int *bound)
{
    address at;
    socklen_t size;
    if (!read_address(host, port, &at, &size))
        return weft_fail(WEFT_ERR_ARGUMENT, "'%s' is no address, such as 127.0.0.1, 0.0.0.0 or ::1",
                         host);
    int s = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0 || !bind_socket(s, &at, size, use) || getsockname(s, &at.any, &size) != 0) {
        weft_status status = weft_fail(WEFT_ERR_IO, "cannot listen on %s, port %lld: %s", host,
                                       (long long)port, strerror(errno));
        if (s >= 0) (void)close(s);
        return status;
    }
    *out = s;
    *bound = ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
    return WEFT_OK;
}
