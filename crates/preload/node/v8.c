// Looks up the functions of V8 and Node that the addon calls.

#define _GNU_SOURCE
#include "v8.h"
#include <dlfcn.h>

// In Node 24 v8::String::Utf8Value has one more parameter, with a default.
static const char TEXT_TWO[] = "_ZN2v86String9Utf8ValueC1EPNS_7IsolateENS_5LocalINS_5ValueEEE";
static const char TEXT_THREE[] = "_ZN2v86String9Utf8ValueC1EPNS_7IsolateENS_5LocalINS_5ValueEEENS0_12WriteOptionsE";

static const struct {
    size_t place;
    const char *name;
} NAMES[] = {
    {offsetof(struct v8, isolate), "_ZN2v87Isolate10GetCurrentEv"},
    {offsetof(struct v8, context), "_ZN2v87Isolate17GetCurrentContextEv"},
    {offsetof(struct v8, profiler), "_ZN2v87Isolate15GetHeapProfilerEv"},
    {offsetof(struct v8, version), "_ZN2v82V810GetVersionEv"},
    {offsetof(struct v8, set_flags), "_ZN2v82V818SetFlagsFromStringEPKc"},
    {offsetof(struct v8, start), "_ZN2v812HeapProfiler25StartSamplingHeapProfilerEmiNS0_13SamplingFlagsE"},
    {offsetof(struct v8, stop), "_ZN2v812HeapProfiler24StopSamplingHeapProfilerEv"},
    {offsetof(struct v8, profile), "_ZN2v812HeapProfiler20GetAllocationProfileEv"},
    {offsetof(struct v8, before_collections), "_ZN2v87Isolate21AddGCPrologueCallbackEPFvPS0_NS_6GCTypeENS_15GCCallbackFlagsEPvES4_S2_"},
    {offsetof(struct v8, no_longer_before_collections),
     "_ZN2v87Isolate24RemoveGCPrologueCallbackEPFvPS0_NS_6GCTypeENS_15GCCallbackFlagsEPvES4_"},
    {offsetof(struct v8, collect), "_ZN2v87Isolate34RequestGarbageCollectionForTestingENS0_21GarbageCollectionTypeE"},
    {offsetof(struct v8, new_string), "_ZN2v86String14NewFromOneByteEPNS_7IsolateEPKhNS_13NewStringTypeEi"},
    {offsetof(struct v8, open_scope), "_ZN2v811HandleScopeC1EPNS_7IsolateE"},
    {offsetof(struct v8, close_scope), "_ZN2v811HandleScopeD1Ev"},
    {offsetof(struct v8, environment), "_ZN4node21GetCurrentEnvironmentEN2v85LocalINS0_7ContextEEE"},
    {offsetof(struct v8, at_exit), "_ZN4node6AtExitEPNS_11EnvironmentEPFvPvES2_"},
    {offsetof(struct v8, node_version), "napi_get_node_version"},
    {offsetof(struct v8, open_text), TEXT_TWO},
    {offsetof(struct v8, close_text), "_ZN2v86String9Utf8ValueD1Ev"},
};

const char *v8_find(struct v8 *v8) {
    for (size_t row = 0; row < sizeof NAMES / sizeof NAMES[0]; row++) {
        void *found = dlsym(RTLD_DEFAULT, NAMES[row].name);
        if (!found && NAMES[row].place == offsetof(struct v8, open_text)) found = dlsym(RTLD_DEFAULT, TEXT_THREE);
        if (!found) return NAMES[row].name;
        *(void **)((char *)v8 + NAMES[row].place) = found;
    }
    return NULL;
}
