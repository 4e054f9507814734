/* TensorBoard's event files: records with checksums that hold protocol buffers. */
#ifndef WEFT_TRAIN_EVENT_FILE_H
#define WEFT_TRAIN_EVENT_FILE_H

#include "base/base.h"

/* Fields of a protocol buffer message, appended to a text. */
void weft_proto_int(weft_text *to, int field, int64_t value);
void weft_proto_double(weft_text *to, int field, double value);
/* An element of a packed list of doubles, which is a message of its own. */
void weft_proto_packed(weft_text *to, double value);
void weft_proto_float(weft_text *to, int field, float value);
void weft_proto_text(weft_text *to, int field, const char *value);
/* Appends `message` as a field and frees it; a failed message makes `to` fail. */
void weft_proto_message(weft_text *to, int field, weft_text *message);

/* The CRC-32C of bytes (Castagnoli's polynomial, reflected). */
uint32_t weft_crc32c(const void *data, size_t size);
/* Appends a record: its length, the masked checksum of the length, the data, and theirs. */
void weft_record_add(weft_text *to, const char *data, size_t size);

#endif
