// SPDX-License-Identifier: Apache-2.0
// Tables and columns by NVIDIA's "SQLite Schema Reference" of Nsight Systems' export (2019.3 to 2025.3).
#include "engine/import/trace/nsight_trace.h"

#include "engine/import/trace/slices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace planloom::import {

namespace {

constexpr int kMostTextBytes = 1 << 20;           // of one name
constexpr int kInstructionsPerReport = 1'000'000; // of SQLite's machine, about 10 ms

struct CloseDatabase {
    void operator()(sqlite3 *database) const { sqlite3_close_v2(database); }
};
struct FinalizeStatement {
    void operator()(sqlite3_stmt *statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

std::string_view columnText(sqlite3_stmt *row, int column)
{
    const auto *bytes = reinterpret_cast<const char *>(sqlite3_column_text(row, column));
    return bytes ? std::string_view(bytes, static_cast<std::size_t>(sqlite3_column_bytes(row, column)))
                 : std::string_view();
}

bool isMissing(sqlite3_stmt *row, int column) { return sqlite3_column_type(row, column) == SQLITE_NULL; }

/// Process and thread in Nsight's serialized identifier: 24 bits each, the thread lowest.
std::int64_t processOf(std::int64_t global) { return (global >> 24) & 0xFFFFFF; }
std::int64_t threadOf(std::int64_t global) { return global & 0xFFFFFF; }

/// CUPTI's CUpti_ActivityMemcpyKind.
std::string copyName(std::int64_t kind)
{
    static constexpr std::array<std::string_view, 11> kNames{"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                             "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
    const bool known = kind > 0 && kind < static_cast<std::int64_t>(kNames.size());
    return fmt::format("Memcpy {}", kNames[known ? static_cast<std::size_t>(kind) : 0]);
}

/// What a table's rows are called.
enum class NameIs { StringId, CopyKind, Fixed, Graph, Range };

/// A column that a reader may want to see.
struct NsightArgument {
    const char *column;
    const char *label;
};

/// A table whose rows are slices: on a stream of a GPU, or on a thread.
struct SliceTable {
    const char *table;
    const char *category; ///< of slices
    bool onGpu;
    NameIs nameIs;
    std::vector<const char *> nameColumns; ///< the first that the table has
    const char *fixedName;
    std::vector<NsightArgument> arguments; ///< of those that the table has
};

std::vector<NsightArgument> kernelArguments()
{
    return {{"gridX", "grid x"},
            {"gridY", "grid y"},
            {"gridZ", "grid z"},
            {"blockX", "block x"},
            {"blockY", "block y"},
            {"blockZ", "block z"},
            {"registersPerThread", "registers per thread"},
            {"staticSharedMemory", "static shared memory"},
            {"dynamicSharedMemory", "dynamic shared memory"}};
}

const std::vector<SliceTable> &sliceTables()
{
    static const std::vector<SliceTable> tables{
        {"CUPTI_ACTIVITY_KIND_KERNEL",
         "kernel",
         true,
         NameIs::StringId,
         {"demangledName", "shortName"},
         "",
         kernelArguments()},
        {"CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy", true, NameIs::CopyKind, {"copyKind"}, "", {{"bytes", "bytes"}}},
        {"CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", true, NameIs::Fixed, {}, "Memset", {{"bytes", "bytes"}}},
        {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "kernel", true, NameIs::Graph, {"graphId"}, "", {}},
        {"CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime", false, NameIs::StringId, {"nameId"}, "", {}},
        {"NVTX_EVENTS", "user_annotation", false, NameIs::Range, {"text"}, "", {}},
    };
    return tables;
}

/// Tables that say what others mean; everything else with times is counted as not shown.
bool isKnown(const std::string &table)
{
    static const std::set<std::string, std::less<>> others{"PROCESSES", "ThreadNames", "StringIds", "TARGET_INFO_GPU"};
    const auto &slices = sliceTables();
    return others.contains(table)
        || std::any_of(slices.begin(), slices.end(), [&](const SliceTable &known) { return table == known.table; });
}

class NsightReader {
public:
    NsightReader(Database database, Progress &progress) : m_database(std::move(database)), m_progress(progress)
    {
        sqlite3_progress_handler(m_database.get(), kInstructionsPerReport, &NsightReader::goOn, this);
    }

    Result<ForeignTrace> read()
    {
        for (const auto step : {&NsightReader::readSchema, &NsightReader::readNames, &NsightReader::readSlices,
                                &NsightReader::countOthers}) {
            if (const Status done = (this->*step)(); !done)
                return done.error();
        }
        ForeignTrace made;
        m_slices.setDropped(m_timeless);
        const std::int64_t unkept = m_slices.argumentsLeftOut();
        made.trace = m_slices.finish(&made.origin);
        made.origin += m_epoch;
        if (unkept > 0)
            m_notes.push_back(
                fmt::format("{} slices are shown without their arguments, of which 64 MiB are kept", unkept));
        if (m_timeless > 0)
            m_notes.push_back(
                fmt::format("{} slices have no valid times, or never ended, and are left out", m_timeless));
        made.notes = std::move(m_notes);
        return made;
    }

private:
    static int goOn(void *reader) // of SQLite: not 0 interrupts
    {
        auto &self = *static_cast<NsightReader *>(reader);
        self.m_progress.report(-1, "reading the database");
        return self.m_progress.stopped() ? 1 : 0;
    }

    [[nodiscard]] Error error() const
    {
        const int code = sqlite3_extended_errcode(m_database.get()) & 0xff;
        if (code == SQLITE_INTERRUPT)
            return cancelled();
        const char *message = sqlite3_errmsg(m_database.get());
        if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
            return badInput(fmt::format("the database is damaged ({}); export the report again", message));
        if (code == SQLITE_IOERR || code == SQLITE_CANTOPEN)
            return ioError(fmt::format("cannot be read ({}); check the disk", message));
        return badInput(fmt::format("the database cannot be read as one of Nsight Systems: {}; export the report again "
                                    "with 'nsys export --type sqlite'",
                                    message));
    }

    /// Calls @p row for each row of the answer.
    template <class Row>
    Status select(const std::string &sql, Row row)
    {
        sqlite3_stmt *made = nullptr;
        if (sqlite3_prepare_v2(m_database.get(), sql.c_str(), -1, &made, nullptr) != SQLITE_OK)
            return error();
        const Statement statement(made);
        int step = sqlite3_step(made);
        for (; step == SQLITE_ROW; step = sqlite3_step(made))
            row(made);
        if (step != SQLITE_DONE)
            return error();
        return {};
    }

    [[nodiscard]] bool has(const std::string &table, const std::string &column) const
    {
        const auto found = m_columns.find(table);
        return found != m_columns.end() && found->second.contains(column);
    }

    /// Tables that hold rows of their own, and their columns. A view or a virtual table would run what the file says.
    Status readSchema()
    {
        std::vector<std::string> tables;
        auto done = select("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0",
                           [&](auto *row) { tables.emplace_back(columnText(row, 0)); });
        for (const std::string &table : tables) {
            if (!done || table.find('"') != std::string::npos)
                continue;
            done = select(fmt::format("PRAGMA table_xinfo(\"{}\")", table), [&](auto *row) {
                if (sqlite3_column_int(row, 6) == 0) // neither hidden nor computed
                    m_columns[table].emplace(columnText(row, 1));
            });
        }
        if (!done)
            return done;
        const auto known = [&](const SliceTable &table) { return m_columns.contains(table.table); };
        if (!has("StringIds", "value") || std::none_of(sliceTables().begin(), sliceTables().end(), known))
            return badInput("the database has none of Nsight Systems' tables of CUDA or NVTX events; record with "
                            "'nsys profile --trace=cuda,nvtx' and export with 'nsys export --type sqlite'");
        return {};
    }

    Status readNames()
    {
        auto done = select("SELECT id, value FROM StringIds",
                           [&](auto *row) { m_strings.emplace(sqlite3_column_int64(row, 0), columnText(row, 1)); });
        if (done && has("PROCESSES", "globalPid") && has("PROCESSES", "name"))
            done = select("SELECT globalPid, name FROM PROCESSES", [&](auto *row) {
                std::string_view name = columnText(row, 1);
                name.remove_prefix(std::min(name.size(), name.find_last_of('/') + 1));
                m_processNames[processOf(sqlite3_column_int64(row, 0))] = name;
            });
        if (done && has("TARGET_INFO_GPU", "id") && has("TARGET_INFO_GPU", "name"))
            done = select("SELECT id, name FROM TARGET_INFO_GPU",
                          [&](auto *row) { m_gpuNames[sqlite3_column_int64(row, 0)] = columnText(row, 1); });
        if (done && has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"))
            done = select("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", [&](auto *row) {
                constexpr std::int64_t kMost = std::int64_t{1} << 61;
                const std::int64_t epoch = sqlite3_column_int64(row, 0);
                m_epoch = epoch >= 0 && epoch <= kMost ? epoch : 0;
            });
        if (done && has("ThreadNames", "nameId") && has("ThreadNames", "globalTid"))
            done = select("SELECT globalTid, nameId FROM ThreadNames", [&](auto *row) {
                m_threadNames[sqlite3_column_int64(row, 0) & 0xFFFF'FFFF'FFFF] = string(sqlite3_column_int64(row, 1));
            });
        return done;
    }

    [[nodiscard]] std::string_view string(std::int64_t id) const
    {
        const auto found = m_strings.find(id);
        return found == m_strings.end() ? std::string_view("?") : std::string_view(found->second);
    }

    Status readSlices()
    {
        m_namesProcesses = std::ranges::all_of(sliceTables(), [&](const SliceTable &table) {
            return !table.onGpu || !m_columns.contains(table.table) || has(table.table, "globalPid");
        });
        for (const SliceTable &table : sliceTables()) {
            if (!m_columns.contains(table.table))
                continue;
            const std::string place = table.onGpu ? "streamId" : "globalTid";
            if (!has(table.table, "start") || !has(table.table, "end") || !has(table.table, place)) {
                m_notes.push_back(fmt::format("{} lacks its times or its {} and is left out", table.table, place));
                continue;
            }
            if (const Status done = readTable(table); !done)
                return done;
        }
        return {};
    }

    /// A column, or NULL where this version's table lacks it.
    [[nodiscard]] std::string columnOr(const SliceTable &table, std::string_view column) const
    {
        return has(table.table, std::string(column)) ? fmt::format("\"{}\"", column) : std::string("NULL");
    }

    Status readTable(const SliceTable &table)
    {
        std::string name = "NULL";
        for (const char *column : table.nameColumns) {
            if (name == "NULL")
                name = columnOr(table, column);
        }
        std::string more; // from column kFirstArgument on
        for (const NsightArgument &argument : table.arguments)
            more += ", " + columnOr(table, argument.column);
        const std::string place = table.onGpu ? fmt::format("{}, {}, {}", columnOr(table, "globalPid"),
                                                            columnOr(table, "deviceId"), columnOr(table, "streamId"))
                                              : fmt::format("{}, {}, {}", columnOr(table, "globalTid"),
                                                            columnOr(table, "textId"), columnOr(table, "eventType"));
        const std::string sql = fmt::format("SELECT \"start\", \"end\", {}, {}, {}{} FROM {}", name, place,
                                            columnOr(table, "correlationId"), more, table.table);
        return select(sql, [&](sqlite3_stmt *row) {
            if (table.nameIs == NameIs::Range && !isRange(row))
                return;
            const std::string called = nameOf(table, row);
            const std::int64_t start = sqlite3_column_int64(row, 0);
            const std::int64_t end = sqlite3_column_int64(row, 1);
            constexpr std::int64_t kMost = std::int64_t{1} << 61;
            if (isMissing(row, 0) || isMissing(row, 1) || start < -kMost || start > kMost || end > kMost
                || end < start) {
                ++m_timeless;
                return;
            }
            Slice slice;
            const std::string process = table.onGpu ? gpu(row) : host(row);
            const std::string thread = table.onGpu ? stream(process, row) : hostThread(process, row);
            slice.process = process;
            slice.thread = thread;
            slice.name = called;
            slice.category = table.category;
            slice.start = start;
            slice.duration = end - start;
            slice.correlation = correlationOf(row);
            slice.isLaunch = !table.onGpu;
            const std::string arguments = argumentsOf(table, row);
            slice.arguments = arguments;
            if (!m_slices.add(slice))
                ++m_timeless;
        });
    }

    /// Counted by each process for itself. Older tables of GPUs do not name their process.
    [[nodiscard]] std::int64_t correlationOf(sqlite3_stmt *row) const
    {
        const std::int64_t number = isMissing(row, 6) ? -1 : sqlite3_column_int64(row, 6);
        if (number < 1 || number > std::numeric_limits<std::uint32_t>::max())
            return -1;
        return (m_namesProcesses ? processOf(sqlite3_column_int64(row, 3)) << 32 : 0) + number;
    }

    static std::string argumentsOf(const SliceTable &table, sqlite3_stmt *row)
    {
        constexpr int kFirstArgument = 7;
        std::string lines;
        int column = kFirstArgument;
        for (const NsightArgument &argument : table.arguments) {
            if (!isMissing(row, column))
                lines += fmt::format("{}{}: {}", lines.empty() ? "" : "\n", argument.label,
                                     sqlite3_column_int64(row, column));
            ++column;
        }
        return lines;
    }

    /// Of NVTX: pushed and popped, or started and ended. Marks and names of domains are no ranges.
    bool isRange(sqlite3_stmt *row)
    {
        constexpr std::int64_t kPushPop = 59, kStartEnd = 60;
        const std::int64_t type = isMissing(row, 5) ? kPushPop : sqlite3_column_int64(row, 5);
        if (type == kPushPop || type == kStartEnd)
            return true;
        ++m_marks;
        return false;
    }

    [[nodiscard]] std::string nameOf(const SliceTable &table, sqlite3_stmt *row) const
    {
        switch (table.nameIs) {
        case NameIs::StringId: return std::string(string(sqlite3_column_int64(row, 2)));
        case NameIs::CopyKind: return copyName(sqlite3_column_int64(row, 2));
        case NameIs::Graph: return fmt::format("CUDA graph {}", sqlite3_column_int64(row, 2));
        case NameIs::Range:
            return std::string(isMissing(row, 2) ? string(sqlite3_column_int64(row, 4)) : columnText(row, 2));
        case NameIs::Fixed: break;
        }
        return table.fixedName;
    }

    [[nodiscard]] std::string processName(std::int64_t process) const
    {
        const auto found = m_processNames.find(process);
        return found == m_processNames.end() ? fmt::format("process {}", process)
                                             : fmt::format("{} {}", found->second, process);
    }

    /// Keys of the collector's processes; names are given when a key is new.
    std::string gpu(sqlite3_stmt *row)
    {
        const std::int64_t process = processOf(sqlite3_column_int64(row, 3));
        const std::int64_t device = sqlite3_column_int64(row, 4);
        std::string key = fmt::format("{}/gpu{}", process, device);
        if (m_seen.insert(key).second) {
            const auto model = m_gpuNames.find(device);
            m_slices.nameProcess(key, process == 0 ? fmt::format("GPU {}", device) : processName(process));
            m_slices.labelProcess(key,
                                  fmt::format("{}{}{}", process == 0 ? "" : fmt::format("GPU {}", device),
                                              process == 0 || model == m_gpuNames.end() ? "" : ", ",
                                              model == m_gpuNames.end() ? "" : model->second));
            m_slices.orderProcess(key, 1 + std::clamp<std::int64_t>(device, 0, 1 << 20));
        }
        return key;
    }

    std::string host(sqlite3_stmt *row)
    {
        const std::int64_t process = processOf(sqlite3_column_int64(row, 3));
        std::string key = fmt::format("{}/cpu", process);
        if (m_seen.insert(key).second) {
            m_slices.nameProcess(key, processName(process));
            m_slices.labelProcess(key, "CPU");
        }
        return key;
    }

    std::string stream(const std::string &process, sqlite3_stmt *row)
    {
        std::string key = fmt::format("{}", sqlite3_column_int64(row, 5));
        if (m_seen.insert(process + "/" + key).second)
            m_slices.nameThread(process, key, "stream " + key);
        return key;
    }

    std::string hostThread(const std::string &process, sqlite3_stmt *row)
    {
        const std::int64_t global = sqlite3_column_int64(row, 3);
        std::string key = fmt::format("{}", threadOf(global));
        if (m_seen.insert(process + "/" + key).second) {
            const auto found = m_threadNames.find(global & 0xFFFF'FFFF'FFFF);
            m_slices.nameThread(process, key,
                                found == m_threadNames.end() ? "thread " + key
                                                             : fmt::format("{} {}", found->second, key));
        }
        return key;
    }

    /// Events of other kinds are said by their tables.
    Status countOthers()
    {
        if (m_marks > 0)
            m_notes.push_back(fmt::format("{} marks of NVTX are not shown", m_marks));
        std::vector<std::string> left;
        for (const auto &[table, columns] : m_columns) {
            const bool events = columns.contains("start") || columns.contains("timestamp");
            if (!events || isKnown(table) || table.starts_with("TARGET_INFO") || table.starts_with("ANALYSIS"))
                continue;
            bool any = false;
            const auto done = select(fmt::format("SELECT 1 FROM \"{}\" LIMIT 1", table), [&](auto *) { any = true; });
            if (!done)
                return done;
            if (any)
                left.push_back(table);
        }
        if (!left.empty())
            m_notes.push_back(fmt::format("not shown: the events in {}", fmt::join(left, ", ")));
        return {};
    }

    Database m_database;
    Progress &m_progress;
    SliceCollector m_slices;
    std::map<std::string, std::set<std::string>> m_columns; ///< by table
    std::unordered_map<std::int64_t, std::string> m_strings;
    std::map<std::int64_t, std::string> m_processNames, m_gpuNames, m_threadNames;
    std::set<std::string> m_seen; ///< processes and threads that have names
    bool m_namesProcesses = true; ///< on GPUs
    std::int64_t m_epoch = 0;     ///< nanoseconds since 1970 of the database's time 0
    std::int64_t m_timeless = 0;
    std::int64_t m_marks = 0;
    std::vector<std::string> m_notes;
};

} // namespace

Result<ForeignTrace> readNsightTrace(const std::string &path, Progress &progress)
{
    sqlite3 *opened = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_PRIVATECACHE, nullptr);
    Database database(opened);
    if (code != SQLITE_OK)
        return ioError(fmt::format("cannot be opened ({}); check its name and permissions", sqlite3_errstr(code)))
            .in(path);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
    sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kMostTextBytes);
    NsightReader reader(std::move(database), progress);
    auto read = reader.read();
    if (!read)
        return read.error().in(path);
    return read;
}

} // namespace planloom::import
