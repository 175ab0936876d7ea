/** Hot standby: keeps copies of state on other executors, so that tasks can continue there at once. */
package io.mooring.standby
