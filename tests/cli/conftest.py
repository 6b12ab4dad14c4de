"""What several tests of the command line share: a source, and the model of SageMaker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsprep
from tests.images import image_folder
from tests.jobs import PREFIX, Job, judge


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve good images in three classes, one of which is not ASCII."""
    root = tmp_path_factory.mktemp("photos") / "photos"
    image_folder(root, ("cat", "dog", "pets/ねこ"), per_class=4)
    return root


@pytest.fixture
def job() -> Job:
    """Call `dsprep.sagemaker`, and let botocore's model of the service judge the job."""

    def call(*data: object, **options: Any) -> dict[str, Any]:
        on_disk = any(isinstance(each, Path) or "=/" in each for each in data)
        report = dsprep.sagemaker(data, **{"prefix": PREFIX if on_disk else None} | options)
        job: dict[str, Any] = json.loads(json.dumps(report.job))
        judge(report.request, job)
        return job

    return call
