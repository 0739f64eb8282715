// SPDX-License-Identifier: Apache-2.0
#include "engine/dispatch/versions.h"
#include "engine/run/admm_record.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace planloom;

namespace {

/// What is written of what was read is read again, and written the same.
void residuals(std::string_view text)
{
    const auto read = run::residualsFromCsv(text);
    if (!read)
        return;
    if (read->norms.size() != read->steps.size() * read->names.size())
        std::abort();
    std::string written = run::residualsHeader(read->names);
    for (std::size_t row = 0; row < read->steps.size(); ++row) {
        const auto first = read->norms.begin() + static_cast<std::ptrdiff_t>(row * read->names.size());
        written +=
            run::residualsLine(read->steps[row], {first, first + static_cast<std::ptrdiff_t>(read->names.size())});
    }
    const auto again = run::residualsFromCsv(written);
    if (!read->names.empty() && (!again || again->steps != read->steps || again->names != read->names))
        std::abort();
}

void duals(std::string_view text)
{
    const auto read = run::dualsFromCsv(text);
    if (!read)
        return;
    const std::string written = run::toCsv(*read);
    const auto again = run::dualsFromCsv(written);
    if (!again || again->size() != read->size() || run::toCsv(*again) != written)
        std::abort();
}

void arrivals(std::string_view text)
{
    constexpr int kWorkers = 4;
    const auto read = dispatch::arrivalsFromCsv(text, 0, kWorkers);
    if (!read)
        return;
    const auto again = dispatch::arrivalsFromCsv(dispatch::toCsv(*read, 0), 0, kWorkers);
    if (!again || *again != *read)
        std::abort();
}

} // namespace

/// What a run that trains by ADMM has recorded: any bytes are an error or survive a round trip.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    residuals(text);
    duals(text);
    arrivals(text);
    return 0;
}
