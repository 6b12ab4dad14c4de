"""What stands around the code is true: workflows, container, citation, the site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dsprep import __version__
from tests.conftest import Finished
from tests.house.test_docs import PAGES, ROOT
from tests.missing import leave_out

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TARGETS = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.M))


def test_what_is_left_out_has_a_reason() -> None:
    """A test that skips itself does so by a function that takes the reason, and heeds ALL."""
    skips = re.compile(r"pytest\.(skip|importorskip)\(|mark\.skip")
    where = [path for path in (ROOT / "tests").rglob("*.py") if skips.search(path.read_text())]
    assert where == [ROOT / "tests" / "missing.py"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_is_there(path: Path) -> None:
    for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items():
        for step in job["steps"]:
            assert step.keys() & {"uses", "run"}, f"{name}: a step that does nothing"
            words = step.get("run", "").split()
            if words[:1] == ["make"]:
                assert words[1] in TARGETS
            elif words:
                assert os.access(ROOT / words[0], os.X_OK)


def test_workflows_have_the_versions_that_the_package_names() -> None:
    text = (ROOT / ".github/workflows/test.yml").read_text("utf-8")
    named = {line.rpartition(" ")[2] for line in PROJECT["classifiers"] if ":: 3." in line}
    assert set(re.findall(r"3\.\d+", text)) == named


def test_forms_are_yaml() -> None:
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    assert all(yaml.safe_load(form.read_text("utf-8")) for form in forms)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert all(each["rev"] and each["hooks"] for each in hooks)


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Source"]


def test_the_container_gets_what_the_build_reads() -> None:
    kept = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.M))
    assert kept >= {"LICENSE", "README.md", "dsprep", "pyproject.toml"}
    assert all((ROOT / name).exists() for name in kept)
    assert 'ENTRYPOINT ["dsprep"]' in (ROOT / "Dockerfile").read_text("utf-8")


def test_the_site_has_every_page() -> None:
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    named = set(re.findall(r"[\w/-]+\.md", config.partition("\nnav:")[2]))
    assert named == {
        page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.parent != ROOT
    }


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    tool = Path(sys.executable).with_name("mkdocs")
    if not tool.exists():
        leave_out("mkdocs is not installed")
    done = subprocess.run(
        [tool, "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'(?:src|href)="(https?://[^"]+\.(?:js|css|woff2?))"', page.read_text())
        assert not loaded, f"{page.name} needs the network: {loaded}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paragraphs_are_short(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-|\d]|:::)", text):
        assert paragraph.strip().count("\n") < 5, paragraph


def test_the_version_says_what_a_bug_report_needs(run_cli: Callable[..., Finished]) -> None:
    assert run_cli("--version").out == f"dsprep, version {__version__}\n"
    told = run_cli("--version", "-v").out
    assert all(f"\n{name} " in told for name in ("Python", "polars", "pillow", "boto3"))
