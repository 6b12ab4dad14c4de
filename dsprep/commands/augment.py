"""``augment`` writes a data set with copies of its images that differ from them by chance."""

from __future__ import annotations

from dataclasses import replace

from dsprep import keywords as of
from dsprep.commands.write import new_job, write
from dsprep.commands.write_report import WriteReport
from dsprep.dataset.copies import Copies
from dsprep.declared import called_with
from dsprep.errors import OptionError
from dsprep.images.augment import FILLS, Augment, parse_ops
from dsprep.plan.job import images_of


@called_with(of.AugmentOptions)
def augment(options: of.AugmentOptions) -> WriteReport:
    """Write samples and augmented copies of them: more images of rare classes, for example.

    ``sources`` and ``dest`` are what :func:`dsprep.pack` takes. What a copy looks like depends on
    the key of its sample, the number of the copy and the seed alone.
    """
    if options.key != "path":
        raise OptionError(f"--key {options.key}: the keys of copies are made of those of samples")
    fill = options.fill or FILLS[0]
    mask_fill = 255 if options.mask_fill is None else options.mask_fill
    if mask_fill > 255:
        raise OptionError(f"--mask-fill {mask_fill}: a class number in a mask is 0 to 255")
    made = Augment(parse_ops(",".join(options.op or ())), options.seed or 0, fill, mask_fill)
    images, told = images_of(options), options.transform
    if told is not None and told.is_copy:  # it is about copies alone
        images = replace(images, transform=None)
        made = replace(made, quality=told.quality, min_visible=told.min_visible)
    asked = Copies(
        *(options.per_image, options.per_class, options.balance),
        *(options.keep_originals, options.any_side),
    )
    job = new_job("augment", options)
    source = job.source.replace(needs_names=True)  # and with them, the keys of all samples
    images = replace(images, augment=made)
    return write(replace(job, source=source, images=images, augmented=asked), options)
