"""Writes arrays as files of NumPy, without NumPy."""
import struct

CODES = {"b1": "?", "u1": "B", "u2": "H", "u4": "I", "i2": "h", "i4": "i", "i8": "q", "f2": "e", "f4": "f", "f8": "d"}


def npy_head(kind, shape):
    """The head of an array; kind: such as f4, with or without its order of bytes."""
    order = "" if kind[0] in "<|" else "|" if kind[1] == "1" else "<"
    head = f"{{'descr': '{order}{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()


def write_npy(path, kind, shape, values):
    with open(path, "wb") as f:
        f.write(npy_head(kind, shape) + struct.pack(f"<{len(values)}{CODES[kind[-2:]]}", *values))
