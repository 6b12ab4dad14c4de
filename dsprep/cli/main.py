"""The ``dsprep`` command, and how its errors become exit codes."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Any

import click

from dsprep import __version__
from dsprep.cli.help import LazyGroup
from dsprep.cli.streams import echo, echo_as_is, prepare_streams, say, shortened, until_nobody_reads
from dsprep.errors import INTERRUPTED_EXIT_CODE, DestinationError, DsprepError, Interrupted
from dsprep.opening import directory_of_process
from dsprep.printable import visible
from dsprep.progress import WAITS

COMMANDS = {
    "pack": ("dsprep.cli.datasets", "Pack images into WebDataset, TFRecord or RecordIO shards."),
    "convert": ("dsprep.cli.datasets", "Convert samples from any format to any other."),
    "shard": ("dsprep.cli.datasets", "Change the size, order or number of shards; append, index."),
    "augment": ("dsprep.cli.datasets", "Add augmented copies of images, of rare classes first."),
    "join": ("dsprep.cli.datasets", "Make one data set of several, without writing shards again."),
    "verify": ("dsprep.cli.datasets", "Check shards: complete, undamaged, readable by frameworks."),
    "status": ("dsprep.cli.datasets", "Say what is there of a data set that is being written."),
    "serve": ("dsprep.cli.serve", "Stream shards to a program, as SageMaker's Pipe mode does."),
    "sagemaker": ("dsprep.cli.sagemaker", "Print the JSON of a SageMaker job for data sets."),
    "cost": ("dsprep.cli.cost", "Say what data costs on S3, as files and as shards."),
    "lst": ("dsprep.cli.lst", "Create, edit, compare and check lists of images and labels."),
    "sync": ("dsprep.cli.sync", "Copy what is new to S3 or from S3: resumable, verified."),
    "inspect": ("dsprep.cli.inspect", "Show what data looks like before training."),
    "dedup": ("dsprep.cli.dedup", "List copies of images, for other commands to leave out."),
    "bench": ("dsprep.cli.bench", "Measure how fast data sets feed a training loop."),
    "split": ("dsprep.cli.split", "Split a data set into training, validation and test lists."),
}
"""The modules and summaries of the commands: ``dsprep --help`` imports none of them."""

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a job: Ctrl-C, and the one that schedulers send."""

_INTERRUPTED = "interrupted; give the same command again"
"""The message where it is not known what the command has written."""

_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA, resource.RLIMIT_NPROC)
"""Limits on memory and threads, without which polars cannot be loaded."""

ALLOCATOR = "_RJEM_MALLOC_CONF", f"background_thread:false,narenas:{os.cpu_count() or 1}"
"""What the allocator of polars is told, and where it looks.

It would print a line for each thread of its own that it cannot start: thousands. What one of its
arenas has freed, others do not use: four for each core, as it would have, hold a sixth more memory.
"""

_REPORTED = (
    *("polars", "pillow", "boto3", "click", "google-crc32c", "tqdm"),
    *("simplejpeg", "opencv-python-headless"),
    *("pyarrow", "webdataset", "tensorflow-cpu", "tensorflow", "mxnet", "numpy"),
)
"""Packages whose versions a bug report needs."""


def _print_version(context: click.Context, option: click.Parameter, asked: bool) -> None:
    """Print the version; with -v, also those of Python, the system and packages."""
    if not asked:
        return
    echo(f"dsprep, version {__version__}")
    if context.params["verbose"]:
        import platform
        from importlib import metadata

        echo(f"Python {platform.python_version()}, {platform.platform()}")
        echo(f"{len(os.sched_getaffinity(0))} cores, encoding {sys.stdout.encoding}")
        for name in _REPORTED:
            with suppress(metadata.PackageNotFoundError):
                echo(f"{name} {metadata.version(name)}")
    context.exit()


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit; with -v, also what a bug report needs.",
)
@click.option("-v", "verbose", is_flag=True, is_eager=True, hidden=True)
def cli(verbose: bool) -> None:
    """Prepare data sets for training: images in, shards out.

    Exit codes: 0 done, nothing lost; 2 wrong command line; 3 done, but samples were rejected or
    problems found; 4 wrong source; 5 destination refused; 6 stopped early, run again to continue;
    130 interrupted, run again to continue; 134 aborted by a library, out of memory; 1 any other
    error, or lists that differ (lst diff) or conflict (lst merge).

    \b
    Examples:
      dsprep pack photos/ shards/ --to webdataset
      dsprep convert shards/ tfrecords/ --to tfrecord
      dsprep shard shards/ even/ --shards 64 --shuffle
      dsprep verify shards/
      dsprep lst create photos/ -o train.lst
    """


def main() -> None:
    """Run the command line, and turn errors into exit codes."""
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    sys.unraisablehook = _see_ignored
    prepare_streams()
    os.environ.setdefault(*ALLOCATOR)
    WAITS.listen(say)
    try:
        with directory_of_process():
            code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.message = visible(error.message)  # type: ignore[misc]  # it quotes the command line
        text = io.StringIO()
        error.show(text)
        _tell(text.getvalue().rstrip("\n"))
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        # click aborts on the end of a file, too: Python leaves a cut .pyc where a disk is full.
        if isinstance(error.__cause__, EOFError):
            raise error.__cause__ from None
        code = _fail(_INTERRUPTED, INTERRUPTED_EXIT_CODE)
    except Interrupted as error:
        # the terminal shows ^C without a line break
        code = _fail(str(error), error.exit_code, above="\n")
    except DsprepError as error:
        code = _fail(str(error), error.exit_code)
    except OSError as error:
        # click ends the line of ^C, which fails where nobody reads stderr or its disk is full
        if isinstance(error.__context__, KeyboardInterrupt):
            code = _fail(_INTERRUPTED, INTERRUPTED_EXIT_CODE)
        else:
            message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            code = _fail(visible(message), DsprepError.exit_code)
    except BaseException as error:  # polars panics, for one, are no Exception
        short = _shortage(error)
        # Python 3.11 makes it a RuntimeError where a class gives its attributes their names.
        if isinstance(error.__cause__, KeyboardInterrupt):
            code = _fail(_INTERRUPTED, INTERRUPTED_EXIT_CODE)
        elif short is not None:
            code = _fail(visible(short), DsprepError.exit_code)
        else:
            raise
    if code == INTERRUPTED_EXIT_CODE:
        # At once: another Ctrl-C while Python shuts down would change the exit code.
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code or 0)


def _shortage(error: BaseException) -> str | None:
    """Return which resource ran out, if that made Python or polars raise an error."""
    advice = "raise the limits on memory (ulimit -v) and threads (ulimit -u), or free some"
    if isinstance(error, MemoryError):
        return f"out of memory: {advice}"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return f"no more threads can be started: {advice}"
    files, trace = [], error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    is_limited = any(resource.getrlimit(each)[0] != resource.RLIM_INFINITY for each in _LIMITS)
    is_loading = (
        is_limited
        and isinstance(error, (ImportError, NameError))
        and ("polars" in str(error) or any("/polars/" in file for file in files))
    )
    if type(error).__name__ == "PanicException" or is_loading:
        what = str(error).partition("\n")[0]
        return f"polars stopped, as it does when memory or threads run out ({what}): {advice}"
    return None


def _fail(message: str, code: int, above: str = "") -> int:
    """Print the text of an error, in which all names are visible, and return the exit code."""
    _tell(message, f"{above}dsprep: ")
    return code


def _tell(message: str, before: str = "") -> None:
    """Print a message to stderr; the exit code stays if that fails, as where a disk is full."""
    with suppress(DestinationError), until_nobody_reads(sys.stderr):
        echo_as_is(f"{before}{shortened(message)}", sys.stderr)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Begin to clean up, which is short and must not be interrupted again."""
    for number in _INTERRUPTS:
        # Not SIG_IGN: Python complains when it finds that for a signal that has come already.
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def _see_ignored(ignored: Any) -> None:
    """Interrupt again, and soon, where Python ignores what is raised: while it frees an object."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
    else:
        sys.__unraisablehook__(ignored)
