#include "job/hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "job/status_page.h"

typedef struct reading {
    weft_hosts *hosts;
    size_t capacity;
} reading;

static weft_status add_host(void *user, char *text)
{
    reading *r = user;
    weft_hosts *h = r->hosts;
    char *colon = strchr(text, ':');
    int64_t slots = 1;
    WEFT_TRY(WEFT_GROW(&h->host, &r->capacity, h->count));
    if (colon && (!weft_parse_int(colon + 1, &slots) || slots < 1 || slots > WEFT_MAX_RANKS))
        return weft_fail(WEFT_ERR_ARGUMENT, "hosts: '%s' is no NAME:RANKS with 1 to %d ranks", text,
                         WEFT_MAX_RANKS);
    if (colon == text)
        return weft_fail(WEFT_ERR_ARGUMENT, "hosts: '%s' has no name; give NAME:RANKS,...", text);
    if (colon) *colon = '\0';
    for (int i = 0; i < h->count; i++)
        if (strcmp(h->host[i].name, text) == 0)
            return weft_fail(WEFT_ERR_ARGUMENT, "hosts: '%s' is given twice; add up its ranks",
                             text);
    h->host[h->count] = (weft_machine){.slots = (int)slots};
    WEFT_TRY(weft_strdup(text, &h->host[h->count].name));
    h->count++;
    return WEFT_OK;
}

weft_status weft_hosts_parse(const char *text, weft_hosts *out)
{
    reading r = {.hosts = out};
    *out = (weft_hosts){0};
    if (!text || !*text) return WEFT_OK;
    weft_status status = weft_each_piece("hosts", text, add_host, &r);
    if (status != WEFT_OK) weft_hosts_free(out);
    return status;
}

void weft_hosts_free(weft_hosts *h)
{
    while (h->count > 0) weft_hosts_remove(h, h->count - 1);
    free(h->host);
    *h = (weft_hosts){0};
}

weft_status weft_hosts_text(const weft_hosts *h, char **out)
{
    weft_text text = {0};
    for (int i = 0; i < h->count; i++)
        weft_text_add(&text, "%s%s:%d", i ? "," : "", h->host[i].name, h->host[i].slots);
    return weft_text_take(&text, out);
}

/* A host name matches with or without its domain. */
static bool same_name(const char *a, const char *b)
{
    size_t short_a = strcspn(a, "."), short_b = strcspn(b, ".");
    if (strcmp(a, b) == 0) return true;
    bool number = isdigit((unsigned char)a[0]) != 0;
    return !number && (!a[short_a] || !b[short_b]) && short_a == short_b &&
           strncmp(a, b, short_a) == 0;
}

int weft_hosts_find(const weft_hosts *h, const char *name)
{
    for (int i = 0; i < h->count; i++)
        if (same_name(h->host[i].name, name)) return i;
    return -1;
}

int weft_hosts_of_rank(const weft_hosts *h, int rank)
{
    for (int i = 0; i < h->count; i++) {
        if (rank < h->host[i].slots) return i;
        rank -= h->host[i].slots;
    }
    return -1;
}

/* The host that occurs in the command line of a process, or -1. */
static int served_by(const weft_hosts *h, pid_t pid, const char *program)
{
    char path[64], *word = NULL;
    size_t room = 0;
    int found = -1;
    bool rank = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    for (int k = 0; file && !rank && found < 0 && getdelim(&word, &room, '\0', file) > 0; k++) {
        const char *user = strchr(word, '@');
        rank = k == 0 && strcmp(word, program) == 0;
        for (int i = 0; i < h->count && found < 0 && !rank; i++)
            if (strcmp(user ? user + 1 : word, h->host[i].name) == 0) found = i;
    }
    free(word);
    if (file) fclose(file);
    return found;
}

void weft_hosts_look(weft_hosts *h, pid_t launcher, const char *program)
{
    pid_t *now = calloc(MOST_CHILDREN, sizeof(*now));
    if (!now) return; /* the next call tries again */
    int count = weft_list_children(launcher, now, MOST_CHILDREN);
    for (int k = 0; k < count; k++) {
        int i = -1;
        for (int known = 0; known < h->count && i < 0; known++)
            if (h->host[known].agent == now[k]) i = known;
        if (i < 0) i = served_by(h, now[k], program);
        if (i >= 0 && !h->host[i].gone) h->host[i].agent = now[k];
    }
    for (int i = 0; i < h->count; i++) {
        bool there = false;
        for (int k = 0; k < count && !there; k++) there = now[k] == h->host[i].agent;
        if (h->host[i].agent > 0 && !there) h->host[i].gone = true;
    }
    free(now);
}

/* Whether a name may be a word or a number of any sentence, as "a" and "4" are. */
static bool is_ordinary(const char *name)
{
    size_t size = strlen(name), digits = strspn(name, "0123456789");
    return digits == size || (digits == 0 && strcspn(name, "0123456789.-_") == size);
}

/* Whether the word stands where messages of ssh and of launchers name a host: after '@', a word
 * such as "host" or a colon after that, or before a colon, "port" or "closed". */
static bool is_host_place(const char *line, const char *word, size_t size)
{
    static const char *const befores[] = {"host", "hostname", "node", "server"};
    const char *before = word, *after = word + size;
    if (word > line && word[-1] == '@') return true;
    if (*after == ':' && (word == line || word[-1] == ' ')) return true;
    if (strncmp(after, " port ", 6) == 0 || strncmp(after, " closed", 7) == 0) return true;
    while (before > line && strchr(" :'", before[-1])) before--;
    for (size_t i = 0; i < WEFT_COUNT(befores); i++) {
        size_t length = strlen(befores[i]);
        if (before == word || (size_t)(before - line) < length) continue;
        bool whole = before - length == line || !isalpha((unsigned char)before[-(long)length - 1]);
        if (whole && strncasecmp(before - length, befores[i], length) == 0) return true;
    }
    return false;
}

void weft_hosts_mention(weft_hosts *h, const char *line)
{
    const char *begin = line;
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    char word[256];
    for (line += strcspn(line, letters); *line; line += strcspn(line, letters)) {
        size_t size = strspn(line, letters);
        (void)snprintf(word, sizeof(word), "%.*s", (int)WEFT_MIN(size, sizeof(word) - 1), line);
        for (int i = 0; i < h->count; i++)
            if (same_name(h->host[i].name, word) &&
                (!is_ordinary(word) || is_host_place(begin, line, size)))
                h->host[i].gone = true;
        line += size;
    }
}

void weft_hosts_forget(weft_hosts *h)
{
    for (int i = 0; i < h->count; i++) {
        h->host[i].agent = 0;
        h->host[i].gone = false;
    }
}

int weft_hosts_gone(const weft_hosts *h)
{
    int gone = -1;
    for (int i = 0; i < h->count; i++) {
        if (!h->host[i].gone) continue;
        if (gone >= 0) return -1;
        gone = i;
    }
    return gone;
}

void weft_hosts_remove(weft_hosts *h, int i)
{
    free(h->host[i].name);
    for (int k = i; k + 1 < h->count; k++) h->host[k] = h->host[k + 1];
    h->count--;
}
