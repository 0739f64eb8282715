// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace planloom::comm {

/// An emulated switch: hosts on ports that are equal in both directions.
struct SwitchSettings {
    int hosts = 0;
    double bytesPerSecond = 0; ///< of a port in each direction, headers included
    double burst = 0;          ///< bytes that a port lets through at once after a pause
    double frame = 1514;       ///< bytes that pass a port as one, at most
    double latency = 0;        ///< seconds from the last port to the receiver
};

/// "hosts=4,bytes_per_second=125000000,burst=31250,frame=15625,latency_us=50"; the last three may be missing. Errors:
/// BadInput, naming the entry.
Result<SwitchSettings> switchSettingsFromText(std::string_view text);

/// The host of @p rank: all have as many ranks, in their order, or some have none and the others one. Precondition:
/// @p ranks is below @p hosts or a multiple of them.
constexpr int hostOfRank(int rank, int ranks, int hosts) { return ranks <= hosts ? rank : rank / (ranks / hosts); }

/// Bytes on the wire of a message: headers of Ethernet, IP and TCP (66 bytes) for every 1448 bytes.
double bytesOnWire(std::int64_t bytes);

/// A switch with output queues, as a table that processes share. A host's port sends frames of its connections (a
/// sender and a receiver each) in turns, a connection those of its messages in order. A frame that has passed it joins
/// the queue of the receiver's port, in order of arrival, and passes that. Both are token buckets: a frame passes once
/// there are tokens for all its bytes; without a burst that is as long after the one before as a line of that rate
/// takes. Queues have no end and nothing is lost.
///
/// Time is what callers say, in nanoseconds; the table goes on to the latest of them, from frame to frame, so results
/// do not depend on how often one looks. Plain view of the memory. Thread contract: any thread of any process, but a
/// connection's messages are entered by one thread and taken by one.
class SwitchTable {
public:
    static constexpr std::int64_t kWaiting = 256; ///< messages of a connection that were entered and not taken

    static std::int64_t bytesFor(int ranks, int hosts);
    /// Makes a table of zeros ready; once, before anyone else has it.
    static void prepare(std::byte *memory, const SwitchSettings &settings, int ranks);
    /// Of prepare()d memory.
    explicit SwitchTable(std::byte *memory);

    [[nodiscard]] int hostOf(int rank) const;
    /// A message of @p wireBytes for the @p stream of its connection. False: too many wait; ask again. Cost: that of
    /// all frames since the last look, each O(hosts + connections of a host).
    bool enter(int from, int to, std::int64_t stream, double wireBytes, std::int64_t now);
    /// How many of the connection's messages have passed the sender's port.
    std::int64_t sent(int from, int to, std::int64_t now);
    /// Takes the connection's next message if it has come; the stream that it is for.
    std::optional<std::int64_t> take(int from, int to, std::int64_t now);

private:
    struct Head;
    struct Bucket;
    struct Sending;
    struct Message;
    struct Connection;

    Connection &connection(int from, int to);
    void goOn(std::int64_t now);
    void advance(double now);
    void startFrame(int host);
    void passOn(Sending &sending);

    Head *m_head = nullptr;
    Sending *m_sending = nullptr;        ///< per host: into the switch
    Bucket *m_receiving = nullptr;       ///< per host: out of it
    Connection *m_connections = nullptr; ///< per pair of ranks
};

} // namespace planloom::comm
