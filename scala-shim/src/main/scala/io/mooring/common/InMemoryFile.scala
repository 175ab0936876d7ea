package io.mooring.common

import java.io.ByteArrayInputStream

import org.apache.hadoop.fs.FSInputStream

/** A small file in memory, as an input stream of Hadoop. Used by one thread. */
private[mooring] final class InMemoryFile(bytes: Array[Byte]) extends FSInputStream {
  private val in = new ByteArrayInputStream(bytes)
  override def seek(position: Long): Unit = {
    in.reset()
    in.skip(position)
    ()
  }
  override def getPos: Long = bytes.length - in.available()
  override def seekToNewSource(target: Long): Boolean = false
  override def read(): Int = in.read()
  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = in.read(buffer, offset, length)
}
