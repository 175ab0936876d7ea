package org.apache.spark.shims

import java.lang.reflect.Field

import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase

/** Private members that only Spark 4.2 and 4.3 have. */
private[shims] trait InternalsOfLine extends PrivateMembers {

  /** The names of the state store providers that `transformWithState` runs on. */
  def transformWithStateProviders: Field = providers.member
  private val providers = access("TransformWithStateExecBase.SUPPORTED_STATE_STORE_PROVIDERS", Capability.TransformWithState) {
    found(classOf[TransformWithStateExecBase].getDeclaredFields.find(_.getName.endsWith("SUPPORTED_STATE_STORE_PROVIDERS")),
      "SUPPORTED_STATE_STORE_PROVIDERS")
  }
}
