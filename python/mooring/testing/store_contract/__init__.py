"""The promises of a metadata store by their kinds; `mooring.testing.metadata_store_contract` puts them together."""
