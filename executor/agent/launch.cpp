// SPDX-License-Identifier: Apache-2.0
#include "executor/agent/launch.h"

#include "engine/base/files.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace planloom::agent {
namespace {

constexpr const char *kMemory = "/dev/shm";
constexpr const char *kPrefix = "planloom-";
constexpr std::time_t kYoung = 60; ///< seconds in which the maker of a folder has locked it

void addAll(std::vector<std::string> &list, const std::vector<std::string> &more)
{
    list.insert(list.end(), more.begin(), more.end());
}

/// @p path's descriptor, once it is unlocked; -1 while it is locked.
int lockFolder(const std::string &path)
{
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0)
        ::close(fd);
    return -1;
}

/// Files left by killed agents.
void removeAbandoned()
{
    std::error_code ignored;
    for (const auto &entry : std::filesystem::directory_iterator(kMemory, ignored)) {
        struct stat info {};
        const std::string path = entry.path().string();
        const bool old = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid()
            && info.st_mtime + kYoung < std::time(nullptr);
        const int fd = old && entry.path().filename().string().starts_with(kPrefix) ? lockFolder(path) : -1;
        if (fd < 0)
            continue;
        std::filesystem::remove_all(path, ignored);
        ::close(fd);
    }
}

/// Of Open MPI's host file, in its order, each once; none without a file.
std::vector<std::string> launcherHosts()
{
    const char *path = std::getenv("OMPI_MCA_orte_default_hostfile");
    const auto text = path != nullptr ? readFile(path) : Result<std::string>(std::string());
    std::vector<std::string> hosts;
    std::istringstream lines(text ? *text : std::string());
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string host;
        if (words >> host && host.front() != '#' && std::ranges::find(hosts, host) == hosts.end())
            hosts.push_back(host);
    }
    return hosts;
}

/// Where mpirun is to start which rank; nothing to add where it chooses.
Result<std::vector<std::string>> placeRanks(std::span<const std::int32_t> nodes, const std::string &runFolder)
{
    const auto machines = static_cast<std::size_t>(std::ranges::max(nodes)) + 1;
    const std::vector<std::string> hosts = launcherHosts();
    if (machines < 2 || hosts.size() < machines)
        return std::vector<std::string>{};
    std::string list;
    for (const std::int32_t node : nodes)
        list += hosts[static_cast<std::size_t>(node)] + "\n";
    const std::string path = runFolder + "/hosts";
    if (Status written = writeFileAtomically(path, list); !written)
        return written.error();
    return std::vector<std::string>{"--hostfile", path, "--mca", "rmaps", "seq"};
}

} // namespace

Scratch::Scratch()
{
    removeAbandoned();
    std::string path = std::string(kMemory) + "/" + kPrefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr)
        return;
    m_path = path;
    m_lock = lockFolder(path);
}

Scratch::~Scratch()
{
    std::error_code ignored;
    if (!m_path.empty())
        std::filesystem::remove_all(m_path, ignored);
    if (m_lock >= 0)
        ::close(m_lock);
}

namespace {

/// @p memory: a folder for sessions of the launcher, and memory that ranks share; empty: as Open MPI has it.
Result<Command> mpirunCommand(std::size_t ranks, const std::vector<std::string> &arguments, const std::string &memory)
{
    const auto binary = planloomBinary();
    if (!binary)
        return binary.error();
    const auto mpirun = findProgram("mpirun");
    if (!mpirun)
        return mpirun.error();
    Command command;
    command.dieWithThread = true;
    command.environment = allowedEnvironment();
    command.program = *mpirun;
    command.arguments = {"-np", std::to_string(ranks), "--oversubscribe", "--bind-to", "none"};
    addAll(command.arguments,
           {"--mca", "odls_base_sigkill_timeout",
            "0"}); // else it sleeps for a second between the signals that end its ranks
    // Pieces of collectives (comm::Pipe::kChunk, and a header) go out at once: over TCP a handshake for each would wait
    // behind the pieces before it. 50 Mbit/s between two hosts: 0.56 s for what took 0.81 s.
    addAll(command.arguments, {"--mca", "btl_tcp_eager_limit", "163840", "--mca", "btl_tcp_max_send_size", "163840"});
    if (!memory.empty())
        addAll(command.arguments,
               {"--mca", "orte_tmpdir_base", memory, "--mca", "btl_vader_backing_directory", memory});
    command.arguments.push_back(*binary);
    addAll(command.arguments, arguments);
    if (::geteuid() == 0) {
        command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT=1");
        command.environment.emplace_back("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    return command;
}

/// @p command with a run's token for its ranks.
void addToken(Command &command, const std::string &token)
{
    command.environment.insert(command.environment.begin(),
                               std::string(kTokenVariable) + "=" + token); // the first of equals counts
    command.arguments.insert(command.arguments.begin(), {"-x", kTokenVariable});
}

} // namespace

Result<Command> ranksCommand(int ranks, const std::vector<std::string> &arguments, const Scratch &scratch)
{
    return mpirunCommand(static_cast<std::size_t>(ranks), arguments, scratch.path());
}

Result<Command> ranksOnHostsCommand(std::span<const RankPlace> places, const std::vector<std::string> &arguments,
                                    const std::string &runFolder, const std::string &meetingFolder)
{
    Status written = writeFileAtomically(runFolder + "/hosts", hostFile(places));
    if (written)
        written = writeFileAtomically(runFolder + "/ranks", rankFile(places));
    if (!written)
        return written.error();
    const std::string run = meetingFolder + "/run";
    auto command = mpirunCommand(places.size(), arguments, meetingFolder + "/memory");
    if (!command)
        return command;
    const std::vector<std::string> launch{
        "--hostfile", run + "/hosts", "--rankfile", run + "/ranks", "--use-hwthread-cpus",
        // Each host is reached from here. What ssh asks and when it gives up is in the file.
        "--mca", "plm", "rsh", "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_agent",
        "ssh -F " + meetingFolder + "/ssh_config",
        // A host that is cut off ends its ranks, of itself after 6 to 9 s, after those who guard the hosts have
        // noticed. Open MPI's own limit is above 5 minutes.
        "--mca", "oob_tcp_keepalive_time", "3", "--mca", "oob_tcp_keepalive_intvl", "1", "--mca",
        "oob_tcp_keepalive_probes", "6"};
    command->arguments.insert(command->arguments.begin(), launch.begin(), launch.end());
    return command;
}

Result<Command> workersCommand(std::span<const RankPlace> places, const std::string &runFolder,
                               const std::string &meetingFolder, const std::string &token)
{
    auto command =
        ranksOnHostsCommand(places, {"worker", "--run-dir", meetingFolder + "/run", "--agent", socketOf(meetingFolder)},
                            runFolder, meetingFolder);
    if (command)
        addToken(*command, token);
    return command;
}

Result<Command> workerCommand(std::span<const std::int32_t> nodes, const std::string &runFolder,
                              const std::string &socketPath, const std::string &token, const Scratch &scratch)
{
    const std::vector<std::string> worker{"worker", "--run-dir", runFolder, "--agent", socketPath};
    if (nodes.size() > 1) {
        auto command = ranksCommand(static_cast<int>(nodes.size()), worker, scratch);
        if (!command)
            return command;
        const auto placed = placeRanks(nodes, runFolder);
        if (!placed)
            return placed.error();
        command->arguments.insert(command->arguments.begin(), placed->begin(), placed->end());
        addToken(*command, token);
        return command;
    }
    const auto binary = planloomBinary();
    if (!binary)
        return binary.error();
    Command command;
    command.dieWithThread = true;
    command.environment = allowedEnvironment();
    command.environment.insert(command.environment.begin(), std::string(kTokenVariable) + "=" + token);
    command.program = *binary;
    command.arguments = worker;
    return command;
}

} // namespace planloom::agent
