// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace planloom {

/// What kind of failure an Error is. The command line maps BadInput, NotFound, Unsupported and Infeasible to exit
/// status 2 (the input or the options are wrong) and the others to 1 (failed while running).
enum class ErrorCode : std::uint8_t {
    BadInput,    ///< a file, option or request that is malformed or inconsistent
    NotFound,    ///< a named file, model, device ... that does not exist
    Unsupported, ///< well-formed, but something that Planloom cannot do; the message names it
    Infeasible,  ///< no answer exists under the given limits; the message names the limit
    Cancelled,   ///< the user stopped it
    Io,          ///< the operating system refused: disk full, permission, broken connection
    Failed,      ///< failed while running
};

/// One clear error: what is wrong, where (file, line, field; each may be missing) and what to do about it.
struct Error {
    ErrorCode code = ErrorCode::Failed;
    std::string message; ///< "what is wrong; what to do", no trailing full stop
    std::string file;    ///< path or "zoo:NAME"; empty if the error is not about a file
    int line = 0;        ///< 1-based; 0 if unknown

    /// "FILE:LINE: message", leaving out missing parts.
    [[nodiscard]] std::string text() const;

    /// The same error with @p path as its file (unless it already names one).
    [[nodiscard]] Error in(std::string path, int atLine = 0) const;
};

inline Error badInput(std::string message) { return {ErrorCode::BadInput, std::move(message), {}, 0}; }
inline Error notFound(std::string message) { return {ErrorCode::NotFound, std::move(message), {}, 0}; }
inline Error unsupported(std::string message) { return {ErrorCode::Unsupported, std::move(message), {}, 0}; }
inline Error infeasible(std::string message) { return {ErrorCode::Infeasible, std::move(message), {}, 0}; }
inline Error cancelled(std::string message = "stopped on request")
{
    return {ErrorCode::Cancelled, std::move(message), {}, 0};
}
inline Error ioError(std::string message) { return {ErrorCode::Io, std::move(message), {}, 0}; }
inline Error failed(std::string message) { return {ErrorCode::Failed, std::move(message), {}, 0}; }

/// Why the last call of the operating system failed (errno), in its words.
std::string systemReason();

/// The value of a fallible call, or why there is none.
///
///     auto graph = import::loadModel("zoo:gpt2");
///     if (!graph) return graph.error();
///     use(*graph);
template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : m_state(std::in_place_index<0>, std::move(value)) {}     // NOLINT: implicit by design
    Result(Error error) : m_state(std::in_place_index<1>, std::move(error)) {} // NOLINT: implicit by design

    [[nodiscard]] bool ok() const { return m_state.index() == 0; }
    explicit operator bool() const { return ok(); }

    T &operator*() & { return std::get<0>(m_state); }
    const T &operator*() const & { return std::get<0>(m_state); }
    T &&operator*() && { return std::get<0>(std::move(m_state)); }
    T *operator->() { return &std::get<0>(m_state); }
    const T *operator->() const { return &std::get<0>(m_state); }

    [[nodiscard]] const Error &error() const { return std::get<1>(m_state); }

private:
    std::variant<T, Error> m_state;
};

/// A fallible call without a value: `return {};` on success.
template <>
class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error error) : m_error(std::move(error)) {} // NOLINT: implicit by design

    [[nodiscard]] bool ok() const { return !m_error; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const Error &error() const { return *m_error; }

private:
    std::optional<Error> m_error;
};

using Status = Result<void>;

} // namespace planloom
