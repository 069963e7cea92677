"""`python -m rolltrace`, for where the `rolltrace` script is not on the path."""

import sys

from rolltrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
