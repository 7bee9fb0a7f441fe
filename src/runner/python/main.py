"""Starts the worker: `python -I -X utf8 main.py` is the supervisor, with a descriptor it is the zygote.

`--device cuda:N --visible GPU-…` starts the supervisor for the one GPU that is visible under this name; N is
only what people call it. With `--step-aside` all of it runs below the usual priority. Isolated mode (`-I`)
keeps the current folder and PYTHONPATH out; only this file's own folder is added.
"""

import argparse
import os
import sys


def main(arguments: list[str]) -> None:
    """Run the supervisor, or the zygote when its socket's descriptor is given."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if arguments and arguments[0].isdigit():
        from warpsmith_worker import zygote

        zygote.main(int(arguments[0]), *arguments[1:2])
    else:
        from warpsmith_worker import supervisor

        parser = argparse.ArgumentParser(description="The Python side of warpsmith.")
        parser.add_argument("--device", help="name of the GPU for people, such as cuda:0")
        parser.add_argument("--visible", help="its UUID, as CUDA_VISIBLE_DEVICES takes it")
        parser.add_argument("--step-aside", action="store_true", help="run below the usual priority")
        given = parser.parse_args(arguments)
        if (given.device is None) != (given.visible is None):
            parser.error("--device and --visible belong together")
        if given.step_aside:
            # Inherited by all below. Not the lowest: a step that others starve would run out of time.
            os.nice(5)
        supervisor.main(given.device, given.visible)


if __name__ == "__main__":
    main(sys.argv[1:])
