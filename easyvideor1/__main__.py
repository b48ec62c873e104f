import sys

from easyvideor1.cli import main

sys.exit(main())
