"""Tests that start kernels on a GPU; see README.md."""
