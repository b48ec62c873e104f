import os
import signal
import sys


def _end(*_: object) -> None:
    """Ctrl-C while things are imported: there is nothing to clean up, and imports take interrupts badly."""
    os.write(2, b"interrupted; run the same command again to go on\n")
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _end)
    from easyvideor1.cli import main

    sys.exit(main())
