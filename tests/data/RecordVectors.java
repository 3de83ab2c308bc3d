// Writes tests/cluster/records.jsonl: records of __consumer_offsets and embedded consumer protocol bytes as Kafka's
// own classes encode them, with what Kafka's own JSON converters read back from those bytes. No test runs this.
//
//   mvn dependency:get -Dartifact=org.apache.kafka:kafka-group-coordinator:4.4.0
//   jars=$(find ~/.m2 -name 'kafka-*-4.4.0.jar' -o -name 'jackson-*.jar' -o -name 'slf4j-api-*.jar' | paste -sd:)
//   java -cp "$jars" tests/data/RecordVectors.java > tests/data/records.jsonl

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ConsumerProtocolAssignment;
import org.apache.kafka.common.message.ConsumerProtocolAssignmentJsonConverter;
import org.apache.kafka.common.message.ConsumerProtocolSubscription;
import org.apache.kafka.common.message.ConsumerProtocolSubscriptionJsonConverter;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.generated.*;

public class RecordVectors {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    static final String PLAIN = "payments";
    static final String ACCENTS = "café-Zürich-naïve";
    static final String JAPANESE = "注文グループ";
    static final String EMOJI = "🦊-group-👩‍🚀";
    static final String CONTROL = "tab\tnl\nnul\u0000bell\u0007";
    static final Uuid ORDERS = Uuid.fromString("-_-_YmFyYmF6cXV4Kysv8A");
    static final Uuid DASHES = new Uuid(-1L, 0xfbf0_0000_0000_0001L);

    public static void main(String[] args) throws Exception {
        commits();
        classicGroups();
        consumerGroups();
        shareGroups();
        streamsGroups();
        protocol();
        for (String group : List.of("", PLAIN, ACCENTS, JAPANESE, EMOJI, CONTROL, "polygenelubricants", "a".repeat(300),
                "console-consumer-12345", "𝒢roup")) {
            ObjectNode line = line("partition", "partition of " + group.substring(0, Math.min(group.length(), 30)));
            line.put("group", group);
            line.put("of_50", Utils.abs(group.hashCode()) % 50);
            line.put("of_7", Utils.abs(group.hashCode()) % 7);
            OUT.println(JSON.writeValueAsString(line));
        }
    }

    static void commits() throws Exception {
        OffsetCommitKey key = new OffsetCommitKey().setGroup(PLAIN).setTopic("orders").setPartition(7);
        OffsetCommitValue value = new OffsetCommitValue().setOffset(4_611_686_018_427_387_904L).setLeaderEpoch(12)
            .setMetadata("consumed by é").setCommitTimestamp(1_767_225_600_123L).setExpireTimestamp(1_767_312_000_000L)
            .setTopicId(ORDERS);
        for (short version = 0; version <= 4; version++) record("commit", key, value, version);
        value.setLeaderEpoch(-1).setMetadata("").setExpireTimestamp(-1).setTopicId(Uuid.ZERO_UUID).setOffset(0);
        for (short version = 0; version <= 4; version++) record("commit without optional fields", key, value, version);
        for (int size : new int[] {126, 127, 128, 4096})
            for (short version = 3; version <= 4; version++)
                record("commit with metadata of " + size, key,
                    new OffsetCommitValue().setOffset(1).setMetadata("m".repeat(size)).setCommitTimestamp(2)
                        .setTopicId(DASHES), version);
        OffsetCommitValue tagged = new OffsetCommitValue().setOffset(5).setCommitTimestamp(6).setTopicId(DASHES);
        tagged.unknownTaggedFields().add(new RawTaggedField(9, new byte[] {1, 2, 3}));
        record("commit with an unknown tag", key, tagged, (short) 4);
        OffsetCommitValue onlyUnknown = new OffsetCommitValue().setOffset(5).setCommitTimestamp(6);
        onlyUnknown.unknownTaggedFields().add(new RawTaggedField(300, new byte[200]));
        record("commit with only an unknown tag", key, onlyUnknown, (short) 4);
        for (String group : List.of(ACCENTS, JAPANESE, EMOJI, CONTROL, "", "g".repeat(249)))
            record("commit of group " + group.length() + " long",
                new OffsetCommitKey().setGroup(group).setTopic("t-" + EMOJI).setPartition(2_147_483_647), value, (short) 4);
        record("commit tombstone", key, null, (short) 0);
        record("legacy commit", new LegacyOffsetCommitKey().setGroup(EMOJI).setTopic("orders").setPartition(0),
            new LegacyOffsetCommitValue().setOffset(99).setMetadata("old").setCommitTimestamp(1_400_000_000_000L), (short) 0);
        record("legacy commit tombstone",
            new LegacyOffsetCommitKey().setGroup(PLAIN).setTopic("orders").setPartition(0), null, (short) 0);
    }

    static void classicGroups() throws Exception {
        GroupMetadataKey key = new GroupMetadataKey().setGroup(JAPANESE);
        GroupMetadataValue value = new GroupMetadataValue().setProtocolType("consumer").setGeneration(42)
            .setProtocol("cooperative-sticky").setLeader("c-1").setCurrentStateTimestamp(1_767_225_600_000L)
            .setMembers(List.of(
                new GroupMetadataValue.MemberMetadata().setMemberId("c-1").setGroupInstanceId("pod-" + EMOJI)
                    .setClientId("c").setClientHost("/10.0.0.1").setRebalanceTimeout(300_000).setSessionTimeout(45_000)
                    .setSubscription(array(subscription((short) 3))).setAssignment(array(assignment((short) 3))),
                new GroupMetadataValue.MemberMetadata().setMemberId("c-2").setClientId("").setClientHost("/[::1]")
                    .setRebalanceTimeout(-1).setSessionTimeout(6_000)
                    .setSubscription(new byte[0]).setAssignment(new byte[0])));
        for (short version = 0; version <= 4; version++) record("classic group", key, value, version);
        GroupMetadataValue empty = new GroupMetadataValue().setProtocolType("").setGeneration(0).setProtocol(null)
            .setLeader(null).setCurrentStateTimestamp(-1).setMembers(List.of());
        for (short version = 0; version <= 4; version++) record("empty classic group", key, empty, version);
        GroupMetadataValue tagged = value.duplicate();
        tagged.unknownTaggedFields().add(new RawTaggedField(0, new byte[] {7}));
        tagged.members().get(0).unknownTaggedFields().add(new RawTaggedField(3, new byte[] {7, 7}));
        record("classic group with unknown tags", key, tagged, (short) 4);
        record("classic group tombstone", key, null, (short) 0);
    }

    static void consumerGroups() throws Exception {
        ConsumerGroupMetadataKey group = new ConsumerGroupMetadataKey().setGroupId(EMOJI);
        record("consumer group", group, new ConsumerGroupMetadataValue().setEpoch(17).setMetadataHash(-5L), (short) 0);
        record("consumer group of 4.0", group, new ConsumerGroupMetadataValue().setEpoch(17), (short) 0);
        ConsumerGroupMetadataValue tagged = new ConsumerGroupMetadataValue().setEpoch(18).setMetadataHash(1L << 62);
        tagged.unknownTaggedFields().add(new RawTaggedField(1, new byte[] {0}));
        record("consumer group with an unknown tag", group, tagged, (short) 0);
        record("consumer group tombstone", group, null, (short) 0);

        ConsumerGroupPartitionMetadataKey known = new ConsumerGroupPartitionMetadataKey().setGroupId(ACCENTS);
        record("partition metadata", known, new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
            new ConsumerGroupPartitionMetadataValue.TopicMetadata().setTopicId(ORDERS).setTopicName("orders")
                .setNumPartitions(2).setPartitionMetadata(List.of(
                    new ConsumerGroupPartitionMetadataValue.PartitionMetadata().setPartition(0).setRacks(List.of("a", "b")),
                    new ConsumerGroupPartitionMetadataValue.PartitionMetadata().setPartition(1).setRacks(List.of()))),
            new ConsumerGroupPartitionMetadataValue.TopicMetadata().setTopicId(DASHES).setTopicName("bare")
                .setNumPartitions(1).setPartitionMetadata(List.of()))), (short) 0);
        record("partition metadata tombstone", known, null, (short) 0);

        ConsumerGroupMemberMetadataKey member =
            new ConsumerGroupMemberMetadataKey().setGroupId(CONTROL).setMemberId("Lbg8X3pVTjqr5Yg-0_xEQA");
        ConsumerGroupMemberMetadataValue full = new ConsumerGroupMemberMetadataValue().setInstanceId("i-1")
            .setRackId("eu-1a").setClientId("c").setClientHost("/10.0.0.1").setSubscribedTopicNames(List.of("orders", EMOJI))
            .setSubscribedTopicRegex("ord.*").setRebalanceTimeoutMs(300_000).setServerAssignor("uniform");
        record("member", member, full, (short) 0);
        ConsumerGroupMemberMetadataValue bare = new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null)
            .setClientId("").setClientHost("").setSubscribedTopicNames(List.of()).setSubscribedTopicRegex(null)
            .setServerAssignor(null);
        record("member without optional fields", member, bare, (short) 0);
        ConsumerGroupMemberMetadataValue classic = full.duplicate().setClassicMemberMetadata(
            new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(45_000)
                .setSupportedProtocols(List.of(
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range")
                        .setMetadata(array(subscription((short) 3))),
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("").setMetadata(new byte[0]))));
        record("member in an online upgrade", member, classic, (short) 0);
        ConsumerGroupMemberMetadataValue unknown = classic.duplicate();
        unknown.unknownTaggedFields().add(new RawTaggedField(1, new byte[130]));
        unknown.classicMemberMetadata().unknownTaggedFields().add(new RawTaggedField(0, new byte[] {1}));
        unknown.classicMemberMetadata().supportedProtocols().get(0).unknownTaggedFields()
            .add(new RawTaggedField(5, new byte[0]));
        record("member with unknown tags", member, unknown, (short) 0);
        record("member tombstone", member, null, (short) 0);

        ConsumerGroupTargetAssignmentMetadataKey target =
            new ConsumerGroupTargetAssignmentMetadataKey().setGroupId(PLAIN);
        record("target epoch", target,
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(16).setAssignmentTimestamp(1_767_225_600_000L),
            (short) 0);
        record("target epoch before 4.3", target,
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(16), (short) 0);
        record("target epoch tombstone", target, null, (short) 0);

        ConsumerGroupTargetAssignmentMemberKey targetOf =
            new ConsumerGroupTargetAssignmentMemberKey().setGroupId(PLAIN).setMemberId("m-" + EMOJI);
        ConsumerGroupTargetAssignmentMemberValue targetValue = new ConsumerGroupTargetAssignmentMemberValue()
            .setTopicPartitions(List.of(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(ORDERS)
                    .setPartitions(List.of(0, 5, 1_000_000)),
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(DASHES).setPartitions(List.of())));
        record("target of a member", targetOf, targetValue, (short) 0);
        ConsumerGroupTargetAssignmentMemberValue targetTagged = targetValue.duplicate();
        targetTagged.topicPartitions().get(0).unknownTaggedFields().add(new RawTaggedField(2, new byte[] {9}));
        record("target of a member with unknown tags", targetOf, targetTagged, (short) 0);
        record("target of a member that has nothing", targetOf,
            new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of()), (short) 0);
        record("target of a member tombstone", targetOf, null, (short) 0);

        ConsumerGroupCurrentMemberAssignmentKey currentOf =
            new ConsumerGroupCurrentMemberAssignmentKey().setGroupId(PLAIN).setMemberId("m");
        for (byte state : new byte[] {0, 1, 2, 3, 127})
            record("current assignment in state " + state, currentOf, new ConsumerGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(17).setPreviousMemberEpoch(16).setState(state)
                .setAssignedPartitions(List.of(
                    new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ORDERS)
                        .setPartitions(List.of(0, 1)).setAssignmentEpochs(List.of(3, 17)),
                    new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(DASHES)
                        .setPartitions(List.of(9))))
                .setPartitionsPendingRevocation(List.of(
                    new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(DASHES)
                        .setPartitions(List.of(2)).setAssignmentEpochs(List.of()))), (short) 0);
        record("current assignment of a static member that left", currentOf,
            new ConsumerGroupCurrentMemberAssignmentValue().setMemberEpoch(-2).setPreviousMemberEpoch(-1)
                .setAssignedPartitions(List.of()).setPartitionsPendingRevocation(List.of()), (short) 0);
        record("current assignment tombstone", currentOf, null, (short) 0);

        ConsumerGroupRegularExpressionKey regex =
            new ConsumerGroupRegularExpressionKey().setGroupId(PLAIN).setRegularExpression("ord.*|é+");
        record("pattern", regex, new ConsumerGroupRegularExpressionValue().setTopics(List.of("orders", "été"))
            .setVersion(123_456_789_012L).setTimestamp(1_767_225_600_000L), (short) 0);
        record("pattern tombstone", regex, null, (short) 0);
    }

    static void shareGroups() throws Exception {
        ShareGroupMetadataKey group = new ShareGroupMetadataKey().setGroupId(PLAIN);
        ShareGroupMetadataValue epoch = new ShareGroupMetadataValue().setEpoch(5).setMetadataHash(-726891086472708240L);
        record("share group", group, epoch, (short) 0);
        ShareGroupMetadataValue tagged = epoch.duplicate().setMetadataHash(0);
        tagged.unknownTaggedFields().add(new RawTaggedField(0, new byte[] {7}));
        record("share group without topics, with an unknown tag", group, tagged, (short) 0);
        record("share group tombstone", group, null, (short) 0);

        ShareGroupMemberMetadataKey member = new ShareGroupMemberMetadataKey().setGroupId(EMOJI).setMemberId("m");
        record("share member", member, new ShareGroupMemberMetadataValue().setRackId("eu-1a").setClientId("c")
            .setClientHost("/10.0.0.1").setSubscribedTopicNames(List.of("orders", EMOJI)), (short) 0);
        record("bare share member", member, new ShareGroupMemberMetadataValue().setRackId(null).setClientId("")
            .setClientHost("").setSubscribedTopicNames(List.of()), (short) 0);
        record("share member tombstone", member, null, (short) 0);

        ShareGroupTargetAssignmentMetadataKey target = new ShareGroupTargetAssignmentMetadataKey().setGroupId(PLAIN);
        record("share target epoch", target, new ShareGroupTargetAssignmentMetadataValue().setAssignmentEpoch(5)
            .setAssignmentTimestamp(1_767_225_600_000L), (short) 0);
        record("share target epoch tombstone", target, null, (short) 0);
        ShareGroupTargetAssignmentMemberKey targetOf =
            new ShareGroupTargetAssignmentMemberKey().setGroupId(PLAIN).setMemberId("m");
        record("share target of a member", targetOf, new ShareGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
            new ShareGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(ORDERS).setPartitions(List.of(0, 5)),
            new ShareGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(DASHES).setPartitions(List.of()))),
            (short) 0);
        record("share target of a member tombstone", targetOf, null, (short) 0);
        ShareGroupCurrentMemberAssignmentKey currentOf =
            new ShareGroupCurrentMemberAssignmentKey().setGroupId(PLAIN).setMemberId("m");
        for (byte state : new byte[] {0, 1})
            record("share assignment in state " + state, currentOf, new ShareGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(5).setPreviousMemberEpoch(4).setState(state).setAssignedPartitions(List.of(
                    new ShareGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ORDERS)
                        .setPartitions(List.of(0, 1)))), (short) 0);
        record("share assignment tombstone", currentOf, null, (short) 0);

        ShareGroupStatePartitionMetadataKey states = new ShareGroupStatePartitionMetadataKey().setGroupId(PLAIN);
        record("share states", states, new ShareGroupStatePartitionMetadataValue()
            .setInitializingTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo()
                .setTopicId(ORDERS).setTopicName("orders").setPartitions(List.of(1, 2))))
            .setInitializedTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo()
                .setTopicId(ORDERS).setTopicName("orders").setPartitions(List.of(0, 1)),
                new ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo()
                    .setTopicId(DASHES).setTopicName(EMOJI).setPartitions(List.of())))
            .setDeletingTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicInfo()
                .setTopicId(DASHES).setTopicName("old"))), (short) 0);
        record("share states of nothing", states, new ShareGroupStatePartitionMetadataValue()
            .setInitializingTopics(List.of()).setInitializedTopics(List.of()).setDeletingTopics(List.of()), (short) 0);
        record("share states tombstone", states, null, (short) 0);
    }

    static void streamsGroups() throws Exception {
        StreamsGroupMetadataKey group = new StreamsGroupMetadataKey().setGroupId(PLAIN);
        StreamsGroupMetadataValue bare = new StreamsGroupMetadataValue().setEpoch(2).setMetadataHash(0);
        record("streams group without tags", group, bare, (short) 0);
        StreamsGroupMetadataValue full = new StreamsGroupMetadataValue().setEpoch(3).setMetadataHash(6529648931636245212L)
            .setValidatedTopologyEpoch(1).setStoredDescriptionTopologyEpoch(1).setLastAssignmentConfigs(List.of(
                new StreamsGroupMetadataValue.LastAssignmentConfig().setKey("num.standby.replicas").setValue("1"),
                new StreamsGroupMetadataValue.LastAssignmentConfig().setKey("é").setValue("")));
        record("streams group", group, full, (short) 0);
        record("streams group with no settings", group, full.duplicate().setLastAssignmentConfigs(List.of()), (short) 0);
        record("streams group tombstone", group, null, (short) 0);

        StreamsGroupMemberMetadataKey member = new StreamsGroupMemberMetadataKey().setGroupId(PLAIN).setMemberId("m");
        record("streams member", member, new StreamsGroupMemberMetadataValue().setInstanceId("i-1").setRackId("eu-1a")
            .setClientId("c").setClientHost("/10.0.0.1").setRebalanceTimeoutMs(300_000).setTopologyEpoch(1)
            .setProcessId("9135c698").setUserEndpoint(new StreamsGroupMemberMetadataValue.Endpoint().setHost("h")
                .setPort(65_535)).setClientTags(List.of(
                    new StreamsGroupMemberMetadataValue.KeyValue().setKey("zone").setValue("a"))), (short) 0);
        record("bare streams member", member, new StreamsGroupMemberMetadataValue().setInstanceId(null).setRackId(null)
            .setClientId("").setClientHost("").setTopologyEpoch(0).setProcessId("").setUserEndpoint(null)
            .setClientTags(List.of()), (short) 0);
        record("streams member tombstone", member, null, (short) 0);

        StreamsGroupTargetAssignmentMetadataKey target =
            new StreamsGroupTargetAssignmentMetadataKey().setGroupId(PLAIN);
        record("streams target epoch", target,
            new StreamsGroupTargetAssignmentMetadataValue().setAssignmentEpoch(3), (short) 0);
        record("streams target epoch tombstone", target, null, (short) 0);
        StreamsGroupTargetAssignmentMemberKey targetOf =
            new StreamsGroupTargetAssignmentMemberKey().setGroupId(PLAIN).setMemberId("m");
        record("streams target of a member", targetOf, new StreamsGroupTargetAssignmentMemberValue()
            .setActiveTasks(List.of(targetTasks("0", 0, 1), targetTasks("1", 1))).setStandbyTasks(List.of(targetTasks("1", 0)))
            .setWarmupTasks(List.of(targetTasks("2", 3))), (short) 0);
        record("streams target of a member tombstone", targetOf, null, (short) 0);
        StreamsGroupCurrentMemberAssignmentKey currentOf =
            new StreamsGroupCurrentMemberAssignmentKey().setGroupId(PLAIN).setMemberId("m");
        for (byte state : new byte[] {0, 1, 2, 3})
            record("streams assignment in state " + state, currentOf, new StreamsGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(3).setPreviousMemberEpoch(1).setState(state)
                .setActiveTasks(List.of(tasks("0", 0, 1).setAssignmentEpochs(List.of(2, 3)), tasks("1", 1)))
                .setStandbyTasks(List.of(tasks("1", 0))).setWarmupTasks(List.of(tasks("2", 3)))
                .setActiveTasksPendingRevocation(List.of(tasks("0", 2))).setStandbyTasksPendingRevocation(List.of(tasks("1", 5)))
                .setWarmupTasksPendingRevocation(List.of()), (short) 0);
        record("streams assignment tombstone", currentOf, null, (short) 0);

        StreamsGroupTopologyKey topology = new StreamsGroupTopologyKey().setGroupId(PLAIN);
        StreamsGroupTopologyValue.TopicInfo changelog = new StreamsGroupTopologyValue.TopicInfo().setName("changelog")
            .setPartitions(2).setReplicationFactor((short) -1).setTopicConfigs(List.of(
                new StreamsGroupTopologyValue.TopicConfig().setKey("cleanup.policy").setValue("compact")));
        record("topology", topology, new StreamsGroupTopologyValue().setEpoch(1).setSubtopologies(List.of(
            new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("0").setSourceTopics(List.of("orders", EMOJI))
                .setSourceTopicRegex(List.of("a.*")).setStateChangelogTopics(List.of(changelog))
                .setRepartitionSinkTopics(List.of("repartition")).setRepartitionSourceTopics(List.of())
                .setCopartitionGroups(List.of(new StreamsGroupTopologyValue.CopartitionGroup()
                    .setSourceTopics(List.of((short) 0, (short) 1)).setSourceTopicRegex(List.of())
                    .setRepartitionSourceTopics(List.of((short) 0)))),
            new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("1").setSourceTopics(List.of())
                .setSourceTopicRegex(List.of()).setStateChangelogTopics(List.of()).setRepartitionSinkTopics(List.of())
                .setRepartitionSourceTopics(List.of(changelog.duplicate().setName("repartition")))
                .setCopartitionGroups(List.of()))), (short) 0);
        record("topology of nothing", topology,
            new StreamsGroupTopologyValue().setEpoch(0).setSubtopologies(List.of()), (short) 0);
        record("topology tombstone", topology, null, (short) 0);
    }

    static StreamsGroupTargetAssignmentMemberValue.TaskIds targetTasks(String subtopology, Integer... partitions) {
        return new StreamsGroupTargetAssignmentMemberValue.TaskIds().setSubtopologyId(subtopology)
            .setPartitions(List.of(partitions));
    }

    static StreamsGroupCurrentMemberAssignmentValue.TaskIds tasks(String subtopology, Integer... partitions) {
        return new StreamsGroupCurrentMemberAssignmentValue.TaskIds().setSubtopologyId(subtopology)
            .setPartitions(List.of(partitions));
    }

    static void protocol() throws Exception {
        for (short version = 0; version <= 3; version++) {
            embedded("subscription", "subscription v" + version, subscription(version), version);
            embedded("subscription", "bare subscription v" + version, bareSubscription(version), version);
            embedded("assignment", "assignment v" + version, assignment(version), version);
            embedded("assignment", "empty assignment v" + version,
                MessageUtil.toVersionPrefixedByteBuffer(version, new ConsumerProtocolAssignment()), version);
        }
    }

    static ByteBuffer subscription(short version) {
        ConsumerProtocolSubscription data = new ConsumerProtocolSubscription().setTopics(List.of("orders", "été-" + EMOJI))
            .setUserData(ByteBuffer.wrap(new byte[] {0, 1, -1})).setGenerationId(41).setRackId("eu-1a");
        data.ownedPartitions().add(new ConsumerProtocolSubscription.TopicPartition().setTopic("orders")
            .setPartitions(List.of(3, 1, 2)));
        data.ownedPartitions().add(new ConsumerProtocolSubscription.TopicPartition().setTopic("bare"));
        return MessageUtil.toVersionPrefixedByteBuffer(version, data);
    }

    static ByteBuffer bareSubscription(short version) {
        return MessageUtil.toVersionPrefixedByteBuffer(version, new ConsumerProtocolSubscription());
    }

    static ByteBuffer assignment(short version) {
        ConsumerProtocolAssignment data = new ConsumerProtocolAssignment().setUserData(ByteBuffer.wrap(new byte[] {4, 2}));
        data.assignedPartitions().add(new ConsumerProtocolAssignment.TopicPartition().setTopic("orders")
            .setPartitions(List.of(0, 11)));
        data.assignedPartitions().add(new ConsumerProtocolAssignment.TopicPartition().setTopic(JAPANESE)
            .setPartitions(List.of(7)));
        return MessageUtil.toVersionPrefixedByteBuffer(version, data);
    }

    static void embedded(String kind, String name, ByteBuffer buffer, short version) throws Exception {
        ObjectNode line = line(kind, name);
        line.put("version", version);
        line.put("value", hex(array(buffer)));
        ByteBuffer body = buffer.duplicate();
        body.getShort();
        line.set("expected", kind.equals("subscription")
            ? ConsumerProtocolSubscriptionJsonConverter.write(
                new ConsumerProtocolSubscription(new ByteBufferAccessor(body), version), version)
            : ConsumerProtocolAssignmentJsonConverter.write(
                new ConsumerProtocolAssignment(new ByteBufferAccessor(body), version), version));
        OUT.println(JSON.writeValueAsString(line));
    }

    static void record(String name, ApiMessage key, ApiMessage value, short version) throws Exception {
        ObjectNode line = line("record", value == null ? name : name + " v" + version);
        byte[] keyBytes = MessageUtil.toCoordinatorTypePrefixedBytes(key);
        line.put("type", key.apiKey());
        line.put("key", hex(keyBytes));
        line.set("expected_key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key));
        if (value == null) {
            line.putNull("value");
            line.putNull("expected");
        } else {
            byte[] bytes = MessageUtil.toVersionPrefixedBytes(version, value);
            ByteBuffer body = ByteBuffer.wrap(bytes);
            body.getShort();
            Message back = value.getClass().getDeclaredConstructor().newInstance();
            back.read(new ByteBufferAccessor(body), version);
            line.put("version", version);
            line.put("value", hex(bytes));
            line.set("expected", CoordinatorRecordJsonConverters.writeRecordValueAsJson((ApiMessage) back, version));
        }
        OUT.println(JSON.writeValueAsString(line));
    }

    static ObjectNode line(String kind, String name) {
        return JSON.createObjectNode().put("kind", kind).put("name", name);
    }

    static byte[] array(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
