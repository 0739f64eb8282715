// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/analysis/kernel_changes.h"
#include "ui/widgets/data_table.h"

#include <vector>

namespace planloom::ui {

/// Kernels of two traces with the change from A to B and how sure it is, in the order of @p changes.
TableData kernelTable(const std::vector<analysis::KernelChange> &changes);
/// "3 of 120 kernels changed surely: gemm +2.01 % …", for a line above it.
QString kernelText(const std::vector<analysis::KernelChange> &changes);

} // namespace planloom::ui
