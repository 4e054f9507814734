"""Checks of the tests in Python, and their end. A test is SCRIPT PATH/TO/weft [-v] [PART...]: these of its parts; -v: how long each takes."""
import atexit
import os
import subprocess
import sys
import tempfile
import threading
import time

weft = os.path.abspath(sys.argv[1])
failed = passed = 0
lock = threading.Lock()


def check(what, holds, told=""):
    global failed, passed
    with lock:
        passed, failed = passed + bool(holds), failed + (not holds)
        if not holds:
            print(f"FAILED: {what}: {str(told)[:600]}", flush=True)
    return holds


def run(*words, code=0, timeout=120, **more):
    """A command of weft that has ended with this code."""
    words = list(map(str, words))
    done = subprocess.run([weft, *words], capture_output=True, text=True, timeout=timeout, **more)
    check(f"weft {' '.join(words)[:300]} ends with {code}", done.returncode == code, (done.returncode, done.stdout, done.stderr))
    return done


def write(path, text, mode=0o600):
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def end():
    """Prints the sum; 1: a check has failed."""
    print(f"{passed} passed, {failed} failed")
    return failed > 0


def scratch():
    """Goes to a folder of its own, which is removed at the end."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    os.chdir(folder.name)
    return folder.name


def main(*parts, first=None):
    """Runs all parts, or those that are named, in a folder of their own that `first` prepares; 1: a check has failed."""
    names = [word for word in sys.argv[2:] if word != "-v"]
    scratch()
    if first:
        first()
    for part in parts:
        began = time.monotonic()
        if not names or part.__name__ in names:
            part()
            if "-v" in sys.argv:
                print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
    return end()
