import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;

/**
 * The Java clients of all situations, in this process; told by lines of stdin whose words are separated by tabs.
 *
 * <p>java|streams ID KEY=VALUE...: keys that begin with "x." are fields of a Spec (row.py), the rest are the client's
 * settings. close ID. A line of stdout is "ID CODE" of a client that ended: 0 was told to, 3 by poison, 1 failed.
 */
public class SituationClients {
    private static final Map<String, Client> LIVING = new ConcurrentHashMap<>();
    private static final Duration POLL = Duration.ofMillis(500);
    private static final PrintStream ANSWERS = System.out;

    public static void main(String[] none) {
        System.setOut(System.err); // what libraries print is no answer
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            if (!isPoison(error)) {
                error.printStackTrace();
            }
        });
        try (var lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                String[] line = lines.nextLine().split("\t");
                if (line[0].equals("close")) {
                    var client = LIVING.get(line[1]);
                    if (client != null) {
                        client.close();
                    }
                } else {
                    start(line[0], line[1], Arrays.copyOfRange(line, 2, line.length));
                }
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void start(String kind, String id, String[] words) {
        var spec = new Properties();
        var settings = new Properties();
        for (String word : words) {
            String[] pair = word.split("=", 2);
            (pair[0].startsWith("x.") ? spec : settings).put(pair[0].replaceFirst("^x\\.", ""), pair[1]);
        }
        try {
            var log = new Log(spec.getProperty("log"));
            Client client = kind.equals("streams")
                ? new Streams(id, spec, settings, log) : new Consumer(id, spec, settings, log);
            LIVING.put(id, client);
            client.start();
        } catch (Exception error) {
            error.printStackTrace();
            ended(id, 1);
        }
    }

    private static synchronized void ended(String id, int code) {
        LIVING.remove(id);
        ANSWERS.println(id + " " + code);
        ANSWERS.flush();
    }

    private interface Client {
        void start();

        /** Asks it to end; it says by itself when it did. */
        void close();
    }

    /** A record that cannot be processed. */
    private static class Poison extends RuntimeException {}

    private static boolean isPoison(Throwable error) {
        return error instanceof Poison || error != null && isPoison(error.getCause());
    }

    /** What a member did, by lines (Spec). */
    private static class Log {
        private final PrintWriter file;

        Log(String path) throws IOException {
            file = new PrintWriter(new FileWriter(path, true), true);
            say("S " + ProcessHandle.current().pid());
        }

        synchronized void say(String what) {
            file.println(System.currentTimeMillis() + " " + what);
        }

        void places(String kind, Collection<TopicPartition> places) {
            say(places.stream().map(Log::name).collect(Collectors.joining(" ", kind + " ", "")));
        }

        static String name(TopicPartition place) {
            return place.topic() + ":" + place.partition();
        }

        /** One try of a record. */
        void tryOut(String topic, int partition, long offset, byte[] value, long workMs) {
            sleep(workMs);
            boolean bad = "poison".equals(new String(value));
            say((bad ? "F " : "P ") + topic + ":" + partition + " " + offset);
            if (bad) {
                throw new Poison();
            }
        }
    }

    private static void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A consumer and its habits, as member.py has them. */
    private static class Consumer implements Client, ConsumerRebalanceListener {
        private final String id;
        private final Log log;
        private final String commit;
        private final String bad;
        private final long backOffMs;
        private final long everyMs;
        private final long workMs;
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> reached = new HashMap<>();
        private long committedMs = System.currentTimeMillis();
        private volatile boolean over;

        Consumer(String id, Properties spec, Properties settings, Log log) {
            this.id = id;
            this.log = log;
            String[] habit = spec.getProperty("commit").split(":");
            String[] way = spec.getProperty("bad").split(":");
            commit = habit[0];
            everyMs = commit.equals("timer") ? 1000 * Long.parseLong(habit[1]) : 0;
            bad = way[0];
            backOffMs = way.length > 1 ? 1000 * Long.parseLong(way[1]) : 500;
            workMs = Long.parseLong(spec.getProperty("work_ms"));
            settings.put("enable.auto.commit", String.valueOf(commit.equals("auto")));
            var bytes = new ByteArrayDeserializer();
            consumer = new KafkaConsumer<>(settings, bytes, bytes);
            var topics = List.of(spec.getProperty("topics").split(","));
            String all = topics.stream().map(Pattern::quote).collect(Collectors.joining("|"));
            switch (spec.getProperty("subscribe")) {
                case "assign" -> consumer.assign(topics.stream().flatMap(topic -> consumer.partitionsFor(topic).stream())
                    .map(info -> new TopicPartition(info.topic(), info.partition())).toList());
                case "pattern" -> {
                    if ("consumer".equals(settings.getProperty("group.protocol"))) {
                        consumer.subscribe(new SubscriptionPattern(all), this);
                    } else {
                        consumer.subscribe(Pattern.compile(all), this);
                    }
                }
                default -> consumer.subscribe(topics, this);
            }
            if (!consumer.assignment().isEmpty()) {
                log.places("A", consumer.assignment());
            }
        }

        @Override
        public void start() {
            new Thread(this::run, id).start();
        }

        @Override
        public void close() {
            over = true;
            consumer.wakeup();
        }

        private void run() {
            int code = 0;
            try (consumer) {
                try {
                    while (!over) {
                        poll();
                    }
                } catch (WakeupException error) { // it is told to close
                }
                commitReached();
            } catch (Poison error) {
                code = 3;
            } catch (Throwable error) {
                error.printStackTrace();
                code = 1;
            }
            log.say("X " + (code == 0 ? "closed" : code == 3 ? "thrown" : "failed"));
            ended(id, code);
        }

        private void poll() {
            var records = consumer.poll(POLL);
            var open = new HashMap<TopicPartition, Long>();
            for (var record : records) {
                open.putIfAbsent(new TopicPartition(record.topic(), record.partition()), record.offset());
            }
            for (var record : records) {
                var place = new TopicPartition(record.topic(), record.partition());
                try {
                    log.tryOut(record.topic(), record.partition(), record.offset(), record.value(), workMs);
                } catch (Poison error) {
                    meet(place, record, open, error);
                    break;
                }
                open.put(place, record.offset() + 1);
                reached.put(place, new OffsetAndMetadata(record.offset() + 1));
                if (commit.equals("each")) {
                    commitReached();
                }
                if (over) {
                    return;
                }
            }
            if (commit.equals("batch")
                || commit.equals("timer") && System.currentTimeMillis() - committedMs >= everyMs) {
                commitReached();
            }
        }

        /** What it does about a record that it cannot process; what it has polled after that is read again. */
        private void meet(
            TopicPartition place, ConsumerRecord<byte[], byte[]> record, Map<TopicPartition, Long> open, Poison error) {
            switch (bad) {
                case "throw" -> throw error;
                case "none" -> throw new IllegalStateException("poison that no row means", error);
                default -> { }
            }
            open.forEach(consumer::seek);
            if (bad.equals("pause")) {
                consumer.pause(List.of(place));
            } else {
                sleep(backOffMs);
            }
        }

        private void commitReached() {
            committedMs = System.currentTimeMillis();
            if (reached.isEmpty() || commit.equals("auto") || commit.equals("none")) {
                return;
            }
            var offsets = Map.copyOf(reached);
            reached.clear();
            try {
                consumer.commitSync(offsets);
            } catch (WakeupException error) {
                consumer.commitSync(offsets);
            } catch (KafkaException error) { // a rebalance came between
                log.say("E " + error);
                return;
            }
            log.say(offsets.entrySet().stream().map(each -> Log.name(each.getKey()) + "=" + each.getValue().offset())
                .collect(Collectors.joining(" ", "C ", "")));
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> places) {
            log.places("A", places);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> places) {
            commitReached();
            log.places("R", places);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> places) {
            reached.clear();
            log.places("R", places);
        }
    }

    /** An application that copies its first topic to its second, by way of a repartition topic. */
    private static class Streams implements Client {
        private final String id;
        private final Log log;
        private final KafkaStreams streams;

        Streams(String id, Properties spec, Properties settings, Log log) {
            this.id = id;
            this.log = log;
            String[] topics = spec.getProperty("topics").split(",");
            String[] way = spec.getProperty("bad").split(":");
            long workMs = Long.parseLong(spec.getProperty("work_ms"));
            settings.put("application.id", settings.remove("group.id"));
            settings.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
            settings.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
            settings.put("replication.factor", "1");
            settings.put("state.dir", spec.getProperty("log") + ".state");
            var builder = new StreamsBuilder();
            builder.<byte[], byte[]>stream(topics[0]).processValues(() -> new Tried(log, workMs))
                .selectKey((key, value) -> value).repartition().to(topics[1]);
            streams = new KafkaStreams(builder.build(), settings);
            var answer = way.length > 1 ? StreamThreadExceptionResponse.valueOf(way[1]) : null;
            streams.setUncaughtExceptionHandler(error -> {
                if (isPoison(error) && answer != null) {
                    return answer;
                }
                error.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                    boolean closed = now == KafkaStreams.State.NOT_RUNNING;
                    log.say("X " + (closed ? "closed" : "failed"));
                    ended(id, closed ? 0 : answer == null ? 1 : 3);
                }
            });
        }

        @Override
        public void start() {
            streams.start();
        }

        @Override
        public void close() {
            new Thread(streams::close).start();
        }
    }

    private static class Tried extends ContextualFixedKeyProcessor<byte[], byte[], byte[]> {
        private final Log log;
        private final long workMs;

        Tried(Log log, long workMs) {
            this.log = log;
            this.workMs = workMs;
        }

        @Override
        public void process(FixedKeyRecord<byte[], byte[]> record) {
            var from = context().recordMetadata().orElseThrow();
            log.tryOut(from.topic(), from.partition(), from.offset(), record.value(), workMs);
            context().forward(record);
        }
    }
}
