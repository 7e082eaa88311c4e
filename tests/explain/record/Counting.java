import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job that counts for as long as it is let. */
public class Counting {
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.fromSequence(0, Long.MAX_VALUE).map(number -> {
            Thread.sleep(10);
            return number + 1;
        }).returns(Long.class).sinkTo(new DiscardingSink<>());
        environment.execute("counting");
    }
}
