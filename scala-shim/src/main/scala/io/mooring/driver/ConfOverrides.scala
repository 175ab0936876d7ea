package io.mooring.driver

import scala.util.control.NonFatal

import io.mooring.checkpoint.CheckpointFiles
import io.mooring.common.{Names, Log}
import org.apache.spark.SparkConf
import org.apache.spark.shims.Capability
import org.apache.spark.sql.execution.streaming.state.shims.{ProviderOfSessions, StreamShim, StreamShims}
import org.apache.spark.sql.internal.SQLConf

/**
 * Puts Mooring's classes into the settings, where the user has chosen Spark's own RocksDB provider, or none. Every other choice
 * stays, with one line in the log.
 *
 * The thread that makes the SparkContext calls `amend` once. Each stream's thread calls `atStart` for the query's own settings. When
 * `atStart` fails, the query runs with the settings that it has. Depends on `StreamShim` and, for the format of state, on a private
 * field of `CommitLog`, through SparkInternals; without that field each query has the format of its session.
 */
object ConfOverrides {

  /** Before the first session exists: sets what every session of the application begins with. */
  def amend(conf: SparkConf): Unit = {
    append(conf, "spark.sql.extensions", Names.Extensions)
    append(conf, "spark.sql.streaming.streamingQueryListeners", Names.QueryListener)
    conf.getOption(StreamShims.FileManagerKey).filter(_ != Names.FileManager).foreach(conf.set(Names.UsersFileManager, _))
    conf.set(StreamShims.FileManagerKey, Names.FileManager)
    conf.getOption(StreamShims.ProviderKey) match {
      case None | Some(StreamShims.StockRocksDB) =>
        if (Capability.isOurProviderUsable) conf.set(StreamShims.ProviderKey, ProviderOfSessions.name(Names.Provider))
      case Some(other) => leaveAlone(other)
    }
  }

  /**
   * An executor that cannot fetch a block from a lost executor tries again after one second instead of five, fifteen times
   * instead of three. So it notices sooner that Spark has made the block elsewhere, and gives up after the same fifteen
   * seconds. Nothing changes where the user has chosen a value, or where a shuffle service of the host serves the blocks: the
   * service may come back.
   */
  def retryFetchesSooner(conf: SparkConf): Unit = if (!Seq(RetryWait, MaxRetries).exists(conf.contains) && !conf.getBoolean(Service, defaultValue = false)) {
    conf.set(RetryWait, "1s")
    conf.set(MaxRetries, "15")
  }

  /** Makes Spark's own clean-up keep at least `batches` batches of each checkpoint; more where the user keeps more. */
  def retain(conf: SparkConf, batches: Int): Unit =
    if (conf.getInt(Retained, SQLConf.MIN_BATCHES_TO_RETAIN.defaultValue.get) < batches) conf.set(Retained, batches.toString)

  private val Retained = SQLConf.MIN_BATCHES_TO_RETAIN.key
  private val RetryWait = "spark.shuffle.io.retryWait"
  private val MaxRetries = "spark.shuffle.io.maxRetries"
  private val Service = "spark.shuffle.service.enabled"

  /**
   * Before the first batch of a query, in its own thread: sets the provider and the format of its state. The job may have chosen
   * them in its session, or in the run that made the checkpoint.
   */
  def atStart(query: StreamShim): Unit =
    try {
      val fileManager = query.setting(StreamShims.FileManagerKey)
      if (!fileManager.contains(Names.FileManager)) {
        // The query's logs are written without our file manager, so our provider's name must not come into them.
        if (query.setting(StreamShims.ProviderKey).contains(Names.Provider))
          query.set(StreamShims.ProviderKey, StreamShims.StockRocksDB)
        leaveAlone(s"checkpoint file manager ${fileManager.getOrElse("none")}")
      } else if (query.isStateful) {
        if (query.isRealTime) Log.info(s"query ${query.label} runs in real-time mode: its tasks and its state are where Spark puts them")
        useOurProvider(query)
      }
    } catch {
      case NonFatal(e) =>
        Log.failed("take-over", e)(s"the state store of a query could not be looked at ($e): it runs as it is set")
    }

  private def useOurProvider(query: StreamShim): Unit = {
    val provider = if (query.mayUseOurProvider) Names.Provider else StreamShims.StockRocksDB
    CheckpointFiles.runOnStock(query.checkpoint, provider == StreamShims.StockRocksDB)
    query.providerInCheckpoint.orElse(query.setting(StreamShims.ProviderKey)) match {
      case Some(StreamShims.StockRocksDB | Names.Provider) =>
        query.set(StreamShims.ProviderKey, provider)
        for (driver <- Driver.current; batch <- query.unfinishedBatch) driver.queries.repeats(query.runId, batch)
        query.formatInCheckpoint match {
          case Some(format) => query.setFormat(format)
          case None => if (!query.isSet(StreamShims.FormatKey) && !query.isRealTime) query.setFormat(query.formatToBeginWith)
        }
      case Some(other) => leaveAlone(other)
      case None => // no session names our provider, as a capability is off
    }
  }

  private def leaveAlone(chosen: String): Unit = Log.once(s"left-alone-$chosen",
    s"$chosen is left as it was chosen: its state is placed, but the hosts keep no copies of it")

  private def append(conf: SparkConf, key: String, className: String): Unit = {
    val present = conf.getOption(key).toSeq.flatMap(_.split(",")).map(_.trim).filter(_.nonEmpty)
    if (!present.contains(className)) conf.set(key, (present :+ className).mkString(","))
  }
}
