/** Coordination: one of the drivers of a job leads. The agent reports its standing; this package holds it, and guards writes by it. */
package io.mooring.election
