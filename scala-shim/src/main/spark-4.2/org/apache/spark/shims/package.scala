/** All capabilities: every access by reflection to what is private in Spark. */
package org.apache.spark.shims
