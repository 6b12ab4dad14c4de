"""Write an augmented copy of each image of a folder with Keras' ImageDataGenerator.

Usage: keras_augment.py ROOT DEST WIDTH HEIGHT
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tensorflow.keras.preprocessing.image import ImageDataGenerator

root, dest, width, height = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.makedirs(dest)
generator = ImageDataGenerator(
    rotation_range=20,
    width_shift_range=0.1,
    height_shift_range=0.1,
    zoom_range=0.2,
    horizontal_flip=True,
    brightness_range=(0.8, 1.2),
)
batches = generator.flow_from_directory(
    root, target_size=(height, width), batch_size=32, save_to_dir=dest, save_format="jpeg"
)
for _ in range(len(batches)):
    next(batches)
