"""Pages for a browser: one file each, which loads nothing, for light and dark screens."""
