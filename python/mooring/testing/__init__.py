from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.testing.metadata_store_contract import MetadataStoreContract

__all__ = ["MetadataStoreContract"]

_WHERE = {"MetadataStoreContract": "mooring.testing.metadata_store_contract"}


def __getattr__(name: str) -> Any:
    """Import the module of a name at its first use: it needs pytest, and the servers and the cluster do not."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite(_WHERE[name])
    return getattr(import_module(_WHERE[name]), name)
