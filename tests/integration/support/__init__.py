"""Helpers of integration tests: jobs to run, queries and stores in one JVM, right answers, and operators."""
