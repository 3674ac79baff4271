/** A bounded cache of strings of mixed sizes under random replacement: strcache.ml in Java. */
public final class StrCache {
  private static long state = 42;

  private static int below(int bound) {
    state ^= state << 13;
    state ^= state >>> 7;
    state ^= state << 17;
    return (int) Long.remainderUnsigned(state, bound);
  }

  private static int size() {
    int kind = below(100);
    if (kind < 50) return 8 + below(56);
    if (kind < 85) return 64 + below(448);
    if (kind < 98) return 512 + below(3584);
    return 4096 + below(28672);
  }

  public static void main(String[] arguments) {
    int slots = Integer.parseInt(arguments[0]);
    int steps = Integer.parseInt(arguments[1]);
    byte[][] cache = new byte[slots][];
    for (int step = 0; step < steps; step++) {
      byte[] text = new byte[size()];
      java.util.Arrays.fill(text, (byte) 'x');
      cache[below(slots)] = text;
    }
    long sum = 0;
    for (byte[] text : cache) sum += text == null ? 0 : text.length;
    System.out.println(sum);
  }
}
