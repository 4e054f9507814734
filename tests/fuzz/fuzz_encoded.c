#include "fuzz.h"

#include "compress/compress.h"

/* Fuzzes the decoder of encoded updates. The first byte chooses the number and the type of the
 * elements that the receiver expects. Decoding in pieces must give the numbers of decoding at once,
 * and none is NaN. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t room[1 << 12]; /* messages begin at multiples of 8 */
    double numbers[64] = {0}, pieces[64] = {0};
    weft_encoded m;
    if (size == 0 || size - 1 > sizeof(room)) return 0;
    weft_dtype dtype = data[0] & 1 ? WEFT_F64 : WEFT_F32;
    int64_t count = 1 + data[0] / 4;
    memcpy(room, data + 1, size - 1);
    if (weft_encoded_open(room, size - 1, &weft_codec_onebit, dtype, count, &m) != WEFT_OK)
        return 0;
    size_t each = weft_dtype_size(dtype);
    weft_encoded_add(&m, count, 2, numbers);
    weft_encoded_rewind(&m);
    for (int64_t at = 0, n = 1; at < count; at += n, n = WEFT_MIN(n + 2, count - at))
        weft_encoded_add(&m, n, 2, (char *)pieces + (size_t)at * each);
    if (memcmp(numbers, pieces, (size_t)count * each) != 0) abort();
    for (int64_t i = 0; i < 64; i++)
        if (!(weft_number_get(dtype, numbers, i) == weft_number_get(dtype, numbers, i))) abort();
    return 0;
}
