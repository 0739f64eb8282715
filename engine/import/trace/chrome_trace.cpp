// SPDX-License-Identifier: Apache-2.0
// The trace-event format by its reference document ("Trace Event Format", Chromium), and what PyTorch's profiler
// (Kineto) writes in it.
#include "engine/import/trace/chrome_trace.h"

#include "engine/import/trace/json_pieces.h"
#include "engine/import/trace/slices.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

namespace planloom::import {

namespace {

namespace json = simdjson::ondemand;

/// An event of the file; views are valid until the next one is read.
struct Event {
    std::string_view name, category, process, thread;
    std::string_view label; ///< argument "name" or "labels", of metadata
    char phase = '?';
    std::optional<std::int64_t> start, duration; ///< nanoseconds
    std::int64_t step = -1, stage = -1, microBatch = -1, order = 0;
    std::int64_t correlation = -1, external = -1;
    std::string *arguments = nullptr; ///< lines "key: value" of the others
};

/// Microseconds as they are written, to nanoseconds: a double would lose digits of times since 1970. None: no number,
/// or beyond 292 years.
std::optional<std::int64_t> nanoseconds(std::string_view text)
{
    if (text.size() >= 2 && text.front() == '"')
        text = text.substr(1, text.size() - 2);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t'))
        text.remove_suffix(1);
    std::int64_t whole = 0;
    const char *end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, whole);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1000 - 1;
    if (read.ec != std::errc() || whole > kMost || whole < -kMost)
        return std::nullopt;
    if (read.ptr == end)
        return whole * 1000;
    if (*read.ptr != '.' || text.find_first_of("eE") != std::string_view::npos) {
        double value = 0;
        const auto wide = std::from_chars(text.data(), end, value);
        if (wide.ec != std::errc() || wide.ptr != end || !(std::abs(value) < static_cast<double>(kMost)))
            return std::nullopt;
        return static_cast<std::int64_t>(std::llround(value * 1000));
    }
    std::int64_t thousandths = 0;
    int digits = 0;
    const char *at = read.ptr + 1;
    for (; at != end && *at >= '0' && *at <= '9'; ++at) {
        if (digits++ < 3)
            thousandths = 10 * thousandths + (*at - '0');
    }
    if (at != end)
        return std::nullopt;
    for (; digits < 3; ++digits)
        thousandths *= 10;
    return whole * 1000 + (text.front() == '-' ? -thousandths : thousandths);
}

/// A text, or a number as it is written.
std::string_view textOf(json::value &value)
{
    std::string_view text;
    if (value.type().value_unsafe() == json::json_type::string)
        return value.get_string().get(text) ? std::string_view() : text;
    text = value.raw_json_token();
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

/// Also where it is written as a text, as older profilers do.
std::int64_t integerOf(json::value &value)
{
    std::int64_t number = -1;
    const std::string_view text = textOf(value);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc() && read.ptr == text.data() + text.size() ? number : -1;
}

/// Numbers that are another one for each event, and so tell a reader nothing.
bool isSerialNumber(std::string_view key)
{
    static constexpr std::array<std::string_view, 8> kKeys{"Ev Idx",           "Record function id",
                                                           "Python id",        "Python parent id",
                                                           "Python module id", "Fwd thread id",
                                                           "Sequence number",  "cbid"};
    return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

/// A value as it is written, on one line; nothing of objects. False: it is malformed.
bool addArgument(std::string_view key, json::value &value, std::string &lines)
{
    json::json_type type{};
    if (value.type().get(type))
        return false;
    std::string_view text;
    if (type == json::json_type::object)
        return true;
    if (type == json::json_type::array) {
        json::array array;
        if (value.get_array().get(array) || array.raw_json().get(text))
            return false;
    } else {
        text = textOf(value);
    }
    constexpr std::size_t kLongestValue = 256;
    if (text.empty())
        return true;
    lines += lines.empty() ? "" : "\n";
    lines.append(key).append(": ").append(text.substr(0, kLongestValue));
    lines += text.size() > kLongestValue ? "..." : "";
    return true;
}

/// Reads the arguments that mean something to us, and keeps the others as text. False: they are malformed.
bool readArguments(json::value &value, Event &event)
{
    json::object arguments;
    if (value.get_object().get(arguments))
        return true; // null, or of another shape
    for (auto field : arguments) {
        std::string_view key;
        json::value argument;
        if (field.unescaped_key().get(key) || std::move(field).value().get(argument))
            return false;
        if (event.phase == 'M' && (key == "name" || key == "labels"))
            event.label = textOf(argument);
        else if (event.phase == 'M' && key == "sort_index")
            event.order = integerOf(argument);
        else if (key == "step")
            event.step = integerOf(argument);
        else if (key == "stage")
            event.stage = integerOf(argument);
        else if (key == "micro_batch")
            event.microBatch = integerOf(argument);
        else if (key == "correlation")
            event.correlation = integerOf(argument);
        else if (key == "External id" || key == "external id")
            event.external = integerOf(argument);
        else if (event.phase != 'M' && !isSerialNumber(key) && !addArgument(key, argument, *event.arguments))
            return false;
    }
    return true;
}

/// False: it is malformed.
bool readField(std::string_view key, json::value &value, Event &event)
{
    if (key == "ph") {
        const std::string_view phase = textOf(value);
        event.phase = phase.empty() ? '?' : phase.front();
    } else if (key == "name") {
        event.name = textOf(value);
    } else if (key == "cat") {
        event.category = textOf(value);
    } else if (key == "pid") {
        event.process = textOf(value);
    } else if (key == "tid") {
        event.thread = textOf(value);
    } else if (key == "ts") {
        event.start = nanoseconds(value.raw_json_token());
    } else if (key == "dur") {
        event.duration = nanoseconds(value.raw_json_token());
    } else if (key == "args") {
        return readArguments(value, event);
    }
    return true;
}

class Reader {
public:
    Reader(JsonPieces pieces, Progress &progress) : m_pieces(std::move(pieces)), m_progress(progress) {}

    Result<ForeignTrace> read()
    {
        if (const Status done = readFile(); !done)
            return done.error();
        if (m_events == 0)
            return badInput("the file has no events of a trace; a trace is a JSON list of events, or an object with "
                            "the list \"traceEvents\"");
        addNotes();
        ForeignTrace made;
        made.trace = m_slices.finish(&made.origin);
        if (made.origin < m_base) // else its times are since 1970 already
            made.origin += m_base;
        made.notes = std::move(m_notes);
        made.rank = m_rank;
        return made;
    }

    [[nodiscard]] std::int64_t line() const { return m_pieces.line(); }

private:
    Status readFile()
    {
        const int first = m_pieces.peek();
        if (first == '[')
            return readEvents();
        if (first != '{')
            return badInput("this is no JSON object or list; a trace in the trace-event format begins with { or [");
        m_pieces.take();
        while (m_pieces.peek() == '"') {
            auto key = m_pieces.value();
            if (!key)
                return key.error();
            if (key->size() < 2) // the file ends inside of it
                break;
            const std::string field(key->substr(1, key->size() - 2));
            if (m_pieces.peek() != ':')
                break;
            m_pieces.take();
            if (const Status done = field == "traceEvents" && m_pieces.peek() == '[' ? readEvents() : readOther(field);
                !done)
                return done;
            if (m_pieces.peek() == ',')
                m_pieces.take();
        }
        m_cut = m_pieces.peek() != '}';
        return {};
    }

    /// The fields beside the events: the clock of our own export; the rank and the origin of times of PyTorch's
    /// profiler.
    Status readOther(std::string_view field)
    {
        if (field != "otherData" && field != "distributedInfo" && field != "baseTimeNanoseconds") {
            m_pieces.skipValue();
            return {};
        }
        const auto text = m_pieces.value();
        if (!text)
            return text.error();
        if (field == "baseTimeNanoseconds") {
            std::int64_t base = 0;
            const auto read = std::from_chars(text->data(), text->data() + text->size(), base);
            constexpr std::int64_t kMost = std::int64_t{1} << 61;
            m_base = read.ec == std::errc() && base >= -kMost && base <= kMost ? base : 0;
            return {};
        }
        json::object object;
        json::document document;
        if (m_parser.iterate(text->data(), text->size(), text->size() + JsonPieces::kPadding).get(document)
            || document.get_object().get(object))
            return {};
        std::string_view clock;
        std::int64_t rank = -1;
        if (field == "distributedInfo" && !object["rank"].get_int64().get(rank) && rank >= 0 && rank < (1 << 24))
            m_rank = static_cast<std::int32_t>(rank);
        else if (field == "otherData" && !object["clock"].get_string().get(clock))
            m_slices.setClock(std::string(clock));
        return {};
    }

    Status readEvents()
    {
        m_pieces.take();
        for (;;) {
            const int next = m_pieces.peek();
            if (next == ']') {
                m_pieces.take();
                return {};
            }
            if (next == ',') {
                m_pieces.take();
                continue;
            }
            if (next < 0)
                break;
            const auto text = m_pieces.value();
            if (!text)
                return text.error();
            if (text->empty() && m_pieces.peek() < 0)
                break;
            if (text->empty())
                return badInput("an event is expected here; the list of events is malformed");
            addEvent(*text);
            if (m_events % 16384 == 0 && !report())
                return cancelled();
        }
        m_cut = true;
        return {};
    }

    bool report()
    {
        m_progress.report(m_pieces.fraction(), "reading events");
        return !m_progress.stopped();
    }

    void addEvent(std::string_view text)
    {
        Event event;
        m_arguments.clear();
        event.arguments = &m_arguments;
        if (!parse(text, event)) {
            ++m_malformed;
            return;
        }
        ++m_events;
        switch (event.phase) {
        case 'X': addComplete(event); return;
        case 'B': m_slices.begin(sliceOf(event)); return;
        case 'E':
            if (!event.start || !m_slices.end(event.process, event.thread, *event.start))
                ++m_unpaired;
            return;
        case 'M': addMetadata(event); return;
        case 'C': addCounter(event); return;
        default: ++m_others[event.phase];
        }
    }

    bool parse(std::string_view text, Event &event)
    {
        json::document document;
        json::object object;
        if (m_parser.iterate(text.data(), text.size(), text.size() + JsonPieces::kPadding).get(document)
            || document.get_object().get(object))
            return false;
        for (auto field : object) {
            std::string_view key;
            json::value value;
            if (field.unescaped_key().get(key) || std::move(field).value().get(value) || !readField(key, value, event))
                return false;
        }
        return event.phase != '?';
    }

    [[nodiscard]] static Slice sliceOf(const Event &event)
    {
        Slice slice;
        slice.process = event.process;
        slice.thread = event.thread;
        slice.name = event.name;
        slice.category = event.category;
        slice.start = event.start.value_or(0);
        slice.duration = event.duration.value_or(0);
        slice.step = event.step;
        slice.stage = event.stage;
        slice.microBatch = event.microBatch;
        slice.correlation = event.correlation;
        slice.external = event.external;
        slice.isLaunch = event.category.find("runtime") != std::string_view::npos
            || event.category.find("driver") != std::string_view::npos;
        slice.isOperator = event.category == "cpu_op";
        slice.arguments = *event.arguments;
        return slice;
    }

    void addComplete(const Event &event)
    {
        const bool valid = event.start && (!event.duration || *event.duration >= 0);
        if (valid && m_slices.add(sliceOf(event)))
            return;
        ++m_timeless;
    }

    /// Each argument is a series of its own.
    void addCounter(const Event &event)
    {
        bool any = false;
        for (std::string_view lines = m_arguments; event.start && !lines.empty();) {
            const std::size_t end = std::min(lines.find('\n'), lines.size());
            const std::string line(lines.substr(0, end));
            lines.remove_prefix(std::min(end + 1, lines.size()));
            const std::size_t colon = line.rfind(": ");
            char *behind = nullptr;
            const double value = colon == std::string::npos ? 0 : std::strtod(line.c_str() + colon + 2, &behind);
            if (!behind || behind != line.c_str() + line.size() || behind == line.c_str() + colon + 2)
                continue;
            const std::string series = line.substr(0, colon);
            const bool isPlain = series == "value" || series == event.name;
            m_slices.count(event.process, isPlain ? std::string(event.name) : fmt::format("{} {}", event.name, series),
                           *event.start, value);
            any = true;
        }
        if (!any)
            ++m_others['C'];
    }

    void addMetadata(const Event &event)
    {
        if (event.name == "process_name")
            m_slices.nameProcess(event.process, event.label);
        else if (event.name == "process_labels")
            m_slices.labelProcess(event.process, event.label);
        else if (event.name == "process_sort_index")
            m_slices.orderProcess(event.process, event.order);
        else if (event.name == "thread_name")
            m_slices.nameThread(event.process, event.thread, event.label);
    }

    void addNotes()
    {
        const std::int64_t open = m_slices.openSlices();
        const std::int64_t unkept = m_slices.argumentsLeftOut();
        const auto note = [&](std::int64_t count, std::string_view what) {
            if (count > 0)
                m_notes.push_back(fmt::format("{} {}", count, what));
        };
        if (m_cut || !m_pieces.damage().empty())
            m_notes.push_back(fmt::format("the file is cut short{}{}: what stands before is shown",
                                          m_pieces.damage().empty() ? "" : ", ", m_pieces.damage()));
        note(m_malformed, "events are malformed and left out");
        note(unkept, "slices are shown without their arguments, of which 64 MiB are kept");
        note(m_timeless, "slices have no valid times and are left out");
        note(m_unpaired + open, "begins or ends of slices have no counterpart and are left out");
        static const std::map<char, std::string_view> names{{'s', "flows"},
                                                            {'t', "flows"},
                                                            {'f', "flows"},
                                                            {'C', "counters without a number or a time"},
                                                            {'i', "instants"},
                                                            {'I', "instants"},
                                                            {'b', "asynchronous events"},
                                                            {'n', "asynchronous events"},
                                                            {'e', "asynchronous events"}};
        std::map<std::string_view, std::int64_t> counts;
        for (const auto &[phase, count] : m_others) {
            const auto found = names.find(phase);
            counts[found == names.end() ? "events of other kinds" : found->second] += count;
        }
        for (const auto &[what, count] : counts)
            note(count, fmt::format("{} are not shown", what));
        m_slices.setDropped(m_malformed + m_timeless + m_unpaired + open);
    }

    JsonPieces m_pieces;
    Progress &m_progress;
    json::parser m_parser;
    SliceCollector m_slices;
    std::string m_arguments; ///< of the current event
    std::map<char, std::int64_t> m_others;
    std::int64_t m_events = 0;
    std::int64_t m_malformed = 0;
    std::int64_t m_timeless = 0;
    std::int64_t m_unpaired = 0;
    std::int64_t m_base = 0; ///< nanoseconds of the file's time 0
    std::int32_t m_rank = -1;
    bool m_cut = false;
    std::vector<std::string> m_notes;
};

} // namespace

Result<ForeignTrace> readChromeTrace(const std::string &path, Progress &progress)
{
    auto pieces = JsonPieces::open(path);
    if (!pieces)
        return pieces.error();
    Reader reader(*std::move(pieces), progress);
    auto read = reader.read();
    if (!read)
        return read.error().in(path, read.error().code == ErrorCode::BadInput ? static_cast<int>(reader.line()) : 0);
    return read;
}

} // namespace planloom::import
