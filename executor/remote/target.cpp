// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/target.h"

#include "engine/base/files.h"
#include "engine/base/json_reader.h"
#include "engine/cluster/cluster.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

namespace planloom::remote {
namespace {

using nlohmann::ordered_json;

constexpr const char *kTargetsSchema = "planloom.targets/1";
constexpr std::string_view kSsh = "ssh://";
constexpr std::int64_t kLargestList = 1 << 20;

bool isPlain(std::string_view text, std::string_view others)
{
    const auto fits = [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
            || others.find(c) != std::string_view::npos;
    };
    constexpr std::size_t kMost = 1024;
    return !text.empty() && text.size() <= kMost && text.front() != '-' && std::ranges::all_of(text, fits);
}

ordered_json jsonOf(const Target &target)
{
    ordered_json json{{"name", target.name}, {"url", target.url()}};
    if (target.program != Target().program)
        json["program"] = target.program;
    if (!target.sshConfig.empty())
        json["ssh_config"] = target.sshConfig;
    return json;
}

Target targetFrom(JsonReader &reader)
{
    const auto made = targetFromUrl(reader.text("url"));
    if (!made) {
        reader.fail("url", made.error().message);
        return {};
    }
    Target target = *made;
    target.name = reader.text("name");
    target.program = reader.text("program", target.program);
    target.sshConfig = reader.text("ssh_config", std::string());
    if (const Status good = check(target); !good)
        reader.fail("name", good.error().message);
    return target;
}

} // namespace

std::string Target::url() const
{
    if (isLocal())
        return "local";
    const bool colons = address.find(':') != std::string::npos;
    std::string text = std::string(kSsh) + (user.empty() ? "" : user + "@") + (colons ? "[" + address + "]" : address);
    return port > 0 ? fmt::format("{}:{}", text, port) : text;
}

Result<Target> targetFromUrl(std::string_view url)
{
    Target target;
    target.name = url;
    if (url == "local")
        return target;
    const Error wrong = badInput(fmt::format("'{}' is no target; write local or ssh://user@host[:port]", url));
    if (!url.starts_with(kSsh))
        return wrong;
    std::string_view rest = url.substr(kSsh.size());
    if (const auto at = rest.find('@'); at != std::string_view::npos) {
        target.user = rest.substr(0, at);
        rest.remove_prefix(at + 1);
        if (!cluster::isUserName(target.user))
            return wrong;
    }
    std::string_view port;
    if (rest.starts_with('[')) {
        const auto end = rest.find(']');
        if (end == std::string_view::npos)
            return wrong;
        target.address = rest.substr(1, end - 1);
        port = rest.substr(end + 1);
    } else {
        const auto colon = std::min(rest.find(':'), rest.size());
        target.address = rest.substr(0, colon);
        port = rest.substr(colon);
    }
    if (!port.empty()) {
        const char *end = port.data() + port.size();
        const auto [stop, error] = std::from_chars(port.data() + 1, end, target.port);
        if (port.front() != ':' || error != std::errc() || stop != end || target.port < 1
            || target.port > cluster::kMostPort)
            return wrong;
    }
    if (!cluster::isAddress(target.address))
        return wrong;
    return target;
}

Status check(const Target &target)
{
    if (target.name != target.url() && (!isPlain(target.name, "._-") || target.name == "local"))
        return badInput(fmt::format("'{}' is no target's name; use letters, digits and ._-", target.name));
    if (!isPlain(target.program, "._-/+")
        || (target.program.find('/') != std::string::npos && target.program[0] != '/'))
        return badInput(
            fmt::format("'{}' is no program's name and no absolute path of letters, digits and ._-+/", target.program));
    if (!target.sshConfig.empty() && target.sshConfig.front() != '/')
        return badInput(fmt::format("'{}', ssh's configuration, is not an absolute path", target.sshConfig));
    return {};
}

std::string targetsFile()
{
    if (const char *config = std::getenv("XDG_CONFIG_HOME"); config && *config == '/')
        return std::string(config) + "/planloom/targets.json";
    const char *home = std::getenv("HOME");
    return std::string(home && *home == '/' ? home : "/tmp") + "/.config/planloom/targets.json";
}

Result<std::vector<Target>> readTargets(const std::string &path)
{
    const auto text = readFile(path, kLargestList);
    if (!text && text.error().code == ErrorCode::NotFound)
        return std::vector<Target>{};
    if (!text)
        return text.error();
    const auto document = parseJson(*text);
    if (!document)
        return document.error().in(path);
    JsonReader reader(*document);
    if (const std::string schema = reader.text("schema"); !reader.failed() && schema != kTargetsSchema)
        return unsupported(fmt::format("schema \"{}\" is not \"{}\"", schema, kTargetsSchema)).in(path);
    std::vector<Target> targets;
    reader.list("targets", [&](JsonReader &entry) { targets.push_back(targetFrom(entry)); });
    if (const Status good = reader.failure(*text); !good)
        return good.error().in(path);
    return targets;
}

Status writeTargets(const std::vector<Target> &targets, const std::string &path)
{
    ordered_json list = ordered_json::array();
    for (const Target &target : targets)
        list.push_back(jsonOf(target));
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error)
        return ioError(fmt::format("its folder cannot be made: {}", error.message())).in(path);
    if (Status written =
            writeFileAtomically(path, ordered_json{{"schema", kTargetsSchema}, {"targets", list}}.dump(2) + "\n");
        !written)
        return written;
    ::chmod(path.c_str(), 0600);
    return {};
}

Result<Target> findTarget(const std::string &nameOrUrl, const std::string &path)
{
    if (nameOrUrl == "local" || nameOrUrl.starts_with(kSsh))
        return targetFromUrl(nameOrUrl);
    const auto targets = readTargets(path);
    if (!targets)
        return targets.error();
    std::string names = "local";
    for (const Target &target : *targets) {
        if (target.name == nameOrUrl)
            return target;
        names += ", " + target.name;
    }
    return notFound(
        fmt::format("there is no target '{}'; there are {}, or write ssh://user@host[:port]", nameOrUrl, names));
}

std::string toJson(const Target &target) { return jsonOf(target).dump(); }

Result<Target> targetFromJson(std::string_view text)
{
    const auto document = parseJson(text);
    if (!document)
        return document.error();
    JsonReader reader(*document);
    Target target = targetFrom(reader);
    if (const Status good = reader.failure(text); !good)
        return good.error();
    return target;
}

} // namespace planloom::remote
