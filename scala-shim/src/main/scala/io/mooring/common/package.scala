/** All capabilities: names, settings, log lines, JSON, threads, locations, metrics. It uses none of Mooring's other packages but shims. */
package io.mooring.common
