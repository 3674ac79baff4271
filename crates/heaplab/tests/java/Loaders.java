import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;

/**
 * Makes class loaders of one class each, drops most of them, says its process number and that it is ready, and waits for
 * the end of its standard input. Arguments: how many loaders, how many of them one is kept of, the exit status.
 */
public class Loaders {
    public static class One {
        int next(int number) {
            return number + 1;
        }
    }

    static class Loader extends ClassLoader {
        Loader() {
            super(null);
        }

        Class<?> define(byte[] bytes) {
            return defineClass("Loaders$One", bytes, 0, bytes.length);
        }
    }

    public static void main(String[] arguments) throws Exception {
        byte[] bytes;
        try (InputStream in = Loaders.class.getResourceAsStream("Loaders$One.class")) {
            bytes = in.readAllBytes();
        }
        List<Class<?>> kept = new ArrayList<>();
        int each = Integer.parseInt(arguments[1]);
        for (int made = 0; made < Integer.parseInt(arguments[0]); made++) {
            Class<?> one = new Loader().define(bytes);
            if (made % each == 0) {
                kept.add(one);
            }
        }
        System.gc();
        System.gc();
        System.out.println(ProcessHandle.current().pid() + " ready " + kept.size());
        System.err.println("to standard error");
        while (System.in.read() >= 0) {
        }
        System.exit(Integer.parseInt(arguments[2]));
    }
}
