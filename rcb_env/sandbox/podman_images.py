"""The images of boxes in Podman's store, built and named as those of Docker are (`docker_images.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable

from rcb_env.errors import SandboxUnavailable
from rcb_env.sandbox import docker_images, images
from rcb_env.sandbox.docker_images import ASK_VERSION, DEFAULT_BASE, Built
from rcb_env.sandbox.podman_command import ULIMITS, podman

_LOCAL = "localhost/"  # where Podman puts names without a registry


def tag(image: str) -> str:
    """The full name of the image for a named environment, built or not.

    Raises:
        UsageError: there is no such image.
    """
    return _LOCAL + docker_images.tag(image)


def missing(image: str) -> SandboxUnavailable:
    """The error for an image that is not built."""
    return SandboxUnavailable(
        f"Podman has no image {tag(image)}", fix=f"run `rcb images build {image} --sandbox podman`"
    )


def digest(image: str) -> str:
    """Podman's id of a built image, or "" when it is not built."""
    found = podman("images", "--no-trunc", "--quiet", "--filter", f"reference={tag(image)}")
    return found.strip()


def build(
    image: str, *, base: str = DEFAULT_BASE, progress: Callable[[str], None] | None = None
) -> str:
    """Build the image unless it is there already; returns its tag. See `docker_images.build`.

    Raises:
        SandboxUnavailable: no Podman, no base, packages that cannot be had, or a failed build.
    """
    tell = progress or (lambda _line: None)
    name = tag(image)
    if digest(image):
        tell(f"{name} is built already")
        return name
    tell(f"looking for a Python in {base}")
    try:
        version = podman(
            *("run", "--rm", "--network=none", *ULIMITS),
            *(base, "python3", "-c", ASK_VERSION),
            timeout_s=None,
        )
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"the base image {base!r} cannot be used ({error.why})",
            fix="name another with --base, or make one where no registry can be reached: images/make-base",
        ) from None
    with docker_images.build_context(image, version.strip(), tell) as context:
        tell(f"building {name}")
        words = ("--network=none", "--pull=never", *ULIMITS, "--quiet")
        podman(
            *("build", *words, f"--build-arg=BASE={base}", f"--tag={name}", str(context)),
            timeout_s=None,
        )
    tell(f"{name} is ready")
    return name


def built() -> list[Built]:
    """Our images in Podman's store, by tag."""
    wanted = {tag(name) for name in images.names()}
    found = [
        Built(name, f"sha256:{one['Id']}", int(one["Size"]), name in wanted)
        for one in json.loads(podman("images", "--format", "json") or "[]")
        for name in one.get("Names") or ()
        if docker_images.is_ours(name.removeprefix(_LOCAL)) and name.startswith(_LOCAL)
    ]
    return sorted(found, key=lambda one: one.tag)


def prune() -> list[str]:
    """Remove the images that no present lock asks for; returns their tags."""
    old = [one.tag for one in built() if not one.wanted]
    for name in old:
        podman("rmi", name)
    return old
