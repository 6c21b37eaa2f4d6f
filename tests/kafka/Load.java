// Writes traces of agents to a topic, each over several records, as the gateway does: both signals
// in one topic, keyed by trace id. Prints the id of each trace once the brokers have all of it.
//
//   java -cp 'libs/*' Load.java BROKERS TOPIC TRACES_PER_SECOND SECONDS [KIND]
//
// KIND: `whole` traces, or those with `other_key`; one `endless` trace; `poison` records alone.

import java.io.ByteArrayOutputStream;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

public class Load {
    static final int CALLS = 6;
    static final Random RANDOM = new Random();

    static byte[] join(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts) out.writeBytes(part);
        return out.toByteArray();
    }

    static byte[] varint(long value) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (; value > 127; value >>>= 7) out.write((int) (value & 127 | 128));
        out.write((int) value);
        return out.toByteArray();
    }

    static byte[] field(int number, byte[] content) {
        return join(varint(number << 3 | 2), varint(content.length), content);
    }

    static byte[] text(int number, String content) {
        return field(number, content.getBytes());
    }

    static byte[] fixed(int number, long value) {
        byte[] out = new byte[8];
        for (int at = 0; at < 8; at++) out[at] = (byte) (value >>> 8 * at);
        return join(varint(number << 3 | 1), out);
    }

    static byte[] attribute(int number, String key, String value) {
        return field(number, join(text(1, key), field(2, text(1, value))));
    }

    // A request of some items, in both signals the same but for the items.
    static byte[] request(byte[] items) {
        byte[] resource = field(1, attribute(1, "service.name", "kafka-load"));
        return field(1, join(resource, field(2, items)));
    }

    static byte[] span(byte[] trace, int number, long now) {
        byte[] id = {1, 2, 3, 4, 5, 6, (byte) (7 + (number >> 8)), (byte) number};
        byte[] root = {1, 2, 3, 4, 5, 6, 7, 0};
        boolean isRoot = number == 0;
        byte[] times = join(fixed(7, now + number * 1000L), fixed(8, now + 900_000L));
        byte[] kind = isRoot
            ? attribute(9, "gen_ai.operation.name", "invoke_agent")
            : join(attribute(9, "gen_ai.operation.name", "execute_tool"),
                attribute(9, "gen_ai.tool.name", "search"),
                attribute(9, "gen_ai.tool.call.id", "call-" + number),
                attribute(9, "gen_ai.tool.call.arguments", "{\"query\": \"number " + number + "\"}"),
                attribute(9, "gen_ai.tool.call.result", "found ".repeat(40)));
        byte[] parent = isRoot ? new byte[0] : field(4, root);
        String name = isRoot ? "invoke_agent load" : "execute_tool search";
        return field(2, join(field(1, trace), field(2, id), parent, text(5, name), times, kind));
    }

    static byte[] answer(byte[] trace, long now) {
        byte[] root = {1, 2, 3, 4, 5, 6, 7, 0};
        byte[] message = field(6, join(
            attribute(1, "role", "assistant"), attribute(1, "content", "done")));
        byte[] body = field(5, field(6, field(1, join(text(1, "message"), field(2, message)))));
        byte[] event = text(12, "gen_ai.choice");
        return field(2, join(fixed(1, now), body, attribute(6, "event.name", "gen_ai.choice"),
            field(9, trace), field(10, root), event));
    }

    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("enable.idempotence", "true");
        config.put("compression.type", "zstd");
        config.put("linger.ms", "20");
        var producer = new KafkaProducer<>(
            config, new StringSerializer(), new ByteArraySerializer());
        String topic = args[1];
        int rate = Integer.parseInt(args[2]);
        int count = (int) (rate * Double.parseDouble(args[3]));
        String kind = args.length > 4 ? args[4] : "whole";
        if (kind.equals("endless") || kind.equals("poison")) {
            sendAlone(producer, topic, kind.equals("endless"), Double.parseDouble(args[3]));
            producer.close();
            return;
        }
        var timer = Executors.newScheduledThreadPool(2);
        var left = new CountDownLatch(count);
        long started = System.nanoTime();
        for (int at = 0; at < count; at++) {
            long due = started + at * 1_000_000_000L / rate;
            timer.schedule(() -> send(producer, timer, topic, kind, left),
                due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
        left.await();
        timer.shutdown();
        producer.close();
    }

    static byte[] newTrace() {
        byte[] trace = new byte[16];
        synchronized (RANDOM) { RANDOM.nextBytes(trace); }
        return trace;
    }

    // Spans of one trace that never ends, five a second; or records that are no requests.
    static void sendAlone(KafkaProducer<String, byte[]> producer, String topic, boolean isEndless,
            double seconds) throws Exception {
        byte[] trace = newTrace();
        String key = HexFormat.of().formatHex(trace);
        int count = (int) (seconds * 5);
        for (int number = 1; number <= count; number++) {
            long now = System.currentTimeMillis() * 1_000_000L;
            byte[] payload = request(span(trace, number, now));
            if (!isEndless) payload = Arrays.copyOf(payload, payload.length - 1 - number);
            producer.send(new ProducerRecord<>(topic, key, payload)).get();
            if (isEndless) Thread.sleep(200);
        }
        System.out.println(key);
    }

    static void send(KafkaProducer<String, byte[]> producer, ScheduledExecutorService timer,
            String topic, String kind, CountDownLatch left) {
        byte[] trace = newTrace();
        String id = HexFormat.of().formatHex(trace);
        String key = kind.equals("other_key") ? "tenant" : id;
        long now = System.currentTimeMillis() * 1_000_000L;
        List<byte[]> records = new ArrayList<>();
        for (int number = 1; number <= CALLS; number += 2) {
            records.add(request(join(span(trace, number, now), span(trace, number + 1, now))));
        }
        records.add(request(answer(trace, now)));
        records.add(request(span(trace, 0, now)));
        AtomicInteger unacknowledged = new AtomicInteger(records.size());
        for (int at = 0; at < records.size(); at++) {
            boolean isLog = at == records.size() - 2;
            byte[] payload = records.get(at);
            timer.schedule(() -> {
                var record = new ProducerRecord<String, byte[]>(topic, key, payload);
                record.headers().add("spanscore-signal", (isLog ? "logs" : "traces").getBytes());
                producer.send(record, (done, error) -> {
                    if (error != null) {
                        System.err.println(error);
                        System.exit(1);
                    }
                    if (unacknowledged.decrementAndGet() == 0) {
                        System.out.println(id);
                        left.countDown();
                    }
                });
            }, at * 150L, TimeUnit.MILLISECONDS);
        }
    }
}
