"""Questions on top of the doors: what fits a published row, what a result hangs on."""
