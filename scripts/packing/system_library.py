#!/usr/bin/env python3
"""Writes OUT.c and OUT.map, the source of libweft-sys.so, for a library of Weft:   system_library.py OUT LIBRARY

This library of the archive has two purposes:
- It is loaded first and looks for libstdc++ and libgcc_s in the folders of the system before that of the archive. Drivers of
  the user's system that are loaded later (OpenCL's) are compiled with the system's compiler and may need newer ones.
- It stands in for libraries that Debian's builds of oneDNN and ZeroMQ name and that Weft never uses through them. Each of its
  functions fails. Their versions have other names and are none's default, so the user's drivers never find them in place of
  the real ones: a name without a version finds no hidden symbol whose version is not the first of its library.
"""
import sys

import elf

NAME = "libweft-sys.so"
# The archive does without these libraries:
ABSENT = [
    "libOpenCL.so.1",  # GPUs of oneDNN. It comes from the user's system, for the plug-in that asks for it
    "libgssapi_krb5.so.2",  # Kerberos between processes of ZeroMQ; Weft has its own keys
]


def main(out, library):
    versions = {}
    for path in elf.libraries(library).values():
        file = elf.Elf(path)
        for absent in ABSENT:
            for name, version in file.asked_of(absent):
                versions.setdefault(elf.other_version(version), set()).add(name)
    asked = sorted((version, name) for version, names in versions.items() for name in names)
    with open(out + ".c", "w") as file:
        file.write("/* Made by scripts/packing/system_library.py. -1001: there is no OpenCL; in GSSAPI, too, it is a failure. */\n")
        for i, (version, name) in enumerate(asked):
            file.write(f"long weft_sys_{i}(void);\nlong weft_sys_{i}(void)\n{{\n    return -1001;\n}}\n"
                       f'__asm__(".symver weft_sys_{i}, {name}@{version}");\n')
        file.write(f"extern const int weft_sys_absent;\nconst int weft_sys_absent = {len(asked)};\n")
    with open(out + ".map", "w") as file:
        file.write("WEFT_SYS { global: weft_sys_absent; local: *; };\n")
        file.writelines(f"{version} {{ }};\n" for version in sorted(versions))


if __name__ == "__main__":
    main(*sys.argv[1:])
