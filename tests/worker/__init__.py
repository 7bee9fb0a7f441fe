"""Tests of the Python side of the worker: `python -m unittest discover -s tests/worker -t .`"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src/runner/python"))
