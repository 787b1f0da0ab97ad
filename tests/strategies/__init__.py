"""Hypothesis strategies, one file per subject."""
