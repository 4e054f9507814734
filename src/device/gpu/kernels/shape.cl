/* Kernels that move elements: of any type with ELEMENT, by bytes, and filling. */
#ifndef ELEMENT
#define ELEMENT u8
#endif

KERNEL(copy_bytes, 256, 1)(BUFFER(from), BUFFER(to), const int bytes, GUARD)
{
    if (STOPPED) return;
    for (int i = GROUP_X * 256 + ITEM_X; i < bytes; i += GROUPS_X * 256)
        AT(to, u8)[i] = AT(from, const u8)[i];
}

/* Copies a block of n0 x ... x n5 elements between tensors, with a stride for each dimension. */
KERNEL(move, 256, 1)
(BUFFER(from), BUFFER(to), const int count, const int n1, const int n2, const int n3, const int n4,
 const int n5, const int from_first, const int f0, const int f1, const int f2, const int f3,
 const int f4, const int f5, const int to_first, const int t0, const int t1, const int t2,
 const int t3, const int t4, const int t5, GUARD)
{
    if (STOPPED) return;
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256) {
        int rest = i, source = from_first, target = to_first;
        const int c5 = rest % n5;
        rest /= n5;
        const int c4 = rest % n4;
        rest /= n4;
        const int c3 = rest % n3;
        rest /= n3;
        const int c2 = rest % n2;
        rest /= n2;
        const int c1 = rest % n1;
        rest /= n1;
        source += rest * f0 + c1 * f1 + c2 * f2 + c3 * f3 + c4 * f4 + c5 * f5;
        target += rest * t0 + c1 * t1 + c2 * t2 + c3 * t3 + c4 * t4 + c5 * t5;
        AT(to, ELEMENT)[target] = AT(from, const ELEMENT)[source];
    }
}

/* Transposes matrices [rows, columns] by tiles in local memory, so that neighbouring work items
 * read and write neighbouring elements. */
KERNEL(transpose, 16, 16)
(BUFFER(from), BUFFER(to), const int rows, const int columns)
{
    LOCAL ELEMENT tile[16][17];
    const int plane = GROUP_Z * rows * columns;
    const int r = GROUP_Y * 16, c = GROUP_X * 16;
    if (r + ITEM_Y < rows && c + ITEM_X < columns)
        tile[ITEM_Y][ITEM_X] =
            AT(from, const ELEMENT)[plane + (r + ITEM_Y) * columns + c + ITEM_X];
    BARRIER;
    if (c + ITEM_Y < columns && r + ITEM_X < rows)
        AT(to, ELEMENT)[plane + (c + ITEM_Y) * rows + r + ITEM_X] = tile[ITEM_X][ITEM_Y];
}

KERNEL(fill, 256, 1)(BUFFER(to), const int count, const acc_t value)
{
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256)
        AT(to, ELEMENT)[i] = (ELEMENT)value;
}

#ifdef FROM
/* bf16 is the upper stride of a float. Rounds to nearest even, and keeps NaN. */
FUNCTION float from_bf16(const u16 x)
{
    return AS_FLOAT((u32)x << 16);
}

FUNCTION u16 to_bf16(const float x)
{
    const u32 bits = AS_U32(x);
    if (x != x) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Real numbers become integers by truncation, the nearest end of the range beyond it, 0 if NaN. */
#define TO_WHOLE(x, type, low, high)                                                               \
    ((x) != (x) ? (type)0 : (x) <= (low) ? (type)(low) : (x) >= (high) ? (type)(high) : (type)(x))
#define TO_I32(x) TO_WHOLE(x, int, -2147483647 - 1, 2147483647)
#define TO_U8(x) TO_WHOLE(x, u8, 0, 255)
#define TO_I64(x) TO_WHOLE(x, i64, -9223372036854775807 - 1, 9223372036854775807)
#define TO_BOOL(x) ((x) != 0)

KERNEL(cast, 256, 1)(BUFFER(from), BUFFER(to), const int count)
{
    for (int i = GROUP_X * 256 + ITEM_X; i < count; i += GROUPS_X * 256)
        AT(to, TO)[i] = CAST(AT(from, const FROM)[i]);
}
#endif
