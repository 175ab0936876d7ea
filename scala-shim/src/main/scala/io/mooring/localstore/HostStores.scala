package io.mooring.localstore

import java.nio.file.{Path, Paths}

import io.mooring.common.{Names, OnePerExecutor}

/** The host store of an executor. There is none where the host's store can not be used. */
object HostStores extends OnePerExecutor[HostStore](_.close()) {

  /** The directory of the host's store: by the environment variable, else by the setting, else in the JVM's temporary directory. */
  def directory(setting: Option[String], environment: String => Option[String]): Path =
    environment(Names.LocalStoreVariable).orElse(setting).map(Paths.get(_)).getOrElse(
      Paths.get(System.getProperty("java.io.tmpdir"), s"mooring-${System.getProperty("user.name")}"))
}
