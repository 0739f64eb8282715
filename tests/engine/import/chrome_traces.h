// SPDX-License-Identifier: Apache-2.0
// Texts of traces for tst_chrome_trace, which moc could not read between its slots.
#pragma once

#include <string>

namespace planloom::tests {

/// As PyTorch's profiler writes it.
inline const std::string kProfilerTrace =
    R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 \"x\" [}"}],
 "baseTimeNanoseconds": 1700000000000000000, "traceName": "a{.json",
 "traceEvents": [
 {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 77, "tid": 78, "ts": 1700000000000010.250, "dur": 20.5, "args": {"External id": 1}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 77, "tid": 78, "ts": 1700000000000012.125, "dur": 10, "args": {}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 77, "tid": 78, "ts": 1700000000000013, "dur": 2},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 77, "tid": 78, "ts": 1700000000000010, "dur": 100},
 {"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": 0, "tid": 7, "ts": 1700000000000030.001, "dur": 5.999, "args": {"stream": 7}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 20, "ts": 1700000000000031, "dur": 9},
 {"ph": "s", "id": 1, "pid": 77, "tid": 78, "ts": 1700000000000013, "cat": "ac2g", "name": "ac2g"},
 {"ph": "f", "id": 1, "pid": 0, "tid": 7, "ts": 1700000000000030, "cat": "ac2g", "name": "ac2g", "bp": "e"},
 {"name": "process_name", "ph": "M", "ts": 1700000000000000, "pid": 77, "tid": 0, "args": {"name": "python"}},
 {"name": "process_labels", "ph": "M", "pid": 77, "tid": 0, "args": {"labels": "CPU"}},
 {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "python"}},
 {"name": "process_labels", "ph": "M", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
 {"name": "process_sort_index", "ph": "M", "pid": 0, "tid": 0, "args": {"sort_index": 5000000}},
 {"name": "thread_name", "ph": "M", "pid": 77, "tid": 78, "args": {"name": "python thread 78"}},
 {"name": "thread_name", "ph": "M", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
 {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1700000000000200}
 ]})";

/// A list without an end, of begins and ends.
inline const std::string kBeginsAndEnds = R"([
{"ph":"B","name":"outer","cat":"c","pid":1,"tid":1,"ts":0},
{"ph":"B","name":"inner","cat":"c","pid":1,"tid":1,"ts":1},
{"ph":"E","pid":1,"tid":1,"ts":2},
{"ph":"E","pid":1,"tid":1,"ts":5},
{"ph":"E","pid":1,"tid":1,"ts":6},
{"ph":"B","name":"never ended","pid":1,"tid":2,"ts":3})";

/// A complete event; times are texts.
inline std::string slice(const std::string &name, const std::string &start, const std::string &duration,
                         int process = 1, int thread = 1)
{
    return R"({"ph":"X","name":")" + name + R"(","pid":)" + std::to_string(process) + R"(,"tid":)"
        + std::to_string(thread) + R"(,"ts":)" + start + R"(,"dur":)" + duration + "}";
}

} // namespace planloom::tests
