/** All capabilities: what is private in Spark's core, or an executor's. Every access by reflection is in `SparkInternals`. */
package org.apache.spark.shims
