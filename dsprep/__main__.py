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

    The interpreter would then free each object of all modules, which takes a tenth of a short run.
    So the process ends itself, once threads have ended, what is registered with `atexit` is done,
    and the streams are flushed. A profiler that writes at the end has to call `dsprep.cli.main`.
    """
    try:
        run()
    except SystemExit as end:
        # as `multiprocessing` ends its children
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        try:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        except OSError:
            raise end from None  # the interpreter says so, and has an exit code for it
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


if __name__ == "__main__":
    main()
