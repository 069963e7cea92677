"""`python -m rolltrace.cli`, for where the `rolltrace` script is not on the path."""

import sys

from rolltrace.cli import main

sys.exit(main())
