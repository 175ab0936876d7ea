/** Host affinity: brings the files of a state store to a host before its task opens the store. */
package io.mooring.restore
