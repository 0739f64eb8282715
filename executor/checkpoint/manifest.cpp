// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/manifest.h"

#include "engine/base/crc32c.h"
#include "engine/base/json_reader.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <tuple>

namespace planloom::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr const char *kSchema = "planloom.checkpoint/1";
constexpr std::int64_t kMost = std::int64_t{1} << 60;
constexpr std::string_view kPrefix = "{\"crc32c\": \"";
constexpr std::string_view kSuffix = "\",\n";
constexpr std::size_t kDigits = 8;

std::uint32_t checksumOf(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

ordered_json toJson(const StoredPiece &stored)
{
    const Piece &piece = stored.what;
    ordered_json region = ordered_json::array();
    for (const auto &axis : piece.region) {
        ordered_json intervals = ordered_json::array();
        for (const auto &interval : axis)
            intervals.push_back({interval.begin, interval.end});
        region.push_back(std::move(intervals));
    }
    return {{"name", piece.name},
            {"kind", piece.kind.text()},
            {"type", graph::name(piece.type)},
            {"shape", piece.shape},
            {"region", std::move(region)},
            {"flat", {piece.flatBegin, piece.flatCount}},
            {"file", stored.file},
            {"key", stored.key}};
}

std::string dump(const ordered_json &value)
{
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool isPlainName(const std::string &name)
{
    return !name.empty() && name.size() < 200 && name[0] != '.' && name.find('/') == std::string::npos
        && name.find('\0') == std::string::npos;
}

void readState(JsonReader &reader, TrainingState &state)
{
    state.step = reader.integer("step", 0, kMost);
    state.seed = reader.integer("seed", std::numeric_limits<std::int64_t>::min());
    state.plan = reader.text("plan");
    state.model = reader.text("model");
    state.optimizer = reader.text("optimizer");
    state.layout = reader.text("layout");
    JsonReader data = reader.object("data");
    state.samples = data.integer("samples", 0, kMost);
    state.epoch = data.integer("epoch", 0, kMost);
    reader.each("notes", [&](JsonReader &note) { state.notes[note.name()] = note.asText(); });
}

void readFileEntry(JsonReader &reader, Manifest &manifest)
{
    StoredFile file{reader.text("name"), reader.integer("bytes", 0, kMost), 0};
    const std::string digits = reader.text("crc32c");
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), file.checksum, 16);
    if (digits.size() != kDigits || error != std::errc() || end != digits.data() + digits.size())
        reader.fail("crc32c", "must be eight hexadecimal digits");
    if (!isPlainName(file.name))
        reader.fail("name", "must be a plain file name");
    manifest.files.push_back(std::move(file));
}

sharding::Interval readPair(JsonReader &reader)
{
    std::vector<std::int64_t> values;
    reader.each([&](JsonReader &value) { values.push_back(value.asInteger(0, kMost)); });
    if (values.size() != 2) {
        reader.fail({}, "must be two numbers");
        return {};
    }
    return {values[0], values[1]};
}

void readFlat(JsonReader &reader, Piece &piece)
{
    std::vector<std::int64_t> values;
    reader.each("flat", [&](JsonReader &value) { values.push_back(value.asInteger(0, kMost)); });
    if (values.size() != 2)
        return reader.fail("flat", "must be two numbers");
    piece.flatBegin = values[0];
    piece.flatCount = values[1];
}

void readPiece(JsonReader &reader, Manifest &manifest)
{
    StoredPiece stored;
    Piece &piece = stored.what;
    piece.name = reader.text("name");
    const std::string kind = reader.text("kind");
    if (const auto known = Kind::fromText(kind))
        piece.kind = *known;
    else
        reader.fail("kind", "is none of parameter, moment1, moment2, optimizer:NAME, state");
    if (!graph::fromName(reader.text("type"), piece.type))
        reader.fail("type", "is no data type");
    reader.each("shape", [&](JsonReader &size) { piece.shape.push_back(size.asInteger(0, kMost)); });
    reader.each("region", [&](JsonReader &axis) {
        piece.region.emplace_back();
        axis.each([&](JsonReader &interval) { piece.region.back().push_back(readPair(interval)); });
    });
    readFlat(reader, piece);
    stored.file = static_cast<std::size_t>(reader.integer("file", 0, std::ssize(manifest.files) - 1));
    stored.key = reader.text("key");
    if (!reader.failed()) {
        if (const Status good = check(piece); !good)
            reader.fail({}, good.error().message);
    }
    manifest.pieces.push_back(std::move(stored));
}

Error damaged(const std::string &what) { return badInput(what + "; this checkpoint cannot be used"); }

/// The part after the first line, if that line's checksum is its.
Result<std::string_view> checkedBody(std::string_view text)
{
    const std::size_t head = kPrefix.size() + kDigits + kSuffix.size();
    if (text.size() < head || !text.starts_with(kPrefix)
        || text.substr(kPrefix.size() + kDigits, kSuffix.size()) != kSuffix)
        return damaged("does not begin with its checksum");
    const std::string_view body = text.substr(head);
    if (text.substr(kPrefix.size(), kDigits) != fmt::format("{:08x}", checksumOf(body)))
        return damaged("does not match its checksum: the file is damaged");
    return body;
}

auto identity(const StoredPiece &stored) { return std::tie(stored.what.kind, stored.what.name); }

/// Pieces by tensor.
std::vector<const StoredPiece *> sorted(const Manifest &manifest)
{
    std::vector<const StoredPiece *> pieces;
    for (const StoredPiece &piece : manifest.pieces)
        pieces.push_back(&piece);
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const StoredPiece *a, const StoredPiece *b) { return identity(*a) < identity(*b); });
    return pieces;
}

} // namespace

std::string toJson(const Manifest &manifest)
{
    const TrainingState &state = manifest.state;
    // One file and one piece a line: readable, and differences show.
    std::string body = fmt::format("\"schema\": {},\n\"step\": {}, \"seed\": {}, \"lease\": {}, \"world\": {},\n",
                                   dump(kSchema), state.step, state.seed, manifest.lease, manifest.world);
    body += fmt::format("\"data\": {{\"samples\": {}, \"epoch\": {}}},\n", state.samples, state.epoch);
    body += fmt::format("\"plan\": {}, \"model\": {}, \"optimizer\": {}, \"layout\": {},\n", dump(state.plan),
                        dump(state.model), dump(state.optimizer), dump(state.layout));
    body += fmt::format("\"notes\": {},\n\"files\": [",
                        dump(state.notes.empty() ? ordered_json::object() : ordered_json(state.notes)));
    for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        const StoredFile &file = manifest.files[i];
        body += (i == 0 ? "\n" : ",\n")
            + dump({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", fmt::format("{:08x}", file.checksum)}});
    }
    body += "],\n\"pieces\": [";
    for (std::size_t i = 0; i < manifest.pieces.size(); ++i)
        body += (i == 0 ? "\n" : ",\n") + dump(toJson(manifest.pieces[i]));
    body += "]}\n";
    return std::string(kPrefix) + fmt::format("{:08x}", checksumOf(body)) + std::string(kSuffix) + body;
}

Result<Manifest> manifestFromJson(std::string_view text)
{
    const auto body = checkedBody(text);
    if (!body)
        return body.error();
    const auto json = parseJson(text);
    if (!json)
        return json.error();
    JsonReader reader(*json);
    if (reader.text("schema") != kSchema && !reader.failed())
        reader.fail("schema", fmt::format("is not {}", kSchema));
    Manifest manifest;
    readState(reader, manifest.state);
    manifest.lease = reader.integer("lease", 0, kMost);
    manifest.world = static_cast<int>(reader.integer("world", 1, 1 << 24));
    reader.each("files", [&](JsonReader &file) { readFileEntry(file, manifest); });
    reader.each("pieces", [&](JsonReader &piece) { readPiece(piece, manifest); });
    if (const Status good = reader.failure(text); !good)
        return good.error();
    const auto pieces = sorted(manifest);
    for (std::size_t i = 1; i < pieces.size(); ++i) {
        const Piece &a = pieces[i - 1]->what;
        const Piece &b = pieces[i]->what;
        if (identity(*pieces[i - 1]) == identity(*pieces[i]) && (a.type != b.type || a.shape != b.shape))
            return damaged(fmt::format("describes {} of '{}' in two ways", a.kind.text(), a.name));
    }
    return manifest;
}

Status checkComplete(const Manifest &manifest)
{
    const auto pieces = sorted(manifest);
    for (std::size_t i = 0; i < pieces.size();) {
        std::int64_t held = 0;
        std::size_t next = i;
        for (; next < pieces.size() && identity(*pieces[next]) == identity(*pieces[i]); ++next)
            if (__builtin_add_overflow(held, pieces[next]->what.flatCount, &held))
                return damaged("holds more elements than there are numbers");
        const Piece &piece = pieces[i]->what;
        if (held != wholeElements(piece.shape))
            return damaged(fmt::format("holds {} elements of {} '{}', which has {}", held, piece.kind.text(),
                                       piece.name, wholeElements(piece.shape)));
        i = next;
    }
    return {};
}

} // namespace planloom::checkpoint
