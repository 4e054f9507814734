"""PNG files of tests."""
import struct
import zlib


def png(width, height, pixels, colour=0):
    """pixels: bytes of all rows; colour: 0: grey, 2: red, green and blue."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    across = len(pixels) // height
    rows = b"".join(b"\0" + bytes(pixels[across * i:across * i + across]) for i in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
