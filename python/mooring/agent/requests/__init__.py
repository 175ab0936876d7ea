"""Container placement: what operators ask of processors, standbys and hosts, from its arrival to its answer."""
