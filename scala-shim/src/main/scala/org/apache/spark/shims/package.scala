/** All capabilities: access to private members of Spark's core and of executors. Every access by reflection is in `SparkInternals`. */
package org.apache.spark.shims
