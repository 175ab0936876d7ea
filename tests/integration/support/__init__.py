"""What integration tests share: jobs that they run, queries and stores in one JVM, right answers, operators."""
