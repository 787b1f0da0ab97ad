"""What comes out: decisions and skbs, as tables."""
