"""Starts the worker: `python -I -X utf8 main.py` is the supervisor, with a descriptor it is the zygote.

Isolated mode (`-I`) keeps the current folder and PYTHONPATH out; only this file's own folder is added.
"""

import os
import sys


def main(arguments: list[str]) -> None:
    """Run the supervisor, or the zygote when its socket's descriptor is given."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if arguments:
        from warpsmith_worker import zygote

        zygote.main(int(arguments[0]))
    else:
        from warpsmith_worker import supervisor

        supervisor.main()


if __name__ == "__main__":
    main(sys.argv[1:])
