import sys

from easyvideor1.cli.interrupts import ends_at_once

if __name__ == "__main__":
    with ends_at_once():
        from easyvideor1.cli import main
    sys.exit(main())
