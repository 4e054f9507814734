#include "job/status_page.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static weft_board *map(int file)
{
    void *memory = mmap(NULL, sizeof(weft_board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

weft_status weft_board_make(char *where, size_t size, weft_board **out, int *file)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "weft-%lld", (long long)(weft_seconds() * 1e6));
    *out = NULL;
    *file = memfd_create(name, MFD_CLOEXEC);
    if (*file >= 0 && ftruncate(*file, sizeof(weft_board)) == 0) *out = map(*file);
    if (!*out) {
        if (*file >= 0) close(*file);
        return weft_fail(WEFT_ERR_IO, "no memory can be shared with the ranks: %s",
                         strerror(errno));
    }
    (void)snprintf(where, size, "/proc/%d/fd/%d:%s", (int)getpid(), *file, name);
    return WEFT_OK;
}

/* On another machine the path may lead to somebody else's file, so what it is called decides. */
weft_board *weft_board_map(const char *where)
{
    char path[128], want[128], have[128] = "";
    const char *name = strchr(where, ':');
    if (!name) return NULL;
    (void)snprintf(path, sizeof(path), "%.*s", (int)(name - where), where);
    (void)snprintf(want, sizeof(want), "/memfd:%s (deleted)", name + 1);
    if (readlink(path, have, sizeof(have) - 1) < 0 || strcmp(have, want) != 0) return NULL;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    weft_board *board = map(file);
    close(file);
    return board;
}

void weft_board_unmap(weft_board *board)
{
    if (board) munmap(board, sizeof(*board));
}

const char *weft_job_name(void)
{
    return getenv(WEFT_BOARD_VARIABLE);
}

int weft_job_slot(void)
{
    int64_t slot;
    const char *text = getenv(WEFT_SLOT_VARIABLE);
    bool given = text && weft_job_name() && weft_parse_int(text, &slot);
    return given && slot >= 0 && slot < WEFT_MAX_RANKS ? (int)slot : -1;
}

void weft_board_open(weft_line *line)
{
    const char *where = weft_job_name();
    line->board = where ? weft_board_map(where) : NULL;
    line->deaf = !getenv(WEFT_SUPERVISED_VARIABLE);
    line->first = 0;
}

void weft_board_close(weft_line *line)
{
    weft_board_unmap(line->board);
    line->board = NULL;
}

bool weft_board_listen(weft_line *line)
{
    struct pollfd control = {.fd = STDIN_FILENO, .events = POLLIN};
    char word;
    if (line->deaf || poll(&control, 1, 0) <= 0) return false;
    if (read(STDIN_FILENO, &word, 1) == 1) return true;
    line->deaf = true; /* a launcher that has closed it */
    return false;
}

void weft_board_stage(const weft_line *line, int rank, int stage)
{
    if (line->board && line->first + rank < WEFT_MAX_RANKS)
        atomic_store_explicit(&line->board->stage[line->first + rank], stage, memory_order_relaxed);
}

void weft_board_step(const weft_line *line, int rank, int64_t step)
{
    if (line->board && line->first + rank < WEFT_MAX_RANKS)
        atomic_store_explicit(&line->board->step[line->first + rank], step, memory_order_relaxed);
}

int64_t weft_board_furthest(const weft_line *line)
{
    int64_t furthest = 0;
    for (int r = 0; line->board && r < WEFT_MAX_RANKS; r++)
        furthest = WEFT_MAX(furthest, atomic_load(&line->board->step[r]));
    return furthest;
}

bool weft_board_begun(const weft_line *line, int64_t out[WEFT_BEGUN])
{
    if (!line->board || !atomic_load(&line->board->has_begun)) return false;
    for (int i = 0; i < WEFT_BEGUN; i++) out[i] = atomic_load(&line->board->begun[i]);
    return true;
}

void weft_board_begin(const weft_line *line, const int64_t begun[WEFT_BEGUN])
{
    if (!line->board) return;
    for (int i = 0; i < WEFT_BEGUN; i++) atomic_store(&line->board->begun[i], begun[i]);
    atomic_store(&line->board->has_begun, true);
}

void weft_board_note(const weft_line *line, weft_comm *world)
{
    int rank = line->first + weft_comm_rank(world);
    weft_board *board = line->board;
    if (!board || rank >= WEFT_MAX_RANKS) return;
    atomic_store_explicit(&board->pid[rank], (int)getpid(), memory_order_relaxed);
    weft_comm_set_note(world, board->note[rank]);
    const char *name = getenv("PMIX_NAMESPACE");
    if (rank == 0 && name) (void)snprintf(board->job, sizeof(board->job), "%s", name);
}

/* Times and page faults from the one, bytes from the other, which may be closed to us. */
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
    const char *at = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu", &small,
                     &large, &user, &kernel) == 4)
        work = small + large + user + kernel;
    (void)snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    file = fopen(path, "re");
    if (file && fscanf(file, "rchar: %llu wchar: %llu", &got, &put) == 2) work += got + put;
    if (file) fclose(file);
    return work;
}

bool weft_is_stopped(pid_t pid)
{
    char path[64], text[1024] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t size = fread(text, 1, sizeof(text) - 1, file);
    text[size] = '\0';
    fclose(file);
    const char *at = strrchr(text, ')');
    return at && at[1] == ' ' && at[2] == 'T';
}
