/** Drain: ends queries after their buffered state has come out, so that no result is lost. */
package io.mooring.drain
