package io.mooring.allocation

import java.util.concurrent.TimeUnit

import io.mooring.common.{FailOpen, Names}
import org.apache.spark.SparkConf
import org.apache.spark.scheduler.shims.AllocationShim

/**
 * Asks YARN for executors on the wanted hosts: at the start on those of the last run, then on those that the agent names. An executor that
 * is lost is then asked for on its own host.
 *
 * YARN's application master asks for the first executors itself, on any host, with the number that it reads from the settings. So that
 * number is set to 0 while the application master reads it, and one thread asks for the executors when the application master has
 * registered. In client mode the application master reads the settings before `listenersStart`, in cluster mode after it.
 *
 * With dynamic allocation Spark's own manager asks, and gets the hosts as a preference. The number is the manager's.
 *
 * The thread that makes the SparkContext calls `begin` and `listenersStart`, a thread of `ExecutorRequests` calls `follow`. When requests
 * fail, the same number of executors is asked for on any host, as by stock Spark.
 *
 * @param total how many executors the user wants; 0 with dynamic allocation
 */
private[allocation] final class YarnRequests(yarn: AllocationShim, conf: SparkConf, total: Int, isDynamic: Boolean, isOver: () => Boolean) {
  import YarnRequests._

  private val isInCluster = conf.get("spark.submit.deployMode", "client") == "cluster"

  /**
   * The time between two steps. After a request the application master waits for its interval before it asks for YARN's answer. It may
   * wait twice, when the request comes while it speaks with YARN.
   */
  private val stepMs = {
    val intervalMs = if (conf.contains(FirstInterval)) conf.getTimeAsMs(FirstInterval) else if (isInCluster) UsualIntervalMs else ClientIntervalMs
    math.min(2 * intervalMs + SlackMs, LongestStepMs)
  }

  @volatile private var isLowered = false
  private var usersValues = Map.empty[String, Option[String]] // of the settings that are changed while the application master reads them

  /** Before Spark makes its scheduler. The hosts are those of the last run. Whether executors will be asked for on them. */
  def begin(hosts: Seq[String]): Boolean = {
    val lowers = hosts.nonEmpty && mayLower
    if (lowers) {
      val listeners = conf.getOption(Listeners).toSeq.flatMap(_.split(',')).map(_.trim).filterNot(Set("", Names.AllocationListener))
      conf.set(Listeners, (Names.AllocationListener +: listeners).mkString(",")) // first, so that the user's own see the user's settings
      if (!isInCluster && !isDynamic) lower()
    }
    lowers
  }

  /** Push-based shuffle counts the executors when the scheduler is made, which in client mode is while the number is 0. */
  private def mayLower = isInCluster || !conf.getBoolean("spark.shuffle.push.enabled", defaultValue = false)

  /** Spark makes the listeners of the application: after the scheduler has started, and before it waits for executors. */
  def listenersStart(hosts: Seq[String]): Unit =
    if (isDynamic) yarn.prefer(counts(hosts))
    else if (isInCluster) lower()
    else if (isLowered) {
      restore()
      yarn.expect(total)
    }

  private def lower(): Unit = synchronized {
    val failures = math.max(LeastFailures, 2 * conf.getInt(Instances, 0)) // as Spark computes it from the user's number
    val lowered = Map(Instances -> "0") ++
      Option.when(!FailureLimits.exists(conf.contains))(FailureLimits.head -> failures.toString) ++
      Option.when(!isInCluster && !conf.contains(FirstInterval))(FirstInterval -> s"${ClientIntervalMs}ms")
    usersValues = lowered.map { case (key, _) => key -> conf.getOption(key) }
    lowered.foreach { case (key, value) => conf.set(key, value) }
    isLowered = true
  }

  private def restore(): Unit = synchronized {
    usersValues.foreach { case (key, value) => value.fold(conf.remove(key))(conf.set(key, _)) }
    usersValues = Map.empty
  }

  private var failures = 0 // in a row; after `MostFailures` no hosts are named, as the executors themselves must be asked for
  private var asked: Option[(AnyRef, Map[String, Int])] = None // the application master that was asked last, and the hosts

  /** One look at what is to be asked for, with the hosts that are wanted now: the milliseconds until the next look. */
  def follow(wanted: Seq[String]): Long = {
    failures = FailOpen.otherwise("request of executors on hosts", failures + 1) {
      val hosts = if (failures < MostFailures) wanted else Nil
      if (isDynamic) yarn.prefer(counts(hosts)) else ask(hosts)
      0
    }
    if (isLowered && asked.isEmpty) FirstLookMs else LookMs
  }

  /** Asks a new application master for all executors, if it has read the number 0. Asks a known one when the wanted hosts have changed. */
  private def ask(hosts: Seq[String]): Unit = for (master <- yarn.master) {
    val byHost = counts(hosts.take(total))
    val isNew = !asked.exists(_._1 eq master)
    if (isNew) restore()
    if (isNew && isLowered) askInSteps(hosts)
    else if (!isNew && byHost.nonEmpty && !asked.exists(_._2 == byHost))
      // A master that has asked for executors by itself has no number from this driver.
      for (number <- yarn.requested.orElse(Option.when(!isLowered)(total)) if !isOver()) yarn.request(number, byHost)
    asked = Some(master -> (if (isNew && !isLowered) Map.empty else byHost))
  }

  /**
   * Each request for a container names all hosts that lack one, so YARN may put two on one host. So each step names few hosts. Between two
   * steps YARN has time to answer: a new request beside one that is answered, and whose answer has not arrived, asks for one container too
   * many. The first step is sent twice, as Spark forgets a request that comes while the application master registers; it is sent a moment
   * after that, as the application master misses a request that comes while it speaks with YARN for the first time.
   */
  private def askInSteps(hosts: Seq[String]): Unit = {
    val steps = YarnRequests.steps(total, hosts)
    TimeUnit.MILLISECONDS.sleep(SlackMs)
    yarn.request(steps.head._1, steps.head._2)
    steps.foreach { case (number, byHost) =>
      if (!isOver()) {
        yarn.request(number, byHost)
        awaitAnswer(stepMs, isOver())(yarn.request(number, byHost))
      }
    }
    // It asks for no other executor. One that is lost is asked for by it.
    if (hosts.nonEmpty && !isOver()) yarn.request(total, counts(hosts.take(total)))
  }

}

private object YarnRequests {
  private val Instances = "spark.executor.instances"
  private val Listeners = "spark.extraListeners"
  private val FailureLimits = Seq("spark.executor.maxNumFailures", "spark.yarn.max.executor.failures")
  private val LeastFailures = 3
  private val FirstInterval = "spark.yarn.scheduler.initial-allocation.interval"
  private val UsualIntervalMs = 200L // Spark's default
  private val ClientIntervalMs = 50L
  private val FirstLookMs = 50L
  private val LookMs = 1000L
  private val SlackMs = 150L
  private val LongestStepMs = 1000L
  private val SlowAnswerMs = 50L
  private val MostPauses = 3
  private val MostSteps = 4
  private val MostFailures = 3

  /**
   * Requests that follow each other: a number of executors in all, and how many of them on which host. A host of an earlier step has 0: it is
   * not named again, and what was asked for there stays.
   */
  def steps(total: Int, hosts: Seq[String]): Seq[(Int, Map[String, Int])] = {
    val wanted = counts(hosts.take(total))
    val inOrder = hosts.filter(wanted.contains).distinct
    val size = math.max(1, math.ceil(inOrder.size / MostSteps.toDouble).toInt)
    val groups = inOrder.grouped(size).toSeq
    val inSteps = groups.indices.map { step =>
      val before = groups.take(step).flatten
      (before ++ groups(step)).map(wanted).sum -> (before.map(_ -> 0) ++ groups(step).map(host => host -> wanted(host))).toMap
    }
    inSteps.dropRight(1) :+ (total -> inSteps.lastOption.fold(Map.empty[String, Int])(_._2))
  }

  /**
   * Gives YARN the time to answer a request. An application master that is slow, as it has just started, may still be at work on it then.
   * It takes `again`, the same request, only when it has sent the first one: if that takes a while, YARN gets its time from then on.
   * Returns how often it paused.
   */
  def awaitAnswer(pauseMs: Long, isOver: => Boolean)(again: => Unit): Int = {
    var pauses = 0
    var isSent = false
    while (!isSent && pauses < MostPauses && !isOver) {
      TimeUnit.MILLISECONDS.sleep(pauseMs)
      val began = System.nanoTime()
      again
      isSent = System.nanoTime() - began < TimeUnit.MILLISECONDS.toNanos(SlowAnswerMs)
      pauses += 1
    }
    pauses
  }

  private def counts(hosts: Seq[String]): Map[String, Int] = hosts.groupMapReduce(identity)(_ => 1)(_ + _)
}
