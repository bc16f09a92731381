"""Tagged union of settings: ``asha``, or ``{asha: {grace_period: 1e4}}`` with settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast, get_args

from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator
from typing_extensions import override

from rlrun.engine.messages.explain import is_model, shown, unknown_name
from rlrun.engine.settings.config import ConfigModel


class OneOf(ConfigModel):
    """Tagged union: a mapping from one choice to the settings of the choice; a bare name means default settings.

    Subclasses have a field for each choice, of the type of its settings or None, with default None.

    Attributes:
        what: Name of the setting in messages: "scheduler".
    """

    what: ClassVar[str]

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Names of the choices."""
        return tuple(cls.model_fields)

    @classmethod
    def needs_settings(cls, kind: str) -> bool:
        """Whether a choice has required settings, so that a bare name is invalid."""
        models = [member for member in get_args(cls.model_fields[kind].annotation) if is_model(member)]
        return any(field.is_required() for model in models for field in model.model_fields.values())

    @property
    def kind(self) -> str:
        """Name of the choice."""
        return next(name for name in self.kinds() if getattr(self, name) is not None)

    @property
    def _chosen(self) -> ConfigModel:
        return cast("ConfigModel", getattr(self, self.kind))

    @model_validator(mode="before")
    @classmethod
    def _accept_a_name(cls, data: Any) -> Any:
        """Accepts a bare name, or a name with null, in place of default settings."""
        if isinstance(data, str):
            if data not in cls.kinds():
                raise ValueError(unknown_name(data, cls.kinds(), f"unknown {cls.what}"))
            return {data: {}}
        if not isinstance(data, Mapping):
            names = ", ".join(cls.kinds())
            raise ValueError(f"must be the name of a {cls.what} or a mapping with one ({names}), not {shown(data)}")
        if not data:
            raise ValueError(f"names no {cls.what}; there are: {', '.join(cls.kinds())}")
        if len(data) > 1:
            raise ValueError(f"there can be one {cls.what}, not {len(data)}: {', '.join(map(str, data))}")
        return {name: {} if settings is None else settings for name, settings in data.items()}

    @override
    def replace(self, **changes: Any) -> Self:
        """Validated copy with the choice in `changes`.

        Raises:
            SpecError: A change is not valid.
        """
        return self.parse(changes or {self.kind: self._chosen})

    @model_serializer(mode="wrap")
    def _without_the_others(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: settings for name, settings in serialize(self).items() if settings is not None}
