package io.mooring.allocation

import io.mooring.common.{Daemon, FailOpen, Location, Log, Names, SettingsTable}
import io.mooring.election.LeadershipLostException
import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.cluster.k8s.shims.ExecutorPodsShim
import org.apache.spark.scheduler.shims.AllocationShim
import org.apache.spark.shims.Capability

/**
 * Has the cluster manager asked for executors on the hosts that have the state: YARN by `YarnRequests`, Kubernetes by `ExecutorPods`.
 * Elsewhere it does nothing. It keeps the wanted hosts in a file for the next start.
 *
 * The thread that makes the SparkContext calls `begin` and `listenersStart`; any thread calls `want`. Depends on `AllocationShim`, on YARN on
 * `Capability.ExecutorsOnHosts`, and on Kubernetes on `Capability.PlacesOfPods`.
 */
final class ExecutorRequests(context: SparkContext, conf: SparkConf, settings: SettingsTable) {
  import ExecutorRequests._

  private val placing = settings.isOn("spark.mooring.host.affinity.enabled")
  private val isOn = placing && settings.isOn("spark.mooring.executor.allocation.enabled")
  private val isDynamic = AllocationShim.isDynamic(conf)
  private val file = new WantedHosts(conf, context.hadoopConfiguration, settings.text("spark.mooring.metadata"))

  /** How many executors the user wants; 0 where Spark changes the number, or where it is not known. */
  val total: Int = if (isDynamic) 0 else AllocationShim.executors(context, conf)

  private val yarn = for (shim <- AllocationShim.yarn(context) if isOn && Capability.ExecutorsOnHosts.isOn && (total > 0 || isDynamic))
    yield new YarnRequests(shim, conf, total, isDynamic, () => isOver)

  private val runsInPods = context.master.startsWith("k8s:")
  private val places =
    Option.when(isOn && runsInPods && Capability.PlacesOfPods.isOn)(new PodPlaces(total, () => ExecutorPodsShim.living(context)))
  private val choosesNodes = places.nonEmpty && Location.hasNode(settings.text(Location.Key))

  /** What is added to the pods of executors; None where the cluster manager is not Kubernetes. */
  val pods: Option[ExecutorPods] = Option.when(placing && runsInPods)(new ExecutorPods(conf, settings, places))

  @volatile private var wanted = Seq.empty[String]
  @volatile private var isStopping = false
  private var threads = Seq.empty[Thread]
  private val changed = new Object

  /** The hosts on which executors are asked for at the start; empty where the cluster manager chooses. */
  def hostsAtStart: Seq[String] = atStart
  @volatile private var atStart = Seq.empty[String]

  /** Before Spark makes its scheduler. */
  def begin(): Unit = {
    if (pods.nonEmpty) {
      val steps = conf.getOption(PodSteps).toSeq.flatMap(_.split(',')).map(_.trim).filterNot(Set("", Names.ExecutorPodStep))
      conf.set(PodSteps, (steps :+ Names.ExecutorPodStep).mkString(",")) // last, as it changes what the steps before it have made
    }
    if (yarn.nonEmpty || choosesNodes) {
      wanted = hostsOfLastRun()
      places.foreach(_.want(HostsWanted(wanted)))
      val follows = yarn.map(requests => Daemon.start("mooring-executor-requests")(untilStopped(requests.follow(wanted))))
      threads = Daemon.start("mooring-wanted-hosts")(untilStopped(keepFile())) +: follows.toSeq
      if (choosesNodes || yarn.exists(_.begin(wanted))) atStart = if (isDynamic) wanted else wanted.take(total)
    }
  }

  /** Empty where there is no file, and where storage does not answer in time. */
  private def hostsOfLastRun(): Seq[String] = {
    @volatile var found: Option[Seq[String]] = None
    val reader = Daemon.start("mooring-wanted-hosts-read") {
      found = FailOpen.otherwise[Option[Seq[String]]]("read of the wanted hosts", Some(Nil))(file.read().orElse(Some(Nil)))
    }
    reader.join(LongestReadMs)
    if (found.isEmpty) {
      Log.warn(s"the file with the wanted hosts was not read within $LongestReadMs ms: executors are asked for on any hosts")
      reader.interrupt()
    }
    found.getOrElse(Nil)
  }

  /** Spark makes the listeners of the application: after the scheduler has started, and before it waits for executors. */
  def listenersStart(): Unit = yarn.foreach(_.listenersStart(wanted))

  /** The hosts are kept for the next start. */
  def want(hosts: HostsWanted): Unit = {
    places.foreach(_.want(hosts))
    if (hosts.hosts != wanted) {
      wanted = hosts.hosts
      changed.synchronized(changed.notifyAll())
    }
  }

  private def isOver = isStopping || context.isStopped

  /** Calls `look`, which returns the milliseconds until the next look; at once when other hosts are wanted. */
  private def untilStopped(look: => Long): Unit =
    try while (!isOver) {
      val hosts = wanted
      val pauseMs = look
      changed.synchronized(if (!isOver && wanted == hosts) changed.wait(pauseMs))
    } catch { case _: InterruptedException => } // the application ends

  private var kept: Option[Seq[String]] = None // in the file, since this application has begun

  /** A thread of its own: storage that does not answer must not hold up a request for executors. */
  private def keepFile(): Long = {
    val hosts = wanted
    val hasHosts = kept.contains(hosts) || (kept.isEmpty && hosts == atStart) || hosts.isEmpty
    if (!hasHosts && FailOpen.otherwise("note of the wanted hosts", false) { note(hosts); true }) kept = Some(hosts)
    if (hasHosts || kept.contains(hosts)) LookMs else WriteAgainMs
  }

  private def note(hosts: Seq[String]): Unit =
    try file.write(hosts)
    catch { case _: LeadershipLostException => } // for good: the driver that leads notes its own hosts

  def stop(): Unit = {
    isStopping = true
    changed.synchronized(changed.notifyAll())
    threads.foreach(_.join(StopMs))
    threads.foreach(_.interrupt()) // one may wait for an answer of the application master, or of storage
  }
}

private object ExecutorRequests {
  private val PodSteps = "spark.kubernetes.executor.pod.featureSteps"
  private val LongestReadMs = 2000L
  private val LookMs = 1000L
  private val WriteAgainMs = 60000L
  private val StopMs = 1000L
}
