"""``python -m dsprep`` is ``dsprep``."""

from dsprep.cli.main import main

if __name__ == "__main__":
    main()
