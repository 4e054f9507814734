"""A reader of TensorBoard's event files, by the formats' descriptions: TFRecord and the protocol buffers of Event."""
import struct


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked(data[at:at + 8]) == check, "the checksum of a length"
        body = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), "the checksum of a record"
        yield body
        at += 16 + length


def fields(message):
    """The fields of a protocol buffer: number to a list of values; messages stay bytes."""
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at, out = 0, {}
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4, 2: None}[key & 7]
            size = varint() if size is None else size
            value = message[at:at + size]
            at += size
            value = struct.unpack("<d", value)[0] if key & 7 == 1 else struct.unpack("<f", value)[0] if key & 7 == 5 else value
        out.setdefault(key >> 3, []).append(value)
    return out


def read(path):
    """Events of a file as dictionaries: step, version, session, scalars, histograms, pictures (PNG), graph."""
    with open(path, "rb") as file:
        for body in records(file.read()):
            event = fields(body)
            out = {"step": event.get(2, [0])[0], "version": event.get(3, [None])[0], "session": event.get(7, [None])[0],
                   "scalars": {}, "histograms": {}, "pictures": {}, "graph": None}
            for value in fields(event[5][0]).get(1, []) if 5 in event else []:
                value = fields(value)
                tag = value[1][0].decode()
                if 2 in value:
                    out["scalars"][tag] = value[2][0]
                if 4 in value:
                    out["pictures"][tag] = fields(value[4][0])[4][0]
                if 5 in value:
                    h = fields(value[5][0])
                    out["histograms"][tag] = {"least": h[1][0], "most": h[2][0], "count": h[3][0], "sum": h[4][0], "squares": h[5][0],
                                              "limits": struct.unpack(f"<{len(h[6][0]) // 8}d", h[6][0]),
                                              "bins": struct.unpack(f"<{len(h[7][0]) // 8}d", h[7][0])}
            if 4 in event:
                out["graph"] = [fields(node) for node in fields(event[4][0])[1]]
            yield out
