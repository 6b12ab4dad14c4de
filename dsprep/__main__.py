"""What ``dsprep`` and ``python -m dsprep`` run."""

import atexit
import gc
import os
import sys
import threading

# Libraries make many objects when they are loaded, which all stay. To look for garbage among them
# again and again, and at the exit, takes a quarter of a short run's processor time.
gc.set_threshold(200_000)

from dsprep.cli.main import main as run  # noqa: E402 - after the threshold


def main() -> None:
    """Run the command line, and end the process.

    The end of the interpreter would free each object of all modules, which takes as long as a tenth
    of a short run. So the process ends after what comes before that: threads, what is registered to
    be done at the exit, the streams.
    """
    try:
        run()
    except SystemExit as end:
        threading._shutdown()  # type: ignore[attr-defined]  # as in a child of `multiprocessing`
        atexit._run_exitfuncs()
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except OSError:
            raise end from None  # the interpreter says so, and has an exit code for it
        os._exit(end.code if isinstance(end.code, int) else 1)


if __name__ == "__main__":
    main()
