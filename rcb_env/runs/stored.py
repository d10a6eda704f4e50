"""What is read back of a run folder, checked before anything is done with it.

A folder may come from elsewhere: copied in part, edited, glued together from two runs, or made to do harm. Here is said what
run.json and a line of episodes.jsonl must hold, in one place; whoever reads them through `rcb_env.runs.store` needs no checks
of its own.

Guarantees:
- A line that passes is an `Episode` by its types, with numbers that can be added up and written anywhere, a verdict that
  `Verdict.from_dict` reads, and a trajectory inside the run's folder.
- A line counts only in the run that planned it: its key is that of the planned episode, its content that of the challenge.
- What is wrong is said in one line without a word of the damaged value: it may be of any length, or control a terminal.
Not covered: the records of a trajectory, which agents write; their readers take anything.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from rcb_env.grading.verdict import Status, Verdict
from rcb_env.play.agent import Usage
from rcb_env.play.record import Episode
from rcb_env.runs.durable import dump

_LARGEST = 2**53
"""A larger number is damage: floats, tables and other programs cannot hold it exactly."""
_MAX_ATTEMPTS = 10**6


@dataclass(frozen=True)
class EpisodeKey:
    """What makes an episode this one and no other; a hint or a prompt alone never does."""

    paper: str
    file: str
    region: str
    """Challenge id: two regions with the same hint have two ids."""
    sample: int
    agent: str
    model: str
    """Model name, "" for an agent without a model."""
    settings: str
    """Digest of everything else that shapes the episode, see `digest`."""

    @property
    def id(self) -> str:
        """Sixteen hex digits, stable across runs and machines."""
        return digest(list(self.__dict__.values()))


def digest(value: object) -> str:
    """Sixteen hex digits of a JSON-like value, independent of the order of keys."""
    return hashlib.sha256(dump(value, sort_keys=True)).hexdigest()[:16]


def keys(config: Mapping[str, Any]) -> Callable[[str, str, str, int], EpisodeKey]:
    """The keys of the episodes of a run.

    Args:
        config: of the run, as run.json holds it.

    Returns:
        (paper id, file, challenge id, sample) -> key.
    """
    model = config.get("model") or {}
    shaping = digest({k: v for k, v in config.items() if k not in ("agent", "model", "samples")})
    agent, settings = str(config.get("agent", "")), digest([shaping, model])
    name = str(model.get("name", "") if isinstance(model, Mapping) else model)

    def key(paper: str, file: str, challenge: str, sample: int) -> EpisodeKey:
        return EpisodeKey(paper, file, challenge, sample, agent, name, settings)

    return key


# --- run.json ---------------------------------------------------------------------------------


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Planned(_Checked):
    challenge: str
    paper: str
    file: str
    lines: int = Field(ge=0, le=_LARGEST)
    own_lines: int | None = Field(None, ge=0, le=_LARGEST)
    hint_words: int = Field(0, ge=0, le=_LARGEST)
    content_hash: str = ""
    samples: list[int]


class _PaperFacts(_Checked):
    domain: str = ""
    dates: dict[str, str] = {}


class _Record(_Checked):
    config: dict[str, Any] = {}
    dataset: dict[str, Any] = {}
    versions: dict[str, Any] | None = {}
    papers: dict[str, _PaperFacts] = {}
    plan: list[_Planned] = []


def wrong_record(record: object) -> str | None:
    """What is wrong with the content of run.json; None: nothing."""
    return _first_flaw(lambda: _Record.model_validate(record))


# --- a line of episodes.jsonl ------------------------------------------------------------------


class _Line(_Checked):
    key: str
    attempt: int = Field(1, ge=1, le=_MAX_ATTEMPTS)
    trajectory: str
    episode: dict[str, Any]


def wrong_line(line: object) -> str | None:
    """What is wrong with a line of episodes.jsonl; None: nothing."""
    if flaw := _first_flaw(lambda: _Line.model_validate(line)):
        return flaw
    read: Mapping[str, Any] = line  # type: ignore[assignment]
    path = PurePosixPath(read["trajectory"])
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in read["trajectory"]:
        return "trajectory does not lie in the run's folder"
    return _wrong_episode(read["episode"])


class Plan:
    """Which lines belong to a run."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        """Takes the content of a sound run.json."""
        key = keys(record.get("config", {}))
        self._planned = {
            key(entry["paper"], entry["file"], entry["challenge"], sample).id: (
                entry["challenge"],
                sample,
                entry.get("content_hash", ""),
            )
            for entry in record.get("plan", ())
            for sample in entry["samples"]
        }

    def stranger(self, line: Mapping[str, Any]) -> str | None:
        """Why a sound line is none of this run; None: it is one."""
        episode = line["episode"]
        planned = self._planned.get(line["key"])
        if planned is None or planned[:2] != (episode["challenge"], episode["sample"]):
            return "it is of another run: its key is not in the plan of run.json"
        if planned[2] and planned[2] != episode["content_hash"]:
            return "its challenge has other content than in run.json"
        return None


def wrong_usage(usage: object) -> str | None:
    """What is wrong with stored usage of models; None: nothing."""
    if flaw := _first_flaw(lambda: _checked(Usage).model_validate(usage)):
        return flaw
    return _wrong_number(usage)  # type: ignore[arg-type]


def _wrong_episode(episode: Mapping[str, Any]) -> str | None:
    if flaw := _first_flaw(lambda: _checked(Episode).model_validate(episode)):
        return f"episode.{flaw}"
    if flaw := _wrong_number(episode) or _wrong_number(episode["usage"]):
        return f"episode.{flaw}"
    if episode["status"] not in get_args(Status):
        return "episode.status has a value that this version does not know"
    if episode["verdict"] is not None:
        try:
            Verdict.from_dict(episode["verdict"])
        except (ValueError, TypeError, AttributeError):
            return "episode.verdict is not a verdict"
    return None


def _wrong_number(fields: Mapping[str, Any]) -> str | None:
    for name, value in fields.items():
        least = -_LARGEST if name == "seed" else 0
        if isinstance(value, int | float) and not least <= value <= _LARGEST:
            return f"{name} is not a number that it can be"
    return None


@cache
def _checked(kind: Any) -> type[_Checked]:
    """A dataclass as a model that checks the types of its fields; those of later versions are let be."""
    hints: dict[str, Any] = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for each in dataclasses.fields(kind):
        hint, required = hints[each.name], each.default is each.default_factory is MISSING
        nested = dataclasses.is_dataclass(hint)
        fields[each.name] = (_checked(hint) if nested else hint, ... if required else None)
    return create_model(kind.__name__, __base__=_Checked, **fields)


def _first_flaw(validate: Callable[[], object]) -> str | None:
    try:
        validate()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(
            str(part) for part in first["loc"] if str(part).isidentifier() or isinstance(part, int)
        )
        if first["type"] == "literal_error":
            return f"{where} has a value that this version does not know"
        return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return None
