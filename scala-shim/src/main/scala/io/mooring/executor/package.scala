/** All capabilities: the plugin's part in each executor. It makes the other parts there. */
package io.mooring.executor
