// SPDX-License-Identifier: Apache-2.0
// What this machine's CUPTI records. Each way to enable its records is a sequence of steps, which a process of its own
// takes: some choices count only before CUDA's context is made, and some crash. A row for each run of all commands says
// how many records came of each, and of how many the mark was found: the number that the thread had when it gave the
// command.
//   nvcc -O2 -std=c++17 -arch=sm_90 tests/gpu/cupti_probe.cu -o cupti_probe
//   cupti_probe            the ways of the table below
//   cupti_probe WAY...     these: names of the table, or steps, such as "s d o G m r C r"
// Seen on an H200 with CUDA 13.0 (CUPTI 130001, driver 580):
// - Calls that are enabled one by one in a context that was made while none was make no records, so no external
//   correlations come (single-late). Those of whole kinds do (all-calls).
// - Callbacks of the driver's calls tell the correlation of everything that they or the runtime's calls above them
//   start, copies and graphs included (callbacks).
// - cuGraphLaunch crashes within CUPTI when graphs are recorded and this one was instantiated while they were not,
//   whatever else was enabled (in-window, in-between, made-before). With that kind enabled while it is instantiated
//   the graph can be recorded as a whole and by its commands (kind-for-it).
#include <cuda.h>
#include <cuda_runtime.h>
#include <cupti.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern "C" __global__ void probeArrows(float *x) { *x += 1; }
extern "C" __global__ void probeRuntime(float *x) { *x += 1; }
extern "C" __global__ void probeRuntimeEx(float *x) { *x += 1; }
extern "C" __global__ void probeDriver(float *x) { *x += 1; }
extern "C" __global__ void probeDriverEx(float *x) { *x += 1; }
extern "C" __global__ void probeGraph(float *x) { *x += 1; }

namespace {

// --- Libraries ------------------------------------------------------------------------------------------------------

#define CUPTI_FUNCTIONS(X)                                                                                             \
    X(cuptiGetVersion)                                                                                                 \
    X(cuptiGetResultString)                                                                                            \
    X(cuptiGetCallbackName)                                                                                            \
    X(cuptiSubscribe_v2)                                                                                               \
    X(cuptiUnsubscribe)                                                                                                \
    X(cuptiEnableCallback)                                                                                             \
    X(cuptiGetGraphNodeId)                                                                                             \
    X(cuptiActivityRegisterCallbacks)                                                                                  \
    X(cuptiActivityRegisterTimestampCallback)                                                                          \
    X(cuptiActivityEnable)                                                                                             \
    X(cuptiActivityDisable)                                                                                            \
    X(cuptiActivityEnableRuntimeApi)                                                                                   \
    X(cuptiActivityEnableDriverApi)                                                                                    \
    X(cuptiActivityPushExternalCorrelationId)                                                                          \
    X(cuptiActivityPopExternalCorrelationId)                                                                           \
    X(cuptiActivityFlushAll)                                                                                           \
    X(cuptiActivityGetNextRecord)                                                                                      \
    X(cuptiActivityGetNumDroppedRecords)
struct Cupti {
#define X(Name) decltype(&::Name) Name = nullptr;
    CUPTI_FUNCTIONS(X)
#undef X
} g;

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::fflush(stdout); // a crash shows what came before it
}

[[noreturn]] void stop(const char *format, const char *what)
{
    say(format, what);
    std::exit(1);
}

void *opened()
{
    for (const char *name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
        if (void *library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))
            return library;
    stop("no libcupti: %s\n", ::dlerror());
}

void openCupti()
{
    void *library = opened();
#define X(Name)                                                                                                        \
    g.Name = reinterpret_cast<decltype(g.Name)>(::dlsym(library, #Name));                                              \
    if (g.Name == nullptr)                                                                                             \
        stop("libcupti has no %s\n", #Name);
    CUPTI_FUNCTIONS(X)
#undef X
}

void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        stop((std::string(what) + " failed: %s\n").c_str(), cudaGetErrorString(error));
}
#define CHECK(call) check(call, #call)

/// Says which call failed, and goes on.
bool tried(CUptiResult result, const char *what)
{
    if (result == CUPTI_SUCCESS)
        return true;
    const char *text = "?";
    g.cuptiGetResultString(result, &text);
    say("  %s: %s (%d)\n", what, text, static_cast<int>(result));
    return false;
}
#define TRY(call) tried(g.call, #call)

// --- Records --------------------------------------------------------------------------------------------------------

struct Item {
    std::string what;
    std::uint32_t correlation;
    std::uint64_t node;
    bool timed;
};
struct Seen {
    std::vector<Item> items; ///< kernels, copies, fills, graphs
    std::map<std::uint32_t, std::uint64_t> marks;
    std::map<std::uint32_t, std::string> calls; ///< names
    int runtime = 0, driver = 0, external = 0;
};
std::mutex g_mutex;
Seen g_seen;
std::map<std::uint32_t, std::uint64_t> g_called; ///< correlations that callbacks saw, with the thread's mark
std::set<std::uint64_t> g_nodes;                 ///< copies of nodes
int g_created = 0;
thread_local std::uint64_t t_mark = 0;
bool g_external = false; ///< external correlations are used

std::string callName(bool runtime, CUpti_CallbackId id)
{
    const char *name = nullptr;
    g.cuptiGetCallbackName(runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API, id, &name);
    return (runtime ? "r:" : "d:") + std::string(name != nullptr ? name : "?");
}

template <class Record>
void keep(const char *what, const Record *record, std::uint64_t node)
{
    g_seen.items.push_back({what, record->correlationId, node, record->start != 0 && record->end > record->start});
}

void read(const CUpti_Activity *record)
{
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto *kernel = reinterpret_cast<const CUpti_ActivityKernel10 *>(record);
        keep(kernel->name != nullptr ? kernel->name : "?", kernel, kernel->graphNodeId);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto *copy = reinterpret_cast<const CUpti_ActivityMemcpy6 *>(record);
        keep(copy->graphNodeId != 0                                  ? "graph copy"
                 : copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD ? "copy to"
                 : copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy from"
                 : copy->bytes == 1024                               ? "copy any"
                                                                     : "copy in",
             copy, copy->graphNodeId);
        break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto *fill = reinterpret_cast<const CUpti_ActivityMemset4 *>(record);
        keep(fill->graphNodeId != 0 ? "graph fill" : "fill", fill, fill->graphNodeId);
        break;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
        keep("graph", reinterpret_cast<const CUpti_ActivityGraphTrace2 *>(record), 0);
        break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto *mark = reinterpret_cast<const CUpti_ActivityExternalCorrelation *>(record);
        if (mark->externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
            g_seen.marks[mark->correlationId] = mark->externalId;
        ++g_seen.external;
        break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
        const auto *call = reinterpret_cast<const CUpti_ActivityAPI *>(record);
        const bool runtime = record->kind == CUPTI_ACTIVITY_KIND_RUNTIME;
        ++(runtime ? g_seen.runtime : g_seen.driver);
        std::string &names = g_seen.calls[call->correlationId];
        names += (names.empty() ? "" : "+") + callName(runtime, call->cbid);
        break;
    }
    default: break;
    }
}

void CUPTIAPI requestBuffer(std::uint8_t **buffer, std::size_t *bytes, std::size_t *most)
{
    *bytes = std::size_t{1} << 20;
    *buffer = static_cast<std::uint8_t *>(std::aligned_alloc(8, *bytes));
    *most = 0;
}

void CUPTIAPI completeBuffer(CUcontext, std::uint32_t, std::uint8_t *buffer, std::size_t, std::size_t valid)
{
    {
        const std::lock_guard<std::mutex> lock(g_mutex);
        CUpti_Activity *record = nullptr;
        while (g.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
            read(record);
    }
    std::free(buffer);
}

std::uint64_t CUPTIAPI monotonicNow()
{
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

void CUPTIAPI onCallback(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API) {
        const auto *call = static_cast<const CUpti_CallbackData *>(data);
        if (call->callbackSite != CUPTI_API_ENTER)
            return;
        const std::lock_guard<std::mutex> lock(g_mutex);
        g_called[call->correlationId] = t_mark;
        return;
    }
    if (domain != CUPTI_CB_DOMAIN_RESOURCE)
        return;
    const auto *graph =
        static_cast<const CUpti_GraphData *>(static_cast<const CUpti_ResourceData *>(data)->resourceDescriptor);
    std::uint64_t node = 0;
    if (graph == nullptr || g.cuptiGetGraphNodeId(graph->node, &node) != CUPTI_SUCCESS)
        return;
    const std::lock_guard<std::mutex> lock(g_mutex);
    if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED)
        ++g_created;
    else if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
        g_nodes.insert(node);
}

CUpti_SubscriberHandle g_subscriber = nullptr;

void subscribe()
{
    char other[128] = {};
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "Planloom";
    params.oldSubscriberName = other;
    params.oldSubscriberSize = sizeof other - 1;
    if (!tried(g.cuptiSubscribe_v2(&g_subscriber, onCallback, nullptr, &params), "cuptiSubscribe_v2"))
        say("  taken by: %s\n", other);
    TRY(cuptiActivityRegisterCallbacks(requestBuffer, completeBuffer));
    TRY(cuptiActivityRegisterTimestampCallback(monotonicNow));
    if (g_subscriber != nullptr)
        for (const CUpti_CallbackId id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
            TRY(cuptiEnableCallback(1, g_subscriber, CUPTI_CB_DOMAIN_RESOURCE, id));
}

// --- Commands -------------------------------------------------------------------------------------------------------

struct Gpu {
    cudaStream_t stream = nullptr;
    float *device = nullptr, *host = nullptr;
    CUfunction driver = nullptr, driverEx = nullptr;
    decltype(&::cuLaunchKernel) launch = nullptr;
    decltype(&::cuLaunchKernelEx) launchEx = nullptr;
    cudaGraphExec_t graph = nullptr;
    cudaEvent_t event = nullptr;

    template <class Function>
    static void entry(const char *name, Function &function)
    {
        void *found = nullptr;
        cudaDriverEntryPointQueryResult state{};
        CHECK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &state));
        function = reinterpret_cast<Function>(found);
    }

    void open()
    {
        if (const cudaError_t error = cudaSetDevice(0))
            stop("no GPU: %s\n", cudaGetErrorString(error));
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        CHECK(cudaMalloc(&device, 4096));
        CHECK(cudaMallocHost(&host, 4096));
        CHECK(cudaGetFuncBySymbol(&driver, reinterpret_cast<const void *>(probeDriver)));
        CHECK(cudaGetFuncBySymbol(&driverEx, reinterpret_cast<const void *>(probeDriverEx)));
        entry("cuLaunchKernel", launch);
        entry("cuLaunchKernelEx", launchEx);
    }

    void capture()
    {
        cudaGraph_t made = nullptr;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        void *arguments[] = {&device};
        CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(probeGraph), 1, 1, arguments, 0, stream));
        CHECK(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemsetAsync(device, 0, 4096, stream));
        CHECK(cudaStreamEndCapture(stream, &made));
        CHECK(cudaGraphInstantiate(&graph, made, 0));
        CHECK(cudaGraphDestroy(made));
    }

    template <class F>
    static void marked(std::uint64_t mark, F f)
    {
        t_mark = mark;
        if (g_external)
            TRY(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, mark));
        f();
        std::uint64_t last = 0;
        if (g_external)
            TRY(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last));
        t_mark = 0;
    }

    /// Command i has mark @p base + i.
    void run(std::uint64_t base)
    {
        void *arguments[] = {&device};
        cudaLaunchConfig_t config{};
        config.gridDim = config.blockDim = 1;
        config.stream = stream;
        CUlaunchConfig raw{};
        raw.gridDimX = raw.gridDimY = raw.gridDimZ = raw.blockDimX = raw.blockDimY = raw.blockDimZ = 1;
        raw.hStream = stream;
        marked(base + 0, [&] { probeArrows<<<1, 1, 0, stream>>>(device); });
        marked(base + 1, [&] {
            CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(probeRuntime), 1, 1, arguments, 0, stream));
        });
        marked(base + 2,
               [&] { CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(probeRuntimeEx), arguments)); });
        marked(base + 3, [&] { launch(driver, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr); });
        marked(base + 4, [&] { launchEx(&raw, driverEx, arguments, nullptr); });
        marked(base + 5, [&] { CHECK(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream)); });
        marked(base + 8, [&] { CHECK(cudaMemcpyAsync(host, device, 4096, cudaMemcpyDeviceToHost, stream)); });
        marked(base + 9, [&] { CHECK(cudaMemcpyAsync(device, device + 512, 2048, cudaMemcpyDeviceToDevice, stream)); });
        marked(base + 10, [&] { CHECK(cudaMemcpyAsync(device, device + 512, 1024, cudaMemcpyDefault, stream)); });
        marked(base + 6, [&] { CHECK(cudaMemsetAsync(device, 0, 4096, stream)); });
        if (graph != nullptr)
            marked(base + 7, [&] { CHECK(cudaGraphLaunch(graph, stream)); });
        CHECK(cudaStreamSynchronize(stream));
    }
} gpu;

struct Column {
    const char *title, *what;
    std::uint64_t mark;
};
constexpr Column kColumns[] = {{"<<<>>>", "probeArrows", 0},
                               {"rLaunch", "probeRuntime", 1},
                               {"rLaunchEx", "probeRuntimeEx", 2},
                               {"dLaunch", "probeDriver", 3},
                               {"dLaunchEx", "probeDriverEx", 4},
                               {"copyTo", "copy to", 5},
                               {"copyFrom", "copy from", 8},
                               {"copyIn", "copy in", 9},
                               {"copyAny", "copy any", 10},
                               {"fill", "fill", 6},
                               {"graph", "graph", 7},
                               {"gKernel", "probeGraph", 7},
                               {"gCopy", "graph copy", 7},
                               {"gFill", "graph fill", 7}};

void head()
{
    say("%-12s %-44s %4s %4s %4s", "way", "state", "r", "d", "ext");
    for (const Column &column : kColumns)
        say(" %9s", column.title);
    say(" %7s %s\n", "nodes", "dropped");
}

/// "records/with the right mark", "-" for none; "!" where a mark was wrong or a time missing.
void cells(std::uint64_t base, const std::map<std::uint32_t, std::uint64_t> &marks)
{
    for (const Column &column : kColumns) {
        int count = 0, right = 0;
        bool wrong = false;
        for (const Item &item : g_seen.items)
            if (item.what == column.what) {
                ++count;
                const auto found = marks.find(item.correlation);
                const bool isRight = found != marks.end() && found->second == base + column.mark;
                right += isRight ? 1 : 0;
                wrong |= !item.timed || (found != marks.end() && !isRight);
            }
        const std::string text =
            count == 0 ? "-" : std::to_string(count) + "/" + std::to_string(right) + (wrong ? "!" : "");
        say(" %9s", text.c_str());
    }
}

std::uint64_t g_base = 1000;
std::string g_taken; ///< steps
const char *g_way = "";

void flushed(std::uint32_t flags)
{
    if (g.cuptiActivityFlushAll == nullptr)
        return;
    TRY(cuptiActivityFlushAll(flags));
    ::usleep(20'000);
}

/// Runs the commands @p times, and says what was recorded of them.
void phase(const char *state)
{
    g_base += 100;
    {
        const std::lock_guard<std::mutex> lock(g_mutex);
        g_seen = {};
        g_called.clear();
    }
    constexpr int kTimes = 3;
    for (int i = 0; i < kTimes; ++i)
        gpu.run(g_base);

    flushed(0);
    flushed(0);
    std::size_t before = 0;
    {
        const std::lock_guard<std::mutex> lock(g_mutex);
        before = g_seen.items.size() + g_seen.marks.size();
    }
    flushed(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::size_t dropped = 0;
    g.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
    const std::lock_guard<std::mutex> lock(g_mutex);
    const std::size_t after = g_seen.items.size() + g_seen.marks.size();
    say("%-12s %-44s %4d %4d %4d", g_way, state, g_seen.runtime, g_seen.driver, g_seen.external);
    cells(g_base, g_seen.marks);
    int nodes = 0, known = 0;
    for (const Item &item : g_seen.items)
        if (item.node != 0) {
            ++nodes;
            known += static_cast<int>(g_nodes.count(item.node));
        }
    say(" %4d/%d %zu%s\n", nodes, known, dropped, after > before ? " (some by a forced flush alone)" : "");
    if (!g_called.empty()) {
        say("%-12s   %-42s %4s %4s %4s", g_way, "by callbacks", "", "", "");
        cells(g_base, g_called);
        say("\n");
    }
    if (g_seen.calls.empty())
        return;
    std::set<std::string> owners; // of the correlations of what ran
    for (const Item &item : g_seen.items)
        if (const auto call = g_seen.calls.find(item.correlation); call != g_seen.calls.end())
            owners.insert(item.what + " by " + call->second);
    for (const std::string &owner : owners)
        say("    %s\n", owner.c_str());
}

/// Host time of polling an event, of a start of a kernel and of a graph.
void cost(const char *state)
{
    using Clock = std::chrono::steady_clock;
    const auto median = [](auto f) {
        std::vector<double> times;
        for (int round = 0; round < 9; ++round) {
            const auto start = Clock::now();
            for (int i = 0; i < 100; ++i)
                f();
            times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / 100);
            CHECK(cudaStreamSynchronize(gpu.stream));
        }
        std::nth_element(times.begin(), times.begin() + 4, times.end());
        return times[4];
    };
    CHECK(cudaEventRecord(gpu.event, gpu.stream));
    CHECK(cudaStreamSynchronize(gpu.stream));
    const double query = median([] { static_cast<void>(cudaEventQuery(gpu.event)); });
    void *arguments[] = {&gpu.device};
    const double kernel = median(
        [&] { CHECK(cudaLaunchKernel(reinterpret_cast<const void *>(probeRuntime), 1, 1, arguments, 0, gpu.stream)); });
    const double graph = median([] { CHECK(cudaGraphLaunch(gpu.graph, gpu.stream)); });
    flushed(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    say("%-12s %-44s event query %.0f ns, kernel %.0f ns, graph %.0f ns\n", g_way, state, query, kernel, graph);
}

// --- Steps ----------------------------------------------------------------------------------------------------------

constexpr CUpti_ActivityKind kCommands[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                            CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};
constexpr CUpti_CallbackId kRuntimeCalls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,     CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020};
constexpr CUpti_CallbackId kDriverCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,     CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,        CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async};

void kind(CUpti_ActivityKind kind, bool on) { on ? TRY(cuptiActivityEnable(kind)) : TRY(cuptiActivityDisable(kind)); }

/// Graphs as a whole and their commands are not recorded at once.
void kinds(bool commands, bool graphs)
{
    if (!graphs)
        kind(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, false);
    for (const CUpti_ActivityKind each : kCommands)
        kind(each, commands);
    if (graphs)
        kind(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, true);
}

void singleCalls(bool on)
{
    for (const CUpti_CallbackId id : kRuntimeCalls)
        TRY(cuptiActivityEnableRuntimeApi(id, on));
    for (const CUpti_CallbackId id : kDriverCalls)
        TRY(cuptiActivityEnableDriverApi(id, on));
}

void allCalls(bool on)
{
    kind(CUPTI_ACTIVITY_KIND_RUNTIME, on);
    kind(CUPTI_ACTIVITY_KIND_DRIVER, on);
}

void watchDriver(bool on)
{
    for (const CUpti_CallbackId id : kDriverCalls)
        TRY(cuptiEnableCallback(on, g_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id));
}

void external(bool on)
{
    g_external = on;
    kind(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, on);
}

/// What tells that another profiler started the process.
void listProfilers()
{
    for (char **entry = environ; *entry != nullptr; ++entry)
        for (const char *prefix :
             {"NSYS", "NV_NSIGHT", "NV_COMPUTE_PROFILER", "NV_SANITIZER", "CUDA_INJECTION", "LD_PRELOAD"})
            if (std::strncmp(*entry, prefix, std::strlen(prefix)) == 0)
                say("    %s\n", *entry);
}

struct Step {
    char letter;
    const char *what;
    void (*take)();
};
constexpr Step kSteps[] = {
    {'s', "subscribe", [] { subscribe(); }},
    {'o', "open the GPU", [] { gpu.open(); }},
    {'m', "make the graph", [] { gpu.capture(); }},
    {'G', "record graphs", [] { kinds(false, true); }},
    {'C', "record commands", [] { kinds(true, false); }},
    {'0', "record neither", [] { kinds(false, false); }},
    {'k', "graphs' kind on", [] { kind(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, true); }},
    {'K', "graphs' kind off", [] { kind(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, false); }},
    {'d', "watch the driver's calls", [] { watchDriver(true); }},
    {'D', "watch none", [] { watchDriver(false); }},
    {'e', "external correlations", [] { external(true); }},
    {'a', "record single calls", [] { singleCalls(true); }},
    {'A', "record all calls", [] { allCalls(true); }},
    {'x', "record no single calls", [] { singleCalls(false); }},
    {'X', "record no calls", [] { allCalls(false); }},
    {'p', "what other profilers set", [] { listProfilers(); }},
    {'r', "run the commands, a row", [] { phase(g_taken.c_str()); }},
    {'t', "time calls", [] { cost(g_taken.c_str()); }},
};

struct Way {
    const char *name, *steps;
};
constexpr Way kWays[] = {
    {"nothing", "o m t"},
    {"single-late", "s e C a G x 0 o G a m r C r t"}, // single calls once there is a context
    {"single-early", "s e C a o G m r C r 0 x t"},
    {"all-calls", "s o m e C A r t X t"},
    {"callbacks", "s C G 0 o d G m r C r G r 0 r G r t C t 0 t D t"}, // as Planloom does
    {"in-window", "s C G 0 o d C m r G r 0 G r"}, // graphs that are made while commands are recorded
    {"in-between", "s C G 0 o d C r 0 m r G r"},  // or nothing is
    {"made-before", "s o m d C r G r"},
    {"kind-for-it", "s C G 0 o d C k m K r G r C r"},
    {"profilers", "p s o m r"},
};

void crashed(int signal)
{
    say("%-12s crashed behind %s\n", g_way, g_taken.c_str());
    void *frames[40];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 40), STDOUT_FILENO);
    std::signal(signal, SIG_DFL);
    ::raise(signal);
}

void take(const std::string &steps)
{
    for (const char letter : steps) {
        const auto *step =
            std::find_if(std::begin(kSteps), std::end(kSteps), [&](const Step &each) { return each.letter == letter; });
        if (step == std::end(kSteps))
            continue;
        g_taken += letter;
        step->take();
    }
}

void runIn(const char *name, const std::string &steps)
{
    constexpr unsigned int kMostSeconds = 15;
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(kMostSeconds);
        std::signal(SIGSEGV, crashed);
        g_way = name;
        if (steps.find('s') != std::string::npos)
            openCupti();
        take(steps);
        std::fflush(stdout);
        std::_Exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        say("%-12s ended by signal %d (%s)\n", name, WTERMSIG(status), strsignal(WTERMSIG(status)));
}

} // namespace

int main(int argc, char **argv)
{
    say("cells: records/with the right mark, ! where one is wrong or has no times; r, d, ext: records of the "
        "runtime's\n"
        "calls, the driver's, external correlations; nodes: records of graphs' commands/whose node is known\nsteps:");
    for (const Step &step : kSteps)
        say(" %c %s;", step.letter, step.what);
    say("\n");
    head();
    for (const Way &way : kWays)
        if (argc == 1)
            runIn(way.name, way.steps);
    for (int i = 1; i < argc; ++i) {
        const auto *way = std::find_if(std::begin(kWays), std::end(kWays),
                                       [&](const Way &each) { return std::strcmp(each.name, argv[i]) == 0; });
        runIn(way != std::end(kWays) ? way->name : "given", way != std::end(kWays) ? way->steps : argv[i]);
    }
    return 0;
}
