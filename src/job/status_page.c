#include "job/status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static weft_status_page *map(int file)
{
    void *memory =
        mmap(NULL, sizeof(weft_status_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

weft_status weft_status_page_make(char *where, size_t size, weft_status_page **out, int *file)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "weft-%lld", (long long)(weft_seconds() * 1e6));
    *out = NULL;
    *file = memfd_create(name, MFD_CLOEXEC);
    if (*file >= 0 && ftruncate(*file, sizeof(weft_status_page)) == 0) *out = map(*file);
    if (!*out) {
        if (*file >= 0) close(*file);
        return weft_fail(WEFT_ERR_IO, "no memory can be shared with the ranks: %s",
                         strerror(errno));
    }
    (void)snprintf(where, size, "/proc/%d/fd/%d:%s", (int)getpid(), *file, name);
    return WEFT_OK;
}

/* On another machine the path may lead to an unrelated file, so the page is mapped only if the link
 * at the path shows its name. */
weft_status_page *weft_status_page_map(const char *where)
{
    char path[128], want[128], have[128] = "";
    const char *name = strchr(where, ':');
    if (!name) return NULL;
    (void)snprintf(path, sizeof(path), "%.*s", (int)(name - where), where);
    (void)snprintf(want, sizeof(want), "/memfd:%s (deleted)", name + 1);
    if (readlink(path, have, sizeof(have) - 1) < 0 || strcmp(have, want) != 0) return NULL;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    weft_status_page *page = map(file);
    close(file);
    return page;
}

void weft_status_page_unmap(weft_status_page *page)
{
    if (page) munmap(page, sizeof(*page));
}

const char *weft_job_name(void)
{
    return getenv(WEFT_STATUS_PAGE_VARIABLE);
}

int weft_job_slot(void)
{
    int64_t slot;
    const char *text = getenv(WEFT_SLOT_VARIABLE);
    bool given = text && weft_job_name() && weft_parse_int(text, &slot);
    return given && slot >= 0 && slot < WEFT_MAX_RANKS ? (int)slot : -1;
}

void weft_status_page_open(weft_supervisor_channel *line)
{
    const char *where = weft_job_name();
    line->page = where ? weft_status_page_map(where) : NULL;
    line->deaf = !getenv(WEFT_SUPERVISED_VARIABLE);
    line->first = 0;
    atomic_init(&line->samples, 0);
}

void weft_status_page_close(weft_supervisor_channel *line)
{
    weft_status_page_unmap(line->page);
    line->page = NULL;
}

bool weft_status_page_listen(weft_supervisor_channel *line)
{
    struct pollfd control = {.fd = STDIN_FILENO, .events = POLLIN};
    char word;
    if (line->deaf || poll(&control, 1, 0) <= 0) return false;
    if (read(STDIN_FILENO, &word, 1) == 1) return true;
    line->deaf = true; /* the launcher has closed standard input */
    return false;
}

void weft_status_page_stage(const weft_supervisor_channel *line, int rank, int stage)
{
    if (line->page && line->first + rank < WEFT_MAX_RANKS)
        atomic_store_explicit(&line->page->stage[line->first + rank], stage, memory_order_relaxed);
}

void weft_status_page_step(const weft_supervisor_channel *line, int rank, int64_t step)
{
    if (line->page && line->first + rank < WEFT_MAX_RANKS)
        atomic_store_explicit(&line->page->step[line->first + rank], step, memory_order_relaxed);
}

void weft_status_page_count(weft_supervisor_channel *line, int64_t samples)
{
    atomic_fetch_add(line->page ? &line->page->samples : &line->samples, samples);
}

int64_t weft_status_page_samples(const weft_supervisor_channel *line)
{
    return atomic_load(line->page ? &line->page->samples : &line->samples);
}

int64_t weft_status_page_furthest(const weft_supervisor_channel *line)
{
    int64_t furthest = 0;
    for (int r = 0; line->page && r < WEFT_MAX_RANKS; r++)
        furthest = WEFT_MAX(furthest, atomic_load(&line->page->step[r]));
    return furthest;
}

int64_t weft_status_page_starts(const weft_supervisor_channel *line, weft_part_role role, int slot)
{
    bool counted = line->page && role < WEFT_PART_WORKER && slot >= 0 && slot < WEFT_MAX_RANKS;
    return counted ? atomic_load(&line->page->starts[role][slot]) : 0;
}

bool weft_status_page_begun(const weft_supervisor_channel *line, int64_t out[WEFT_BEGUN])
{
    if (!line->page || !atomic_load(&line->page->has_begun)) return false;
    for (int i = 0; i < WEFT_BEGUN; i++) out[i] = atomic_load(&line->page->begun[i]);
    return true;
}

void weft_status_page_begin(const weft_supervisor_channel *line, const int64_t begun[WEFT_BEGUN])
{
    if (!line->page) return;
    for (int i = 0; i < WEFT_BEGUN; i++) atomic_store(&line->page->begun[i], begun[i]);
    atomic_store(&line->page->has_begun, true);
}

void weft_status_page_note(const weft_supervisor_channel *line, weft_comm *world)
{
    int rank = line->first + weft_comm_rank(world);
    weft_status_page *page = line->page;
    if (!page || rank >= WEFT_MAX_RANKS) return;
    atomic_store_explicit(&page->pid[rank], (int)getpid(), memory_order_relaxed);
    weft_comm_set_note(world, page->note[rank]);
    const char *name = getenv("PMIX_NAMESPACE");
    if (rank == 0 && name) (void)snprintf(page->job, sizeof(page->job), "%s", name);
}

/* Sums CPU times and page faults of /proc/PID/stat and bytes read and written of /proc/PID/io; a
 * file that cannot be read counts 0. */
uint64_t weft_work_of(pid_t pid)
{
    unsigned long long small, large, user, kernel, got = 0, put = 0;
    uint64_t work = 0;
    char path[64], text[1024] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file) {
        size_t size = fread(text, 1, sizeof(text) - 1, file);
        text[size] = '\0';
        fclose(file);
    }
    const char *at = strrchr(text, ')'); /* the process name may contain anything */
    if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu", &small,
                     &large, &user, &kernel) == 4)
        work = small + large + user + kernel;
    (void)snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    file = fopen(path, "re");
    if (file && fscanf(file, "rchar: %llu wchar: %llu", &got, &put) == 2) work += got + put;
    if (file) fclose(file);
    return work;
}
