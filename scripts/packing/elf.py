"""Reads the names in a shared library of 64 bits, and changes names of libraries and versions in place."""
import struct
import subprocess

DYNAMIC, DYNSYM, VERSIONS, VERSION_NEEDS, VERSION_DEFINITIONS = 6, 11, 0x6FFFFFFF, 0x6FFFFFFE, 0x6FFFFFFD
NEEDED, SONAME, RPATH, RUNPATH = 1, 14, 15, 29


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(5) == b"\x7fELF\x02"


class Elf:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = bytearray(file.read())
        self.path = path
        start, = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", self.data, start + i * size) for i in range(count)]
        # Type of a section: its offset, its size, the offset of its strings.
        self.sections = {h[1]: (h[4], h[5], headers[h[6]][4]) for h in headers
                         if h[1] in (DYNAMIC, DYNSYM, VERSIONS, VERSION_NEEDS, VERSION_DEFINITIONS)}
        self.strings = self.sections[DYNAMIC][2]

    def text(self, offset):
        begin = self.strings + offset
        return self.data[begin:self.data.index(0, begin)].decode()

    def entries(self, kind, form):
        offset, size, _ = self.sections.get(kind, (0, 0, 0))
        return [struct.unpack_from(form, self.data, offset + i) for i in range(0, size, struct.calcsize(form))]

    def dynamic(self, *tags):
        """Offsets of the names that have one of these tags."""
        found = []
        for tag, value in self.entries(DYNAMIC, "<QQ"):
            if tag == 0:
                break
            if tag in tags:
                found.append(value)
        return found

    def needed(self):
        return [self.text(offset) for offset in self.dynamic(NEEDED)]

    def version_needs(self):
        """For each version that is asked of a library: that name's offset, the version's, its number, where its entry is."""
        offset, size, _ = self.sections.get(VERSION_NEEDS, (0, 0, 0))
        while size:
            _, count, file, first, following = struct.unpack_from("<HHIII", self.data, offset)
            at = offset + first
            for _ in range(count):
                _, _, number, name, later = struct.unpack_from("<IHHII", self.data, at)
                yield file, name, number, at
                at += later
            if not following:
                return
            offset += following

    def glibc(self):
        """The newest version of glibc that it asks for, as numbers."""
        versions = [self.text(name) for _, name, _, _ in self.version_needs()]
        return max((tuple(map(int, v[6:].split("."))) for v in versions if v.startswith("GLIBC_2.")), default=(2, 0))

    def asked_of(self, library):
        """The functions that it takes from a library, as pairs of a name and a version."""
        numbers = {number: self.text(name) for file, name, number, _ in self.version_needs() if self.text(file) == library}
        symbols = self.entries(DYNSYM, "<IBBHQQ")
        return sorted((self.text(symbol[0]), numbers[version & 0x7FFF])
                      for symbol, (version,) in zip(symbols, self.entries(VERSIONS, "<H")) if version & 0x7FFF in numbers)

    def rename(self, library, other):
        """Asks another library for what it asks of this one, with other versions (see other_version)."""
        files = {file for file, _, _, _ in self.version_needs() if self.text(file) == library}
        names = {offset: other for offset in self.dynamic(NEEDED) if self.text(offset) == library} | {f: other for f in files}
        for file, name, _, at in list(self.version_needs()):
            if file in files:
                names[name] = other_version(self.text(name))
                struct.pack_into("<I", self.data, at, elf_hash(names[name]))
        used = [s[0] for s in self.entries(DYNSYM, "<IBBHQQ")] + self.dynamic(NEEDED, SONAME, RPATH, RUNPATH)
        used += [offset for need in self.version_needs() for offset in need[:2]]
        for offset, name in names.items():
            old = self.text(offset)
            if len(name) > len(old) or any(offset < u <= offset + len(old) and u != offset for u in used):
                raise ValueError(f"{self.path}: the name {old} cannot become {name}, since it is too short or a part of another")
            begin = self.strings + offset
            self.data[begin:begin + len(old)] = name.encode().ljust(len(old), b"\0")


def other_version(name):
    """A version that no real library has, so that nobody else finds its functions."""
    return "X" + name[1:]


def elf_hash(name):
    h = 0
    for byte in name.encode():
        h = (h << 4) + byte
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h


def libraries(path):
    """What the loader takes for each name, here and now: {name: path}."""
    out = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for words in map(str.split, out.splitlines()):
        if words[1:2] == ["=>"]:
            found[words[0]] = words[2]
        elif words[0].startswith("/"):
            found[words[0].rsplit("/")[-1]] = words[0]
    missing = [name for name, at in found.items() if at == "not"]
    if missing:
        raise ValueError(f"{path} needs {', '.join(missing)}, which this machine does not have")
    return found
