// SPDX-License-Identifier: Apache-2.0
#include "executor/data/readers.h"

#include <cstring>
#include <filesystem>

namespace planloom::data {

namespace {

/// A run of tokens cut into contexts of T: sample i is tokens [i*T, i*T + T), its labels are those one further on.
class TokenData final : public DataSet {
public:
    TokenData(std::string contents, int width, std::int64_t context)
        : m_contents(std::move(contents)),
          m_width(width),
          m_context(context)
    {
    }

    [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(m_contents.size()) / m_width; }
    [[nodiscard]] std::int64_t samples() const override { return (tokens() - 1) / m_context; }
    void fillInput(std::int64_t sample, void *out) const override
    {
        copy(sample * m_context, static_cast<std::int64_t *>(out));
    }
    void fillLabels(std::int64_t sample, std::int64_t *out) const override { copy(sample * m_context + 1, out); }

    [[nodiscard]] std::int64_t token(std::int64_t index) const
    {
        const char *at = m_contents.data() + index * m_width;
        if (m_width == 1)
            return static_cast<unsigned char>(*at);
        if (m_width == 2)
            return read<std::uint16_t>(at);
        return read<std::uint32_t>(at);
    }

private:
    template <class T>
    static std::int64_t read(const char *at)
    {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }

    void copy(std::int64_t first, std::int64_t *out) const
    {
        for (std::int64_t i = 0; i < m_context; ++i)
            out[i] = token(first + i);
    }

    std::string m_contents;
    int m_width;
    std::int64_t m_context;
};

} // namespace

int tokenWidth(const std::string &path)
{
    const std::string extension = std::filesystem::path(path).extension().string();
    if (extension == ".bin" || extension == ".u16" || extension == ".tokens")
        return 2;
    return extension == ".u32" ? 4 : 1;
}

Result<std::unique_ptr<DataSet>> makeTokenData(std::string contents, int width, const std::string &path,
                                               const Needs &needs)
{
    const std::size_t bytes = contents.size();
    if (bytes % static_cast<std::size_t>(width) != 0)
        return badInput("has " + std::to_string(bytes) + " bytes, which is no whole number of " + std::to_string(width)
                        + "-byte tokens; the file is cut short or has another extension's format (.bin, .u16: uint16; "
                          ".u32: uint32)")
            .in(path);
    auto data = std::make_unique<TokenData>(std::move(contents), width, needs.perSample);
    if (data->tokens() <= needs.perSample)
        return badInput("has " + std::to_string(data->tokens()) + " tokens, and one sample of the model takes "
                        + std::to_string(needs.perSample)
                        + " and the one that follows; give a longer text or a shorter context")
            .in(path);
    for (std::int64_t i = 0; needs.classes > 0 && i < data->tokens(); ++i) {
        if (data->token(i) < needs.classes)
            continue;
        return badInput("token " + std::to_string(i) + " is " + std::to_string(data->token(i))
                        + ", and the model's vocabulary is " + std::to_string(needs.classes)
                        + "; use data made with the model's tokenizer")
            .in(path);
    }
    return std::unique_ptr<DataSet>(std::move(data));
}

} // namespace planloom::data
