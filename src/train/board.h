/* The board: a file in shared memory that a supervisor makes and the ranks on its machine write to,
 * so that after a death it is known what the dead one was doing. */
#ifndef WEFT_TRAIN_BOARD_H
#define WEFT_TRAIN_BOARD_H

#include "base/base.h"
#include "weft/comm.h"

#define WEFT_BOARD_VARIABLE "WEFT_BOARD"

typedef enum weft_stage { WEFT_STAGE_NONE, WEFT_STAGE_BUILT, WEFT_STAGE_FINISHED } weft_stage;

typedef struct weft_board {
    _Atomic int64_t step[WEFT_MAX_RANKS]; /* that the rank is in; 0: not begun */
    _Atomic int stage[WEFT_MAX_RANKS];    /* weft_stage */
    _Atomic int pid[WEFT_MAX_RANKS];      /* of its process on this machine; 0: not begun */
} weft_board;

weft_status weft_board_make(const char *path, weft_board **out) WEFT_NODISCARD;
weft_board *weft_board_map(const char *path);
void weft_board_unmap(weft_board *board);

#endif
