"""The logging of all commands: warnings on standard error; with -v, progress too."""

from __future__ import annotations

import logging

FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"
OWN = logging.getLogger("easyvideor1")


def set_up_logging(*, verbose: bool) -> None:
    """Log the package's warnings (with `verbose` its infos too) and other packages' warnings to standard error."""
    logging.basicConfig(format=FORM, datefmt="%H:%M:%S", level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    OWN.setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: verbose or record.levelno >= logging.WARNING)
