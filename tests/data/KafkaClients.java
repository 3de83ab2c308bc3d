import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Real Java clients, all in this process: BOOTSTRAP, then a command in each line of stdin.
 *
 * <p>consumer ID TOPICS KEY=VALUE...: TOPICS are a,b or java:PATTERN or re2j:PATTERN; it commits what it polled. With
 * poison=OFFSET it gets no further than that: it commits the same offset again each second.
 * share ID TOPICS KEY=VALUE...: with does=OFFSET:WHAT,... it writes "ID OFFSET xDELIVERIES" of each record, and accepts the
 * others; WHAT is RELEASE, REJECT, HOLD (it polls no more, and writes "ID holds"), or MS (it accepts after so long).
 * streams ID FROM,TO KEY=VALUE...: copies by way of a repartition topic; with
 * counts=NAME,... it counts too, in a store for each, which has a changelog. close ID.
 * A line of stdout is "ID ready", "ID closed", or "ID failed" and why. It ends with its stdin.
 */
public class KafkaClients {
    private static final Map<String, AutoCloseable> RUNNING = new ConcurrentHashMap<>();
    private static final Duration POLL = Duration.ofMillis(50);

    public static void main(String[] words) {
        try (var lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                String[] line = lines.nextLine().split(" ");
                try {
                    if (line[0].equals("close")) {
                        RUNNING.remove(line[1]).close();
                        say(line[1], "closed");
                    } else {
                        RUNNING.put(line[1], started(line, settings(words[0], line)));
                        say(line[1], "ready");
                    }
                } catch (Exception error) {
                    say(line[1], "failed " + error);
                }
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String id, String what) {
        System.out.println(id + " " + what);
        System.out.flush();
    }

    private static Properties settings(String bootstrap, String[] line) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (int at = 3; at < line.length; at++) {
            int equals = line[at].indexOf('=');
            settings.put(line[at].substring(0, equals), line[at].substring(equals + 1));
        }
        return settings;
    }

    private static AutoCloseable started(String[] line, Properties settings) {
        return switch (line[0]) {
            case "consumer" -> polling(line[1], () -> consumer(line[2], settings));
            case "share" -> polling(line[1], () -> share(line[1], line[2], settings));
            case "streams" -> streams(line[1], line[2].split(","), settings);
            default -> throw new IllegalArgumentException(line[0]);
        };
    }

    /** A client with its polls. */
    private record Polled(Runnable poll, Runnable close) {}

    private interface Made {
        Polled client();
    }

    private static AutoCloseable polling(String id, Made made) {
        var going = new AtomicBoolean(true);
        var thread = new Thread(() -> {
            try {
                Polled client = made.client();
                while (going.get()) {
                    client.poll().run();
                }
                client.close().run();
            } catch (Throwable error) {
                say(id, "failed " + error);
            }
        });
        thread.start();
        return () -> {
            going.set(false);
            thread.join();
        };
    }

    private static Polled consumer(String topics, Properties settings) {
        var poison = (String) settings.remove("poison");
        settings.putIfAbsent("enable.auto.commit", "false");
        settings.putIfAbsent("auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        var consumer = new KafkaConsumer<byte[], byte[]>(settings, bytes, bytes);
        if (topics.startsWith("java:")) {
            consumer.subscribe(Pattern.compile(topics.substring(5)));
        } else if (topics.startsWith("re2j:")) {
            consumer.subscribe(new SubscriptionPattern(topics.substring(5)));
        } else {
            consumer.subscribe(List.of(topics.split(",")));
        }
        if (poison != null) {
            return new Polled(() -> stuckAt(consumer, Long.parseLong(poison)), consumer::close);
        }
        return new Polled(() -> {
            if (!consumer.poll(POLL).isEmpty()) {
                consumer.commitSync();
            }
        }, consumer::close);
    }

    private static void stuckAt(KafkaConsumer<byte[], byte[]> consumer, long offset) {
        consumer.poll(Duration.ofSeconds(1));
        for (var place : consumer.assignment()) {
            consumer.seek(place, offset);
            consumer.commitSync(Map.of(place, new OffsetAndMetadata(offset)));
        }
    }

    private static Polled share(String id, String topics, Properties settings) {
        var does = (String) settings.remove("does");
        if (does != null) {
            settings.put("share.acknowledgement.mode", "explicit");
        }
        var bytes = new ByteArrayDeserializer();
        var consumer = new KafkaShareConsumer<byte[], byte[]>(settings, bytes, bytes);
        consumer.subscribe(List.of(topics.split(",")));
        if (does == null) {
            return new Polled(() -> consumer.poll(POLL), consumer::close);
        }
        Map<String, String> deeds = Arrays.stream(does.split(","))
            .map(each -> each.split(":")).collect(Collectors.toMap(each -> each[0], each -> each[1]));
        var holds = new AtomicBoolean();
        return new Polled(() -> {
            if (holds.get()) {
                sleep(POLL.toMillis());
                return;
            }
            for (var record : consumer.poll(POLL)) {
                say(id, record.offset() + " x" + record.deliveryCount().orElseThrow());
                String deed = deeds.getOrDefault("" + record.offset(), "ACCEPT");
                if (deed.equals("HOLD")) {
                    holds.set(true);
                    continue;
                }
                boolean slow = Character.isDigit(deed.charAt(0));
                if (slow) {
                    sleep(Long.parseLong(deed));
                }
                consumer.acknowledge(record, slow ? AcknowledgeType.ACCEPT : AcknowledgeType.valueOf(deed));
            }
            consumer.commitSync();
            if (holds.get()) {
                say(id, "holds");
            }
        }, consumer::close);
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static AutoCloseable streams(String id, String[] topics, Properties settings) {
        settings.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        settings.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        settings.putIfAbsent("commit.interval.ms", "200");
        settings.put("replication.factor", "1");
        var counts = (String) settings.remove("counts");
        var builder = new StreamsBuilder();
        var copied = builder.<byte[], byte[]>stream(topics[0]).selectKey((key, value) -> value).repartition();
        copied.to(topics[1]);
        for (String store : counts == null ? new String[0] : counts.split(",")) {
            copied.groupByKey().count(Materialized.as(Stores.inMemoryKeyValueStore(store)));  // RocksDB is not there
        }
        var streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            say(id, "failed " + error);
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
                .SHUTDOWN_CLIENT;
        });
        streams.start();
        return streams;
    }
}
