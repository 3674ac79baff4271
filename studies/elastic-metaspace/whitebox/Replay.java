import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.GZIPInputStream;
import sun.hotspot.WhiteBox;

/**
 * Replays a metaspace trace into HotSpot's own arenas and prints what they hold.
 *
 * usage: Replay TRACE|- EVERY [COMMIT_LIMIT_WORDS [RESERVE_LIMIT_WORDS]]
 *
 * TRACE is a `#metaspace-trace 1` (gzipped where its name ends in .gz; - is standard input): `dt_us op args`, with b A S K
 * (birth; S = n standard non-class, m micro non-class, c class space: left out), a or f A W T (allocate W words), x A W
 * (was refused: left out), d A W I (deallocate allocation number I), k A (death), p (purge).
 *
 * EVERY n > 0 prints `event,op,used_words,committed_words` after every n-th allocation (those of left-out arenas counted),
 * before and after each purge, and at the end, events being counted from 1. EVERY 0 prints after each event
 * `op,used_words,committed_words,address`, the address in hexadecimal (0: none, or refused).
 */
public final class Replay {
    private static final int LEFT_OUT = 0;

    private final WhiteBox whiteBox = new WhiteBox();
    private final long context;
    private final PrintWriter out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out)));
    private final Map<Integer, Long> arenas = new HashMap<>();
    private long[] addresses = new long[1 << 16];
    private int allocations;

    private Replay(long commitLimitWords, long reserveLimitWords) {
        context = whiteBox.createMetaspaceTestContext(commitLimitWords, reserveLimitWords);
    }

    public static void main(String[] arguments) throws IOException {
        String name = arguments[0];
        int every = Integer.parseInt(arguments[1]);
        long commit = arguments.length > 2 ? Long.parseLong(arguments[2]) : 0;
        long reserve = arguments.length > 3 ? Long.parseLong(arguments[3]) : 0;
        try (InputStream raw = name.equals("-") ? System.in : new FileInputStream(name);
             InputStream bytes = name.endsWith(".gz") ? new GZIPInputStream(raw) : raw;
             BufferedReader lines = new BufferedReader(new InputStreamReader(bytes))) {
            new Replay(commit, reserve).run(lines, every);
        }
    }

    private void run(BufferedReader lines, int every) throws IOException {
        if (every > 0) {
            out.println("event,op,used_words,committed_words");
        }
        int event = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("#") || line.isEmpty()) {
                continue;
            }
            event++;
            String[] fields = line.split(" ");
            char op = fields[1].charAt(0);
            if (every > 0 && op == 'p') {
                sample(event, "before_purge");
            }
            int before = allocations;
            long address = step(op, fields);
            if (every == 0) {
                out.println(op + "," + used() + "," + committed() + "," + Long.toHexString(address));
            } else if (op == 'p') {
                sample(event, "after_purge");
            } else if (allocations > before && allocations % every == 0) {
                sample(event, "a");
            }
        }
        if (every > 0) {
            sample(event, "end");
        }
        out.flush();
    }

    private long used() {
        return whiteBox.getTotalUsedWordsInMetaspaceTestContext(context);
    }

    private long committed() {
        return whiteBox.getTotalCommittedWordsInMetaspaceTestContext(context);
    }

    private void sample(int event, String op) {
        out.println(event + "," + op + "," + used() + "," + committed());
    }

    private long step(char op, String[] fields) {
        if (op == 'p') {
            whiteBox.purgeMetaspaceTestContext(context);
            return 0;
        }
        int arena = Integer.parseInt(fields[2]);
        if (op == 'b') {
            if (!fields[3].equals("c")) {
                arenas.put(arena, whiteBox.createArenaInTestContext(context, fields[3].equals("m")));
            }
            return 0;
        }
        long handle = arenas.getOrDefault(arena, (long) LEFT_OUT);
        if (op == 'a' || op == 'f') {
            long address = 0;
            if (handle != LEFT_OUT) {
                address = whiteBox.allocateFromMetaspaceTestArena(handle, Long.parseLong(fields[3]));
            }
            if (allocations == addresses.length) {
                addresses = Arrays.copyOf(addresses, 2 * allocations);
            }
            addresses[allocations++] = address;
            return address;
        }
        if (op == 'd' && handle != LEFT_OUT) {
            int number = Integer.parseInt(fields[4]);
            if (number >= 0 && addresses[number] != 0) {
                whiteBox.deallocateToMetaspaceTestArena(handle, addresses[number], Long.parseLong(fields[3]));
                return addresses[number];
            }
        }
        if (op == 'k' && arenas.remove(arena) != null) {
            whiteBox.destroyMetaspaceTestArena(handle);
        }
        return 0;
    }
}
