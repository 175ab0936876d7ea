/** Hot standby: keeps copies of state on other executors, and lets tasks go on there at once. */
package io.mooring.standby
