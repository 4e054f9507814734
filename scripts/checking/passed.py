"""The checks of a stage that have passed, each with a hash of what it runs: a line of JSON each under build/check/.

A stage whose files have changed runs only the checks whose own programs and files have changed, so the mend of one
test costs that test, and a run that was ended goes on with the check that it was in.
"""
import hashlib
import json
import os
import re

from . import record
from .job import ROOT

SOURCES = (".c", ".h", ".cpp", ".proto", "CMakeLists.txt")  # what they are made into is compared instead
RUNNER = ("scripts/check", "scripts/mutat")  # of these, only tests know that get the whole tree, which are always run


class Passed:
    def __init__(self, stage, inputs, again):
        """again: whether what has passed is forgotten."""
        self.path = os.path.join(record.FOLDER, stage.name + ".passed")
        self.stage, self.inputs, self.known, self.hashes = stage, inputs, {}, {}
        # Scripts of the tests, by the words that name them: in a shell its file name, in Python also an import.
        self.scripts = {path: re.compile(rf"\b{re.escape(os.path.basename(path))}\b" +
                                         (rf"|\b(?:import|from) {re.escape(os.path.basename(path)[:-3])}\b" if path.endswith(".py") else ""))
                        for path in inputs.hashes if self.is_script(path)}
        if again and os.path.exists(self.path):
            os.remove(self.path)
        if os.path.exists(self.path):
            with open(self.path) as f:
                for line in f:
                    if line.endswith("\n"):  # the last line of a full disk may be cut
                        check = json.loads(line)
                        self.known[check["name"]] = check

    def hash_of(self, path):
        if path not in self.hashes:
            with open(path, "rb") as f:
                self.hashes[path] = hashlib.file_digest(f, "sha256").hexdigest()
        return self.hashes[path]

    def beside(self, program, script):
        """What a program may load or start from its build: shared libraries and, for a script, programs."""
        folder = os.path.dirname(program)
        if os.path.basename(folder) == "tests":
            folder = os.path.dirname(folder)
        found = []
        for place in (folder, os.path.join(folder, "tests")):
            for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
                path = os.path.join(place, name)
                if os.path.isfile(path) and (".so" in name or name == "weft" or (script and os.access(path, os.X_OK) and place == folder)):
                    found.append(path)
        return found

    @staticmethod
    def is_script(path):
        name = os.path.basename(path)
        return path.startswith("tests/") and (name.endswith((".sh", ".py")) or ("." not in name and os.access(os.path.join(ROOT, path), os.X_OK)))

    def reached(self, paths):
        """The scripts among these paths and those that they name, directly or not."""
        found = [path for path in paths if path in self.scripts]
        for path in found:
            with open(os.path.join(ROOT, path), errors="replace") as f:
                text = f.read()
            found += [other for other, words in self.scripts.items() if other not in found and words.search(text)]
        return found

    def key(self, argv, environment):
        """A hash of a command: its words, its programs and the files that it may read; None if a word is a folder that is
        no part of the tree."""
        words = [os.path.join(ROOT, word) for word in argv if os.path.exists(os.path.join(ROOT, word)) and "/" in word]
        total = hashlib.sha256(repr((argv, sorted((environment or {}).items()), self.inputs.outside)).encode())
        script = any(word.startswith((os.path.join(ROOT, "tests"), os.path.join(ROOT, "scripts"))) for word in words)
        for word in words:
            if os.path.isfile(word):
                total.update(self.hash_of(word).encode())
            elif not word.startswith(os.path.join(ROOT, "tests")):
                return None
            if word.startswith(os.path.join(ROOT, "build")):
                for path in self.beside(word, script):
                    total.update(f"{path} {self.hash_of(path)}".encode())
        said = repr((argv, environment))
        reached = self.reached(os.path.relpath(word, ROOT) for word in words)
        for path, digest in self.inputs.hashes.items():
            named = not path.endswith(".supp") and not path.startswith("tests/fuzz/") or os.path.basename(path) in said or \
                any(path.startswith(os.path.relpath(word, ROOT) + "/") for word in words)
            if path in reached or (named and self.may_read(path, script)):
                total.update(f"{path} {digest}\n".encode())
        return total.hexdigest()[:16]

    def may_read(self, path, script):
        """Whether a command may read a file of the tree that is no script. script: it is one; others read data of the tests alone."""
        if path.endswith(SOURCES) or path.startswith(RUNNER) or self.is_script(path):
            return False
        return path.startswith(tuple(self.stage.reads) if script else "tests/")

    def find(self, name, key):
        """The record of a check that has passed with this key, or None."""
        check = self.known.get(name)
        return check if key and check and check["key"] == key else None

    def add(self, name, key, result, skipped):
        """skipped: the lines in which a check that passed says what it left out."""
        if key is None or result.state != "passed":
            return
        check = {"name": name, "key": key, "seconds": round(result.seconds, 1), "skipped": skipped,
                 "counts": [result.passed, result.failed, result.skipped]}
        with open(self.path, "a") as f:
            f.write(json.dumps(check) + "\n")
        self.known[name] = check
