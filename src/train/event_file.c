/* Implements the records of TensorBoard's event files, and the fields of protocol buffers in them.
 */
#include "train/event_file.h"

/* --- protocol buffers --- */

enum { VARINT = 0, WORD64 = 1, BYTES = 2, WORD32 = 5 };

static void add_varint(weft_text *to, uint64_t value)
{
    unsigned char bytes[10];
    size_t size = 0;
    for (; value >= 0x80; value >>= 7) bytes[size++] = (unsigned char)(value | 0x80);
    bytes[size++] = (unsigned char)value;
    weft_text_add_bytes(to, (const char *)bytes, size);
}

static void add_key(weft_text *to, int field, int type)
{
    add_varint(to, (uint64_t)field << 3 | (uint64_t)type);
}

/* Appends the lowest bytes of a number, the least one first. */
static void add_word(weft_text *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        char byte = (char)(value >> 8 * i & 0xff);
        weft_text_add_bytes(to, &byte, 1);
    }
}

void weft_proto_int(weft_text *to, int field, int64_t value)
{
    add_key(to, field, VARINT);
    add_varint(to, (uint64_t)value);
}

void weft_proto_double(weft_text *to, int field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    add_key(to, field, WORD64);
    add_word(to, bits, 8);
}

void weft_proto_packed(weft_text *to, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    add_word(to, bits, 8);
}

void weft_proto_float(weft_text *to, int field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    add_key(to, field, WORD32);
    add_word(to, bits, 4);
}

static void add_bytes(weft_text *to, int field, const char *data, size_t size)
{
    add_key(to, field, BYTES);
    add_varint(to, size);
    weft_text_add_bytes(to, data, size);
}

void weft_proto_text(weft_text *to, int field, const char *value)
{
    add_bytes(to, field, value, strlen(value));
}

void weft_proto_message(weft_text *to, int field, weft_text *message)
{
    add_bytes(to, field, message->data, message->size);
    to->failed = to->failed || message->failed;
    free(message->data);
    *message = (weft_text){0};
}

/* --- records --- */

uint32_t weft_crc32c(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* A checksum as TFRecord stores it: a file of records within a record keeps its checksums apart. */
static uint32_t masked(const void *data, size_t size)
{
    uint32_t crc = weft_crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void weft_record_add(weft_text *to, const char *data, size_t size)
{
    size_t at = to->size;
    add_word(to, size, 8);
    if (!to->failed) add_word(to, masked(to->data + at, 8), 4);
    weft_text_add_bytes(to, data, size);
    add_word(to, masked(data, size), 4);
}
