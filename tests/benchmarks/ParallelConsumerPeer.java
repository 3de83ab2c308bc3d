import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** BOOTSTRAP TOPIC ORDER CONCURRENCY RECORDS: prints the seconds from the first record to the last. */
public class ParallelConsumerPeer {
    public static void main(String[] words) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", UUID.randomUUID().toString());
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        var options = ParallelConsumerOptions.<byte[], byte[]>builder().ordering(ProcessingOrder.valueOf(words[2]))
            .maxConcurrency(Integer.parseInt(words[3])).consumer(new KafkaConsumer<byte[], byte[]>(settings)).build();
        var processor = ParallelStreamProcessor.<byte[], byte[]>createEosStreamProcessor(options);
        var left = new CountDownLatch(Integer.parseInt(words[4]));
        var began = new AtomicLong();
        processor.subscribe(List.of(words[1]));
        processor.poll(context -> {
            began.compareAndSet(0, System.nanoTime());
            try {
                Thread.sleep(context.offset() * 7919 % 6);  // as tests/benchmarks/sleeping.py
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
            left.countDown();
        });
        left.await();
        System.out.println((System.nanoTime() - began.get()) / 1e9);
        System.exit(0);
    }
}
