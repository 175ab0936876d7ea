package io.mooring.driver

import scala.util.control.NonFatal

import io.mooring.checkpoint.CheckpointFilesShim
import io.mooring.common.{Names, Log}
import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.streaming.state.shims.{StreamShim, StreamShims}
import org.apache.spark.sql.internal.SQLConf

/** Puts our classes where the user chose stock RocksDB or nothing; leaves every other choice alone and says so. */
object ConfOverrides {

  /** Before the first session exists: what the application's sessions start from. */
  def amend(conf: SparkConf): Unit = {
    append(conf, "spark.sql.extensions", Names.Extensions)
    append(conf, "spark.sql.streaming.streamingQueryListeners", Names.QueryListener)
    conf.getOption(StreamShims.FileManagerKey).filter(_ != Names.FileManager).foreach(conf.set(Names.UsersFileManager, _))
    conf.set(StreamShims.FileManagerKey, Names.FileManager)
    conf.getOption(StreamShims.ProviderKey) match {
      case None | Some(StreamShims.StockRocksDB) => conf.set(StreamShims.ProviderKey, Names.Provider)
      case Some(other) => leaveAlone(other)
    }
  }

  /**
   * An executor that asks one that has just gone for a block, of a shuffle or of a broadcast, asks again after a second
   * rather than after five, and gives up after the same time in all. Where the user has chosen, nothing is changed, nor
   * where a service of the host answers for its executors, of which nobody knows whether it will come back.
   */
  def askSooner(conf: SparkConf): Unit = if (!Seq(RetryWait, MaxRetries).exists(conf.contains) && !conf.getBoolean(Service, defaultValue = false)) {
    conf.set(RetryWait, "1s")
    conf.set(MaxRetries, "15")
  }

  /** Of each checkpoint at least so many batches are kept from Spark's own clean-up; where the user keeps more, those. */
  def retain(conf: SparkConf, batches: Int): Unit =
    if (conf.getInt(Retained, SQLConf.MIN_BATCHES_TO_RETAIN.defaultValue.get) < batches) conf.set(Retained, batches.toString)

  private val Retained = SQLConf.MIN_BATCHES_TO_RETAIN.key
  private val RetryWait = "spark.shuffle.io.retryWait"
  private val MaxRetries = "spark.shuffle.io.maxRetries"
  private val Service = "spark.shuffle.service.enabled"

  /** In the stream's own thread before its first batch: the job may have chosen in its session, or long ago. */
  def atStart(query: StreamShim): Unit =
    try {
      val fileManager = query.setting(StreamShims.FileManagerKey)
      if (!fileManager.contains(Names.FileManager)) {
        // The query's logs are written without our shim already, so they must not learn our provider's name.
        if (query.setting(StreamShims.ProviderKey).contains(Names.Provider))
          query.set(StreamShims.ProviderKey, StreamShims.StockRocksDB)
        leaveAlone(s"checkpoint file manager ${fileManager.getOrElse("none")}")
      } else if (query.isStateful) takeOverProvider(query)
    } catch {
      case NonFatal(e) =>
        Log.failed("take-over", e)(s"the state store of a query could not be looked at ($e): it runs as it is set")
    }

  private def takeOverProvider(query: StreamShim): Unit = {
    val provider = if (query.mayUseOurProvider) Names.Provider else StreamShims.StockRocksDB
    CheckpointFilesShim.runOnStock(query.checkpoint, provider == StreamShims.StockRocksDB)
    query.providerInCheckpoint.orElse(query.setting(StreamShims.ProviderKey)) match {
      case Some(StreamShims.StockRocksDB | Names.Provider) =>
        query.set(StreamShims.ProviderKey, provider)
        for (driver <- Driver.current; batch <- query.unfinishedBatch) driver.queries.repeats(query.runId, batch)
        query.formatInCheckpoint match {
          case Some(format) => query.setFormat(format)
          case None => if (!query.isSet(StreamShims.FormatKey)) query.setFormat(if (query.beganInFormat1) 1 else 2)
        }
      case other => leaveAlone(other.getOrElse("none"))
    }
  }

  private def leaveAlone(chosen: String): Unit = Log.once(s"left-alone-$chosen",
    s"$chosen is left as it was chosen: its state is placed, but the hosts keep no copies of it")

  private def append(conf: SparkConf, key: String, className: String): Unit = {
    val present = conf.getOption(key).toSeq.flatMap(_.split(",")).map(_.trim).filter(_.nonEmpty)
    if (!present.contains(className)) conf.set(key, (present :+ className).mkString(","))
  }
}
