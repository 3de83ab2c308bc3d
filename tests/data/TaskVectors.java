// Writes tests/data/tasks.jsonl: which tasks Kafka 4.4.0 gives to the instances of Streams applications, step by step, as
// instances come and go. Kafka's own classes: the broker's StickyTaskAssignor, each time from the tasks of the step before
// and from the offsets of a task that a member reports, and the clients' HighAvailabilityTaskAssignor, every state being
// there. After them, the bytes that classic applications exchange, in all their versions. No test runs this.
//
//   jars=$(find ~/.cache/kgroup/sandbox/kafka-4.4.0 -name '*.jar' | paste -sd:)   (as `kgroup sandbox up` and the tests got them)
//   java -cp "$jars" tests/data/TaskVectors.java > tests/data/tasks.jsonl

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.AssignmentInfo;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.SubscriptionInfo;
import org.apache.kafka.streams.state.HostInfo;

public class TaskVectors {
    static final ObjectMapper JSON = new ObjectMapper();

    record Topology(Map<String, Integer> sizes, Set<String> stateful) implements TopologyDescriber {
        public List<String> subtopologies() {
            return List.copyOf(sizes.keySet());
        }

        public int maxNumInputPartitions(String subtopology) {
            return sizes.get(subtopology);
        }

        public boolean isStateful(String subtopology) {
            return stateful.contains(subtopology);
        }
    }

    /** A process with the ids of its members. */
    record Instance(UUID id, List<String> members) { }

    public static void main(String[] args) throws Exception {
        for (int seed = 0; seed < 30; seed++)
            System.out.println(JSON.writeValueAsString(chain(new Random(seed))));
        for (int version = 1; version <= 11; version++)
            System.out.println(JSON.writeValueAsString(userData(version)));
    }

    /** What a thread of a classic application writes into the group protocol, and what its leader gives it. */
    static ObjectNode userData(int version) {
        UUID process = new UUID(0x0123456789abcdefL, 0xfedcba9876543210L);
        Map<TaskId, Long> offsets = new LinkedHashMap<>();
        offsets.put(new TaskId(1, 0), -2L);
        offsets.put(new TaskId(2, 3), 17L);
        Map<TaskId, Set<TopicPartition>> standby = Map.of(new TaskId(1, 2), Set.of(new TopicPartition("orders", 2)));
        Map<HostInfo, Set<TopicPartition>> hosts =
            Map.of(new HostInfo("h", 1), Set.of(new TopicPartition("orders", 0)));
        ObjectNode line = JSON.createObjectNode();
        line.put("version", version);
        line.put("subscription", hex(new SubscriptionInfo(version, version < 3 ? -1 : 11, new ProcessId(process), "h:1",
            offsets, (byte) 5, 0, version < 11 ? Map.of() : Map.of("zone", "a")).encode()));
        line.put("assignment", hex(new AssignmentInfo(version, List.of(new TaskId(0, 0), new TaskId(0, 0), new TaskId(1, 1)),
            standby, hosts, hosts, 0).encode()));
        return line;
    }

    static String hex(ByteBuffer bytes) {
        byte[] all = new byte[bytes.remaining()];
        bytes.duplicate().get(all);
        return HexFormat.of().formatHex(all);
    }

    static ObjectNode chain(Random random) {
        Map<String, Integer> sizes = new TreeMap<>();
        Set<String> stateful = new TreeSet<>();
        for (int subtopology = 0, all = 1 + random.nextInt(3); subtopology < all; subtopology++) {
            sizes.put(String.valueOf(subtopology), 1 + random.nextInt(12));
            if (random.nextInt(3) > 0)
                stateful.add(String.valueOf(subtopology));
        }
        int standbys = random.nextInt(3);
        Topology topology = new Topology(sizes, stateful);
        ObjectNode line = JSON.createObjectNode();
        ObjectNode counts = line.putObject("tasks");
        sizes.forEach(counts::put);
        ArrayNode names = line.putArray("stateful");
        stateful.forEach(names::add);
        line.put("standbys", standbys);
        ArrayNode steps = line.putArray("steps");
        List<Instance> there = new ArrayList<>();
        Map<String, MemberMetadataAndStateImpl> had = new HashMap<>();
        for (int step = 0; step < 6; step++) {
            if (there.size() < 2 || there.size() < 6 && random.nextInt(3) > 0) {
                Instance joins = new Instance(new UUID(random.nextLong(), random.nextLong()), new ArrayList<>());
                for (int member = 0, all = 1 + random.nextInt(3); member < all; member++)
                    joins.members.add(new UUID(random.nextLong(), random.nextLong()).toString());
                there.add(joins);
            } else {
                there.remove(random.nextInt(there.size()));
            }
            ObjectNode found = steps.addObject();
            had = byBroker(random, there, had, topology, standbys, found);
            byClients(there, topology, standbys, found.putObject("clients"));
        }
        return line;
    }

    static Map<String, MemberMetadataAndStateImpl> byBroker(Random random, List<Instance> there,
            Map<String, MemberMetadataAndStateImpl> had, Topology topology, int standbys, ObjectNode found) {
        ObjectNode reported = found.putObject("offsets");
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        for (Instance instance : there)
            for (String id : instance.members) {
                MemberMetadataAndStateImpl before = had.get(id);
                Map<String, Set<Integer>> active = before == null ? Map.of() : before.activeTasks();
                Map<String, Set<Integer>> standby = before == null ? Map.of() : before.standbyTasks();
                Map<String, Map<Integer, Long>> offsets = new TreeMap<>();
                if (!topology.stateful.isEmpty() && random.nextInt(4) == 0) {
                    List<String> stores = List.copyOf(topology.stateful);
                    String subtopology = stores.get(random.nextInt(stores.size()));
                    int partition = random.nextInt(topology.sizes.get(subtopology));
                    if (!active.getOrDefault(subtopology, Set.of()).contains(partition))
                        offsets.put(subtopology, Map.of(partition, (long) random.nextInt(1000)));
                }
                ObjectNode row = reported.putObject(id);
                offsets.forEach((name, each) -> each.forEach((number, offset) -> row.put(name + "_" + number, offset)));
                members.put(id, new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), instance.id.toString(),
                    Map.of(), active, standby, Map.of(), offsets, Map.of()));
            }
        GroupAssignment assigned = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, new AssignmentConfigsImpl(standbys, List.of())), topology);
        ObjectNode broker = found.putObject("broker");
        Map<String, MemberMetadataAndStateImpl> has = new HashMap<>();
        for (Instance instance : there) {
            ObjectNode process = broker.putObject(instance.id.toString());
            for (String id : instance.members) {
                var own = assigned.members().get(id);
                ObjectNode row = process.putObject(id);
                write(row.putArray("active"), own.activeTasks());
                write(row.putArray("standby"), own.standbyTasks());
                has.put(id, new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), instance.id.toString(),
                    Map.of(), own.activeTasks(), own.standbyTasks(), Map.of(), Map.of(), Map.of()));
            }
        }
        return has;
    }

    static void write(ArrayNode row, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((name, numbers) -> new TreeSet<>(numbers).forEach(number -> row.add(name + "_" + number)));
    }

    static void byClients(List<Instance> there, Topology topology, int standbys, ObjectNode found) {
        AssignmentConfigs configs = new AssignmentConfigs(Long.MAX_VALUE, 2, standbys, 600_000L, List.of());
        Set<TaskId> tasks = new TreeSet<>();
        Map<TaskId, Long> stateful = new LinkedHashMap<>();
        topology.sizes.forEach((name, size) -> {
            for (int partition = 0; partition < size; partition++) {
                TaskId task = new TaskId(Integer.parseInt(name), partition);
                tasks.add(task);
                if (topology.isStateful(name))
                    stateful.put(task, 0L);
            }
        });
        Map<ProcessId, ClientState> clients = new HashMap<>();
        for (Instance instance : there) {
            ProcessId process = new ProcessId(instance.id);
            clients.put(process, new ClientState(Set.of(), Set.of(), stateful, Map.of(), instance.members.size(), process));
        }
        RackAwareTaskAssignor noRacks = new RackAwareTaskAssignor(null, Map.of(), Map.of(), Map.of(), Map.of(), null, configs,
            Time.SYSTEM);
        new HighAvailabilityTaskAssignor().assign(clients, tasks, stateful.keySet(), noRacks, configs);
        clients.forEach((process, state) -> {
            ObjectNode row = found.putObject(process.toString());
            ArrayNode active = row.putArray("active"), standby = row.putArray("standby");
            new TreeSet<>(state.activeTasks()).forEach(task -> active.add(task.toString()));
            new TreeSet<>(state.standbyTasks()).forEach(task -> standby.add(task.toString()));
        });
    }
}
