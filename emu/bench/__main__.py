"""``python -m emu.bench``."""

from emu.bench.cli import main

if __name__ == "__main__":
    main()
