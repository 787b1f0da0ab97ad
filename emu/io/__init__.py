"""What is read and written: captures and host files."""
