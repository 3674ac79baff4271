package sun.hotspot;

/**
 * Declarations of the natives through which HotSpot 17 lets a program drive its own metaspace arenas. The class must lie on
 * the boot class path, and the JVM needs -XX:+UnlockDiagnosticVMOptions -XX:+WhiteBoxAPI.
 *
 * A context is a chunk manager with its own nodes; limits are in words, 0 means none. An arena is standard or micro (the
 * policy of reflection loaders). Addresses are plain numbers, 0 where an allocation was refused.
 */
public final class WhiteBox {
    static {
        registerNatives();
    }

    private static native void registerNatives();

    public native long createMetaspaceTestContext(long commitLimitWords, long reserveLimitWords);
    public native void destroyMetaspaceTestContext(long context);
    public native void purgeMetaspaceTestContext(long context);
    public native long getTotalCommittedWordsInMetaspaceTestContext(long context);
    public native long getTotalUsedWordsInMetaspaceTestContext(long context);
    public native long createArenaInTestContext(long context, boolean micro);
    public native void destroyMetaspaceTestArena(long arena);
    public native long allocateFromMetaspaceTestArena(long arena, long words);
    public native void deallocateToMetaspaceTestArena(long arena, long address, long words);
}
