package org.apache.spark.shims

import java.io.InputStream
import java.nio.ByteBuffer

import org.apache.spark.{MapOutputTrackerWorker, ShuffleDependency, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.io.CompressionCodec
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.shuffle.sort.SortShuffleManager
import org.apache.spark.sql.execution.UnsafeRowSerializer
import org.apache.spark.storage.BroadcastBlockId
import org.apache.spark.util.Utils

/**
 * Reads what tasks read before they compute: their code, which is a broadcast, and the files of a shuffle. An executor that joins
 * does this once before its first task: then it is connected with the other executors, and the classes of tasks are loaded. Nothing
 * that is read is kept. Loading a user's own classes may have effects, so only code in Spark's default format is read, only with
 * classes of known packages, and only shuffles of Spark's own rows.
 *
 * Called by the warm-up threads of the executor plugin. Depends on `BlockTransferService.fetchBlockSync`, `MapOutputTrackerWorker` and the
 * format of task binaries in Spark 4.0 to 4.3. Without it the first tasks of a new executor take longer.
 */
object TaskReads {
  private val LargestShuffleRead = 1024 * 1024L
  private val PartitionsLookedAt = 8
  private val FreshNs = 200L * 1000 * 1000
  private val SparksOwn = "org.apache.spark."

  /**
   * The code of a running task, as RDD and function, from its broadcast. It is fetched from the driver.
   * NoSuchElementException when the broadcast is gone, or has more than one piece; ClassNotFoundException when it has classes
   * outside of the known packages.
   */
  def code(broadcast: Long): Any = {
    val env = SparkEnv.get
    require(env.serializer.getClass == classOf[JavaSerializer], s"${env.serializer.getClass.getName} may run what the user has registered")
    def atDriver(piece: Int) = env.blockManager.master.getLocations(BroadcastBlockId(broadcast, s"piece$piece")).find(_.isDriver)
    val driver = atDriver(0).filter(_ => atDriver(1).isEmpty).getOrElse(throw new NoSuchElementException(s"broadcast $broadcast in one piece"))
    val block = BroadcastBlockId(broadcast, "piece0").name
    val stored = env.blockManager.blockTransferService.fetchBlockSync(driver.host, driver.port, driver.executorId, block, tempFileManager = null)
    val loader = new OnlyKnownClasses(Thread.currentThread.getContextClassLoader)
    Utils.withContextClassLoader(loader) {
      val stream = env.serializer.newInstance().deserializeStream(plain(stored.createInputStream()))
      try env.closureSerializer.newInstance().deserialize[Any](ByteBuffer.wrap(stream.readObject[Array[Byte]]()), loader)
      finally stream.close()
    }
  }

  private def plain(stored: InputStream): InputStream = {
    val conf = SparkEnv.get.conf
    if (!conf.get(config.BROADCAST_COMPRESS)) stored
    else {
      val codec = CompressionCodec.getCodecName(conf)
      require(!codec.contains('.') || codec.startsWith(SparksOwn), s"codec $codec is not Spark's own")
      CompressionCodec.createCodec(conf, codec).compressedInputStream(stored)
    }
  }

  /**
   * Reads one small partition of each shuffle that a task with this code reads. How many shuffles were read.
   *
   * A shuffle may be gone by now, and asking for its files then takes `spark.rpc.askTimeout`. So nothing is read when more than 0.2 s
   * have passed since `asked` (`System.nanoTime`), when the driver was asked which tasks run. Nothing is read from other shuffle managers
   * than Spark's.
   */
  def shuffles(code: Any, asked: Long): Int = code match {
    case (rdd: RDD[_], _) if Option(Shuffles.managerOf(SparkEnv.get)).exists(_.getClass == classOf[SortShuffleManager]) =>
      inputs(rdd).filter(_.serializer.getClass == classOf[UnsafeRowSerializer])
        .count(input => System.nanoTime() - asked < FreshNs && WarmupProfile.asFarAsPossible(read(input)))
    case _ => 0
  }

  private def inputs(rdd: RDD[_]): Seq[ShuffleDependency[_, _, _]] = {
    val seen = collection.mutable.Set[Int]()
    def under(rdd: RDD[_]): Seq[ShuffleDependency[_, _, _]] = if (!seen.add(rdd.id)) Nil else rdd.dependencies.flatMap {
      case shuffle: ShuffleDependency[_, _, _] => Seq(shuffle)
      case narrow => under(narrow.rdd)
    }
    under(rdd).distinctBy(_.shuffleId)
  }

  /** NoSuchElementException when there is no partition to read that is small. */
  private def read(input: ShuffleDependency[_, _, _]): Unit = {
    val env = SparkEnv.get
    val tracker = env.mapOutputTracker.asInstanceOf[MapOutputTrackerWorker]
    val wasKnown = tracker.mapStatuses.contains(input.shuffleId)
    def size(partition: Int) = tracker.getMapSizesByExecutorId(input.shuffleId, partition).flatMap(_._2).map(_._2).sum
    try {
      val partition = (0 until math.min(input.partitioner.numPartitions, PartitionsLookedAt)).find { partition =>
        val bytes = size(partition)
        bytes > 0 && bytes <= LargestShuffleRead
      }.filter(_ => input.aggregator.isEmpty && input.keyOrdering.isEmpty).getOrElse(throw new NoSuchElementException("a small partition"))
      val context = TaskContext.empty()
      val metrics = context.taskMetrics.createTempShuffleReadMetrics()
      try Shuffles.managerOf(env).getReader[Any, Any](input.shuffleHandle, partition, partition + 1, context, metrics).read().foreach(_ => ())
      finally context.markTaskCompleted(None)
    } finally if (!wasKnown) tracker.unregisterShuffle(input.shuffleId) // the first task has to ask where the files are by then
  }
}

/** Loads only classes of the JDK, Scala, Hadoop, Spark and Mooring. */
private final class OnlyKnownClasses(all: ClassLoader) extends ClassLoader(all) {
  override def loadClass(name: String, resolve: Boolean): Class[_] =
    if (OnlyKnownClasses.Packages.exists(name.startsWith)) super.loadClass(name, resolve) else throw new ClassNotFoundException(name)
}

private object OnlyKnownClasses {
  val Packages: Seq[String] = Seq("java.", "javax.", "scala.", "org.apache.spark.", "org.apache.hadoop.", "io.mooring.")
}
