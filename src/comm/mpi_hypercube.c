/* Arranges N ranks as the corners of a hypercube of P = 2^levels slots: in round l each slot
 * exchanges data with the slot that differs from it in bit l, so after `levels` rounds every slot
 * has data of all others.
 *
 * If N is no power of two, the slots from N on have no rank of their own. Such a slot s is the
 * second slot of rank s - P/2, which always exists; the two slots of that rank meet only in the
 * last round. So N ranks take as many rounds as the next power of two, and a rank sends at most
 * twice the messages. */
#include "comm/comm.h"

#ifdef WEFT_MPI
#include "comm/mpi.h"

mpi_slots mpi_slots_of(const weft_operation *o)
{
    mpi_slots s = {.slots = 1, .ranks = o->comm->size, .me = o->comm->rank, .count = 1};
    s.levels = weft_comm_levels(s.ranks);
    s.slots <<= s.levels;
    s.mine[0] = s.me;
    int second = s.me + s.slots / 2;
    if (s.me < s.slots / 2 && second >= s.ranks) s.mine[s.count++] = second;
    return s;
}

int mpi_slot_owner(const mpi_slots *s, int slot)
{
    return slot < s->ranks ? slot : slot - s->slots / 2;
}

bool mpi_slot_block(const mpi_slots *s, int slot, int level, int *begin, int *end)
{
    *begin = slot >> level << level;
    *end = WEFT_MIN(*begin + (1 << level), s->ranks);
    return *begin < *end;
}

#else
typedef int weft_no_mpi_slots; /* a file must not be empty */
#endif
