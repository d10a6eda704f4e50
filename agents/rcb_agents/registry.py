"""What is known of models: price, context window, knowledge cutoff.

The table is ``models.yaml`` beside this module; a user's file of the same form adds to it and goes
first (``--models FILE``). Settings given for a run go before both. What is not in them is unknown:
an unknown price is not zero, and an unknown window leaves it to the server to refuse.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from rcb_agents.providers import Provider
from rcb_env import ModelSettings, UsageError

BUILT_IN = Path(__file__).with_name("models.yaml")

_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Tokens = Annotated[int, Field(ge=1)]
# Times the price of other prompt tokens: https://platform.claude.com/docs/en/about-claude/pricing, November 2026.
_CACHE_WRITE = 1.25


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens."""

    input: float
    output: float
    cached: float
    """Of the part of a prompt that the server had in its cache."""
    written: float
    """Of the part of a prompt that the server put into its cache."""

    def of(
        self,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int = 0,
        written_tokens: int = 0,
    ) -> float:
        """The cost of one call, in US dollars.

        Args:
            prompt_tokens: all of the prompt.
            completion_tokens: everything generated.
            cached_tokens: the part of the prompt that was in the server's cache.
            written_tokens: the part of the prompt that went into it.
        """
        fresh = prompt_tokens - cached_tokens - written_tokens
        sent = fresh * self.input + cached_tokens * self.cached + written_tokens * self.written
        return (sent + completion_tokens * self.output) / 1e6


class ModelFacts(BaseModel):
    """One model; None: unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_usd_per_mtok: _Price | None = None
    output_usd_per_mtok: _Price | None = None
    cached_input_usd_per_mtok: _Price | None = None
    """Of prompt tokens from the server's cache; None: as all other prompt tokens, the most they can cost."""
    cache_write_usd_per_mtok: _Price | None = None
    """Of prompt tokens that go into the server's cache; None: 1.25 times that of all others."""
    context_tokens: _Tokens | None = None
    """Prompt and completion together."""
    knowledge_cutoff: str | None = None
    """YYYY-MM or YYYY-MM-DD."""

    @field_validator("knowledge_cutoff", mode="before")
    @classmethod
    def _as_date(cls, value: Any) -> Any:
        if isinstance(value, datetime.date):  # YAML reads a whole date as one
            return value.isoformat()
        if value is None:
            return None
        year, *rest = str(value).split("-")
        try:
            numbers = [int(part) for part in rest]
            datetime.date(int(year), *[*numbers, 1, 1][:2])
        except (ValueError, TypeError):
            raise ValueError("write it as YYYY-MM or YYYY-MM-DD") from None
        if not 1 <= len(numbers) <= 2:
            raise ValueError("write it as YYYY-MM or YYYY-MM-DD")
        return "-".join([year, *(f"{number:02d}" for number in numbers)])

    @property
    def price(self) -> Price | None:
        """None unless both prices are known."""
        if self.input_usd_per_mtok is None or self.output_usd_per_mtok is None:
            return None
        cached, written = self.cached_input_usd_per_mtok, self.cache_write_usd_per_mtok
        return Price(
            self.input_usd_per_mtok,
            self.output_usd_per_mtok,
            self.input_usd_per_mtok if cached is None else cached,
            self.input_usd_per_mtok * _CACHE_WRITE if written is None else written,
        )


class _ProviderEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    base_url: Annotated[str, Field(pattern=r"^https?://[^/]+")]
    key_variable: str | None = None
    reports_cost: bool = False
    api: Literal["chat", "responses", "anthropic", "google"] = "chat"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    models: dict[str, ModelFacts] = Field(default_factory=dict)
    providers: dict[str, _ProviderEntry] = Field(default_factory=dict)


@dataclass(frozen=True)
class Registry:
    """What a file, or two, hold."""

    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    providers: Mapping[str, Provider] = field(default_factory=dict)

    def facts_of(self, settings: ModelSettings) -> ModelFacts:
        """What is known of a model: the settings first, then the entry of its exact name.

        A provider's name in front may be missing in the table: ``openai/gpt-4o`` is ``gpt-4o``.
        """
        name = settings.name
        found = self.models.get(name) or self.models.get(name.partition("/")[2]) or ModelFacts()
        own = {
            key: getattr(settings, key)
            for key in ("input_usd_per_mtok", "output_usd_per_mtok", "context_tokens")
            if getattr(settings, key) is not None
        }
        if "input_usd_per_mtok" in own:  # the table's prices of a cache belong to the other one
            own |= {"cached_input_usd_per_mtok": None, "cache_write_usd_per_mtok": None}
        return found.model_copy(update=own)


def facts(name: str, models_file: str | None = None) -> ModelFacts:
    """What is known of a model by its name, for reports.

    Args:
        name: as its server calls it.
        models_file: the user's table, which goes before the built-in one.

    Raises:
        UsageError: that file cannot be read, or is no such table.
    """
    return load_registry(models_file).facts_of(ModelSettings(name))


@functools.lru_cache(maxsize=16)
def load_registry(path: str | None = None) -> Registry:
    """The built-in table, and the user's before it.

    Args:
        path: the user's file; None: there is none.

    Raises:
        UsageError: it cannot be read, or something in it is none of what a table holds.
    """
    built_in = _read(BUILT_IN)
    if path is None:
        return built_in
    own = _read(Path(path).expanduser())
    merged = dict(built_in.models)
    for name, facts in own.models.items():
        known = merged.get(name, ModelFacts())
        merged[name] = known.model_copy(update=facts.model_dump(exclude_unset=True))
    return Registry(merged, own.providers)


def _read(path: Path) -> Registry:
    try:
        data = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError(f"{where}: {getattr(error, 'problem', None) or error}") from error
    try:
        read = _File.model_validate({} if data is None else data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        reason = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            known = _known_at(first["loc"])
            reason = f"there is no such key; there are {', '.join(known)}"
        raise UsageError(f"{path}: {place}: {reason[:1].lower()}{reason[1:]}") from None
    providers = {
        name: Provider(entry.base_url, entry.key_variable, entry.reports_cost, entry.api)
        for name, entry in read.providers.items()
    }
    return Registry(read.models, providers)


def _known_at(place: tuple[int | str, ...]) -> list[str]:
    if len(place) < 3:
        return list(_File.model_fields)
    kind = ModelFacts if place[0] == "models" else _ProviderEntry
    return list(kind.model_fields)
