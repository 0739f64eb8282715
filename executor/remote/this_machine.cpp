// SPDX-License-Identifier: Apache-2.0
#include "executor/remote/this_machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <set>

namespace planloom::remote {
namespace {

in_addr_t ipOf(const sockaddr *address) { return reinterpret_cast<const sockaddr_in *>(address)->sin_addr.s_addr; }

bool isLoopback(in_addr_t ip)
{
    constexpr in_addr_t kFirstByte = 24;
    return ntohl(ip) >> kFirstByte == IN_LOOPBACKNET;
}

std::set<in_addr_t> addressesOfInterfaces()
{
    std::set<in_addr_t> found;
    ifaddrs *all = nullptr;
    if (::getifaddrs(&all) != 0)
        return found;
    for (const ifaddrs *entry = all; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET)
            found.insert(ipOf(entry->ifa_addr));
    }
    ::freeifaddrs(all);
    return found;
}

} // namespace

bool isThisMachine(const std::string &address)
{
    addrinfo wanted{};
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_DGRAM;
    addrinfo *found = nullptr;
    if (::getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0)
        return false;
    const std::set<in_addr_t> own = addressesOfInterfaces();
    bool ours = false;
    for (const addrinfo *entry = found; entry != nullptr && !ours; entry = entry->ai_next)
        ours = isLoopback(ipOf(entry->ai_addr)) || own.contains(ipOf(entry->ai_addr));
    ::freeaddrinfo(found);
    return ours;
}

} // namespace planloom::remote
