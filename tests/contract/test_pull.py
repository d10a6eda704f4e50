"""`rcb pull` with real git and real repositories: what arrives is whole and right, or nothing arrives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import git
import pytest

from rcb_env.dataset.loading import load_dataset
from rcb_env.dataset.published import RECEIPT, RESEARCHCODEBENCH, Published
from rcb_env.dataset.pull import digest_of, pull
from rcb_env.errors import UsageError

FILES = {
    "README.md": "A data set of one paper.\n",
    "main.py": "raise SystemExit\n",
    "pset/papers.yaml": "- {id: tiny, title: Tiny, annotated_file_paths: model.py}\n",
    "pset/tiny/paper2code_paper.md": "Add one.\r\n",
    "pset/tiny/paper2code_test.py": "import model\n",
    "pset/tiny/model.py": (
        "def one(x):\n"
        '    # <paper2code name="add">\n'
        "    return x + 1\n"
        '    # </paper2code name="add">\n'
    ),
}


def commit(folder: Path, files: dict[str, str]) -> str:
    """A repository with these files; returns the hash of its one commit."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    with git.Repo.init(folder, initial_branch="main") as repository:
        repository.index.add(list(files))
        actor = git.Actor("Nobody", "nobody@example.org")
        return repository.index.commit("made", author=actor, committer=actor).hexsha


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository that holds the data set, and a later commit with which it is another one."""
    return tmp_path / "source"


@pytest.fixture
def wanted(source: Path) -> Published:
    made = Published(
        name="one-paper",
        url=str(source),
        commit=commit(source, FILES),
        folder="pset",
        digest=digest_of(source / "pset"),
        papers=1,
        challenges=1,
        lines=1,
    )
    commit(source, {"pset/tiny/model.py": "x = 1\n"})
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_pinned_commit_arrives_as_it_is_in_the_repository(
    tmp_path: Path, wanted: Published
) -> None:
    """Also where the repository has moved on, and with line endings as they are."""
    cache = tmp_path / "cache"
    folder, fetched = pull(wanted, cache=cache)
    assert fetched
    assert [one.id for one in load_dataset(folder).challenges] == ["tiny/add"]
    assert (folder / "tiny/paper2code_paper.md").read_bytes() == b"Add one.\r\n"
    assert names(folder.parent) == ["README.md", "pset", RECEIPT], "nothing else is kept"
    assert json.loads((folder.parent / RECEIPT).read_text())["commit"] == wanted.commit
    assert names(cache) == sorted([f".{folder.parent.name}.lock", folder.parent.name])


def test_git_settings_of_the_user_change_no_byte(
    tmp_path: Path, wanted: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text("[core]\n\tautocrlf = true\n\thooksPath = /nowhere\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    folder, _ = pull(wanted, cache=tmp_path / "cache")
    assert digest_of(folder) == wanted.digest


def test_pulling_again_looks_and_changes_nothing(tmp_path: Path, wanted: Published) -> None:
    cache = tmp_path / "cache"
    folder, _ = pull(wanted, cache=cache)
    before = (folder / "papers.yaml").stat().st_mtime_ns
    again = pull(wanted, "/nowhere/at/all", cache=cache)
    assert again == (folder, False)
    assert (folder / "papers.yaml").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "tiny" / "model.py").write_text("changed\n"),
        lambda folder: (folder / "tiny" / "paper2code_test.py").unlink(),
        lambda folder: (folder.parent / RECEIPT).unlink(),
    ],
    ids=["a changed file", "a missing file", "no receipt"],
)
def test_a_damaged_copy_is_replaced(
    tmp_path: Path, wanted: Published, damage: Callable[[Path], object]
) -> None:
    folder, _ = pull(wanted, cache=tmp_path / "cache")
    damage(folder)
    again, fetched = pull(wanted, cache=tmp_path / "cache")
    assert (again, fetched) == (folder, True)
    assert digest_of(folder) == wanted.digest


@pytest.mark.parametrize("bare", [True, False])
def test_a_clone_and_a_mirror_do_as_well(tmp_path: Path, wanted: Published, bare: bool) -> None:
    with git.Repo.clone_from(wanted.url, tmp_path / "mirror", bare=bare):
        pass
    elsewhere = replace(wanted, url="https://127.0.0.1:9/nothing/there")
    folder, fetched = pull(elsewhere, str(tmp_path / "mirror"), cache=tmp_path / "cache")
    assert fetched
    assert digest_of(folder) == wanted.digest


def refused(tmp_path: Path, wanted: Published, source: str | None = None) -> str:
    cache = tmp_path / "cache"
    with pytest.raises(UsageError) as raised:
        pull(wanted, source, cache=cache)
    assert names(cache) == [f".{wanted.name}-{wanted.commit[:12]}.lock"], "something is left"
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_without_a_network_the_address_and_the_way_out_are_named(
    tmp_path: Path, wanted: Published
) -> None:
    unreachable = replace(wanted, url="https://127.0.0.1:9/nothing/there")
    message = refused(tmp_path, unreachable)
    assert "cannot fetch from https://127.0.0.1:9/nothing/there" in message
    assert "--from" in message


def test_a_password_in_an_address_is_not_shown(tmp_path: Path, wanted: Published) -> None:
    message = refused(tmp_path, wanted, "https://me:secret@127.0.0.1:9/x")
    assert "secret" not in message
    assert "https://127.0.0.1:9/x" in message


def test_a_folder_that_is_no_repository_is_named(tmp_path: Path, wanted: Published) -> None:
    (tmp_path / "plain").mkdir()
    assert str(tmp_path / "plain") in refused(tmp_path, wanted, str(tmp_path / "plain"))


def test_a_repository_without_the_commit_is_refused(tmp_path: Path, wanted: Published) -> None:
    commit(tmp_path / "other", {"README.md": "another history\n"})
    message = refused(tmp_path, wanted, str(tmp_path / "other"))
    assert f"does not hold the commit {wanted.commit[:7]}" in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"challenges": 2}, "1 papers, 1 challenges, 1 lines instead of 1 papers, 2 challenges"),
        ({"digest": "0" * 64}, "its files have another digest"),
        ({"folder": "elsewhere"}, "there is no folder elsewhere"),
    ],
)
def test_other_content_than_was_published_is_refused(
    tmp_path: Path, wanted: Published, changes: dict[str, object], words: str
) -> None:
    message = refused(tmp_path, replace(wanted, **changes))  # type: ignore[arg-type]
    assert words in message
    assert wanted.url in message


def test_a_link_in_the_repository_is_refused(tmp_path: Path, wanted: Published) -> None:
    """A link could lead out of the copy."""
    other = tmp_path / "links"
    commit(other, FILES)
    (other / "pset/tiny/passwords.py").symlink_to("/etc/passwd")
    with git.Repo(other) as repository:
        repository.index.add(["pset/tiny/passwords.py"])
        made = repository.index.commit("a link").hexsha
    message = refused(tmp_path, replace(wanted, commit=made), str(other))
    assert "pset/tiny/passwords.py is not a plain file" in message


PULL = """
import sys
from pathlib import Path
from rcb_env.errors import UsageError
from rcb_env.dataset.published import Published
from rcb_env.dataset.pull import pull
wanted = Published(*sys.argv[3:8], *map(int, sys.argv[8:11]))
try:
    print(*pull(wanted, sys.argv[2], cache=Path(sys.argv[1]), tell=lambda line: print(line, flush=True)))
except UsageError as error:
    sys.exit(str(error))
"""


def command(cache: Path, source: str, wanted: Published) -> list[str]:
    facts = (wanted.name, wanted.url, wanted.commit, wanted.folder, wanted.digest)
    counts = (wanted.papers, wanted.challenges, wanted.lines)
    return [sys.executable, "-c", PULL, str(cache), source, *facts, *map(str, counts)]


@pytest.fixture
def slow(tmp_path: Path, wanted: Published, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same repository behind a transport that never comes to its end, and says who it is."""
    program = tmp_path / "bin" / "git-remote-slow"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho $PPID $$ > {tmp_path}/made\nmv {tmp_path}/made {tmp_path}/pids\nexec sleep 1000\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "slow:file")
    return f"slow::{wanted.url}"


def soon(happens: Callable[[], bool]) -> bool:
    for _ in range(600):
        if happens():
            return True
        time.sleep(0.05)
    return False


def lives(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_pull_leaves_nothing_that_counts_and_the_next_one_does_it(
    tmp_path: Path, wanted: Published, slow: str, ending: signal.Signals
) -> None:
    cache = tmp_path / "cache"
    with subprocess.Popen(
        command(cache, slow, wanted),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert "fetching" in process.stdout.readline()
        place = f"{wanted.name}-{wanted.commit[:12]}"
        assert soon((tmp_path / "pids").exists)
        gits = (tmp_path / "pids").read_text().split()
        assert all(map(lives, gits))
        process.send_signal(ending)
        assert process.wait(timeout=20) != 0
    assert soon(lambda: not any(map(lives, gits))), "git and its transport end with the pull"
    assert not (cache / place).exists()
    if ending == signal.SIGINT:
        assert names(cache) == [f".{place}.lock"]
    folder, fetched = pull(wanted, cache=cache)
    assert fetched
    assert names(cache) == sorted([f".{place}.lock", place]), "what the first one left is gone"
    assert digest_of(folder) == wanted.digest


def test_of_two_pulls_at_once_one_fetches_and_both_have_it(
    tmp_path: Path, wanted: Published
) -> None:
    results: list[tuple[Path, bool]] = []
    threads = [
        threading.Thread(target=lambda: results.append(pull(wanted, cache=tmp_path / "cache")))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(fetched for _, fetched in results) == [False, False, True]
    assert len({folder for folder, _ in results}) == 1


@pytest.mark.parametrize("compresses", [True, False], ids=["for us", "for git"])
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(
    tmp_path: Path, wanted: Published, source: Path, compresses: bool
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("a small disk is made with bubblewrap")
    text = "0123456789abcdef" * 200_000 if compresses else os.urandom(1_600_000).hex()
    made = commit(source, {"pset/tiny/large.bin": text})
    large = replace(wanted, commit=made)
    cache = tmp_path / "cache"
    cache.mkdir()
    small_disk = ["--dev-bind", "/", "/", "--size", "1000000", "--tmpfs", str(cache)]
    done = subprocess.run(
        ["bwrap", *small_disk, *command(cache, wanted.url, large)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if "bwrap:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"cannot write the copy to {cache}: ")
    assert "free some space" in line


def rcb(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rcb_env.cli", *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_without_a_pull_the_data_set_says_how_to_get_it(tmp_path: Path) -> None:
    done = rcb("list", "papers", "--dataset", "researchcodebench", cache=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "rcb pull researchcodebench" in line


def test_an_unknown_data_set_and_a_wrong_source_are_one_line(
    tmp_path: Path, wanted: Published
) -> None:
    done = rcb("pull", "researchcodbench", cache=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean researchcodebench?" in done.stderr
    done = rcb("pull", "researchcodebench", "--from", wanted.url, cache=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"rcb: {wanted.url} does not hold the commit db3d16d")


def test_the_real_data_set_is_what_it_is_known_to_be(tmp_path: Path) -> None:
    """With a clone of it at hand: RCB_PUBLIC_CLONE names its folder."""
    clone = os.environ.get("RCB_PUBLIC_CLONE")
    if not clone:
        pytest.skip("set RCB_PUBLIC_CLONE to a clone of the public repository")
    done = rcb("pull", "researchcodebench", "--from", clone, cache=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "20 papers, 212 challenges, 1,449 lines" in done.stdout
    listed = rcb("list", "challenges", "--dataset", "researchcodebench", "--json", cache=tmp_path)
    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert (len(rows), sum(row["lines"] for row in rows)) == (212, RESEARCHCODEBENCH.lines)
