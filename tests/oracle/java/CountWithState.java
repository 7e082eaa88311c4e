import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.GroupState;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Tuple2;

/** Counts rows per key with flatMapGroupsWithState, which Python does not offer. */
public final class CountWithState implements Serializable {
  private CountWithState() {}

  public static Dataset<Row> count(Dataset<Row> rows) {
    MapFunction<Row, String> key = row -> row.getAs("key");
    FlatMapGroupsWithStateFunction<String, Row, Long, Tuple2<String, Long>> update = CountWithState::update;
    return rows.groupByKey(key, Encoders.STRING())
        .flatMapGroupsWithState(
            update,
            OutputMode.Update(),
            Encoders.LONG(),
            Encoders.tuple(Encoders.STRING(), Encoders.LONG()),
            GroupStateTimeout.NoTimeout())
        .toDF("key", "count");
  }

  private static Iterator<Tuple2<String, Long>> update(String key, Iterator<Row> rows, GroupState<Long> state) {
    long count = state.exists() ? state.get() : 0L;
    for (; rows.hasNext(); rows.next()) {
      count++;
    }
    state.update(count);
    return List.of(new Tuple2<>(key, count)).iterator();
  }
}
