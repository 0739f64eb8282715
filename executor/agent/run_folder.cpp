// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/run_folder.h"

#include "engine/base/failpoint.h"
#include "engine/base/files.h"
#include "executor/runtime/measured_course.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

namespace fs = std::filesystem;

int openToAppend(const std::string &path)
{
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/// A file name out of a model's name.
std::string plain(const std::string &name)
{
    std::string text;
    for (const char c : name.substr(0, 40))
        text += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c == '.' && !text.empty())
            ? c
            : '-';
    return text.empty() ? "run" : text;
}

std::string timeNow()
{
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
    return text;
}

constexpr std::array<const char *, 13> kFiles{
    "plan.json",    "request.json", "metrics.jsonl", "arrivals.csv",          "residuals.csv",
    "duals.csv",    "metrics.db",   "trace.pltrace", runtime::kMeasuredTrace, runtime::kMeasuredTimes,
    "summary.json", "losses",       "rows"};
/// Of what a part of a run has done, put aside by the next one.
constexpr std::array<const char *, 3> kParts{runtime::kMeasuredTrace, runtime::kMeasuredTimes, "trace.pltrace"};
constexpr std::size_t kMeasuredParts = 2; ///< the first ones

/// "trace.pltrace" as the second: "trace.2.pltrace".
std::string numbered(const std::string &name, int number)
{
    const std::size_t dot = name.rfind('.');
    return fmt::format("{}.{}{}", name.substr(0, dot), number, name.substr(dot));
}

} // namespace

Result<RunFolder> RunFolder::lock(const std::string &path)
{
    RunFolder folder;
    folder.m_path = fs::path(path).lexically_normal().string();
    folder.m_lock = ::open(folder.m_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.m_lock < 0)
        return ioError(fmt::format("the run folder cannot be read: {}; choose another", systemReason()))
            .in(folder.m_path);
    if (::flock(folder.m_lock, LOCK_EX | LOCK_NB) != 0)
        return badInput("another training is running in this folder; wait for its end or choose another folder")
            .in(folder.m_path);
    return folder;
}

Result<RunFolder> RunFolder::create(const std::string &path)
{
    if (!fs::path(path).is_absolute())
        return badInput(fmt::format("the run folder '{}' is not an absolute path", path));
    std::error_code error;
    const bool made = fs::create_directories(fs::path(path).lexically_normal(), error);
    if (error || !fs::is_directory(path))
        return ioError(fmt::format("the run folder cannot be made: {}; choose another",
                                   error ? error.message() : "a file of that name is there"))
            .in(path);
    Result<RunFolder> folder = lock(path);
    if (!folder)
        return folder;
    folder->m_made = made;
    for (const char *name : kFiles) {
        if (fs::exists(folder->file(name)))
            return badInput(
                       fmt::format("this folder already holds a run ({} is there); choose another folder, or resume it",
                                   name))
                .in(folder->m_path);
    }
    return folder;
}

Result<RunFolder> RunFolder::reopen(const std::string &path)
{
    if (!fs::path(path).is_absolute())
        return badInput(fmt::format("the run folder '{}' is not an absolute path", path));
    std::error_code unknown;
    if (!fs::exists(path + "/request.json", unknown))
        return notFound("holds no run to resume; check the folder's name, or leave out --resume").in(path);
    Result<RunFolder> folder = lock(path);
    if (folder)
        folder->m_reopened = true;
    return folder;
}

Result<RunFolder> RunFolder::createBeneath(const std::string &root, const std::string &name)
{
    const std::string base = root + "/" + timeNow() + "-" + plain(name);
    constexpr int kTries = 1000;
    for (int i = 1; i <= kTries; ++i) {
        const std::string path = i == 1 ? base : fmt::format("{}-{}", base, i);
        if (!fs::exists(path))
            return create(path);
    }
    return ioError("no free name for a run folder was found; remove old runs").in(root);
}

RunFolder::RunFolder(RunFolder &&other) noexcept { *this = std::move(other); }

RunFolder &RunFolder::operator=(RunFolder &&other) noexcept
{
    std::swap(m_path, other.m_path);
    std::swap(m_reopened, other.m_reopened);
    std::swap(m_made, other.m_made);
    std::swap(m_before, other.m_before);
    std::swap(m_cut, other.m_cut);
    std::swap(m_lock, other.m_lock);
    std::swap(m_metrics, other.m_metrics);
    std::swap(m_log, other.m_log);
    std::swap(m_metricsLength, other.m_metricsLength);
    return *this;
}

RunFolder::~RunFolder() { release(); }

void RunFolder::release()
{
    for (int *file : {&m_metrics, &m_log, &m_lock}) {
        if (*file >= 0)
            ::close(std::exchange(*file, -1));
    }
}

Status RunFolder::writeRequest(const TrainRequest &request, const run::Beginning &from)
{
    return writeFileAtomically(file("request.json"), run::toJson({request.settings, from}));
}

/// Files of an earlier part of the run: its trace gets a number, as it has its own clock, and its summary no
/// longer holds.
Status RunFolder::putAside()
{
    const auto textOf = [this](const char *name) {
        auto text = readFile(file(name));
        return text ? std::optional(std::move(*text)) : std::nullopt;
    };
    m_before = {
        .plan = textOf("plan.json"), .request = textOf("request.json"), .summary = textOf("summary.json"), .parts = {}};
    std::error_code error;
    fs::remove(file("summary.json"), error);
    if (!joinMeasured()) // of an agent that was killed; what cannot be read would be taken for the next part's
        for (int rank = 0; fs::remove(runtime::measuredTraceOf(m_path, rank), error); ++rank) {
        }
    auto parts = putAside(kParts);
    if (!parts)
        return parts.error();
    m_before.parts = *std::move(parts);
    return {};
}

Status RunFolder::putMeasuredAside()
{
    if (const Status joined = joinMeasured(); !joined)
        return joined;
    const auto parts = putAside(std::span(kParts).first(kMeasuredParts));
    return parts ? Status() : parts.error();
}

/// They get a number; returns their names before and now.
Result<RunFolder::Renamed> RunFolder::putAside(std::span<const char *const> parts)
{
    const auto isFree = [this](int number) {
        return std::ranges::none_of(kParts,
                                    [&](const char *part) { return fs::exists(file(numbered(part, number).c_str())); });
    };
    constexpr int kMost = 10000;
    int number = 1;
    while (number < kMost && !isFree(number))
        ++number;
    Renamed renamed;
    for (const char *part : parts) {
        if (!fs::exists(file(part)))
            continue;
        const std::string aside = file(numbered(part, number).c_str());
        std::error_code error;
        fs::rename(file(part), aside, error);
        if (error) {
            const std::string why = error.message();
            for (const auto &[name, back] : renamed)
                fs::rename(back, name, error);
            return ioError(fmt::format("{} cannot be put aside: {}", part, why)).in(file(part));
        }
        renamed.emplace_back(file(part), aside);
    }
    return renamed;
}

Status RunFolder::joinMeasured()
{
    trace::Trace joined;
    std::vector<std::string> files;
    for (int rank = 0;; ++rank) {
        const std::string part = runtime::measuredTraceOf(m_path, rank);
        if (!fs::exists(part))
            break;
        auto read = trace::readTrace(part);
        if (!read)
            return read.error();
        files.push_back(part);
        if (rank == 0) {
            joined = *std::move(read);
            continue;
        }
        joined.records.insert(joined.records.end(), read->records.begin(), read->records.end());
        joined.dropped += read->dropped;
    }
    if (files.empty())
        return {};
    joined.sort();
    if (const Status written = trace::writeTrace(joined, file(runtime::kMeasuredTrace)); !written)
        return written;
    for (const std::string &part : files)
        ::unlink(part.c_str());
    return {};
}

/// The run did not go on: its earlier state still holds.
void RunFolder::goBack()
{
    const std::pair<const char *, const std::optional<std::string> &> files[] = {{"plan.json", m_before.plan},
                                                                                 {"request.json", m_before.request},
                                                                                 {"summary.json", m_before.summary}};
    for (const auto &[name, text] : files) {
        if (text) [[maybe_unused]]
            const Status written =
                writeFileAtomically(file(name), *text); // nothing more can be done about a disk that is full
    }
    std::error_code error;
    for (const char *part : kParts)
        fs::remove(file(part), error);
    for (const auto &[name, aside] : m_before.parts)
        fs::rename(aside, name, error);
    m_cut = false;
}

Status RunFolder::begin(const TrainRequest &request)
{
    Status done = m_reopened ? putAside() : Status();
    if (done)
        done = writeFileAtomically(file("plan.json"), request.planJson);
    if (done)
        done = writeRequest(request, {});
    m_log = openToAppend(file("log"));
    m_metrics = ::open(file("metrics.jsonl").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (done && (m_log < 0 || m_metrics < 0))
        done = ioError(fmt::format("the run folder cannot be written: {}; choose another", systemReason())).in(m_path);
    if (!done)
        discard();
    return done;
}

Status RunFolder::appendMetrics(const std::string &line)
{
    PLANLOOM_FAILPOINT("metrics.write");
    if (const Status shortened = shortenMetrics(); !shortened)
        return shortened;
    const std::string text = line + "\n";
    const auto put = ::pwrite(m_metrics, text.data(), text.size(), m_metricsLength);
    if (put != static_cast<ssize_t>(text.size())) {
        const std::string reason = put < 0 ? systemReason() : "No space left on device";
        [[maybe_unused]] const int cut = ::ftruncate(m_metrics, m_metricsLength);
        return ioError(fmt::format("cannot be written: {}; free some space or choose another run folder", reason))
            .in(file("metrics.jsonl"));
    }
    m_metricsLength += put;
    return {};
}

Status RunFolder::cutMetrics(std::int64_t step)
{
    const auto text = readFile(file("metrics.jsonl"));
    if (!text)
        return text.error();
    std::int64_t length = 0;
    for (std::size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', end + 1)) {
        const std::string_view line = std::string_view(*text).substr(static_cast<std::size_t>(length),
                                                                     end + 1 - static_cast<std::size_t>(length));
        const auto steps = run::metricsFromJson(line);
        if (!steps)
            return steps.error().in(file("metrics.jsonl"));
        const auto validations = run::validationsFromJson(line);
        if (!validations)
            return validations.error().in(file("metrics.jsonl"));
        if ((!steps->empty() && steps->front().step >= step)
            || (!validations->empty() && validations->front().step >= step))
            break; // lines are in the order of steps
        length = static_cast<std::int64_t>(end) + 1;
    }
    m_cut = true;
    m_metricsLength = length;
    return {};
}

Status RunFolder::shortenMetrics()
{
    if (!m_cut)
        return {};
    if (::ftruncate(m_metrics, m_metricsLength) != 0)
        return ioError(fmt::format("cannot be shortened: {}", systemReason())).in(file("metrics.jsonl"));
    m_cut = false;
    return {};
}

void RunFolder::appendLog(std::string_view text)
{
    if (m_log >= 0 && !text.empty()) [[maybe_unused]]
        const auto put = ::write(m_log, text.data(), text.size());
}

Status RunFolder::writeSummary(const run::Summary &summary)
{
    return writeFileAtomically(file("summary.json"), run::toJson(summary) + "\n");
}

std::optional<run::Summary> RunFolder::summaryBefore() const
{
    if (!m_before.summary)
        return std::nullopt;
    auto summary = run::summaryFromJson(*m_before.summary);
    return summary ? std::optional(*std::move(summary)) : std::nullopt;
}

void RunFolder::discard()
{
    if (m_reopened) {
        goBack();
        return;
    }
    std::error_code error;
    for (const char *name : kFiles)
        fs::remove_all(file(name), error);
    if (fs::file_size(file("log"), error) == 0)
        ::unlink(file("log").c_str());
    if (m_made) // stays where a log is in it
        ::rmdir(m_path.c_str());
}

} // namespace planloom::agent
