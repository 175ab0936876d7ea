/** Host affinity: streams through which Mooring reads and writes the files of a checkpoint. */
package io.mooring.checkpoint
