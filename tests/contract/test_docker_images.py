"""`rcb images` with a real engine, on an image and in a repository that only these tests know."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rcb_env.cli.images import images as command
from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import docker_images, images
from rcb_env.sandbox.box import BoxSettings
from rcb_env.sandbox.docker import Docker
from rcb_env.sandbox.engine import engine

pytestmark = pytest.mark.usefixtures("docker_only")


def rcb_images(*words: str) -> list[str]:
    """What is printed, without what is told on the way."""
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def listed() -> list[dict[str, Any]]:
    return [json.loads(line) for line in rcb_images("list", "--json")]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where images are kept, with one to build: "tiny", on top of what the boxes of other tests are made of."""
    base = docker_images.tag("cpu")
    name = f"rcb-env-test-{time.time_ns()}"
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "requirements.lock").write_text("# no packages\n")
    (tmp_path / "tiny" / "Dockerfile").write_text("ARG BASE\nFROM ${BASE}\nCOPY packages /tiny\n")
    monkeypatch.setattr(images, "folder", lambda: tmp_path)
    monkeypatch.setattr(images, "names", lambda: ("tiny",))
    monkeypatch.setattr(docker_images, "DEFAULT_BASE", base)
    monkeypatch.setattr(docker_images, "REPOSITORY", name)
    yield name
    for tag in [tag for image in engine().images.list() for tag in image.tags]:
        if tag.startswith(name):
            engine().images.remove(tag)


def test_an_image_is_built_once_and_listed_with_its_digest(
    repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tag,) = rcb_images("build", "tiny")
    built = engine().images.get(tag)
    assert tag.startswith(f"{repository}/tiny:")
    assert listed() == [
        {"tag": tag, "digest": built.id, "size_bytes": built.attrs["Size"], "wanted": True}
    ]
    (line,) = rcb_images("list")
    assert line.startswith(f"{tag}  {str(built.id)[:19]}")

    monkeypatch.setattr(docker_images, "_collect", None)  # a second build collects nothing
    assert rcb_images("build", "tiny") == [tag]
    assert engine().images.get(tag).id == built.id


def test_an_image_that_is_not_there_is_a_plain_sentence(repository: str) -> None:
    """Whoever looks for it: before a run, and when a container is made after somebody removed it."""
    name = docker_images.tag("tiny")
    says = f"the Docker engine has no image {name}; run `rcb images build tiny`"
    with pytest.raises(SandboxUnavailable) as before:
        Docker().prepare("tiny", print)
    with pytest.raises(SandboxUnavailable) as later:
        Docker().start(BoxSettings("tiny"))
    assert str(before.value) == str(later.value) == says
    assert name.startswith(repository)


def test_pruning_removes_only_what_no_lock_file_asks_for(repository: str) -> None:
    """Nor what images are built on, nor what belongs to somebody else."""
    image = engine().images.get(docker_images.DEFAULT_BASE)
    wanted, old = docker_images.tag("tiny"), f"{repository}/tiny:old"
    renamed = f"{repository}/renamed:1"
    kept = {wanted, f"{repository}/base:bookworm", f"{repository}-of-others/tiny:old"}
    for tag in (*kept, old, renamed):
        image.tag(tag)
    assert {each["tag"]: each["wanted"] for each in listed()} == {
        wanted: True,
        old: False,
        renamed: False,
    }
    assert sorted(rcb_images("prune")) == [renamed, old]
    left = {tag for each in engine().images.list() for tag in each.tags}
    assert {tag for tag in left if tag.startswith(repository)} == kept
    assert docker_images.DEFAULT_BASE in left
    assert rcb_images("prune") == []
