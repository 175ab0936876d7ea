/** Coordination: one of the drivers of a job leads. The agent tells which one; this package holds the answer. */
package io.mooring.election
