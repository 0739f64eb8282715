// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <string_view>

namespace planloom::ui {

/// Kind of a name or file that the user opens or drops.
enum class FileKind {
    Model,
    Cluster,
    Plan,
    Trace,
    Run,          ///< the folder that a training leaves
    Setup,        ///< another program's configuration of a training
    Order,        ///< a schedule of torch.distributed.pipelining
    Graph,        ///< the folder of a graph that training samples
    ForeignTrace, ///< another program's: import::TraceFormat
    Unknown,
};

/// Told from the name ("zoo:gpt2", "preset:h100-8", "local:4", the suffix) and, for JSON and text, from the first bytes
/// @p head.
FileKind classify(const QString &name, std::string_view head);

/// Reads the head of the file (4 KiB) where the name alone does not say. Unknown also if it cannot be read.
FileKind classifyFile(const QString &name);

} // namespace planloom::ui
