package io.mooring.common

import java.util.{LinkedHashMap, Map => JMap}

/**
 * A map that keeps the `most` entries that were used last, for a JVM that runs for months, in which no event tells that an entry is not
 * needed any more. Safe for several threads.
 */
final class LastUsed[K, V](most: Int) {
  private val entries = new LinkedHashMap[K, V](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > most
  }

  def get(key: K): Option[V] = synchronized(Option(entries.get(key)))

  def put(key: K, value: V): Unit = synchronized { entries.put(key, value); () }

  def getOrMake(key: K)(make: => V): V = synchronized(entries.computeIfAbsent(key, _ => make))
}

object LastUsed {
  /** Far more state stores than one executor has open at once. */
  val Stores = 10000

  /** Far more queries than one application runs at once. */
  val Queries = 10000
}
