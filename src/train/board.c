#include "train/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/trainer.h"

static weft_board *map(int file)
{
    void *memory = mmap(NULL, sizeof(weft_board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

weft_status weft_board_make(const char *path, weft_board **out)
{
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *out = NULL;
    if (file >= 0 && ftruncate(file, sizeof(weft_board)) == 0) *out = map(file);
    if (!*out) return weft_fail(WEFT_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
    close(file);
    return WEFT_OK;
}

weft_board *weft_board_map(const char *path)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL; /* on another machine */
    weft_board *board = map(file);
    close(file);
    return board;
}

void weft_board_unmap(weft_board *board)
{
    if (board) munmap(board, sizeof(*board));
}

void weft_board_open(weft_trainer *job)
{
    const char *path = getenv(WEFT_BOARD_VARIABLE);
    job->board = path ? weft_board_map(path) : NULL;
}

void weft_board_close(weft_trainer *job)
{
    weft_board_unmap(job->board);
    job->board = NULL;
}

void weft_board_stage(weft_trainer *job, int rank, int stage)
{
    if (job->board && rank < WEFT_MAX_RANKS)
        atomic_store_explicit(&job->board->stage[rank], stage, memory_order_relaxed);
}

void weft_board_step(weft_trainer *job, int rank, int64_t step)
{
    if (job->board && rank < WEFT_MAX_RANKS)
        atomic_store_explicit(&job->board->step[rank], step, memory_order_relaxed);
}

void weft_board_note(weft_trainer *job, weft_comm *world)
{
    int rank = weft_comm_rank(world);
    if (job->board && rank < WEFT_MAX_RANKS) weft_comm_set_note(world, job->board->note[rank]);
}
