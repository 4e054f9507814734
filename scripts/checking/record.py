"""What has passed for which inputs: one file for each stage under build/check/."""
import hashlib
import json
import os
import subprocess

from .job import ROOT

FOLDER = os.environ.get("CHECK_FOLDER", os.path.join(ROOT, "build", "check"))


def git(*words):
    try:
        done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """The commit that is checked out, marked where the tree differs from it."""
    name = git("rev-parse", "--short", "HEAD")
    return (name or "no git") + ("+changes" if git("status", "--porcelain") else "")


def files():
    """All files of the tree that git does not ignore; without git, all outside build/."""
    listed = git("ls-files", "-co", "--exclude-standard")
    if listed is not None:
        return sorted(set(listed.splitlines()))
    return sorted(os.path.relpath(os.path.join(folder, name), ROOT)
                  for folder, _, names in os.walk(ROOT) if not os.path.relpath(folder, ROOT).startswith(("build", ".git"))
                  for name in names)


class Inputs:
    """Hashes of what stages read; each file is read once."""

    def __init__(self):
        self.hashes = {}
        for path in files():
            full = os.path.join(ROOT, path)
            if os.path.isfile(full):
                with open(full, "rb") as f:
                    self.hashes[path] = hashlib.sha256(f.read()).hexdigest()
        compilers = [subprocess.run([c, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
                     for c in ("gcc", "clang") if any(os.access(os.path.join(p, c), os.X_OK) for p in os.get_exec_path())]
        data = os.path.join(ROOT, "..", "shared", "data")
        sizes = sorted((n, os.path.getsize(os.path.join(d, n))) for d, _, names in os.walk(data) for n in names)
        self.outside = repr((compilers, sizes))

    def of(self, stage):
        """Paths are compared by prefix, so "src" means all below it."""
        total = hashlib.sha256(self.outside.encode())
        for path, digest in self.hashes.items():
            if path.startswith(tuple(stage.reads)):
                total.update(f"{path} {digest}\n".encode())
        return total.hexdigest()[:16]


def load(name):
    try:
        with open(os.path.join(FOLDER, name + ".json")) as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def save(name, record):
    """Replaces the record as a whole, so that a full disk leaves the old one."""
    path = os.path.join(FOLDER, name + ".json")
    with open(path + ".new", "w") as f:
        json.dump(record, f, indent=1)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)
