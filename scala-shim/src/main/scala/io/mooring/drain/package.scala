/** Drain: ends queries without losing what they have buffered. */
package io.mooring.drain
