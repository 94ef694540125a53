"""`python -m srlviz` is the command `srlviz`, for where scripts are not on the path."""

import sys

if __name__ == '__main__':
    from srlviz.studies.cli import main

    sys.exit(main())
