"""The reference: plain Python, one file per stage, obviously right."""
