/** Hot standby: an executor that joins loads classes and reads what tasks read before its first task. */
package io.mooring.warmup
