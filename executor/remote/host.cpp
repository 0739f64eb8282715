// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/host.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "executor/agent/child.h"
#include "executor/agent/hosts.h"
#include "executor/remote/clean.h"
#include "executor/remote/follow.h"
#include "executor/remote/guard.h"
#include "executor/remote/items.h"
#include "executor/remote/measure.h"
#include "executor/remote/places.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iostream>
#include <spawn.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace planloom::remote {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kLargestRequest = std::size_t{256} << 20;

void reply(ordered_json fields)
{
    ordered_json line{{"planloom", PLANLOOM_VERSION}};
    line.update(fields);
    std::cout << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << std::endl;
}

void refuse(const Error &error)
{
    reply({{"error",
            {{"code", static_cast<int>(error.code)},
             {"message", error.message},
             {"file", error.file},
             {"line", error.line}}}});
}

/// The first line of standard input. What has come behind it is dropped: signs of life at most, as nothing else is said
/// before the reply.
Result<std::string> readRequestLine()
{
    std::string line;
    char part[1 << 16];
    for (;;) {
        const auto got = ::read(STDIN_FILENO, part, sizeof part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return badInput("planloom host answers a request on standard input, and there is none; it is started by "
                            "planloom train --on");
        line.append(part, static_cast<std::size_t>(got));
        if (line.size() > kLargestRequest)
            return badInput("the request is too large; leave out inlined weights");
        if (const auto end = line.find('\n'); end != std::string::npos) {
            line.resize(end);
            return line;
        }
    }
}

std::int64_t availableMemory()
{
    std::ifstream file("/proc/meminfo");
    constexpr std::int64_t kKilo = 1024;
    std::string word;
    while (file >> word) {
        if (std::int64_t kilobytes = 0; word == "MemAvailable:" && file >> kilobytes)
            return kilobytes * kKilo;
    }
    return 0;
}

Status describe(const std::vector<std::string> &gpus)
{
    if (const Status made = makeFolder(itemsFolder()); !made)
        return made;
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    struct statvfs space {};
    ::statvfs(itemsFolder().c_str(), &space);
    reply({{"host", name},
           {"cores", static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))},
           {"memory_available", availableMemory()},
           {"gpus", gpus},
           {"mpirun", agent::findProgram("mpirun").ok()},
           {"free_bytes", static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize)}});
    return {};
}

Result<std::vector<Item>> itemsIn(JsonReader &reader)
{
    std::vector<Item> items;
    std::optional<Error> wrong;
    reader.list("items", [&](JsonReader &entry) {
        auto item = itemFromJson(entry.value().dump());
        if (item)
            items.push_back(*std::move(item));
        else
            wrong = item.error();
    });
    if (const Status good = reader.failure(); !good)
        return good.error();
    if (wrong)
        return *wrong;
    return items;
}

std::string placeOf(const Item &item) { return itemsFolder() + "/" + item.id(); }

/// How much of each file of an item has come.
Result<ordered_json> partsOf(const Item &item)
{
    const std::string folder = placeOf(item) + ".part";
    ordered_json parts = ordered_json::array();
    if (const Status made = makeFolder(folder); !made)
        return made.error();
    for (const ItemFile &file : item.files) {
        std::error_code error;
        const fs::path path = folder + "/" + file.path;
        fs::create_directories(path.parent_path(), error);
        const bool regular = fs::symlink_status(path, error).type() == fs::file_type::regular;
        const auto bytes = regular ? static_cast<std::int64_t>(fs::file_size(path, error)) : 0;
        if (bytes > file.bytes) // of another one
            fs::remove(path, error);
        parts.push_back(bytes > file.bytes ? 0 : bytes);
    }
    return parts;
}

Status need(JsonReader &reader)
{
    const auto items = itemsIn(reader);
    if (!items)
        return items.error();
    if (const Status made = makeFolder(itemsFolder()); !made)
        return made;
    ordered_json list = ordered_json::array();
    for (const Item &item : *items) {
        std::error_code error;
        const bool there = fs::is_directory(placeOf(item), error);
        const auto parts = there ? Result<ordered_json>(ordered_json::array()) : partsOf(item);
        if (!parts)
            return parts.error();
        list.push_back({{"here", there}, {"files", *parts}});
    }
    reply({{"folder", itemsFolder()}, {"items", list}});
    return {};
}

Status keep(JsonReader &reader)
{
    const auto items = itemsIn(reader);
    if (!items)
        return items.error();
    for (const Item &item : *items) {
        std::error_code error;
        const std::string place = placeOf(item), part = place + ".part";
        if (fs::is_directory(place, error))
            continue;
        for (const ItemFile &file : item.files) {
            const auto hash = sha256OfFile(part + "/" + file.path);
            if (!hash)
                return hash.error();
            if (*hash == file.sha256)
                continue;
            fs::remove(part + "/" + file.path, error);
            return failed(fmt::format("'{}' arrived damaged; start again", file.path));
        }
        fs::rename(part, place, error);
        if (error && !fs::is_directory(place))
            return ioError("cannot be put in place: " + error.message()).in(part);
    }
    reply({{"kept", items->size()}});
    return {};
}

/// The path here of an item of the request, which must be in the cache.
Result<std::string> itemPath(JsonReader &reader, const char *key)
{
    const auto item = itemFromJson(reader.object(key).value().dump());
    if (!item)
        return item.error();
    std::error_code error;
    if (!fs::is_directory(placeOf(*item), error))
        return notFound("an item of the run is not here any more; start again");
    return item->folder ? placeOf(*item) : placeOf(*item) + "/" + item->entry();
}

std::string newRunId()
{
    unsigned char bytes[8];
    if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return {};
    std::string id;
    for (const unsigned char byte : bytes)
        id += fmt::format("{:02x}", byte);
    return id;
}

/// request.json and more.json of a kept run.
Status writeSettings(JsonReader &reader, const std::string &folder, const std::string &data, bool resume)
{
    auto settings = parseJson(reader.text("settings"));
    if (reader.failed() || !settings)
        return reader.failed() ? reader.failure() : settings.error();
    if (!settings->is_object())
        return badInput("the settings are no object");
    (*settings)["data"] = data;
    settings->erase("arrivals"); // a path that is not of this machine
    const nlohmann::json more{{"restarts", reader.integerOr("restarts", 0, 0, 1 << 20)},
                              {"hung_seconds", reader.number("hung_seconds", 0.0)},
                              {"resume", resume}};
    const Status done = writeFileAtomically(folder + "/request.json", settings->dump());
    return done ? writeFileAtomically(folder + "/more.json", more.dump()) : done;
}

/// The request's plan, with the model's file that is here.
Result<std::string> planIn(JsonReader &reader)
{
    auto plan = parseJson(reader.text("plan"));
    if (reader.failed() || !plan)
        return reader.failed() ? reader.failure().error() : plan.error();
    if (reader.has("model")) {
        const auto model = itemPath(reader, "model");
        if (!model)
            return model.error();
        if (plan->is_object() && plan->contains("model") && (*plan)["model"].is_object())
            (*plan)["model"]["source"] = *model;
    }
    return plan->dump();
}

/// plan.json, request.json and more.json of a kept run.
Status writeRun(JsonReader &reader, const std::string &folder)
{
    const auto data = itemPath(reader, "data");
    if (!data)
        return data.error();
    const auto plan = planIn(reader);
    if (!plan)
        return plan.error();
    const Status done = writeFileAtomically(folder + "/plan.json", *plan);
    return done ? writeSettings(reader, folder, *data, false) : done;
}

/// The device of `planloom profile`: "cpu" or "cuda:N".
bool isDevice(std::string_view text)
{
    constexpr std::string_view kGpu = "cuda:";
    if (!text.starts_with(kGpu))
        return text == "cpu";
    const std::string_view number = text.substr(kGpu.size());
    return !number.empty() && number.size() < 4 && number.find_first_not_of("0123456789") == number.npos;
}

Status measureOperators(JsonReader &reader)
{
    constexpr std::int64_t kMost = 1 << 20;
    const std::string id = reader.text("run");
    if (reader.failed() || !isRunId(id))
        return badInput("the request names no run");
    OperatorsRequest request;
    request.device = reader.text("device");
    reader.list("samples", [&](JsonReader &entry) { request.samples.push_back(entry.asInteger(1, kMost)); });
    request.sequence = reader.integer("sequence", 0, kMost);
    request.ranks = static_cast<int>(reader.integer("ranks", 0, kMost));
    request.threads = static_cast<int>(reader.integer("threads", 0, kMost));
    request.repetitions = static_cast<int>(reader.integer("repetitions", 0, kMost));
    request.model = reader.text("model_name");
    const bool ofPlan = !reader.text("plan").empty();
    if (const Status good = reader.failure(); !good)
        return good;
    if (!isDevice(request.device))
        return badInput("the device is neither cpu nor cuda:N");
    if (!ofPlan && !reader.has("model") && !request.model.starts_with("zoo:"))
        return badInput("the model's file did not come");
    const auto given = ofPlan ? planIn(reader)
        : reader.has("model") ? itemPath(reader, "model")
                              : Result<std::string>(request.model);
    if (!given)
        return given.error();
    (ofPlan ? request.plan : request.model) = *given;
    const auto profile = measureOperatorsHere(request, id);
    if (!profile)
        return profile.error();
    reply({{"profile", *profile}});
    return {};
}

Status measureLinks(JsonReader &reader)
{
    const std::string id = reader.text("run"), text = reader.text("cluster");
    if (reader.failed() || !isRunId(id))
        return badInput("the request names no run");
    const auto cluster = cluster::clusterFromJson(text);
    if (!cluster)
        return cluster.error();
    const auto links = measureLinksHere(*cluster, id);
    if (!links)
        return links.error();
    reply({{"links", *links}});
    return {};
}

/// `planloom host --keep ID`, without this session. Error: Io.
Status startKeeper(const std::string &id)
{
    const auto binary = agent::planloomBinary();
    if (!binary)
        return binary.error();
    const std::string log = keptFolder(id) + "/log";
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&files, 1, 2);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    std::string words[] = {*binary, "host", "--keep", id};
    char *argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    pid_t process = -1;
    const int error = ::posix_spawn(&process, binary->c_str(), &files, &attributes, argv, environ);
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0)
        return ioError(fmt::format("the process that keeps the run cannot be started: {}", std::strerror(error)));
    constexpr int kLooks = 1000;
    for (int i = 0; i < kLooks; ++i) { // until it has the lock, or is over
        int status = 0;
        if (keeperOf(keptFolder(id)) != 0 || ::waitpid(process, &status, WNOHANG) == process)
            return {};
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ::kill(process, SIGKILL);
    return failed("the process that keeps the run does not start; see " + log);
}

Status start(JsonReader &reader)
{
    const std::string id = newRunId();
    if (id.empty())
        return failed("the system has no random numbers to give");
    if (const Status made = makeFolder(keptFolder(id)); !made)
        return made;
    Status done = writeRun(reader, keptFolder(id));
    if (done)
        done = startKeeper(id);
    if (!done) {
        std::error_code error;
        fs::remove_all(keptFolder(id), error);
        return done;
    }
    reply({{"run", id}});
    return {};
}

/// The folder of the run that the request names.
Result<std::string> runOf(JsonReader &reader)
{
    const std::string id = reader.text("run");
    if (reader.failed() || !isRunId(id))
        return badInput("the request names no run");
    std::error_code error;
    if (!fs::is_directory(keptFolder(id), error))
        return notFound(fmt::format("there is no run {} any more", id));
    return keptFolder(id);
}

/// With the data that it was given, unless others are named.
Status resume(JsonReader &reader)
{
    const auto folder = runOf(reader);
    if (!folder)
        return folder.error();
    if (keeperOf(*folder) != 0)
        return badInput("the run goes on still; planloom attach follows it");
    std::string data;
    if (reader.has("data")) {
        auto path = itemPath(reader, "data");
        if (!path)
            return path.error();
        data = *std::move(path);
    } else {
        const auto before = run::readRequest(*folder + "/request.json");
        if (!before)
            return before.error();
        data = before->settings.data;
    }
    if (const Status written = writeSettings(reader, *folder, data, true); !written)
        return written;
    std::error_code error;
    fs::resize_file(*folder + "/" + kEventsFile, 0, error); // what it told before is told
    const std::string id = reader.text("run");
    if (const Status started = startKeeper(id); !started)
        return started;
    reply({{"run", id}});
    return {};
}

Status cleanUp(JsonReader &reader)
{
    const double days = reader.number("days");
    if (const Status good = reader.failure(); !good)
        return good;
    const Cleaned cleaned = clean(days);
    reply({{"runs", cleaned.runs},
           {"items", cleaned.items},
           {"bytes", cleaned.bytes},
           {"running", cleaned.running},
           {"kept", cleaned.kept}});
    return {};
}

Status stop(JsonReader &reader)
{
    const auto folder = runOf(reader);
    if (!folder)
        return folder.error();
    const int process = keeperOf(*folder);
    const int handle = process > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, process, 0)) : -1;
    // The handle stands for the process that has the lock only if that is held still.
    const bool running = handle >= 0 && keeperOf(*folder) == process
        && ::syscall(SYS_pidfd_send_signal, handle, SIGTERM, nullptr, 0) == 0;
    if (handle >= 0)
        ::close(handle);
    reply({{"running", running}});
    return {};
}

Status followRun(JsonReader &reader)
{
    const auto folder = runOf(reader);
    if (!folder)
        return folder.error();
    FollowRequest request{*folder, {}, reader.text("checkpoints", std::string())};
    reader.each("have", [&](JsonReader &bytes) {
        request.have[bytes.name()] = bytes.asInteger(0, std::numeric_limits<std::int64_t>::max());
    });
    if (const Status good = reader.failure(); !good)
        return good;
    reply({{"run", reader.text("run")}});
    std::signal(SIGPIPE, SIG_IGN);
    follow(request);
    return {};
}

Status answer(const std::vector<std::string> &gpus)
{
    const auto line = readRequestLine();
    if (!line)
        return line.error();
    const auto document = parseJson(*line);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    const std::string request = reader.text("do");
    if (reader.failed())
        return reader.failure();
    if (request == "describe")
        return describe(gpus);
    if (request == "need")
        return need(reader);
    if (request == "keep")
        return keep(reader);
    if (request == "start")
        return start(reader);
    if (request == "join" || request == "leave") {
        const std::string id = reader.text("run");
        if (reader.failed() || !isRunId(id))
            return badInput("the request names no run");
        const std::string folder = agent::meetingFolder(id);
        if (request == "leave") {
            endMeeting(folder);
            endMeeting(measuringFolder(id));
            reply({{"left", id}});
            return {};
        }
        return joinMeeting(
            folder, [&](const std::string &run) { return reader.has("plan") ? writeRun(reader, run) : Status(); },
            [](int cores) {
                reply({{"cores", cores}});
            });
    }
    if (request == "operators")
        return measureOperators(reader);
    if (request == "links")
        return measureLinks(reader);
    if (request == "resume")
        return resume(reader);
    if (request == "clean")
        return cleanUp(reader);
    if (request == "stop")
        return stop(reader);
    if (request == "follow")
        return followRun(reader);
    return unsupported(fmt::format("the request '{}' is not known", request));
}

} // namespace

int serveHost(const std::vector<std::string> &gpus)
{
    const Status answered = answer(gpus);
    if (!answered)
        refuse(answered.error());
    return answered ? 0 : 1;
}

} // namespace planloom::remote
