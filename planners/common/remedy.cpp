// SPDX-License-Identifier: Apache-2.0
#include "planners/common/remedy.h"

#include "planners/common/hardware.h"
#include "planners/common/micro_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

namespace planloom::planners {
namespace {

/// Times the memory that devices have: steps of a quarter or less up to twice, as people buy devices after that.
constexpr std::array<double, 14> kMemory{1.02, 1.05, 1.1, 1.25, 1.5, 1.75, 2, 3, 4, 6, 8, 16, 32, 64};
constexpr double kSoldToo = 1.5; ///< so many times the memory may be had on another model of the same device
constexpr std::array<int, 5> kCopies{2, 3, 4, 8, 16};
constexpr std::size_t kMostDevices = 1024; ///< beyond, more devices are not tried: their costs are slow to make

/// Discards reports, stops with its search.
class Quiet final : public Progress {
public:
    explicit Quiet(const Progress &outer) : m_outer(outer) {}
    void report(double, std::string_view) override {}
    [[nodiscard]] bool stopped() const override { return m_outer.stopped(); }

private:
    const Progress &m_outer;
};

class Search {
public:
    Search(const Planner &planner, const Problem &problem, const Options &options, Progress &progress)
        : m_planner(planner),
          m_problem(problem),
          m_options(options),
          m_progress(progress)
    {
    }

    std::optional<Remedy> run()
    {
        using Step = std::optional<Remedy> (Search::*)();
        for (const Step step :
             {&Search::byOptions, &Search::byMicroBatch, &Search::byOptionsAndMicroBatch, &Search::byZero,
              &Search::bySmallerBatch, &Search::byOptimizer, &Search::byHardware, &Search::byLargerBatch})
            if (auto found = (this->*step)())
                return found;
        return std::nullopt;
    }

private:
    [[nodiscard]] Remedy unchanged() const { return {"", m_problem, m_options}; }

    /// True if the planner finds a plan so.
    bool helps(const Remedy &change)
    {
        if (m_progress.stopped())
            return false;
        m_progress.report(-1, "nothing fits; looking for a remedy: " + change.text);
        Quiet quiet(m_progress);
        return m_planner.fits(change.problem, change.options, quiet);
    }

    /// The first of @p count changes, ordered by how much they change, that helps, if each helps where one before it
    /// does.
    std::optional<Remedy> firstOf(std::size_t count, const std::function<std::optional<Remedy>(std::size_t)> &change)
    {
        std::optional<Remedy> best;
        std::size_t low = 0;
        for (std::size_t high = count; low < high;) {
            const std::size_t middle = low + (high - low) / 2;
            auto tried = change(middle);
            if (tried && helps(*tried)) {
                best = std::move(tried);
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        return best;
    }

    /// Options that could ask for less, with the value that does.
    [[nodiscard]] std::vector<OptionInfo> relaxable() const
    {
        std::vector<OptionInfo> all = m_planner.options();
        std::erase_if(all, [this](const OptionInfo &option) {
            const auto given = m_options.find(option.key);
            return option.relaxed.empty()
                || (given == m_options.end() ? option.fallback : given->second) == option.relaxed;
        });
        return all;
    }

    std::optional<Remedy> byOptions()
    {
        for (const OptionInfo &option : relaxable()) {
            Remedy change = unchanged();
            change.options[option.key] = option.relaxed;
            change.text = option.key + "=" + option.relaxed;
            if (helps(change))
                return change;
        }
        return std::nullopt;
    }

    /// Smaller than those the planner tries by default, the largest first.
    [[nodiscard]] std::vector<std::int64_t> smallerMicroBatches() const
    {
        std::vector<std::int64_t> sizes;
        for (std::int64_t samples = microBatchChoices(m_problem).front() / 2; samples > 0; samples /= 2)
            sizes.push_back(samples);
        return sizes;
    }

    std::optional<Remedy> byMicroBatch()
    {
        const std::vector<std::int64_t> sizes = smallerMicroBatches();
        return firstOf(sizes.size(), [&](std::size_t i) {
            Remedy change = unchanged();
            change.problem.microBatch = sizes[i];
            change.text = fmt::format("a micro-batch of {}", sizes[i]);
            return change;
        });
    }

    std::optional<Remedy> byOptionsAndMicroBatch()
    {
        const std::vector<std::int64_t> sizes = smallerMicroBatches();
        const std::vector<OptionInfo> options = relaxable();
        if (sizes.empty() || options.empty())
            return std::nullopt;
        Remedy change = unchanged();
        change.problem.microBatch = sizes.back();
        change.text = fmt::format("a micro-batch of {}", sizes.back());
        for (const OptionInfo &option : options) {
            change.options[option.key] = option.relaxed;
            change.text += fmt::format(" and {}={}", option.key, option.relaxed);
        }
        return helps(change) ? std::optional(std::move(change)) : std::nullopt;
    }

    std::optional<Remedy> byZero()
    {
        for (int level = m_problem.zero + 1; level <= 3; ++level) {
            Remedy change = unchanged();
            change.problem.zero = level;
            change.text = fmt::format("ZeRO level {}", level);
            if (helps(change))
                return change;
        }
        return std::nullopt;
    }

    std::optional<Remedy> byBatch(const std::vector<std::int64_t> &sizes)
    {
        return firstOf(sizes.size(), [&](std::size_t i) {
            Remedy change = unchanged();
            change.problem.globalBatch = sizes[i];
            if (m_problem.microBatch)
                change.problem.microBatch = std::min(*m_problem.microBatch, sizes[i]);
            change.text = fmt::format("a batch of {}", sizes[i]);
            return change;
        });
    }

    std::optional<Remedy> bySmallerBatch()
    {
        std::vector<std::int64_t> sizes;
        for (std::int64_t samples = m_problem.globalBatch / 2; samples > 0; samples /= 2)
            sizes.push_back(samples);
        return byBatch(sizes);
    }

    /// For problems with fewer samples than there are devices.
    std::optional<Remedy> byLargerBatch()
    {
        std::vector<std::int64_t> sizes;
        constexpr std::int64_t kMostTimes = 64;
        const auto devices = static_cast<std::int64_t>(m_problem.subject.cluster->devices().size());
        for (std::int64_t samples = 2 * m_problem.globalBatch;
             samples <= std::max(devices, kMostTimes * m_problem.globalBatch); samples *= 2)
            sizes.push_back(samples);
        if (m_problem.globalBatch < devices) {
            sizes.push_back(devices);
            std::sort(sizes.begin(), sizes.end());
            sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
        }
        return byBatch(sizes);
    }

    std::optional<Remedy> byOptimizer()
    {
        if (m_problem.optimizer.rule.footprint().states == 0)
            return std::nullopt;
        Remedy change = unchanged();
        change.problem.optimizer.rule = *update::ConfiguredRule::named("sgd");
        change.text = "an optimizer without state (sgd)";
        return helps(change) ? std::optional(std::move(change)) : std::nullopt;
    }

    /// The problem on another cluster; none if that cannot be made.
    std::optional<Remedy> on(Result<cluster::Cluster> cluster) const
    {
        if (!cluster)
            return std::nullopt;
        Remedy change = unchanged();
        const plan::Subject &old = m_problem.subject;
        change.problem.subject =
            plan::inPrecision(plan::makeSubject(old.graph,
                                                std::make_shared<const cluster::Cluster>(*std::move(cluster)),
                                                old.profile, old.modelSource),
                              m_problem.precision);
        return change;
    }

    std::optional<Remedy> byMemory()
    {
        m_memoryFactor = kMemory.back();
        auto found = firstOf(kMemory.size(), [&](std::size_t i) {
            auto change = on(withMemory(*m_problem.subject.cluster, kMemory[i]));
            if (change) {
                std::set<std::string> types;
                for (const cluster::Device &device : change->problem.subject.cluster->devices()) {
                    const cluster::DeviceType &type = change->problem.subject.cluster->types()[device.type];
                    types.insert(fmt::format("{} on each {}", format(type.memory), type.name));
                }
                change->text = fmt::format("{}, {:g} times the present memory", fmt::join(types, " and "), kMemory[i]);
            }
            return change;
        });
        if (found) {
            const auto memoryOf = [](const Problem &problem) {
                return static_cast<double>(problem.subject.cluster->types().front().memory.value());
            };
            m_memoryFactor = memoryOf(found->problem) / memoryOf(m_problem);
        }
        return found;
    }

    /// A little more memory; where it would have to be much more, more devices, with the memory said beside.
    std::optional<Remedy> byHardware()
    {
        auto memory = byMemory();
        if (memory && m_memoryFactor <= kSoldToo)
            return memory;
        auto devices = byDevices();
        if (!devices)
            return memory;
        if (memory)
            devices->text += ", or with " + memory->text;
        return devices;
    }

    std::optional<Remedy> byDevices()
    {
        const std::size_t devices = m_problem.subject.cluster->devices().size();
        for (const int copies : kCopies) {
            if (devices * static_cast<std::size_t>(copies) > kMostDevices)
                break;
            auto change = on(withCopies(*m_problem.subject.cluster, copies));
            if (!change)
                break;
            change->text =
                fmt::format("{} devices in place of {}", devices * static_cast<std::size_t>(copies), devices);
            if (helps(*change))
                return change;
        }
        return std::nullopt;
    }

    const Planner &m_planner;
    const Problem &m_problem;
    const Options &m_options;
    Progress &m_progress;
    double m_memoryFactor = 0; ///< of the memory that byMemory() found, or looked up to
};

} // namespace

std::optional<Remedy> remedyFor(const Planner &planner, const Problem &problem, const Options &options,
                                Progress &progress)
{
    return Search(planner, problem, options, progress).run();
}

} // namespace planloom::planners
