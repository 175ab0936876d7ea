/** All capabilities: the plugin's part in the driver. It makes the other parts, and watches queries and executors. */
package io.mooring.driver
