package io.mooring.allocation

/**
 * The hosts on which executors are wanted. Python decides them.
 *
 * @param hosts   one for each executor, the most important first; on Kubernetes a host is a node
 * @param at      on Kubernetes, living executors to their nodes
 * @param avoided no new executor should come to these hosts
 */
final case class HostsWanted(hosts: Seq[String], at: Map[String, String] = Map.empty, avoided: Set[String] = Set.empty)
