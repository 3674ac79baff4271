import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryUsage;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Loads and unloads classes in cycles, and says after each step what metaspace holds.
 *
 * A cycle: LOADERS class loaders of about CLASSES classes each and MICRO class loaders of one class; 90 % of all loaders
 * alive, chosen at random, are dropped; a full collection unloads them. Every class is made here, byte by byte, so that the
 * program needs no compiler, no jar and no library, and gives the same classes on every JDK. Classes differ in the number of
 * their methods, fields and constants, as real ones do; sizes depend on the seed alone.
 *
 * Prints CSV: step, cycle, loaders alive, used and committed bytes of both spaces, and of class space alone, and the time in
 * milliseconds since the JVM began, which is also the clock of its log.
 * With an argument "jcmd" it writes what VM.metaspace says, loader by loader, to the folder named by the next argument.
 */
public final class Churn {
    static final int CYCLES = 5, LOADERS = 300, CLASSES = 60, MICRO = 1500;
    static final double DROPPED = 0.9;

    /** A class loader whose classes are made on demand. */
    static final class Maker extends ClassLoader {
        Maker() { super(Churn.class.getClassLoader()); }

        Class<?> make(String name, Random random, boolean micro) throws IOException {
            byte[] bytes = ClassBytes.of(name, random, random, micro);
            Class<?> made = defineClass(name, bytes, 0, bytes.length);
            resolveClass(made);
            return made;
        }
    }

    static String folder;

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 2 && arguments[0].equals("jcmd")) folder = arguments[1];
        Random random = new Random(20200301);
        List<Maker> alive = new ArrayList<>();
        System.out.println("step,cycle,loaders,used,committed,class_used,class_committed,uptime_ms");
        // The first look at the beans loads their classes; only the second is quiet.
        report(null, 0, 0);
        collect();
        report("start", 0, 0);
        for (int cycle = 1; cycle <= CYCLES; cycle++) {
            load(cycle, random, alive);
            report("loaded", cycle, alive.size());
            drop(random, alive, 1 - DROPPED);
            collect();
            report("dropped", cycle, alive.size());
        }
        drop(random, alive, 0);
        collect();
        report("empty", CYCLES, alive.size());
    }

    static void load(int cycle, Random random, List<Maker> alive) throws Exception {
        for (int loader = 0; loader < LOADERS + MICRO; loader++) {
            // Real programs load plugins and proxies in between one another: one large loader, then five micro ones.
            boolean micro = loader % 6 != 0;
            Maker maker = new Maker();
            int classes = micro ? 1 : CLASSES / 2 + random.nextInt(CLASSES + 1);
            for (int index = 0; index < classes; index++) {
                Class<?> made = maker.make("c" + cycle + ".L" + loader + "$" + index, random, micro);
                made.getDeclaredConstructor().newInstance();
            }
            alive.add(maker);
        }
    }

    /** In a method of its own: a frame that is gone holds no loader in a dead local variable. */
    static void drop(Random random, List<Maker> alive, double kept) {
        alive.removeIf(maker -> random.nextDouble() >= kept);
    }

    static void collect() throws InterruptedException {
        for (int round = 0; round < 3; round++) {
            System.gc();
            Thread.sleep(50);
        }
    }

    static void report(String step, int cycle, int loaders) throws Exception {
        // Far enough from the last class loaded that a clock in milliseconds tells what was before.
        Thread.sleep(20);
        long uptime = ManagementFactory.getRuntimeMXBean().getUptime();
        long used = 0, committed = 0, classUsed = 0, classCommitted = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            MemoryUsage usage = pool.getUsage();
            if (pool.getName().equals("Metaspace")) {
                used = usage.getUsed();
                committed = usage.getCommitted();
            } else if (pool.getName().equals("Compressed Class Space")) {
                classUsed = usage.getUsed();
                classCommitted = usage.getCommitted();
            }
        }
        if (step == null) return;
        System.out.println(step + "," + cycle + "," + loaders + "," + used + "," + committed + "," + classUsed + ","
            + classCommitted + "," + uptime);
        if (folder == null) return;
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        Object text = server.invoke(new ObjectName("com.sun.management:type=DiagnosticCommand"), "vmMetaspace",
            new Object[] {new String[] {"show-loaders", "by-chunktype", "scale=1"}}, new String[] {String[].class.getName()});
        try (PrintStream out = new PrintStream(folder + "/" + step + cycle + ".txt", "UTF-8")) { out.print(text); }
    }

    /** Writes class files by the specification's table (JVMS 4). */
    static final class ClassBytes {
        private final List<byte[]> pool = new ArrayList<>();

        private int add(byte... entry) {
            pool.add(entry);
            return pool.size();
        }

        private int utf8(String text) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeByte(1);
            out.writeUTF(text);
            return add(bytes.toByteArray());
        }

        private int pair(int tag, int first, int second) {
            return add((byte) tag, (byte) (first >> 8), (byte) first, (byte) (second >> 8), (byte) second);
        }

        private int classOf(String name) throws IOException {
            int at = utf8(name);
            return add((byte) 7, (byte) (at >> 8), (byte) at);
        }

        /** A class whose methods and fields depend on `random`, and whose code depends on `body`. */
        static byte[] of(String name, Random random, Random body, boolean micro) throws IOException {
            ClassBytes made = new ClassBytes();
            int self = made.classOf(name.replace('.', '/')), parent = made.classOf("java/lang/Object");
            int code = made.utf8("Code"), init = made.utf8("<init>"), nothing = made.utf8("()V");
            int parentInit = made.pair(10, parent, made.pair(12, init, nothing));
            // Half of the classes are small, a few are large: the squares of a uniform number.
            double scale = random.nextDouble() * random.nextDouble();
            int methods = micro ? 3 : 2 + (int) (24 * scale), fields = micro ? 1 : (int) (12 * scale);
            ByteArrayOutputStream members = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(members);
            out.writeShort(0x21);
            out.writeShort(self);
            out.writeShort(parent);
            out.writeShort(0);
            out.writeShort(fields);
            int number = made.utf8("I");
            for (int field = 0; field < fields; field++) {
                out.writeShort(2);
                out.writeShort(made.utf8("f" + field));
                out.writeShort(number);
                out.writeShort(0);
            }
            out.writeShort(methods + 1);
            byte[] start = {0x2a, (byte) 0xb7, (byte) (parentInit >> 8), (byte) parentInit, (byte) 0xb1};
            method(out, init, nothing, code, start);
            int describe = made.utf8("(I)I");
            for (int method = 0; method < methods; method++) {
                byte[] instructions = new byte[2 + 2 * body.nextInt(micro ? 12 : 60)];
                for (int at = 0; at + 2 < instructions.length; at += 2) {
                    instructions[at] = 0x1b;
                    instructions[at + 1] = 0x57;
                }
                instructions[instructions.length - 2] = 0x1b;
                instructions[instructions.length - 1] = (byte) 0xac;
                method(out, made.utf8("m" + method), describe, code, instructions);
            }
            out.writeShort(0);
            ByteArrayOutputStream whole = new ByteArrayOutputStream();
            DataOutputStream file = new DataOutputStream(whole);
            file.writeInt(0xcafebabe);
            // Version 49 needs no stack maps.
            file.writeInt(49);
            file.writeShort(made.pool.size() + 1);
            for (byte[] entry : made.pool) file.write(entry);
            members.writeTo(file);
            return whole.toByteArray();
        }

        private static void method(DataOutputStream out, int name, int descriptor, int code, byte[] instructions) throws IOException {
            out.writeShort(1);
            out.writeShort(name);
            out.writeShort(descriptor);
            out.writeShort(1);
            out.writeShort(code);
            out.writeInt(12 + instructions.length);
            out.writeShort(2);
            out.writeShort(2);
            out.writeInt(instructions.length);
            out.write(instructions);
            out.writeShort(0);
            out.writeShort(0);
        }
    }
}
