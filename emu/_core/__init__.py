"""The core: inlined leaves in one .pxd per stage, loops in the .pyx of the same name."""
