// Writes tests/data/targets.jsonl: what the coordinator of Kafka 4.4.0 assigns to a consumer group, step by step, where
// the ids of its topics share a bucket of a java.util.HashMap. It is Kafka's own ConsumerGroup, TargetAssignmentBuilder and
// UniformAssignor; each step's records are replayed into the group, as the coordinator does. No test runs this.
//
//   jars=$(find ~/.cache/kgroup/sandbox/kafka-4.4.0/jars -name '*.jar' | paste -sd:)      (as `kgroup sandbox up` got them)
//   java -cp "$jars" tests/data/TargetVectors.java > tests/data/targets.jsonl

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.timeline.SnapshotRegistry;

public class TargetVectors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        for (int seed = 0; seed < 24; seed++)
            System.out.println(JSON.writeValueAsString(chain(new Random(seed), 2 + seed % 2)));
    }

    static int bucket(Object key) {
        return (key.hashCode() ^ key.hashCode() >>> 16) & 15;
    }

    static ObjectNode chain(Random random, int topics) {
        Map<String, Uuid> ids = new LinkedHashMap<>();
        Map<String, Integer> counts = new TreeMap<>();
        while (ids.size() < topics) {
            Uuid id = new Uuid(random.nextLong(), random.nextLong());
            if (ids.isEmpty() || bucket(id) == bucket(ids.values().iterator().next())) {
                String name;
                do {  // names in buckets of their own: in which order a client gave them, nobody else can see
                    name = "t-" + Integer.toString(random.nextInt(1 << 20), 36);
                } while (sharesOne(ids.keySet(), name));
                ids.put(name, id);
                counts.put(name, 3 + random.nextInt(8));
            }
        }
        ObjectNode line = JSON.createObjectNode();
        ObjectNode named = line.putObject("topics");
        ids.forEach((name, id) -> named.put(name, String.format("%016x%016x",
            id.getMostSignificantBits(), id.getLeastSignificantBits())));
        ArrayNode steps = line.putArray("steps");
        ConsumerGroup group = new ConsumerGroup(new LogContext(), new SnapshotRegistry(new LogContext()), "svc");
        List<String> there = new ArrayList<>();
        for (int step = 1; step <= 10; step++) {
            int dice = random.nextInt(4);
            ConsumerGroupMember joins = null;
            if (there.isEmpty() || dice < 2 && there.size() < 8) {
                String id;
                do {  // in a bucket of its own, so that the order in which members came is no matter
                    id = new UUID(random.nextLong(), random.nextLong()).toString();
                } while (sharesOne(there, id));
                there.add(id);
                joins = new ConsumerGroupMember.Builder(id).setSubscribedTopicNames(List.copyOf(ids.keySet())).build();
            } else if (dice < 3 && there.size() > 1) {
                String gone = there.remove(random.nextInt(there.size()));
                group.removeMember(gone);
                group.removeTargetAssignment(gone);
            } else {
                List<String> names = List.copyOf(counts.keySet());
                counts.merge(names.get(random.nextInt(names.size())), 1 + random.nextInt(3), Integer::sum);
            }
            assign(group, step, joins, ids, counts);
            ObjectNode found = steps.addObject();
            ObjectNode sizes = found.putObject("partitions");
            counts.forEach(sizes::put);
            ObjectNode members = found.putObject("members");
            for (String member : there) {
                ObjectNode owned = members.putObject(member);
                ids.forEach((name, id) -> {
                    Set<Integer> numbers = group.targetAssignment(member).partitions().getOrDefault(id, Set.of());
                    ArrayNode list = owned.putArray(name);
                    new TreeSet<>(numbers).forEach(list::add);
                });
            }
        }
        return line;
    }

    static boolean sharesOne(Collection<String> there, String id) {
        return there.stream().anyMatch(other -> bucket(other) == bucket(id));
    }

    static void assign(ConsumerGroup group, int epoch, ConsumerGroupMember joins, Map<String, Uuid> ids,
                       Map<String, Integer> counts) {
        MetadataDelta delta = new MetadataDelta.Builder().build();
        ids.forEach((name, id) -> {
            delta.replay(new TopicRecord().setName(name).setTopicId(id));
            for (int partition = 0; partition < counts.get(name); partition++)
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition).setReplicas(List.of(1))
                    .setIsr(List.of(1)).setLeader(1));
        });
        if (joins != null)
            group.updateMember(joins);
        List<CoordinatorRecord> records = new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder(
            "svc", epoch, new UniformAssignor())
            .withTime(Time.SYSTEM)
            .withMembers(group.members())
            .withSubscriptionType(group.subscriptionType())
            .withTargetAssignment(group.targetAssignment())
            .withInvertedTargetAssignment(group.invertedTargetAssignment())
            .withMetadataImage(new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY)))
            .withResolvedRegularExpressions(Map.of())
            .build().records();
        for (CoordinatorRecord record : records)
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key)
                group.updateTargetAssignment(key.memberId(), Assignment.fromRecord(
                    (ConsumerGroupTargetAssignmentMemberValue) record.value().message()));
    }
}
