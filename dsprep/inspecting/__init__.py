"""What a data set looks like: measured image by image, as figures, and as pictures."""
