import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Counts until it is cancelled, or fails after the given number of records. */
public class Counting {
    public static void main(String[] arguments) throws Exception {
        long failsAfter = arguments.length > 0 ? Long.parseLong(arguments[0]) : Long.MAX_VALUE;
        long[] counted = {0};
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.fromSequence(0, Long.MAX_VALUE).map(number -> {
            Thread.sleep(10);
            counted[0] += 1;
            if (counted[0] >= failsAfter) {
                throw new IllegalStateException("it was told to fail here");
            }
            return number + 1;
        }).returns(Long.class).sinkTo(new DiscardingSink<>());
        environment.execute("counting");
    }
}
