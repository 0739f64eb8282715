// SPDX-License-Identifier: Apache-2.0
#include "engine/import/cluster/cluster_settings.h"
#include "engine/import/cluster/gpu_catalog.h"
#include "engine/import/import.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <numeric>
#include <set>

namespace planloom::import {
namespace {

using cluster::ClusterBuilder;
using cluster::Link;
using cluster::Vertex;

constexpr std::size_t kLargestMatrixText = 4u << 20;
constexpr std::size_t kMostColumns = 512;
// Across the interconnect between CPU sockets, as NCCL counts it.
constexpr double kBetweenSockets = 10e9;
constexpr Seconds kMatrixHopLatency{1e-6};

/// How near two things are, nearest first; a level's switch joins devices of that distance.
enum Near { Pix, Pxb, Phb, Numa, Sys, kLevels };
constexpr const char *kSwitchNames[kLevels] = {"pcie switch", "pcie", "host bridge", "numa", "sys"};

struct Cell {
    Near level = Sys;
    int nvLinks = 0;
};

struct Matrix {
    std::vector<std::string> names; ///< GPU0 ..., NIC0 ...
    std::vector<std::vector<Cell>> cells;
    std::vector<std::string> products; ///< per GPU number, from lines of `nvidia-smi -L`
    [[nodiscard]] bool isGpu(std::size_t i) const { return names[i].starts_with("GPU"); }
};

/// Without the underlining that nvidia-smi writes even into files.
std::string withoutEscapes(std::string_view text)
{
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\x1b') {
            plain += text[i];
            continue;
        }
        while (i < text.size() && !(text[i] >= 'A' && text[i] <= 'Z') && !(text[i] >= 'a' && text[i] <= 'z'))
            ++i;
    }
    return plain;
}

std::vector<std::string> words(std::string_view line)
{
    std::vector<std::string> found;
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t begin = line.find_first_not_of(" \t\r", at);
        if (begin == std::string_view::npos)
            break;
        at = std::min(line.find_first_of(" \t\r", begin), line.size());
        found.emplace_back(line.substr(begin, at - begin));
    }
    return found;
}

bool isNumbered(const std::string &word, std::string_view prefix)
{
    return word.size() > prefix.size() && word.starts_with(prefix)
        && std::all_of(word.begin() + static_cast<std::ptrdiff_t>(prefix.size()), word.end(),
                       [](char c) { return c >= '0' && c <= '9'; });
}

/// A column of the matrix: a GPU, or a NIC by number or (older drivers) by name.
bool isColumn(const std::string &word)
{
    return isNumbered(word, "GPU") || isNumbered(word, "NIC") || word.starts_with("mlx") || word.starts_with("ib")
        || word.starts_with("roce");
}

bool parseCell(const std::string &word, Cell &cell)
{
    constexpr std::pair<const char *, Near> kWords[] = {{"X", Pix},   {"PIX", Pix}, {"PSB", Pix},
                                                        {"PXB", Pxb}, {"PHB", Phb}, {"NODE", Numa},
                                                        {"SYS", Sys}, {"SOC", Sys}, {"N/A", Sys}};
    for (const auto &[text, level] : kWords) {
        if (word == text) {
            cell = {level, 0};
            return true;
        }
    }
    if (!isNumbered(word, "NV") || word.size() > 4)
        return false;
    cell = {Sys, 0};
    std::from_chars(word.data() + 2, word.data() + word.size(), cell.nvLinks);
    return cell.nvLinks > 0;
}

class MatrixReader {
public:
    Result<Matrix> read(std::string_view text)
    {
        int number = 0;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = std::min(text.find('\n', at), text.size());
            ++number;
            if (Status status = line(text.substr(at, end - at)); !status) {
                Error error = status.error();
                error.line = number;
                return error;
            }
            at = end + 1;
        }
        if (m_matrix.names.empty())
            return badInput(
                "there is no matrix that begins with a line GPU0 GPU1 ...; save the output of nvidia-smi topo -m");
        for (std::size_t i = 0; i < m_matrix.names.size(); ++i) {
            if (m_matrix.cells[i].empty())
                return badInput(
                    fmt::format("the matrix has a column but no row {}; the file is cut short", m_matrix.names[i]));
        }
        return std::move(m_matrix);
    }

private:
    Status line(std::string_view text)
    {
        const std::vector<std::string> found = words(text);
        if (found.empty())
            return {};
        if (found[0] == "GPU" && found.size() > 2)
            return product(text, found[1]);
        if (m_matrix.names.empty())
            return header(found);
        const auto row = std::find(m_matrix.names.begin(), m_matrix.names.end(), found[0]);
        if (row == m_matrix.names.end())
            return {}; // the legend
        return cells(static_cast<std::size_t>(row - m_matrix.names.begin()), found);
    }

    /// "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)"
    Status product(std::string_view text, const std::string &number)
    {
        std::size_t index = 0;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
        if (error != std::errc{} || end == number.data() + number.size() || *end != ':' || index >= kMostColumns)
            return {};
        const std::size_t colon = text.find(':');
        m_matrix.products.resize(std::max(m_matrix.products.size(), index + 1));
        m_matrix.products[index] = text.substr(colon + 1, text.find('(', colon) - colon - 1);
        return {};
    }

    Status header(const std::vector<std::string> &found)
    {
        if (found[0] != "GPU0")
            return {};
        for (const std::string &word : found) {
            if (!isColumn(word))
                break; // CPU Affinity and later columns
            if (std::find(m_matrix.names.begin(), m_matrix.names.end(), word) != m_matrix.names.end())
                return badInput(fmt::format("the matrix has two columns {}", word));
            m_matrix.names.push_back(word);
        }
        if (m_matrix.names.size() > kMostColumns)
            return badInput(
                fmt::format("the matrix has {} columns; at most {} are read", m_matrix.names.size(), kMostColumns));
        m_matrix.cells.resize(m_matrix.names.size());
        return {};
    }

    Status cells(std::size_t row, const std::vector<std::string> &found)
    {
        if (found.size() > 1 && found[1] == "=")
            return {};
        if (!m_matrix.cells[row].empty() || found[0].ends_with(':'))
            return {};
        if (found.size() <= m_matrix.names.size())
            return badInput(
                fmt::format("row {} has {} of {} entries", found[0], found.size() - 1, m_matrix.names.size()));
        for (std::size_t column = 0; column < m_matrix.names.size(); ++column) {
            Cell cell;
            if (!parseCell(found[column + 1], cell))
                return badInput(
                    fmt::format("row {}, column {} is \"{}\"; it must be X, NV#, PIX, PXB, PHB, NODE or SYS", found[0],
                                m_matrix.names[column], found[column + 1]));
            m_matrix.cells[row].push_back(cell);
        }
        return {};
    }

    Matrix m_matrix;
};

class TopologyBuilder {
public:
    TopologyBuilder(const Matrix &matrix, const std::string &name, const cluster::DeviceType *asked)
        : m_matrix(matrix),
          m_asked(asked),
          m_builder(name),
          m_node(m_builder.node("n0"))
    {
    }

    Result<cluster::Cluster> build()
    {
        int nics = 0;
        for (std::size_t i = 0; i < m_matrix.names.size(); ++i) {
            if (!m_matrix.isGpu(i)) {
                m_ends.push_back(m_builder.vertex({Vertex::Kind::Nic, fmt::format("n0:nic{}", nics++), {}, m_node}));
                continue;
            }
            const cluster::DeviceType *type = nullptr;
            if (const Status found = findType(i, type); !found)
                return found.error();
            const auto [at, fresh] = m_types.emplace(type->name, m_types.size());
            if (fresh)
                m_builder.type(*type);
            m_sm = computeCapabilityOf(*type);
            m_pcie = pcieRateOf(*type);
            m_ends.push_back(m_builder.vertexOf(
                m_builder.device(m_node, at->second, fmt::format("n0:g{}", m_matrix.names[i].substr(3)))));
        }
        addNvLinks();
        addPcie();
        return std::move(m_builder).build();
    }

    /// Whether each GPU's type is known without one that is asked for.
    [[nodiscard]] bool namesEveryGpu() const
    {
        for (std::size_t i = 0; i < m_matrix.names.size(); ++i) {
            if (m_matrix.isGpu(i) && !typeOf(i))
                return false;
        }
        return true;
    }

private:
    /// What `nvidia-smi -L` says comes before what the user says, and both before a guess.
    Status findType(std::size_t gpu, const cluster::DeviceType *&type) const
    {
        const std::string product = productOf(gpu);
        type = typeOf(gpu);
        if (m_asked && type && !product.empty() && type->name != m_asked->name)
            return badInput(fmt::format("{} is a {} by the lines of nvidia-smi -L, and gpu={} was given; leave it out",
                                        m_matrix.names[gpu], product, m_asked->name));
        if (m_asked)
            type = m_asked;
        if (!type && !product.empty())
            return unsupported(
                fmt::format("{} is a {}, of which no figures are known; give a known type behind the file's name "
                            "(FILE,gpu=H100-SXM), or describe the cluster in YAML, with the GPU's figures under types",
                            m_matrix.names[gpu], product));
        if (!type)
            return unsupported(
                fmt::format("the matrix does not name the type of {}; put the output of nvidia-smi -L above it, or "
                            "give the type behind the file's name: FILE,gpu=H100-SXM",
                            m_matrix.names[gpu]));
        return {};
    }

    /// Its name by `nvidia-smi -L`; empty: not given.
    [[nodiscard]] std::string productOf(std::size_t gpu) const
    {
        std::size_t number = 0;
        const std::string &name = m_matrix.names[gpu];
        std::from_chars(name.data() + 3, name.data() + name.size(), number);
        if (number >= m_matrix.products.size())
            return {};
        std::string product = m_matrix.products[number];
        product.erase(0, product.find_first_not_of(' '));
        product.erase(product.find_last_not_of(' ') + 1);
        return product;
    }

    /// By its product name; else by the most NVLinks that it has to one peer, which tells H100 and A100 machines apart.
    [[nodiscard]] const cluster::DeviceType *typeOf(std::size_t gpu) const
    {
        if (!productOf(gpu).empty())
            return gpuByProductName(productOf(gpu));
        int most = 0;
        for (const Cell &cell : m_matrix.cells[gpu])
            most = std::max(most, cell.nvLinks);
        const char *guess = most == 18 ? "H100-SXM"
            : most == 12               ? "A100-80GB"
            : most == 1 || most == 2   ? "V100-16GB"
                                       : "";
        return cluster::knownDeviceType(guess);
    }

    /// No GPU has more than 18 NVLinks: where the pairs add up to more, every pair shares an NVSwitch.
    void addNvLinks()
    {
        constexpr int kMostPorts = 18;
        std::vector<int> total(m_ends.size(), 0);
        std::vector<int> widest(m_ends.size(), 0);
        for (std::size_t i = 0; i < m_ends.size(); ++i) {
            for (const Cell &cell : m_matrix.cells[i]) {
                total[i] += cell.nvLinks;
                widest[i] = std::max(widest[i], cell.nvLinks);
            }
        }
        if (std::any_of(total.begin(), total.end(), [](int links) { return links > kMostPorts; })) {
            const std::size_t nvSwitch = addSwitch("nvswitch");
            for (std::size_t i = 0; i < m_ends.size(); ++i) {
                if (widest[i] > 0)
                    link(Link::Kind::NvLink, m_ends[i], nvSwitch, widest[i] * nvLinkRate(m_sm));
            }
            return;
        }
        for (std::size_t i = 0; i < m_ends.size(); ++i) {
            for (std::size_t j = i + 1; j < m_ends.size(); ++j) {
                if (m_matrix.cells[i][j].nvLinks > 0)
                    link(Link::Kind::NvLink, m_ends[i], m_ends[j], m_matrix.cells[i][j].nvLinks * nvLinkRate(m_sm));
            }
        }
    }

    /// A tree of switches from the inside out: at each level, devices of that distance, not joined so far, get a
    /// switch.
    void addPcie()
    {
        std::vector<std::size_t> top = m_ends; // the outermost thing that each end hangs on so far
        int made = 0;
        for (int level = Pix; level < kLevels; ++level) {
            const std::vector<std::size_t> cluster = clusters(static_cast<Near>(level));
            for (std::size_t root = 0; root < cluster.size(); ++root) {
                std::set<std::size_t> tops;
                for (std::size_t i = root; i < cluster.size(); ++i) {
                    if (cluster[i] == root)
                        tops.insert(top[i]);
                }
                if (tops.size() < 2)
                    continue;
                const std::size_t joint = addSwitch(fmt::format("{} {}", kSwitchNames[level], made++));
                for (const std::size_t end : tops)
                    link(level == Sys ? Link::Kind::Memory : Link::Kind::Pcie, end, joint,
                         level == Sys ? std::min(kBetweenSockets, m_pcie) : m_pcie);
                for (std::size_t i = root; i < cluster.size(); ++i) {
                    if (cluster[i] == root)
                        top[i] = joint;
                }
            }
        }
    }

    /// The lowest index that each end is joined with at @p level; at the outermost all are, for they share a machine.
    std::vector<std::size_t> clusters(Near level) const
    {
        std::vector<std::size_t> root(m_ends.size(), 0);
        if (level == Sys)
            return root;
        std::iota(root.begin(), root.end(), std::size_t{0});
        for (std::size_t i = 0; i < root.size(); ++i) {
            for (std::size_t j = i + 1; j < root.size(); ++j) {
                const bool near = m_matrix.cells[i][j].level <= level && m_matrix.cells[i][j].nvLinks == 0;
                if (near && root[i] != root[j])
                    std::replace(root.begin(), root.end(), std::max(root[i], root[j]), std::min(root[i], root[j]));
            }
        }
        return root;
    }

    std::size_t addSwitch(const std::string &name)
    {
        return m_builder.vertex({Vertex::Kind::Switch, "n0:" + name, {}, m_node});
    }
    void link(Link::Kind kind, std::size_t a, std::size_t b, double rate)
    {
        m_builder.link({kind, a, b, rate, rate, kMatrixHopLatency, true});
    }

    const Matrix &m_matrix;
    const cluster::DeviceType *m_asked; ///< by the user; may be null
    ClusterBuilder m_builder;
    NodeId m_node;
    std::map<std::string, std::size_t> m_types;
    std::vector<std::size_t> m_ends; ///< vertex per row
    int m_sm = 0;
    double m_pcie = 12e9;
};

} // namespace

Result<cluster::Cluster> readNvidiaSmiTopology(std::string_view text, const std::string &name,
                                               const ClusterSettings &settings)
{
    if (text.size() > kLargestMatrixText)
        return badInput(fmt::format("the file has {} bytes; a topology matrix has at most {}", text.size(),
                                    kLargestMatrixText))
            .in(name);
    auto matrix = MatrixReader().read(withoutEscapes(text));
    if (!matrix)
        return matrix.error().in(name);
    cluster::DeviceType asked;
    if (!settings.gpu.empty()) {
        auto type = gpuType(settings.gpu);
        if (!type)
            return type.error().in(name);
        asked = *std::move(type);
    }
    auto made =
        TopologyBuilder(*matrix, std::filesystem::path(name).stem().string(), settings.gpu.empty() ? nullptr : &asked)
            .build();
    if (!made)
        return made.error().in(name);
    return made;
}

bool namesEveryGpu(std::string_view text)
{
    const auto matrix = text.size() > kLargestMatrixText ? Result<Matrix>(badInput("too long"))
                                                         : MatrixReader().read(withoutEscapes(text));
    return !matrix || TopologyBuilder(*matrix, "", nullptr).namesEveryGpu(); // another error is told by reading it
}

} // namespace planloom::import
