"""Tests that need more than cargo."""
