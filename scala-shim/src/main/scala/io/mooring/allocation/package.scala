/** Host affinity before a query runs: the cluster manager is asked for executors on the hosts that have state. */
package io.mooring.allocation
