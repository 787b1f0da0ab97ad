"""emu: a cycle-approximate emulator of the Linux host packet path."""
