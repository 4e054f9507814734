#include "fuzz.h"

#include "compress/compress.h"

/* The first byte chooses how many numbers a receiver expects, and of which type. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t room[1 << 12]; /* messages begin at multiples of 8 */
    double numbers[64] = {0};
    weft_message m;
    if (size == 0 || size - 1 > sizeof(room)) return 0;
    weft_dtype dtype = data[0] & 1 ? WEFT_F64 : WEFT_F32;
    int64_t count = 1 + data[0] / 4;
    memcpy(room, data + 1, size - 1);
    if (weft_message_open(room, size - 1, dtype, count, &m) != WEFT_OK) return 0;
    weft_message_add(&m, count / 2, 2, numbers);
    weft_message_add(&m, count - count / 2, 2, numbers);
    for (int64_t i = 0; i < 64; i++)
        if (!(weft_number_get(dtype, numbers, i) == weft_number_get(dtype, numbers, i))) abort();
    return 0;
}
