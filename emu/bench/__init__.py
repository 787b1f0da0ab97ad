"""The main job: the four proposals before and after, real captures, and emu's own speed."""
