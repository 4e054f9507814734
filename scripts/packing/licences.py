"""Which package a library is of, and the licences of packages, as Debian's copyright files say them."""
import os
import re
import subprocess

GLIBC = "libc6"
COMMON = "/usr/share/common-licenses/"


def packages_of(paths):
    """The names of the packages that have these files, {path: package}. A package lists a file below /usr or, where it is from
    before the two were merged, not."""
    names = {path: {path, os.path.realpath(path)} for path in paths}
    for path in paths:
        names[path] |= {name.removeprefix("/usr") if name.startswith("/usr/") else "/usr" + name for name in names[path]}
    done = subprocess.run(["dpkg-query", "-S", *sorted(set().union(*names.values()))], capture_output=True, text=True)
    has = {file: package.split(":")[0] for package, _, file in (line.partition(": ") for line in done.stdout.splitlines())}
    packages = {path: next((has[name] for name in names[path] if name in has), None) for path in paths}
    for path, package in packages.items():
        if not package:
            raise ValueError(f"{path} is of no package, so nothing says under which licence it may be passed on")
    return packages


def notice(packages):
    """The text of NOTICE for {library: package}."""
    names = sorted(set(packages.values()))
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${source:Package} ${source:Version}\\n", *names],
                           capture_output=True, text=True, check=True).stdout
    sources = dict(line.split(" ", 1) for line in shown.splitlines())
    texts, common = {}, set()
    for name in names:
        with open(f"/usr/share/doc/{name}/copyright", errors="replace") as file:
            texts.setdefault(file.read(), []).append(name)
    for text in texts:
        common |= {found.rstrip(".") for found in re.findall(COMMON + r"([A-Za-z0-9.-]+)", text)}
    out = ["The libraries of others in lib/ are those of Debian's packages. Sources of each are at\n"
           "https://snapshot.debian.org/package/SOURCE/VERSION/, with the source and version of this table:\n\n"]
    out += [f"    {library:24} {packages[library]:20} {sources[packages[library]]}\n" for library in sorted(packages)]
    out.append("\nIn copies of libraries that ask for OpenCL or GSSAPI these names are changed to libweft-sys.so; nothing else is changed.\n"
               "The copyright files of the packages follow, then the licences that they name.\n")
    for text, of in texts.items():
        out.append(f"\n{'=' * 100}\n{', '.join(of)}\n{'=' * 100}\n\n{text}")
    for name in sorted(common):
        if os.path.exists(COMMON + name):
            with open(COMMON + name, errors="replace") as file:
                out.append(f"\n{'=' * 100}\n{name}\n{'=' * 100}\n\n{file.read()}")
    return "".join(out)
