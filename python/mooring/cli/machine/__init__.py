"""Commands about this machine: jar, settings, local store, shell."""
