/** All capabilities: what every part of Mooring uses. Names, settings, log lines, JSON, threads, locations, metrics. It depends on no other package. */
package io.mooring.common
