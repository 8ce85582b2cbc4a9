import sys

from tipbench.cli import main

sys.exit(main())
