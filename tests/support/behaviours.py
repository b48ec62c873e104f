"""Functions for worker processes, which import them from here."""

import os
import signal
import time

from easyvideor1.errors import MediaError


def behave(item):
    """What the item says: a number is doubled."""
    match item:
        case "hang":
            time.sleep(60)
        case "hang deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                pass
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            os._exit(7)
        case "memory":
            bytearray(8 << 30)
        case "refuse":
            raise MediaError("no video stream", where="a.mp4")
        case "bug":
            raise ZeroDivisionError("oops")
    return item * 2 if isinstance(item, int) else item


def pid_of_worker(_) -> int:
    return os.getpid()
