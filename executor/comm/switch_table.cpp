// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/switch_table.h"

#include "executor/comm/shared_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace planloom::comm {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNanoseconds = 1e9; ///< of a second

Error badSwitch(std::string_view entry)
{
    return badInput("PLANLOOM_EMULATED_NETWORK: '" + std::string(entry)
                    + "' is wrong; write hosts=4,bytes_per_second=125000000,burst=31250,frame=15625,latency_us=50, "
                      "hosts from 1, bytes_per_second above 0, frame from 128 (the last three may be missing)");
}

} // namespace

Result<SwitchSettings> switchSettingsFromText(std::string_view text)
{
    SwitchSettings settings;
    double hosts = 0;
    double microseconds = 0;
    const std::array<std::pair<std::string_view, double *>, 5> fields{{{"hosts", &hosts},
                                                                       {"bytes_per_second", &settings.bytesPerSecond},
                                                                       {"burst", &settings.burst},
                                                                       {"frame", &settings.frame},
                                                                       {"latency_us", &microseconds}}};
    const std::string_view all = text;
    while (!text.empty()) {
        const std::string_view entry = text.substr(0, text.find(','));
        text.remove_prefix(std::min(entry.size() + 1, text.size()));
        const std::size_t equals = std::min(entry.find('='), entry.size());
        const auto field =
            std::ranges::find(fields, entry.substr(0, equals), &std::pair<std::string_view, double *>::first);
        const std::string_view value = entry.substr(std::min(equals + 1, entry.size()));
        const auto end = value.data() + value.size();
        if (field == fields.end())
            return badSwitch(entry);
        if (const auto read = std::from_chars(value.data(), end, *field->second);
            read.ec != std::errc() || read.ptr != end || !std::isfinite(*field->second) || *field->second < 0)
            return badSwitch(entry);
    }
    settings.hosts = hosts <= 4096 ? static_cast<int>(hosts) : 0;
    settings.latency = microseconds * 1e-6;
    if (settings.hosts < 1 || settings.hosts != hosts || settings.bytesPerSecond <= 0 || settings.frame < 128)
        return badSwitch(all);
    return settings;
}

double bytesOnWire(std::int64_t bytes)
{
    constexpr std::int64_t kPayload = 1448;
    constexpr std::int64_t kHeaders = 66;
    return static_cast<double>(bytes + kHeaders * std::max<std::int64_t>(1, (bytes + kPayload - 1) / kPayload));
}

struct SwitchTable::Head {
    pthread_mutex_t mutex;
    SwitchSettings settings;
    int ranks;
    double bytesPerNanosecond;
    double time;              ///< until which all is done
    std::atomic<double> next; ///< when a frame passes a port next
};

/// Of one direction of a port. Its time is that of the last frame.
struct SwitchTable::Bucket {
    double time;
    double tokens;

    /// When @p bytes that are there at @p at pass.
    double pass(const Head &head, double at, double bytes)
    {
        at = std::max(at, time);
        tokens = std::min(head.settings.burst, tokens + (at - time) * head.bytesPerNanosecond);
        time = at + std::max(0.0, bytes - tokens) / head.bytesPerNanosecond;
        tokens = std::max(0.0, tokens - bytes);
        return time;
    }
};

/// A host's port into the switch, and the frame that is about to pass it.
struct SwitchTable::Sending {
    Bucket bucket;
    std::int64_t last;       ///< connection whose turn it was, counted within the host
    std::int64_t connection; ///< of the frame; -1: nothing to send
    double bytes;            ///< of the frame
    double passes;           ///< when
};

struct SwitchTable::Message {
    std::int64_t stream;
    double entered;
    double rest; ///< bytes of it that are in no frame yet
    double comes;
};

/// The messages, a ring: taken ones are free, sent ones are on their way or there, the others wait.
struct SwitchTable::Connection {
    std::int64_t entered;
    std::atomic<std::int64_t> sent;
    std::atomic<std::int64_t> taken;
    std::array<Message, static_cast<std::size_t>(kWaiting)> ring;

    Message &message(std::int64_t number) { return ring[static_cast<std::size_t>(number % kWaiting)]; }
};

std::int64_t SwitchTable::bytesFor(int ranks, int hosts)
{
    return static_cast<std::int64_t>(sizeof(Head))
        + static_cast<std::int64_t>(hosts) * (sizeof(Sending) + sizeof(Bucket))
        + static_cast<std::int64_t>(ranks) * ranks * static_cast<std::int64_t>(sizeof(Connection));
}

void SwitchTable::prepare(std::byte *memory, const SwitchSettings &settings, int ranks)
{
    static_assert(std::atomic<double>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);
    Head &head = *reinterpret_cast<Head *>(memory);
    makeShared(head.mutex);
    head.settings = settings;
    head.ranks = ranks;
    head.bytesPerNanosecond = settings.bytesPerSecond / kNanoseconds;
    head.next = kNever;
    SwitchTable table(memory);
    for (int host = 0; host < settings.hosts; ++host) {
        table.m_sending[host].bucket.tokens = table.m_receiving[host].tokens = settings.burst;
        table.m_sending[host].connection = -1;
    }
}

SwitchTable::SwitchTable(std::byte *memory)
{
    m_head = reinterpret_cast<Head *>(memory);
    m_sending = reinterpret_cast<Sending *>(memory + sizeof(Head));
    m_receiving = reinterpret_cast<Bucket *>(m_sending + m_head->settings.hosts);
    m_connections = reinterpret_cast<Connection *>(m_receiving + m_head->settings.hosts);
}

int SwitchTable::hostOf(int rank) const { return hostOfRank(rank, m_head->ranks, m_head->settings.hosts); }

SwitchTable::Connection &SwitchTable::connection(int from, int to)
{
    return m_connections[static_cast<std::int64_t>(from) * m_head->ranks + to];
}

bool SwitchTable::enter(int from, int to, std::int64_t stream, double wireBytes, std::int64_t now)
{
    Connection &line = connection(from, to);
    const SharedLock lock(m_head->mutex);
    advance(static_cast<double>(now));
    if (line.entered - line.taken == kWaiting)
        return false;
    line.message(line.entered++) = {stream, m_head->time, wireBytes, kNever};
    advance(m_head->time); // an idle port begins with it
    return true;
}

std::int64_t SwitchTable::sent(int from, int to, std::int64_t now)
{
    goOn(now);
    return connection(from, to).sent.load(std::memory_order_acquire);
}

std::optional<std::int64_t> SwitchTable::take(int from, int to, std::int64_t now)
{
    goOn(now);
    Connection &line = connection(from, to);
    const std::int64_t number = line.taken.load(std::memory_order_relaxed);
    if (number == line.sent.load(std::memory_order_acquire) || line.message(number).comes > static_cast<double>(now))
        return std::nullopt;
    const std::int64_t stream = line.message(number).stream;
    line.taken.store(number + 1, std::memory_order_release);
    return stream;
}

/// Most looks find that no frame has passed since the last one, and take no lock.
void SwitchTable::goOn(std::int64_t now)
{
    if (static_cast<double>(now) < m_head->next.load(std::memory_order_acquire))
        return;
    const SharedLock lock(m_head->mutex);
    advance(static_cast<double>(now));
}

/// In the order in which frames join the queues, until @p now, which is the past where another process has looked
/// since.
void SwitchTable::advance(double now)
{
    now = std::max(now, m_head->time);
    while (true) {
        Sending *first = nullptr;
        for (int host = 0; host < m_head->settings.hosts; ++host) {
            Sending &sending = m_sending[host];
            if (sending.connection < 0)
                startFrame(host);
            if (sending.connection >= 0 && (first == nullptr || sending.passes < first->passes))
                first = &sending;
        }
        m_head->next.store(first != nullptr ? first->passes : kNever, std::memory_order_release);
        if (first == nullptr || first->passes > now)
            break;
        passOn(*first);
    }
    m_head->time = now;
}

/// The host's port is free: the next connection that has something, behind the one whose turn it was.
void SwitchTable::startFrame(int host)
{
    Sending &sending = m_sending[host];
    const int ranks = m_head->ranks;
    const int each = std::max(1, ranks / m_head->settings.hosts);
    const std::int64_t count = std::min(each, std::max(0, ranks - host * each)) * static_cast<std::int64_t>(ranks);
    Connection *const lines = m_connections + static_cast<std::int64_t>(host) * each * ranks;
    double start = kNever;
    for (std::int64_t i = 0; i < count; ++i) {
        if (lines[i].sent < lines[i].entered)
            start = std::min(start, std::max(sending.bucket.time, lines[i].message(lines[i].sent).entered));
    }
    for (std::int64_t i = 1; start < kNever && i <= count; ++i) {
        const std::int64_t turn = (sending.last + i) % count;
        Connection &line = lines[turn];
        Message &message = line.message(line.sent);
        if (line.sent == line.entered || message.entered > start)
            continue;
        sending.last = turn;
        sending.connection = &line - m_connections;
        sending.bytes = std::min(message.rest, m_head->settings.frame);
        sending.passes = sending.bucket.pass(*m_head, start, sending.bytes);
        message.rest -= sending.bytes;
        return;
    }
}

/// The frame joins the queue of its receiver's port.
void SwitchTable::passOn(Sending &sending)
{
    Connection &line = m_connections[sending.connection];
    Message &message = line.message(line.sent);
    Bucket &port = m_receiving[hostOf(static_cast<int>(sending.connection % m_head->ranks))];
    const double out = port.pass(*m_head, sending.passes, sending.bytes);
    sending.connection = -1;
    if (message.rest > 0)
        return;
    message.comes = out + m_head->settings.latency * kNanoseconds;
    line.sent.fetch_add(1, std::memory_order_release);
}

} // namespace planloom::comm
