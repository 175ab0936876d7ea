"""The only code that touches the JVM."""
