/* The proxies that are trusted, and the client that a request of one of them is from. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "serve/front/access_control.h"

/* A network: the first `bits` of an address. An IPv4 address is the IPv6 address that stands for
 * it. */
typedef struct network {
    unsigned char address[16];
    int bits;
} network;

struct weft_proxies {
    network *all;
    size_t capacity;
    int count;
};

/* Reads an address, also one of IPv6 in brackets, and a port behind it. *bits: of the address. */
static bool read_address(const char *text, unsigned char *out, int *bits)
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    char copy[64];
    bool bracket = text[0] == '[';
    if (strlen(text) >= sizeof(copy)) return false;
    (void)snprintf(copy, sizeof(copy), "%s", text + bracket);
    char *colon = strchr(copy, ':');
    bool four = colon && colon == strrchr(copy, ':') && strchr(copy, '.');
    char *end = bracket ? strchr(copy, ']') : four ? colon : NULL;
    if (end) *end = '\0';
    memcpy(out, mapped, sizeof(mapped));
    *bits = 32;
    if (inet_pton(AF_INET, copy, out + 12) == 1) return true;
    *bits = 128;
    return inet_pton(AF_INET6, copy, out) == 1;
}

static weft_status add(void *user, char *item)
{
    weft_proxies *p = user;
    char *slash = strchr(item, '/'), shown[80];
    int64_t prefix = -1;
    int bits;
    network n;
    WEFT_TRY(WEFT_GROW(&p->all, &p->capacity, p->count));
    if (slash) *slash = '\0';
    bool good = read_address(item, n.address, &bits);
    if (good && slash) good = weft_parse_int(slash + 1, &prefix) && prefix >= 0 && prefix <= bits;
    if (slash) *slash = '/';
    if (!good)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "proxies: '%s' is no address or network; take 10.0.0.7, 10.0.0.0/8, "
                         "fd00::/8",
                         weft_printable(item, shown, sizeof(shown)));
    n.bits = slash ? (int)prefix + 128 - bits : 128;
    p->all[p->count++] = n;
    return WEFT_OK;
}

weft_status weft_proxies_read(const char *list, weft_proxies **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    weft_status status = weft_each_piece("proxies", list, add, *out);
    if (status != WEFT_OK) weft_proxies_free(out);
    return status;
}

void weft_proxies_free(weft_proxies **proxies)
{
    if (*proxies) free((*proxies)->all);
    free(*proxies);
    *proxies = NULL;
}

static bool is_in(const network *n, const unsigned char *address)
{
    int whole = n->bits / 8, rest = n->bits % 8;
    if (memcmp(n->address, address, (size_t)whole) != 0) return false;
    return rest == 0 || (n->address[whole] ^ address[whole]) >> (8 - rest) == 0;
}

static bool is_trusted(const weft_proxies *p, const char *text)
{
    unsigned char address[16];
    int bits;
    bool found = false;
    if (!p || !read_address(text, address, &bits)) return false;
    for (int i = 0; i < p->count; i++) found |= is_in(&p->all[i], address);
    return found;
}

/* Each proxy has added the address that it was asked from at the end. The client is the last one
 * that is no trusted proxy: what stands before it may be anything. */
bool weft_proxies_client(const weft_proxies *proxies, const char *peer, const weft_http_head *head,
                         char *out, size_t room)
{
    enum { MOST = 64 };
    const char *items[MOST];
    size_t sizes[MOST], at = 0, size, count = 0;
    unsigned char address[16];
    char text[64];
    int bits;
    bool found = false;
    if (!is_trusted(proxies, peer)) return false;
    for (const char *item; (item = weft_http_field_item(head, "X-Forwarded-For", &at, &size));) {
        items[count % MOST] = item;
        sizes[count++ % MOST] = size;
    }
    for (size_t i = 0; i < WEFT_MIN(count, (size_t)MOST); i++) {
        size_t k = (count - 1 - i) % MOST;
        (void)snprintf(text, sizeof(text), "%.*s", (int)WEFT_MIN(sizes[k], sizeof(text)), items[k]);
        if (!read_address(text, address, &bits)) break;
        const void *last = address + 12;
        bool four = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);
        found = inet_ntop(four ? AF_INET : AF_INET6, four ? last : address, out, (socklen_t)room) !=
                NULL;
        if (!is_trusted(proxies, text)) break;
    }
    return found;
}

bool weft_address_read(const char *text, struct sockaddr_storage *out)
{
    unsigned char address[16];
    int bits;
    *out = (struct sockaddr_storage){.ss_family = AF_INET6};
    if (!read_address(text, address, &bits)) return false;
    if (bits == 32) out->ss_family = AF_INET;
    if (bits == 32)
        memcpy(&((struct sockaddr_in *)out)->sin_addr, address + 12, 4);
    else
        memcpy(&((struct sockaddr_in6 *)out)->sin6_addr, address, 16);
    return true;
}
