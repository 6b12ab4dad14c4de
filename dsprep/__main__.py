"""What ``dsprep`` and ``python -m dsprep`` run."""

import gc

# Libraries make many objects when they are loaded, which all stay. To look for garbage among them
# again and again, and at the exit, takes a quarter of a short run's processor time.
gc.set_threshold(200_000)

from dsprep.cli.main import main  # noqa: E402 - after the threshold

if __name__ == "__main__":
    main()
