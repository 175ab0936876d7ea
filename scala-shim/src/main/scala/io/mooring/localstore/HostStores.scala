package io.mooring.localstore

import java.nio.file.{Path, Paths}

import io.mooring.common.Names

/** Holds the host store of this executor's JVM. The executor plugin sets it; any thread reads it. */
object HostStores {
  @volatile private var store: Option[HostStore] = None

  /** The host store of this executor. None in a driver, and where the host's store can not be used. */
  def ofThisExecutor: Option[HostStore] = store

  private[mooring] def use(opened: Option[HostStore]): Unit = {
    store.foreach(_.close())
    store = opened
  }

  /** The directory of the host's store: by the environment variable, else by the setting, else in the JVM's temporary directory. */
  def directory(setting: Option[String], environment: String => Option[String]): Path =
    environment(Names.LocalStoreVariable).orElse(setting).map(Paths.get(_)).getOrElse(
      Paths.get(System.getProperty("java.io.tmpdir"), s"mooring-${System.getProperty("user.name")}"))
}
