// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace planloom::remote {

/// Where a run can go: this machine, or one that ssh reaches.
struct Target {
    std::string name;
    std::string address;              ///< empty: this machine
    std::string user;                 ///< empty: as ssh has it
    int port = 0;                     ///< 0: as ssh has it
    std::string program = "planloom"; ///< over there: a name on the PATH of its ssh sessions, or an absolute path
    std::string sshConfig;            ///< absolute path of a file for ssh -F; empty: the user's own

    [[nodiscard]] bool isLocal() const { return address.empty(); }
    /// "ssh://user@host:port", "local".
    [[nodiscard]] std::string url() const;
    bool operator==(const Target &) const = default;
};

/// `local` or `ssh://[user@]host[:port]`, IPv6 in brackets. The target's name is the URL. Error: BadInput.
Result<Target> targetFromUrl(std::string_view url);
/// Whether name, program and file of a target can be used: letters, digits and "._-" (paths: also "/+"), no "-" in
/// front. What passes is safe in a command line and in a shell. Error: BadInput.
Status check(const Target &target);

/// $XDG_CONFIG_HOME/planloom/targets.json, or ~/.config/planloom/targets.json.
std::string targetsFile();
/// Those of the file, without `local`; none where there is no file. Errors: BadInput (naming the line), Io.
Result<std::vector<Target>> readTargets(const std::string &path);
/// Replaces the file, mode 0600, in a folder that is made where it is missing. Error: Io.
Status writeTargets(const std::vector<Target> &targets, const std::string &path);
/// A target's name, `local` or a URL. Errors: NotFound (naming those that are there), BadInput, Io.
Result<Target> findTarget(const std::string &nameOrUrl, const std::string &path);

/// A target as an object of the file, and back. Error: BadInput.
std::string toJson(const Target &target);
Result<Target> targetFromJson(std::string_view text);

} // namespace planloom::remote
