"""What a program that plays can see and do: run in the box that `rcb run` puts it in."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest
from rcb_agents.confinement import confined

from rcb_env.dataset.loading import load_dataset
from rcb_env.errors import UsageError
from rcb_env.play.agent import Task

ANSWERS = Task(load_dataset().challenge("DyT/forward")).answer_folders
CHECKOUT = Path(__file__).parents[2]


class Place:
    """A folder to work in, and one of the host's that is none of the program's business."""

    def __init__(self, root: Path) -> None:
        self.workplace, self.elsewhere = root / "work", root / "elsewhere"
        for folder in (self.workplace, self.elsewhere):
            folder.mkdir()

    def run(
        self,
        line: str,
        *,
        mounts: Sequence[str] = (),
        answers: Sequence[Path] = ANSWERS,
        **env: str,
    ) -> str:
        environment = {**os.environ, **env}
        command = confined(
            line,
            workplace=self.workplace,
            mounts=mounts,
            answers=answers,
            environment=environment,
        )
        done = subprocess.run(
            command,
            cwd=self.workplace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_no_answer_is_in_sight(place: Place) -> None:
    """A region's reference, searched by its text in all files that can be read."""
    line = "grep -rlE 'paper2code name=' / --include='*.py' --include='*.yaml' 2>/dev/null | head"
    found = [each for each in place.run(line).split() if not each.startswith("/proc")]
    assert found == []
    for folder in (*ANSWERS, CHECKOUT / "papers", CHECKOUT / ".git", place.elsewhere):
        assert place.run(f"ls {folder}/* 2>/dev/null | head -3") == "", folder


def test_an_installation_that_holds_papers_is_shown_without_them(tmp_path: Path) -> None:
    """rcb-env itself may be installed where the program's Python is."""
    place = Place(tmp_path)
    venv.create(tmp_path / "env", symlinks=True)
    papers = tmp_path / "env/lib/python3/site-packages/rcb_env/_data/papers"
    (papers / "DyT").mkdir(parents=True)
    (papers.parent / "other").write_text("seen")
    python = tmp_path / "env/bin/python"
    told = place.run(
        f"{python} -c 'import os; print(os.listdir(\"{papers}\"))'; cat {papers.parent}/other",
        answers=[papers],
    )
    assert told == "[]\nseen"


def test_nothing_of_the_host_is_changed_but_the_workplace(place: Place) -> None:
    mark = f"rcb-mark-{os.getpid()}"
    line = (
        f"touch made; for f in /etc /usr /usr/bin {sys.prefix} {sys.base_prefix} {place.elsewhere};"
        " do touch $f/made 2>/dev/null && echo $f; done;"
        f" touch ~/{mark} /tmp/{mark} && ls -A ~ /tmp | grep -c {mark}"
    )
    assert place.run(line).splitlines()[-1:] == ["2"]
    assert (place.workplace / "made").exists()
    assert not (Path.home() / mark).exists()
    assert not Path("/tmp", mark).exists()


def test_what_it_needs_is_there(place: Place, tmp_path: Path) -> None:
    """A script by its path, with the Python of a virtual environment, and programs found on the PATH."""
    script = tmp_path / "agent.py"
    script.write_text("import ssl, subprocess, sys; print(sys.prefix)\n")
    assert place.run(f"{sys.executable} {script}; true") == f"{sys.prefix}\n"
    assert place.run("pytest --version", PATH=f"{sys.prefix}/bin:/usr/bin:/bin").startswith(
        "pytest"
    )
    tool = tmp_path / "tools"
    tool.mkdir()
    (tool / "my-agent").write_text("#!/bin/sh\necho played\n")
    (tool / "my-agent").chmod(0o755)
    assert place.run("my-agent", PATH=f"{tool}:/usr/bin:/bin") == "played\n"


def test_a_program_that_npm_installed_in_a_folder_finds_its_packages(
    place: Place, tmp_path: Path
) -> None:
    """Its name is a link in node_modules/.bin, and the packages lie around that."""
    modules = tmp_path / "agent" / "node_modules"
    for name in (".bin", "tool", "needed"):
        (modules / name).mkdir(parents=True)
    program = modules / "tool" / "cli.sh"
    program.write_text('#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/../needed/text"\n')
    program.chmod(0o755)
    (modules / "needed" / "text").write_text("found\n")
    (modules / ".bin" / "tool").symlink_to("../tool/cli.sh")
    (tmp_path / "agent" / "notes").touch()
    on_path = f"{modules / '.bin'}{os.pathsep}{os.environ['PATH']}"
    for told in (place.run("tool", PATH=on_path), place.run(str(modules / ".bin" / "tool"))):
        assert told == "found\n"
    assert place.run(f"ls {tmp_path}/agent", PATH=on_path) == "node_modules\n"


def test_more_can_be_shown_read_only_or_to_write(place: Place) -> None:
    (place.elsewhere / "key").write_text("k")
    there = f"F={place.elsewhere}"  # a path that stands in the line alone would be shown
    line = f"{there}; cat $F/key; echo x 2>/dev/null > $F/new"
    assert place.run(line).startswith("cat: ")
    assert place.run(line, mounts=[str(place.elsewhere)]).startswith("k")
    assert not (place.elsewhere / "new").exists()
    assert place.run(line, mounts=[f"{place.elsewhere}:rw"]) == "k"
    assert (place.elsewhere / "new").exists()


def test_answers_cannot_be_shown_by_mistake(place: Place) -> None:
    for folder in (CHECKOUT, CHECKOUT / "papers" / "DyT", Path("/")):
        with pytest.raises(UsageError, match=r"--agent-mount .*would be in sight"):
            place.run("true", mounts=[str(folder)])
    with pytest.raises(UsageError, match="--agent-mount nowhere: there is no "):
        place.run("true", mounts=["nowhere"])


def test_the_network_is_there_and_other_processes_are_not(place: Place) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"model")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        code = f"import urllib.request as r; print(r.urlopen({url!r}).read().decode())"
        assert place.run(f'{sys.executable} -c "{code}"') == "model\n"
        server.shutdown()
    processes = place.run("ls /proc | grep -cE '^[0-9]+$'")
    assert int(processes) < 8
    assert place.run("echo x 2>/dev/null > /proc/sys/kernel/hostname || echo no") == "no\n"


def test_without_bubblewrap_it_says_what_to_do(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"bubblewrap is not installed.*--agent-sandbox none"):
        place.run("true")
