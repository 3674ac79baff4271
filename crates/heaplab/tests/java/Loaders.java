import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;

/**
 * Makes class loaders of one class each, drops most of them, says its process number and that it is ready, and waits for
 * the end of its standard input. Arguments: how many loaders, how many of them one is kept of, the exit status.
 *
 * Where metaspace runs out, two of three are dropped; the second time no more are made. What is kept is asked for its class once more, which
 * fails and leaves blocks that the JVM takes back at a collection, and then for a smaller one, which reuses a part of them.
 */
public class Loaders {
    public static class One {
        int next(int number) {
            return number + 1;
        }
    }

    public interface Two {
    }

    static class Loader extends ClassLoader {
        Loader() {
            super(null);
        }

        Class<?> define(byte[] bytes) {
            return defineClass(null, bytes, 0, bytes.length);
        }
    }

    static byte[] bytes(String name) throws Exception {
        try (InputStream in = Loaders.class.getResourceAsStream(name)) {
            return in.readAllBytes();
        }
    }

    static void again(List<Class<?>> kept, byte[] bytes) {
        for (Class<?> one : kept) {
            try {
                ((Loader) one.getClassLoader()).define(bytes);
            } catch (LinkageError | OutOfMemoryError expected) {
                // It has that class, or there is no room for another.
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        byte[] bytes = bytes("Loaders$One.class");
        byte[] smaller = bytes("Loaders$Two.class");
        int refused = 0;
        List<Class<?>> kept = new ArrayList<>();
        int each = Integer.parseInt(arguments[1]);
        for (int made = 0; made < Integer.parseInt(arguments[0]) && refused < 2; made++) {
            try {
                Class<?> one = new Loader().define(bytes);
                if (made % each == 0) {
                    kept.add(one);
                }
            } catch (OutOfMemoryError full) {
                refused++;
                List<Class<?>> third = new ArrayList<>();
                for (int index = 0; index < kept.size(); index += 3) {
                    third.add(kept.get(index));
                }
                kept = third;
            }
        }
        again(kept, bytes);
        System.gc();
        System.gc();
        again(kept, smaller);
        System.out.println(ProcessHandle.current().pid() + " ready " + kept.size());
        System.err.println("to standard error");
        while (System.in.read() >= 0) {
        }
        System.exit(Integer.parseInt(arguments[2]));
    }
}
