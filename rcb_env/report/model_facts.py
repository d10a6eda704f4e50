"""What is known of a run's model: its price and its knowledge cutoff.

The run's own record comes first, then the tables that packages register under the entry point group `rcb_env.models` (as
``facts(name, models_file)``, whose result has the fields of `ModelFacts`), then the models of the published results, by
either of their names. What none of them says is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcb_env import plugins
from rcb_env.errors import UsageError
from rcb_env.report import public_results

MODELS = "rcb_env.models"
"""The entry point group in which tables of models are registered."""


@dataclass(frozen=True)
class ModelFacts:
    """Of one model; None: nobody says."""

    input_usd_per_mtok: float | None = None
    """Of a million prompt tokens."""
    output_usd_per_mtok: float | None = None
    knowledge_cutoff: str | None = None
    """YYYY-MM or YYYY-MM-DD."""


_FIELDS = ("input_usd_per_mtok", "output_usd_per_mtok", "knowledge_cutoff")


def facts_of(config: Mapping[str, Any]) -> ModelFacts:
    """What is known of the model of a run.

    Args:
        config: of the run, as run.json holds it.
    """
    model = config.get("model") or {}
    settings = model if isinstance(model, Mapping) else {"name": model}
    name = str(settings.get("name") or "")
    found: dict[str, Any] = dict.fromkeys(_FIELDS)
    for source in (settings, *_registered(name, settings.get("models_file")), _published(name)):
        for field in _FIELDS:
            value = (
                source.get(field) if isinstance(source, Mapping) else getattr(source, field, None)
            )
            if found[field] is None:
                found[field] = value
    return ModelFacts(**found)


def _registered(name: str, models_file: Any) -> list[Any]:
    if not name:
        return []
    found = []
    for facts in plugins.loaded(MODELS):
        try:
            found.append(facts(name, str(models_file) if models_file else None))
        except UsageError:  # the run's own table lies on another machine, or was changed
            found.append(facts(name, None))
    return found


def _published(name: str) -> object:
    models = public_results.models()
    by_api_name = {model.api_name: model for model in models.values()}
    return models.get(name) or by_api_name.get(name) or by_api_name.get(name.partition("/")[2])
