"""Recorded decisions of live kernels, replayed."""
