import java.io.*; import java.lang.instrument.*; import java.util.*;
/** Class loaders of one class each, most of them dropped, and a class redefined. */
public class Small {
  static Instrumentation instrumentation;
  public static void premain(String a, Instrumentation i) { instrumentation = i; }
  public static class One { int f(int x) { return x + 1; } }
  static class Redefined { int f(int x) { int s = 0; for (int i = 0; i < x; i++) s += i; return s; } String g(String q) { return q + "a"; } }
  static class Loader extends ClassLoader { Loader() { super(null); } Class<?> define(byte[] b) { return defineClass("Small$One", b, 0, b.length); } }
  static byte[] bytes(String name) throws IOException { try (InputStream in = Small.class.getResourceAsStream(name)) { return in.readAllBytes(); } }
  public static void main(String[] a) throws Exception {
    List<Class<?>> kept = new ArrayList<>();
    byte[] one = bytes("Small$One.class");
    for (int i = 0; i < 40; i++) { Class<?> c = new Loader().define(one); if (i % 8 == 0) kept.add(c); }
    System.gc();
    for (int i = 0; i < 3; i++) instrumentation.redefineClasses(new ClassDefinition(Redefined.class, bytes("Small$Redefined.class")));
    System.gc();
    System.out.println(kept.size());
  }
}
