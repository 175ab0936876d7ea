/** Container placement: the agent, which is a Python process beside the driver, and what passes between it and the JVM. */
package io.mooring.agent
