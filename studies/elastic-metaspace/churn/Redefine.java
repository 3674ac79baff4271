import java.io.IOException;
import java.lang.instrument.ClassDefinition;
import java.lang.instrument.Instrumentation;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Classes that are redefined again and again: each time their old methods and constants are given back to their loader's arena,
 * and the new ones are looked for among its free blocks. What the document calls a pathological case.
 *
 * Runs as an agent too, because only an agent may redefine. Prints the same CSV as Churn.
 */
public final class Redefine {
    static final int LOADERS = 12, CLASSES = 40, ROUNDS = 2;
    static Instrumentation instrumentation;

    public static void premain(String arguments, Instrumentation given) { instrumentation = given; }

    static final class Maker extends ClassLoader {
        final List<Class<?>> made = new ArrayList<>();

        void make(int loader) throws IOException {
            for (int index = 0; index < CLASSES; index++) {
                byte[] bytes = bytes(loader, index, 0);
                Class<?> one = defineClass("r.L" + loader + "$" + index, bytes, 0, bytes.length);
                resolveClass(one);
                made.add(one);
            }
        }
    }

    /** The same methods and fields in every round, other code in them. */
    static byte[] bytes(int loader, int index, int round) throws IOException {
        int number = loader * CLASSES + index;
        return Churn.ClassBytes.of("r.L" + loader + "$" + index, new Random(number), new Random(number * 1000L + round), false);
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("step,cycle,loaders,used,committed,class_used,class_committed,uptime_ms");
        Churn.report(null, 0, 0);
        List<Maker> alive = new ArrayList<>();
        for (int loader = 0; loader < LOADERS; loader++) {
            Maker maker = new Maker();
            maker.make(loader);
            for (Class<?> one : maker.made) one.getDeclaredConstructor().newInstance();
            alive.add(maker);
        }
        Churn.collect();
        Churn.report("loaded", 0, alive.size());
        for (int round = 1; round <= ROUNDS; round++) {
            for (int loader = 0; loader < LOADERS; loader++) redefine(alive.get(loader), loader, round);
            // Old versions go when no frame runs them any more.
            Churn.collect();
            Churn.report("redefined", round, alive.size());
        }
        alive.clear();
        Churn.collect();
        Churn.report("empty", ROUNDS, 0);
    }

    static void redefine(Maker maker, int loader, int round) throws Exception {
        for (int index = 0; index < CLASSES; index++) {
            instrumentation.redefineClasses(new ClassDefinition(maker.made.get(index), bytes(loader, index, round)));
        }
    }
}
