/* Graphs of the recurrences lstm and gru: with and without first states and lengths, in both
 * directions, with sizes that fill blocks of rows and columns and that do not. */
#include "op_build.h"

/* The properties of a case. last: only the last state is read. */
typedef struct kind {
    const char *op;
    int64_t gates, batch, positions, units;
    bool states, lengths, reverse, last;
} kind;

static void recurrence(fixture *f, kind k)
{
    bool lstm = k.gates == 4;
    int64_t all = k.gates * k.units;
    int count = 2;
    weft_value in[5] = {X(f, k.batch, k.positions, all), X(f, k.units, all)};
    if (!lstm) in[count++] = X(f, all);
    for (int i = 0; k.states && i < (lstm ? 2 : 1); i++) in[count++] = X(f, k.batch, k.units);
    if (k.lengths) in[count++] = fixture_ints(f, DIMS(k.batch), (int32_t)k.positions + 1);
    weft_value y = node(f, k.op, in, count, ATTRS(WEFT_ATTR_INT("reverse", k.reverse)));
    if (!k.last) out(f, y);
    for (int i = 1; i < (lstm ? 3 : 2) && (k.states || k.last); i++) out(f, y + i);
}

#define LSTM(name, batch, positions, units, ...)                                                   \
    void name(fixture *f)                                                                          \
    {                                                                                              \
        recurrence(f, (kind){"lstm", 4, batch, positions, units, __VA_ARGS__});                    \
    }
#define GRU(name, batch, positions, units, ...)                                                    \
    void name(fixture *f)                                                                          \
    {                                                                                              \
        recurrence(f, (kind){"gru", 3, batch, positions, units, __VA_ARGS__});                     \
    }
LSTM(lstm_plain, 3, 4, 5, .states = false)
LSTM(lstm_states, 2, 3, 4, .states = true)
LSTM(lstm_reverse, 2, 3, 4, .states = true, .reverse = true)
LSTM(lstm_lengths, 5, 4, 3, .states = true, .lengths = true) /* of 3, 0, 2, 4 and 1 */
LSTM(lstm_lengths_reverse, 5, 4, 3, .states = true, .lengths = true, .reverse = true)
LSTM(lstm_last, 5, 4, 3, .lengths = true, .last = true)
LSTM(lstm_wide, 7, 3, 19, .states = true)
LSTM(lstm_odd, 13, 3, 33, .lengths = true)
LSTM(lstm_one, 3, 1, 48, .states = true)
GRU(gru_plain, 3, 4, 5, .states = false)
GRU(gru_state, 2, 3, 4, .states = true)
GRU(gru_reverse, 2, 3, 4, .states = true, .reverse = true)
GRU(gru_lengths, 5, 4, 3, .states = true, .lengths = true)
GRU(gru_lengths_reverse, 5, 4, 3, .states = true, .lengths = true, .reverse = true)
GRU(gru_last, 5, 4, 3, .lengths = true, .last = true)
GRU(gru_wide, 7, 3, 19, .states = true)
GRU(gru_odd, 13, 3, 33, .lengths = true, .reverse = true)
GRU(gru_one, 1, 2, 32, .states = true, .reverse = true)
