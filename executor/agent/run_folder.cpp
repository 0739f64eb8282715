// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/run_folder.h"

#include "engine/base/files.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace planloom::agent {
namespace {

namespace fs = std::filesystem;

std::string why() { return std::strerror(errno); }

int openToAppend(const std::string &path) { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644); }

/// A file name out of a model's name.
std::string plain(const std::string &name)
{
    std::string text;
    for (const char c : name.substr(0, 40))
        text += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c == '.' && !text.empty()) ? c : '-';
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

constexpr std::array<const char *, 5> kFiles{"plan.json", "request.json", "metrics.jsonl", "trace.pltrace", "summary.json"};

} // namespace

Result<RunFolder> RunFolder::create(const std::string &path)
{
    if (!fs::path(path).is_absolute())
        return badInput(fmt::format("the run folder '{}' is not an absolute path", path));
    RunFolder folder;
    folder.m_path = fs::path(path).lexically_normal().string();
    std::error_code error;
    folder.m_made = fs::create_directories(folder.m_path, error);
    if (error || !fs::is_directory(folder.m_path))
        return ioError(fmt::format("the run folder cannot be made: {}; choose another", error ? error.message() : "a file of that name is there")).in(folder.m_path);
    folder.m_lock = ::open(folder.m_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.m_lock < 0)
        return ioError(fmt::format("the run folder cannot be read: {}; choose another", why())).in(folder.m_path);
    if (::flock(folder.m_lock, LOCK_EX | LOCK_NB) != 0)
        return badInput("another training is running in this folder; wait for its end or choose another folder").in(folder.m_path);
    for (const char *name : kFiles) {
        if (fs::exists(folder.file(name)))
            return badInput(fmt::format("this folder already holds a run ({} is there); choose another folder", name)).in(folder.m_path);
    }
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
    std::swap(m_made, other.m_made);
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

Status RunFolder::begin(const TrainRequest &request)
{
    nlohmann::ordered_json json{{"data", request.dataPath}, {"steps", request.steps}, {"seed", request.seed}};
    if (request.holdout > 0)
        json["holdout"] = request.holdout;
    if (request.threads > 0)
        json["threads"] = request.threads;
    if (request.timeoutSeconds > 0)
        json["timeout_seconds"] = request.timeoutSeconds;
    Status done = writeFileAtomically(file("plan.json"), request.planJson);
    if (done)
        done = writeFileAtomically(file("request.json"), json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    m_log = openToAppend(file("log"));
    m_metrics = ::open(file("metrics.jsonl").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (done && (m_log < 0 || m_metrics < 0))
        done = ioError(fmt::format("the run folder cannot be written: {}; choose another", why())).in(m_path);
    if (!done)
        discard();
    return done;
}

Status RunFolder::appendMetrics(const StepMetrics &metrics)
{
    const std::string line = toJson(metrics) + "\n";
    const auto put = ::pwrite(m_metrics, line.data(), line.size(), m_metricsLength);
    if (put != static_cast<ssize_t>(line.size())) {
        const std::string reason = put < 0 ? why() : "No space left on device";
        [[maybe_unused]] const int cut = ::ftruncate(m_metrics, m_metricsLength);
        return ioError(fmt::format("cannot be written: {}; free some space or choose another run folder", reason)).in(file("metrics.jsonl"));
    }
    m_metricsLength += put;
    return {};
}

void RunFolder::appendLog(std::string_view text)
{
    if (m_log >= 0 && !text.empty())
        [[maybe_unused]] const auto put = ::write(m_log, text.data(), text.size());
}

Status RunFolder::writeSummary(const RunSummary &summary) { return writeFileAtomically(file("summary.json"), toJson(summary) + "\n"); }

void RunFolder::discard()
{
    for (const char *name : kFiles)
        ::unlink(file(name).c_str());
    std::error_code error;
    if (fs::file_size(file("log"), error) == 0)
        ::unlink(file("log").c_str());
    if (m_made) // stays where a log is in it
        ::rmdir(m_path.c_str());
}

} // namespace planloom::agent
