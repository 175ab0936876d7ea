/** Host affinity: the store of state files on a host's own disk. */
package io.mooring.localstore
