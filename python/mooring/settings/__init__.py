"""Every `spark.mooring.*` key, in one table, and the frozen settings that are made from it once, at the start."""

from mooring.settings.check import describe_values, find_setting, parse_value
from mooring.settings.frozen import Settings
from mooring.settings.table import PREFIX, TABLE, Setting, table_as_json

__all__ = ["PREFIX", "TABLE", "Setting", "Settings", "describe_values", "find_setting", "parse_value", "table_as_json"]
