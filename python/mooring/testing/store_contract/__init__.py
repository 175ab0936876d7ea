"""Tests of a metadata store, by kinds of promises; `mooring.testing.metadata_store_contract` joins them."""
