package org.apache.spark.shims

import org.apache.spark.SPARK_VERSION

/**
 * Looks every access of `SparkInternals` up at the start of the plugin's part in a JVM, so that a Spark that lacks one is
 * known before a query runs. Looking up initializes no class of Spark's, and changes nothing.
 */
object SparkSelfCheck {

  /** One line for the log for each capability that is off: what this Spark lacks for it, and what happens instead. */
  def lines: Seq[String] = SparkInternals.missing.map(_.capability).distinct.map { capability =>
    s"${capability.name} is off, as Spark $SPARK_VERSION has no ${capability.lacks.mkString(" and no ")}: ${capability.withoutIt}"
  }
}

/**
 * One access by reflection to a private member of Spark.
 *
 * @param name       class and member, as the log names it
 * @param capability what Mooring can not do without it
 * @param lookUp     finds the member; called once. Its exception tells why the member is missing
 */
private[spark] final class Access[T](val name: String, val capability: Capability, lookUp: () => T) {
  private lazy val found: Either[Throwable, T] =
    try Right(lookUp())
    catch { case e @ (_: ReflectiveOperationException | _: RuntimeException | _: LinkageError) => Left(e) }

  def isMissing: Boolean = found.isLeft

  /** The member. Throws the exception of the look-up when the member is missing. */
  def member: T = found.fold(throw _, identity)

  def ifThere: Option[T] = found.toOption
}
