"""``augment`` writes a data set with copies of its images that differ from them by chance."""

from __future__ import annotations

from dataclasses import replace

from dsprep.declared import called_with
from dsprep.formats import format_of_file
from dsprep.plan.job import augmented, images_of
from dsprep.plan.options import AugmentOptions
from dsprep.run.write import format_of_shards, new_job, source_with, write
from dsprep.run.write_report import WriteReport
from dsprep.sources.options import ClassOptions


@called_with(AugmentOptions)
def augment(options: AugmentOptions) -> WriteReport:
    """Write samples and augmented copies of them: more images of rare classes, for example.

    ``sources`` and ``dest`` are what :func:`dsprep.pack` takes. What a copy looks like depends on
    the key of its sample, the number of the copy and the seed alone. Shards become shards of the
    same format, unless ``to`` or the name of ``dest`` says another one.
    """
    own = None
    if not (options.to or options.format or format_of_file(str(options.dest))):
        own = format_of_shards(source_with(options, **options.values_of(ClassOptions)))
    job = replace(new_job("augment", options, own), images=images_of(options))
    return write(augmented(job, options, options.op or ()), options)
