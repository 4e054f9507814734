"""Waiting in tests for something that another process does."""
import time

PAUSE = 0.02


def wait_until(holds, seconds=60):
    """Polls until `holds()` is true and returns its last result. The limit counts polls, not the clock: a machine that was
    stopped for a minute has used up one poll."""
    for _ in range(int(seconds / PAUSE)):
        if result := holds():
            return result
        time.sleep(PAUSE)
    return holds()
