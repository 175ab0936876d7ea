"""The settings of one application, frozen, made once from the Spark configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mooring.errors import InvalidSettingError
from mooring.settings.check import find_setting, parse_value
from mooring.settings.table import PREFIX, TABLE, Setting


@dataclass(frozen=True)
class Settings:
    """Every setting; a field has the name of the setting, and durations end in `_ms`.

    None means that the default depends on the place (see `conf/settings.md`). Functions get the fields that they need,
    not this object. `metadata_options` is not shown in `repr`, as it may hold passwords.
    """

    enabled: bool
    other_spark: str
    local_store_dir: str | None
    local_store_max_bytes: int | None
    host_affinity_enabled: bool
    host_affinity_wait_ms: int
    executor_allocation_enabled: bool
    processor_rebind_timeout_ms: int
    liveness_timeout_ms: int
    location_provider: str
    zone_provider: str | None
    grouper: str
    grouper_weights: str
    metadata: str | None
    restore_streams: int
    restore_max_bytes_per_second: int | None
    standby_replication_factor: int
    standby_max_bytes_per_second: int
    standby_open_stores: int
    debounce_ms: int
    checkpoint_retain_batches: int | None
    checkpoint_catalog_enabled: bool | None
    checkpoint_catalog_table: str | None
    checkpoint_catalog_interval_ms: int
    checkpoint_catalog_retain_batches: int
    placement_poll_interval_ms: int
    moves_max_concurrent: int
    drain_timeout_ms: int | None
    drain_poll_interval_ms: int
    drain_on_start: bool
    drain_on_sigterm: bool
    drain_order: str | None
    resume_drained: str
    agent_python: str | None
    agent_liveness_timeout_ms: int
    metadata_options: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_conf(cls, conf: Mapping[str, str]) -> Settings:
        """Read all `spark.mooring.*` keys of a Spark configuration; other keys are ignored.

        One InvalidSettingError lists all keys that are unknown or have a wrong value, one a line.
        """
        values: dict[str, Any] = {field_name(s): _default(s) for s in TABLE if not s.is_prefix}
        options: dict[str, str] = {}
        problems: list[str] = []
        for key in sorted(k for k in conf if k.startswith(PREFIX)):
            try:
                setting = find_setting(key, conf[key])
                value = parse_value(setting, conf[key])
            except InvalidSettingError as error:
                problems.append(str(error))
                continue
            if setting.is_prefix:
                options[key[len(setting.key) :]] = conf[key]
            else:
                values[field_name(setting)] = value
        if problems:
            raise InvalidSettingError("\n".join(problems))
        return cls(**values, metadata_options=MappingProxyType(options))


def field_name(setting: Setting) -> str:
    """The field of `Settings` that holds a setting: dots become underscores, and a duration ends in `_ms`."""
    return setting.name.replace(".", "_") + ("_ms" if setting.type == "duration" else "")


def _default(setting: Setting) -> bool | int | str | None:
    return None if setting.default is None else parse_value(setting, setting.default)
