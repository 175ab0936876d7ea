package org.apache.spark.shims

import java.lang.reflect.{AccessibleObject, Field}

import scala.collection.mutable.ListBuffer

/** Declares accesses to private members of Spark, and looks the members up. Called by any thread. */
private[shims] abstract class PrivateMembers {
  private val declared = ListBuffer.empty[Access[_]]

  /** All accesses, in the order in which they are declared. */
  private[shims] def accesses: Seq[Access[_]] = declared.toSeq

  /** The accesses that this Spark lacks, in the order in which they are declared. */
  private[shims] lazy val missing: Seq[Access[_]] = accesses.filter(_.isMissing)

  /** For tests: names of accesses, with commas between them, that this JVM is to take for missing. */
  private val Hidden = "mooring.test.hidden-internals"
  private val hidden = sys.props.get(Hidden).toSeq.flatMap(_.split(',')).toSet

  protected def access[T](name: String, capability: Capability)(lookUp: => T): Access[T] = {
    val one = new Access(name, capability, () => if (hidden(name)) throw new NoSuchFieldException(Hidden) else lookUp)
    declared += one
    one
  }

  /** An access to a field of the class `of`. `name` is class and field, as the log names them. */
  protected def field(name: String, capability: Capability)(of: => Class[_]): Access[Field] =
    access(name, capability)(compiledField(of, name.substring(name.lastIndexOf('.') + 1)))

  /** A field whose compiled name may begin with its class's name. */
  protected def compiledField(of: Class[_], name: String): Field =
    found(of.getDeclaredFields.find(isNamed(_, name)), s"${of.getName}.$name")

  protected def isNamed(field: Field, name: String) = field.getName == name || field.getName.endsWith(s"$$$name")

  protected def found(field: Option[Field], name: String): Field = accessible(field.getOrElse(throw new NoSuchFieldException(name)))

  protected def accessible[T <: AccessibleObject](member: T): T = {
    member.setAccessible(true)
    member
  }

  /** A class of a part of Spark that a distribution may leave out. */
  protected def ifPresent(name: String): Option[Class[_]] =
    try Some(uninitialized(name))
    catch { case _: ClassNotFoundException => None }

  /** The first one to use `CodeGenerator` decides how much code it keeps: that is left to Spark. */
  protected def uninitialized(name: String): Class[_] = Class.forName(name, false, getClass.getClassLoader)
}
