import org.apache.spark.sql.api.java.UDF1

/** A function of a user's own jar: it returns what it gets. */
class Same extends UDF1[java.lang.Long, java.lang.Long] {
  override def call(value: java.lang.Long): java.lang.Long = value
}
